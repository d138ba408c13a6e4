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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::PathBuf;
    use std::sync::Arc;
    use std::thread::JoinHandle;
    use std::time::Duration;

    use provost_controller::{Clock, Controller, Handle, Message, Neighbours, Options};
    use provost_engine::Outstanding;
    use provost_journal::{Emergency, Journal, Sealer};
    use provost_model::input::{Action, Command};
    use provost_model::policy::{EngineConfig, Role};
    use provost_model::record::{Actor, ActorKind};
    use provost_model::time::Timestamp;
    use rcgen::{CertificateParams, KeyPair};
    use rustls::pki_types::CertificateDer;
    use rustls::pki_types::pem::PemObject as _;

    use super::*;
    use crate::certificates::{Authority, node_of};

    /// An hour ago: tokens can have expired since.
    struct Earlier;

    impl Clock for Earlier {
        fn now(&self) -> Timestamp {
            Timestamp::from_millis(clock::now().as_millis() - 3_600_000)
        }
    }

    struct Idle;

    impl Neighbours for Idle {
        fn start(&mut self, _: Outstanding) {}
    }

    /// A controller whose site has tokens; the folder goes with it.
    struct Site {
        agents: Arc<Agents>,
        handle: Handle,
        thread: Option<JoinHandle<()>>,
        dir: PathBuf,
    }

    impl Site {
        async fn new(name: &str) -> Site {
            let dir = std::env::temp_dir().join(format!("provost-enrol-{}-{name}", std::process::id()));
            drop(std::fs::remove_dir_all(&dir));
            let journal = Journal::open(&dir, provost_journal::Options::new("test")).unwrap();
            let options = Options {
                site: "test".to_owned(),
                journal,
                emergency: Emergency::open(&Emergency::default_path(&dir)).unwrap(),
                sealer: Sealer::open(&dir, true).unwrap(),
                clock: Box::new(Earlier),
                neighbours: Box::new(Idle),
                on_commit: Box::new(|_| ()),
            };
            let controller = Controller::open(options, &mut |_| ()).unwrap();
            let handle = controller.handle();
            let thread = Some(std::thread::spawn(move || controller.run().unwrap()));
            let authority = Arc::new(Authority::open(&dir, "test", true).unwrap());
            let agents = Agents::new(handle.clone(), authority);
            let config = Box::new(EngineConfig { site: "test".to_owned(), ..EngineConfig::default() });
            let started = Input::Started { version: "1".to_owned(), config, runbooks: Vec::new() };
            inbox::ask(&handle, started).await.unwrap();
            Site { agents, handle, thread, dir }
        }

        /// Makes a token for gpu001 and gpu002, valid for so long from an hour ago.
        async fn token(&self, token: &str, uses: u32, ttl: Duration) {
            let action = Action::AgentTokenCreate {
                token_sha256: sha256_hex(token.as_bytes()),
                nodes: BTreeSet::from(["gpu001".to_owned(), "gpu002".to_owned()]),
                uses,
                expires_at: Earlier.now() + ttl,
            };
            let command = Command {
                actor: Actor { kind: ActorKind::Human, sub: "local:admin".to_owned() },
                roles: BTreeSet::from([Role::Admin]),
                request: token.to_owned(),
                reason: "a test".to_owned(),
                action,
            };
            inbox::ask(&self.handle, Input::Command(Box::new(command))).await.unwrap();
        }

        /// How often each token may still be used, fewest first.
        fn uses(&self) -> Vec<u32> {
            let mut uses: Vec<u32> = self.handle.state().tokens.values().map(|token| token.uses).collect();
            uses.sort_unstable();
            uses
        }

        fn stop(&mut self) {
            if let Some(thread) = self.thread.take() {
                self.handle.try_send(Message::Stop).unwrap();
                thread.join().unwrap();
            }
        }
    }

    impl Drop for Site {
        fn drop(&mut self) {
            self.stop();
            drop(std::fs::remove_dir_all(&self.dir));
        }
    }

    const DAY: Duration = Duration::from_secs(86_400);

    /// A request that asks for more than it may have.
    fn request() -> String {
        let names = vec!["gpu007".to_owned(), "controller.example".to_owned()];
        let request = CertificateParams::new(names).unwrap();
        request.serialize_request(&KeyPair::generate().unwrap()).unwrap().pem().unwrap()
    }

    /// A request that somebody changed after it was signed.
    fn forged() -> String {
        let pem = request();
        let at = pem.len() / 2;
        let other = if pem.as_bytes()[at] == b'A' { "B" } else { "A" };
        format!("{}{other}{}", &pem[..at], &pem[at + 1..])
    }

    #[tokio::test]
    async fn what_is_refused_says_why_and_uses_no_token_up() {
        let site = Site::new("refused").await;
        site.token("good", 2, DAY).await;
        site.token("late", 1, Duration::from_secs(60)).await;
        let (request, forged) = (request(), forged());
        let twice = "x".repeat(1 << 20);
        let table: &[(&str, &str, &str, &str)] = &[
            ("", "gpu001", &request, "token_invalid"),
            ("unknown", "gpu001", &request, "token_invalid"),
            ("GOOD", "gpu001", &request, "token_invalid"),
            ("good ", "gpu001", &request, "token_invalid"),
            (&twice, "gpu001", &request, "token_invalid"),
            // Its digest is no token.
            (&sha256_hex(b"good"), "gpu001", &request, "token_invalid"),
            ("late", "gpu001", &request, "token_invalid"),
            ("good", "gpu003", &request, "node_not_allowed"),
            ("good", "", &request, "node_not_allowed"),
            ("good", "GPU001", &request, "node_not_allowed"),
            ("good", "gpu001.", &request, "node_not_allowed"),
            ("good", "gpu001\0", &request, "node_not_allowed"),
            ("good", "gpu001", "", "request_invalid"),
            ("good", "gpu001", "-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n", "request_invalid"),
            ("good", "gpu001", &request[..request.len() / 2], "request_invalid"),
            ("good", "gpu001", &forged, "request_invalid"),
        ];
        for (token, node, csr, expected) in table {
            let refused = enrol(&site.agents, token, node, csr).await.unwrap_err();
            let what = &token[..token.len().min(20)];
            assert_eq!(refused.code, *expected, "{what} {node}: {}", refused.message);
            assert!(!refused.message.contains("good"), "no token is repeated: {}", refused.message);
            assert_eq!(site.uses(), [1, 2], "{what} {node}");
        }
    }

    #[tokio::test]
    async fn a_token_gives_a_certificate_of_its_node_as_often_as_it_says() {
        let site = Site::new("given").await;
        site.token("good", 2, DAY).await;
        for (node, left) in [("gpu001", &[1][..]), ("gpu002", &[])] {
            let certificate = enrol(&site.agents, "good", node, &request()).await.unwrap();
            let der = CertificateDer::from_pem_slice(certificate.pem.as_bytes()).unwrap();
            assert_eq!(node_of(&der).as_deref(), Some(node), "whatever the request asks for");
            assert_eq!(site.uses(), left);
        }
        let refused = enrol(&site.agents, "good", "gpu001", &request()).await.unwrap_err();
        assert_eq!(refused.code, "token_invalid", "it is used up");
        // A renewal needs no token.
        assert!(certify(&site.agents, "gpu001", &request(), None).await.is_ok());
    }

    #[tokio::test]
    async fn the_last_use_is_used_once() {
        let site = Site::new("once").await;
        site.token("good", 1, DAY).await;
        let (one, two) = (request(), request());
        let both = tokio::join!(
            enrol(&site.agents, "good", "gpu001", &one),
            enrol(&site.agents, "good", "gpu001", &two),
        );
        assert_eq!([both.0.is_ok(), both.1.is_ok()].iter().filter(|given| **given).count(), 1);
    }

    #[tokio::test]
    async fn no_certificate_leaves_that_is_not_recorded() {
        let mut site = Site::new("unrecorded").await;
        site.token("good", 1, DAY).await;
        site.stop();
        let refused = enrol(&site.agents, "good", "gpu001", &request()).await.unwrap_err();
        assert_eq!(refused.code, "not_recorded");
    }
}
