//! Reads through slurmrestd. It is only ever read from: 22.05 can't write nodes or partitions through it, no
//! version can requeue or write partitions, so every write goes through scontrol.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde::de::IgnoredAny;
use tokio::sync::Mutex;

use super::cli::{MAX_JOBS_OUTPUT, into_text};
use super::error::Error;
use crate::http::{Client, Endpoint, Limits};

/// How slurmrestd is reached.
#[derive(Clone, Debug)]
pub struct RestConfig {
    /// A unix socket (slurmrestd then acts as its own user), a port on loopback or a TLS port (with a token).
    pub endpoint: Endpoint,
    /// PEM file with the authority of its certificate; those of the system without one. Only for TLS.
    pub ca_file: Option<PathBuf>,
    /// Sent as X-SLURM-USER-NAME. 22.05 needs it beside a token.
    pub user: Option<String>,
    /// A file with a JWT, read at each poll so that it can be renewed. Never in a message or log.
    pub token_file: Option<PathBuf>,
}

/// Versions that we can read, the newest first.
const VERSIONS: std::ops::RangeInclusive<u32> = 36..=45;
/// After a failure the tools are used for so long.
const BACK_OFF: Duration = Duration::from_secs(30);

/// A slurmrestd and what we learnt about it.
#[derive(Debug)]
pub(super) struct Rest {
    config: RestConfig,
    client: Client,
    timeout: Duration,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    version: Option<u32>,
    failed_at: Option<Instant>,
}

/// The three lists of one poll, as they came.
pub(super) struct Lists {
    pub(super) nodes: String,
    pub(super) jobs: String,
    pub(super) partitions: String,
}

impl Rest {
    pub(super) fn new(config: RestConfig, timeout: Duration) -> Result<Rest, Error> {
        let client = Client::new(config.endpoint.clone(), config.ca_file.as_deref())?;
        Ok(Rest { config, client, timeout, state: Mutex::default() })
    }

    /// Whether the last failure was long enough ago.
    pub(super) async fn worth_asking(&self) -> bool {
        self.state.lock().await.failed_at.is_none_or(|at| at.elapsed() >= BACK_OFF)
    }

    /// Reads nodes, jobs and partitions.
    pub(super) async fn read(&self) -> Result<Lists, Error> {
        let mut state = self.state.lock().await;
        let read = self.read_lists(&mut state).await;
        match &read {
            Ok(_) => state.failed_at = None,
            Err(_) => *state = State { version: None, failed_at: Some(Instant::now()) },
        }
        read
    }

    async fn read_lists(&self, state: &mut State) -> Result<Lists, Error> {
        let headers = self.headers().await?;
        let version = match state.version {
            Some(version) => version,
            None => *state.version.insert(self.find_version(&headers).await?),
        };
        let list = async |name: &str| self.get(&format!("/slurm/v0.0.{version}/{name}"), &headers).await;
        Ok(Lists {
            nodes: list("nodes").await?,
            jobs: list("jobs").await?,
            partitions: list("partitions").await?,
        })
    }

    /// The newest version that both sides know. 22.05 and 24.05 share none, so it can't be assumed.
    async fn find_version(&self, headers: &[(&'static str, String)]) -> Result<u32, Error> {
        #[derive(Deserialize)]
        struct OpenApi {
            paths: BTreeMap<String, IgnoredAny>,
        }
        let text = self.get("/openapi/v3", headers).await?;
        let api: OpenApi = serde_json::from_str(&text)
            .map_err(|_| Error::Rest { detail: "its /openapi/v3 can't be understood".to_owned() })?;
        let served = |version: u32| {
            let path = format!("/slurm/v0.0.{version}/nodes");
            api.paths.contains_key(&path) || api.paths.contains_key(&format!("{path}/"))
        };
        VERSIONS.rev().find(|version| served(*version)).ok_or_else(|| Error::Rest {
            detail: format!(
                "it serves none of the versions v0.0.{} to v0.0.{}",
                VERSIONS.start(),
                VERSIONS.end()
            ),
        })
    }

    /// One of the two headers for a token, never both: 24.11 refuses both together.
    async fn headers(&self) -> Result<Vec<(&'static str, String)>, Error> {
        let mut headers = Vec::new();
        if let Some(user) = &self.config.user {
            headers.push(("x-slurm-user-name", user.clone()));
        }
        if let Some(path) = &self.config.token_file {
            let token = tokio::fs::read_to_string(path).await.map_err(|error| Error::Rest {
                detail: format!("the token file {} can't be read: {error}", path.display()),
            })?;
            headers.push(("x-slurm-user-token", token.trim().to_owned()));
        }
        Ok(headers)
    }

    async fn get(&self, path: &str, headers: &[(&'static str, String)]) -> Result<String, Error> {
        let limits = Limits { time: self.timeout, body: MAX_JOBS_OUTPUT as usize };
        let answer = self.client.get(path, headers, limits).await?;
        if !(200..300).contains(&answer.status) || !answer.json {
            let kind = if answer.json { "" } else { ", no JSON" };
            return Err(Error::Rest { detail: format!("status {}{kind} for {path}", answer.status) });
        }
        Ok(into_text(answer.body))
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    /// A slurmrestd that answers each path with a status and a body; other paths with 404.
    async fn serve(
        routes: &'static [(&'static str, u16, &'static str)],
    ) -> (Rest, tokio::task::JoinHandle<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = Endpoint::Loopback(listener.local_addr().unwrap());
        let server = tokio::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut request = vec![0; 4096];
                let read = stream.read(&mut request).await.unwrap();
                let request = String::from_utf8_lossy(&request[..read]).into_owned();
                let path = request.split(' ').nth(1).unwrap();
                let (_, status, body) = routes.iter().find(|(p, ..)| *p == path).unwrap_or(&("", 404, "no"));
                let reply = format!(
                    "HTTP/1.1 {status} x\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
                    body.len()
                );
                stream.write_all(reply.as_bytes()).await.unwrap();
            }
        });
        let config =
            RestConfig { endpoint, ca_file: None, user: Some("tester".to_owned()), token_file: None };
        (Rest::new(config, Duration::from_secs(5)).unwrap(), server)
    }

    #[tokio::test]
    async fn the_newest_shared_version_is_taken() {
        let (rest, server) = serve(&[
            ("/openapi/v3", 200, r#"{"paths":{"/slurm/v0.0.40/nodes/":{},"/slurm/v0.0.42/nodes/":{},"/slurm/v0.0.99/nodes":{}}}"#),
            ("/slurm/v0.0.42/nodes", 200, "N"),
            ("/slurm/v0.0.42/jobs", 200, "J"),
            ("/slurm/v0.0.42/partitions", 200, "P"),
        ])
        .await;
        let lists = rest.read().await.unwrap();
        assert_eq!((lists.nodes.as_str(), lists.jobs.as_str(), lists.partitions.as_str()), ("N", "J", "P"));
        assert!(rest.worth_asking().await);
        server.abort();
    }

    #[tokio::test]
    async fn a_failure_sends_reads_to_the_tools_for_a_while() {
        let (rest, server) = serve(&[
            ("/openapi/v3", 200, r#"{"paths":{"/slurm/v0.0.38/nodes":{}}}"#),
            ("/slurm/v0.0.38/nodes", 500, "{}"),
        ])
        .await;
        let error = rest.read().await.err().unwrap();
        assert!(error.to_string().contains("status 500 for /slurm/v0.0.38/nodes"), "{error}");
        assert!(!rest.worth_asking().await);
        server.abort();
        let (rest, server) = serve(&[("/openapi/v3", 200, r#"{"paths":{"/slurm/v0.0.20/nodes":{}}}"#)]).await;
        assert!(rest.read().await.err().unwrap().to_string().contains("none of the versions"));
        server.abort();
    }
}
