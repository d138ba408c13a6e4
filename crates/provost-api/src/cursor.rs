//! Where the next page of a list starts: the key of the last row, bound to the filters that it was made for.
//!
//! It is opaque to clients and carries no right: a forged one can only ask for rows that its sender may see.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use crate::field::Fields;
use crate::problem::{FieldError, Problem};

/// The longest cursor that is looked at.
pub(crate) const MAX_CURSOR: usize = 2_048;
/// Parameters that say which page, not which rows.
const PAGING: &[&str] = &["cursor", "limit"];

/// The cursor behind the row `key`.
pub(crate) fn after(key: &str, query: &Fields) -> String {
    URL_SAFE_NO_PAD.encode(format!("{key}\n{}", query.fingerprint(PAGING)))
}

/// The key that the query's cursor names; `None` for the first page.
pub(crate) fn key(query: &Fields) -> Result<Option<String>, Problem> {
    let Some(cursor) = query.text("cursor") else { return Ok(None) };
    let text = URL_SAFE_NO_PAD.decode(cursor).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    let parts = text.as_deref().and_then(|text| text.split_once('\n'));
    match parts {
        Some((key, filters)) if filters == query.fingerprint(PAGING) => Ok(Some(key.to_owned())),
        Some(_) => Err(bad("it belongs to a list with other filters; start again without it")),
        None => Err(bad("it is no cursor of a list; start again without it")),
    }
}

fn bad(detail: &str) -> Problem {
    let error = FieldError { pointer: "?cursor".to_owned(), code: "invalid", detail: detail.to_owned() };
    Problem::malformed(format!("the cursor is of no use: {detail}"), vec![error])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::{Field, Kind};

    const DECLARED: &[Field] = &[
        Field::optional("cursor", Kind::Text(MAX_CURSOR), ""),
        Field::optional("limit", Kind::Number(1, 500), ""),
        Field::optional("phase", Kind::Text(20), ""),
    ];

    fn query(pairs: &[(&str, &str)]) -> Fields {
        let pairs = pairs.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
        Fields::of_query(DECLARED, pairs).unwrap()
    }

    #[test]
    fn a_cursor_is_good_for_its_filters_only() {
        let cursor = after("gpu\n001", &query(&[("phase", "draining"), ("limit", "5")]));
        assert!(
            key(&query(&[("phase", "draining"), ("cursor", &cursor)])).is_err(),
            "a key holds no line break"
        );
        let cursor = after("gpu001", &query(&[("phase", "draining"), ("limit", "5")]));
        let found = key(&query(&[("phase", "draining"), ("cursor", &cursor), ("limit", "9")])).unwrap();
        assert_eq!(found.as_deref(), Some("gpu001"));
        assert!(key(&query(&[("cursor", &cursor)])).is_err());
        assert!(key(&query(&[("cursor", "%%%")])).is_err());
        assert_eq!(key(&query(&[])).unwrap(), None);
    }

    proptest::proptest! {
        #[test]
        fn a_cursor_leads_back_to_its_key(name in "[^\\n]{0,40}") {
            let cursor = after(&name, &query(&[]));
            assert_eq!(key(&query(&[("cursor", &cursor)])).unwrap(), Some(name));
        }

        #[test]
        fn no_cursor_makes_a_panic(text in "[A-Za-z0-9_-]{1,60}") {
            drop(key(&query(&[("cursor", &text)])));
        }
    }
}
