//! A node without a certificate shows a token and gets one. Nothing else is open to it.

use std::time::Duration;

use provost_model::input::Input;
use provost_wire::{EnrolReply, Refused, ToAgent, ToServer};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

use super::Agents;
use super::connection::{Error, next_message, send};
use crate::certificates::NodeCertificate;
use crate::local::{random, sha256_hex};
use crate::{clock, inbox};

/// A node that wants to enrol says so within this time.
const PATIENCE: Duration = Duration::from_secs(10);

/// Serves one enrolment.
pub(super) async fn serve(agents: &Agents, mut stream: TlsStream<TcpStream>) -> Result<(), Error> {
    let mut decoder = provost_wire::Decoder::new();
    let message = tokio::time::timeout(PATIENCE, next_message(&mut stream, &mut decoder))
        .await
        .map_err(|_| Error::Silent)??;
    let Some(ToServer::EnrolRequest(request)) = message else {
        let refused = refuse("certificate_missing", "present the node's certificate, or enrol with a token");
        return send(&mut stream, &refused).await;
    };
    let answer = match enrol(agents, &request.token, &request.node, &request.csr_pem).await {
        Ok(certificate) => ToAgent::EnrolReply(EnrolReply {
            cert_pem: certificate.pem,
            ca_pem: agents.authority.ca_pem.clone(),
            expires_at: certificate.expires_at,
        }),
        Err(refused) => ToAgent::Refused(refused),
    };
    send(&mut stream, &answer).await?;
    stream.shutdown().await.map_err(Error::Io)
}

/// Checks the token and signs. One at a time: the next one sees the use of this one.
async fn enrol(agents: &Agents, token: &str, node: &str, csr_pem: &str) -> Result<NodeCertificate, Refused> {
    let _one_at_a_time = agents.enrolling.lock().await;
    let digest = sha256_hex(token.as_bytes());
    {
        let state = agents.handle.state();
        let usable = !token.is_empty();
        let valid = state
            .tokens
            .get(&digest)
            .filter(|known| usable && known.uses > 0 && known.expires_at > clock::now());
        match valid {
            None => {
                return Err(refusal(
                    "token_invalid",
                    "the token is unknown, used up or expired; make another with `provost agent token create`",
                ));
            }
            Some(known) if !known.nodes.contains(node) => {
                return Err(refusal("node_not_allowed", "the token is not for this node"));
            }
            Some(_) => {}
        }
    }
    certify(agents, node, csr_pem, Some(digest)).await
}

/// Signs a request and records it; the certificate is handed out only when the record is durable.
pub(super) async fn certify(
    agents: &Agents,
    node: &str,
    csr_pem: &str,
    token_sha256: Option<String>,
) -> Result<NodeCertificate, Refused> {
    let serial = random::<16>().map_err(|error| refusal("no_random_bytes", &error.to_string()))?;
    // The first bit must be zero and the first byte must not: DER writes serials as positive integers.
    let serial = std::array::from_fn(|i| if i == 0 { serial[0] & 0x7f | 1 } else { serial[i] });
    let certificate = agents
        .authority
        .sign_node(csr_pem, node, serial)
        .map_err(|error| refusal("request_invalid", &error.to_string()))?;
    let input = Input::AgentEnrolled {
        node: node.to_owned(),
        serial: certificate.serial.clone(),
        token_sha256,
        expires_at: certificate.expires_at,
    };
    inbox::ask(&agents.handle, input)
        .await
        .map_err(|error| refusal("not_recorded", &format!("{error}; the agent tries again")))?;
    Ok(certificate)
}

fn refusal(code: &str, message: &str) -> Refused {
    Refused { code: code.to_owned(), message: message.to_owned() }
}

pub(super) fn refuse(code: &str, message: &str) -> ToAgent {
    ToAgent::Refused(refusal(code, message))
}
