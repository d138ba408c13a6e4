//! Who asks. Reading needs any role; what a command needs, the engine decides.

use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use provost_model::policy::Role;

use crate::backend::{Backend, Principal};
use crate::problem::{Kind, Problem};

/// The longest token that is looked at.
const MAX_TOKEN: usize = 1_024;

/// Who may use a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Everybody: probes of the process, counts without names, the description of the interface.
    Open,
    /// Everybody with a role.
    Read,
    /// Everybody with a token may ask; the engine authorizes and records.
    Command,
}

/// The bearer token of a request.
pub(crate) fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && (1..=MAX_TOKEN).contains(&token.len())).then_some(token)
}

/// Who asks, where the route wants to know.
pub(crate) fn check(
    access: Access,
    headers: &HeaderMap,
    backend: &dyn Backend,
) -> Result<Option<Principal>, Problem> {
    if access == Access::Open {
        return Ok(None);
    }
    let token =
        bearer(headers).ok_or_else(|| Problem::new(Kind::Unauthenticated, "there is no bearer token"))?;
    let who = backend.authenticate(token).ok_or_else(|| {
        Problem::new(Kind::Unauthenticated, "the token is unknown, has expired or was revoked")
    })?;
    if access == Access::Read && who.roles.is_empty() {
        return Err(Problem::new(Kind::Forbidden, "the token has no role; reading needs any of them"));
    }
    Ok(Some(who))
}

/// Whether sealed notes, reasons and answers may be shown to them.
pub(crate) fn may_read_sealed(who: &Principal) -> bool {
    who.roles.contains(&Role::Operator) || who.roles.contains(&Role::Admin)
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn bearer_tokens() {
        let check = |value: &[u8], expected: Option<&str>| {
            let value = HeaderValue::from_bytes(value).unwrap();
            let headers = HeaderMap::from_iter([(AUTHORIZATION, value)]);
            assert_eq!(bearer(&headers), expected);
        };
        check(b"Bearer abc", Some("abc"));
        check(b"bearer  abc", Some("abc"));
        check(b"Bearer ", None);
        check(b"Bearer", None);
        check(b"Basic abc", None);
        check(b"Bearer \xff", None);
        check(format!("Bearer {}", "a".repeat(MAX_TOKEN)).as_bytes(), Some("a".repeat(MAX_TOKEN).as_str()));
        check(format!("Bearer {}", "a".repeat(MAX_TOKEN + 1)).as_bytes(), None);
        assert_eq!(bearer(&HeaderMap::new()), None);
    }
}
