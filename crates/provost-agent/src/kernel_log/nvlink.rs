//! The message of Xids 144 to 150: `NETIR_LINK_EVT  Fatal   XC0 i0 Link 09 (0x025525c6 0x00000000 …)`.

use provost_model::catalogue::link_subcode;
use provost_model::signal::SignalFields;
use serde_json::{Value, json};

use super::parse::Context;
use super::scan::Scan;

/// Takes the message apart. All of it has to be there up to the link, so that a process name that stands before
/// the message and looks like one can't soften it.
pub(super) fn details(
    context: &Context<'_>,
    xid: u32,
    message: &str,
    fields: &mut SignalFields,
) -> Option<Vec<(&'static str, Value)>> {
    let mut scan = Scan::behind_last(message, " Link ")?;
    let before = &message[..message.len() - scan.rest().len()];
    let mut words = before.split_whitespace().rev();
    let is_numbered = |word: Option<&str>, prefix: &str| {
        word.and_then(|word| word.strip_prefix(prefix))
            .is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()))
    };
    let shape =
        words.next() == Some("Link") && is_numbered(words.next(), "i") && is_numbered(words.next(), "XC");
    let fatal = match words.next() {
        Some("Fatal") if shape => true,
        Some("Nonfatal") if shape => false,
        _ => return None,
    };
    let unit = words.next().filter(|unit| unit.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_'))?;
    // A device-wide unit has link -1.
    let link: Option<u32> = if scan.tag("-1").is_some() { None } else { Some(scan.number()?) };
    (fields.fatal, fields.link, fields.unit) = (Some(fatal), link, Some(unit.to_owned()));
    let mut extra = vec![("fatal", json!(fatal)), ("link", json!(link)), ("unit", json!(unit))];
    scan.spaces();
    if scan.tag("(").is_none() {
        return Some(extra);
    }
    let Some((word, intr_info)) = scan.hex_word() else { return Some(extra) };
    let subcode = link_subcode(intr_info);
    fields.subcode = Some(subcode);
    extra.extend([("intrinfo", json!(word)), ("subcode", json!(subcode))]);
    scan.spaces();
    let Some((word, status)) = scan.hex_word() else { return Some(extra) };
    extra.push(("error_status", json!(word)));
    if let Some(row) = context.catalogue.link_fault(xid, unit, intr_info, status, context.layout) {
        extra.extend([("decoded_unit", json!(row.units.join("/"))), ("decoded_fatal", json!(row.fatal))]);
        extra.push(("recovery", json!(row.recovery)));
    }
    Some(extra)
}
