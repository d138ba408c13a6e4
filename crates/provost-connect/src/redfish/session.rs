//! One walk through a server: login, requests inside their bounds, logout.

use std::time::Instant;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper::Method;
use serde_json::{Value, json};

use super::error::Error;
use super::resource;
use super::{Config, Login};
use crate::http::{Answer, Ask, Client, Limits};

/// Bytes of one resource. The largest in recorded trees has 133 kB.
const MAX_RESOURCE: usize = 1 << 20;
/// Bytes of a whole walk.
const MAX_BYTES: usize = 16 << 20;
/// Requests of a whole walk. A GH200 has 330 sensors.
const MAX_REQUESTS: usize = 2_000;
/// Bytes of a password file.
const MAX_PASSWORD: usize = 1_024;
/// The start of everything.
pub(super) const ROOT: &str = "/redfish/v1/";

/// A walk that goes on.
pub(super) struct Session<'a> {
    client: &'a Client,
    config: &'a Config,
    headers: Vec<(&'static str, String)>,
    /// The session to end, where one was opened.
    opened: Option<String>,
    started: Instant,
    requests: usize,
    bytes: usize,
}

impl<'a> Session<'a> {
    /// Reads the password and logs in, where there is a user.
    pub(super) async fn open(client: &'a Client, config: &'a Config) -> Result<Session<'a>, Error> {
        let mut session = Session {
            client,
            config,
            headers: vec![("odata-version", "4.0".to_owned())],
            opened: None,
            started: Instant::now(),
            requests: 0,
            bytes: 0,
        };
        let Some(user) = &config.user else { return Ok(session) };
        let password = session.password().await?;
        match config.login {
            Login::Basic => {
                let pair = STANDARD.encode(format!("{user}:{password}"));
                session.headers.push(("authorization", format!("Basic {pair}")));
            }
            Login::Session => session.log_in(user, &password).await?,
        }
        Ok(session)
    }

    /// The first line of the password file.
    async fn password(&self) -> Result<String, Error> {
        let Some(path) = &self.config.password_file else { return Ok(String::new()) };
        let failed = |source| Error::Password { path: path.clone(), source };
        let text = tokio::fs::read_to_string(path).await.map_err(failed)?;
        if text.len() > MAX_PASSWORD {
            return Err(failed(std::io::Error::other("it is too long for a password")));
        }
        Ok(text.lines().next().unwrap_or_default().to_owned())
    }

    async fn log_in(&mut self, user: &str, password: &str) -> Result<(), Error> {
        let root = self.get(ROOT).await?;
        let links = root.get("Links").unwrap_or(&Value::Null);
        let sessions = resource::link(links, "Sessions");
        let path = sessions.unwrap_or_else(|| format!("{ROOT}SessionService/Sessions"));
        let answer =
            self.send(Method::POST, &path, Some(json!({"UserName": user, "Password": password}))).await?;
        let token = answer.header("x-auth-token").map(str::to_owned);
        if !(200..300).contains(&answer.status) {
            return Err(Error::Denied { status: answer.status });
        }
        let Some(token) = token else { return Err(Error::NotRedfish { what: path }) };
        self.opened = answer.header("location").and_then(location);
        self.headers.push(("x-auth-token", token));
        Ok(())
    }

    /// Ends the session: servers have room for a few only, and one that is left stays for half an hour.
    pub(super) async fn close(mut self) {
        let Some(path) = self.opened.take() else { return };
        if let Err(error) = self.send(Method::DELETE, &path, None).await {
            tracing::debug!(error = %error, "a session of a BMC was not ended; it ends by itself");
        }
    }

    /// A resource.
    pub(super) async fn get(&mut self, path: &str) -> Result<Value, Error> {
        let answer = self.send(Method::GET, path, None).await?;
        match answer.status {
            200 => serde_json::from_slice(&answer.body)
                .ok()
                .filter(Value::is_object)
                .ok_or_else(|| Error::NotRedfish { what: path.to_owned() }),
            status @ (401 | 403) => Err(Error::Denied { status }),
            status => Err(Error::Status { status, path: path.to_owned() }),
        }
    }

    /// A resource that may be missing or broken without harm to the rest. What ends a walk still ends it.
    pub(super) async fn get_optional(&mut self, path: &str) -> Result<Option<Value>, Error> {
        match self.get(path).await {
            Ok(value) => Ok(Some(value)),
            Err(error) if error.spares_the_rest() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Sends a request with whatever answer.
    pub(super) async fn send(
        &mut self,
        method: Method,
        path: &str,
        body: Option<Value>,
    ) -> Result<Answer, Error> {
        self.requests += 1;
        if self.requests > MAX_REQUESTS {
            return Err(Error::TooMuch { what: "2,000 resources" });
        }
        let left = self.config.limits.walk.saturating_sub(self.started.elapsed());
        if left.is_zero() {
            return Err(Error::Slow { seconds: self.config.limits.walk.as_secs() });
        }
        let limits = Limits { time: self.config.limits.request.min(left), body: MAX_RESOURCE };
        let body = body.map(|value| value.to_string().into_bytes());
        let answer = self.client.send(Ask { method, path, headers: &self.headers, body }, limits).await?;
        self.bytes += answer.body.len();
        if self.bytes > MAX_BYTES {
            return Err(Error::TooMuch { what: "16 MiB" });
        }
        Ok(answer)
    }

    /// Begins the time of the walk anew: what follows waits for a machine and has a limit of its own.
    pub(super) fn wait_on(&mut self) {
        self.started = Instant::now();
    }

    /// The members of a collection as they are listed, `max` at most, over all its pages. False where there are more,
    /// or a page could not be read.
    pub(super) async fn members(
        &mut self,
        collection: &str,
        max: usize,
    ) -> Result<(Vec<Value>, bool), Error> {
        let mut found = Vec::new();
        let mut seen = std::collections::BTreeSet::new();
        let mut next = Some(collection.to_owned());
        while let Some(path) = next.take() {
            if !seen.insert(path.clone()) {
                // A page that comes before itself: what there is was read.
                return Ok((found, false));
            }
            let page =
                if seen.len() == 1 { Some(self.get(&path).await?) } else { self.get_optional(&path).await? };
            let Some(page) = page else { return Ok((found, false)) };
            let room = max - found.len();
            let members = page.get("Members").and_then(Value::as_array);
            let more = members.is_some_and(|members| members.len() > room);
            found.extend(members.into_iter().flatten().take(room).cloned());
            let link = page.get("Members@odata.nextLink").or_else(|| page.get("@odata.nextLink"));
            next = link.and_then(Value::as_str).and_then(resource::path);
            if more || (next.is_some() && found.len() >= max) {
                return Ok((found, false));
            }
        }
        Ok((found, true))
    }

    /// A member in full: as it is listed, or read where only its path is listed.
    pub(super) async fn full(&mut self, member: &Value) -> Result<Option<Value>, Error> {
        let only_path = member.as_object().is_some_and(|fields| fields.len() == 1);
        match resource::own_path(member) {
            Some(path) if only_path => self.get_optional(&path).await,
            _ if only_path => Ok(None),
            _ => Ok(Some(member.clone())),
        }
    }

    /// The members of a collection in full, `max` at most.
    pub(super) async fn all(&mut self, collection: &str, max: usize) -> Result<Vec<Value>, Error> {
        let (members, _) = match self.members(collection, max).await {
            Err(error) if error.spares_the_rest() => return Ok(Vec::new()),
            other => other?,
        };
        let mut all = Vec::new();
        for member in &members {
            all.extend(self.full(member).await?);
        }
        Ok(all)
    }
}

/// The path of a `Location`, which may be a whole address.
fn location(text: &str) -> Option<String> {
    resource::path(&text[text.find("/redfish/")?..])
}
