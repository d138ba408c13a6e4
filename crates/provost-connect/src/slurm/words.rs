//! Slurm's words for states and resources, in ours. Shared by the text and the JSON reader.

use provost_model::scheduler::{JobState, ObservedNode};

/// At most `limit` characters of `text`.
pub(super) fn cut(text: &str, limit: usize) -> String {
    text.chars().take(limit).collect()
}

/// A node from its state flags, the base state first; case does not matter (22.05's JSON is half lower case).
/// `None` where there is no flag or one that is no word.
pub(super) fn node_from_flags<'a>(flags: impl IntoIterator<Item = &'a str>) -> Option<ObservedNode> {
    let mut node = ObservedNode::default();
    for flag in flags {
        // `DOWN*` in some forms: does not respond.
        let word = flag.trim_end_matches('*').to_ascii_uppercase();
        if word.is_empty() || word.len() > 40 || !word.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
        {
            return None;
        }
        node.not_responding |= flag.ends_with('*');
        match word.as_str() {
            "DRAIN" | "DRAINED" | "DRAINING" | "FAIL" | "FAILING" => node.drain = true,
            "DOWN" | "ERROR" => node.down = true,
            "NOT_RESPONDING" | "NO_RESPOND" | "UNKNOWN" => node.not_responding = true,
            "ALLOCATED" | "MIXED" | "COMPLETING" => node.busy = true,
            "MAINTENANCE" | "MAINT" => node.maintenance = true,
            _ => {}
        }
        if !node.state.is_empty() {
            node.state.push('+');
        }
        node.state.push_str(&word);
        if node.state.len() > 400 {
            return None;
        }
    }
    (!node.state.is_empty()).then_some(node)
}

/// A job's state from its flags. A flag of doing (completing, requeued) outranks the base state.
pub(super) fn job_state(flags: &[&str]) -> JobState {
    let has =
        |words: &[&str]| flags.iter().any(|flag| words.iter().any(|word| flag.eq_ignore_ascii_case(word)));
    if has(&["COMPLETING", "STAGE_OUT"]) {
        JobState::Completing
    } else if has(&["PENDING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT"]) {
        JobState::Pending
    } else if has(&["SUSPENDED", "STOPPED"]) {
        JobState::Suspended
    } else if has(&["RUNNING", "CONFIGURING", "RESIZING", "SIGNALING"]) {
        JobState::Running
    } else if has(&["COMPLETED"]) {
        JobState::Completed
    } else if has(&["NODE_FAIL", "BOOT_FAIL", "LAUNCH_FAILED"]) {
        JobState::NodeFailed
    } else if has(&["TIMEOUT", "DEADLINE"]) {
        JobState::TimedOut
    } else if has(&["FAILED", "OUT_OF_MEMORY"]) {
        JobState::Failed
    } else if has(&["CANCELLED", "PREEMPTED", "REVOKED"]) {
        JobState::Cancelled
    } else {
        JobState::Unknown
    }
}

/// GPUs of a list of generic resources, `gpu:h100:8(S:0-1),shard:32`; 0 where it names none, `None` where it
/// can't be read.
pub(super) fn gpu_count(gres: &str) -> Option<u32> {
    if matches!(gres, "" | "(null)" | "N/A") {
        return Some(0);
    }
    let mut count = 0_u32;
    for entry in split_entries(gres) {
        let (entry, _) = entry.split_once('(').unwrap_or((entry, ""));
        let mut parts = entry.split(':');
        if parts.next() == Some("gpu") {
            // `gpu` alone is one.
            count = count.checked_add(parts.next_back().map_or(Some(1), |n| n.parse().ok())?)?;
        }
    }
    Some(count)
}

/// Indexes of the GPUs in `gpu:h100:2(IDX:0-1,7)`; `None` where an entry for GPUs gives none.
pub(super) fn gpu_indexes(gres: &str) -> Option<Vec<u32>> {
    const MAX_GPUS: usize = 256;
    let mut indexes = Vec::new();
    for entry in split_entries(gres).into_iter().filter(|entry| *entry == "gpu" || entry.starts_with("gpu:"))
    {
        let (_, list) = entry.split_once("(IDX:")?;
        let list = list.strip_suffix(')')?;
        if list == "N/A" {
            continue;
        }
        for range in list.split(',') {
            let (low, high) = range.split_once('-').unwrap_or((range, range));
            let (low, high): (u32, u32) = (low.parse().ok()?, high.parse().ok()?);
            if low > high || indexes.len() + (high - low) as usize >= MAX_GPUS {
                return None;
            }
            indexes.extend(low..=high);
        }
    }
    indexes.sort_unstable();
    indexes.dedup();
    Some(indexes)
}

/// Splits at commas that are outside of parentheses.
fn split_entries(gres: &str) -> Vec<&str> {
    let mut depth = 0_i32;
    gres.split(|c| {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        c == ',' && depth <= 0
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn node_flags_are_understood() {
        let check = |text: &str, expected: &str| {
            let node = node_from_flags(text.split('+')).unwrap();
            let words = [
                (node.drain, "drain"),
                (node.down, "down"),
                (node.not_responding, "silent"),
                (node.busy, "busy"),
                (node.maintenance, "maintenance"),
            ];
            let words: Vec<&str> = words.iter().filter(|(set, _)| *set).map(|(_, word)| *word).collect();
            assert_eq!(words.join(" "), expected, "{text}");
        };
        check("IDLE", "");
        check("idle+DRAIN", "drain");
        check("MIXED+DRAIN", "drain busy");
        check("IDLE+FAIL", "drain");
        check("DOWN*+DRAIN", "drain down silent");
        check("DOWN+NOT_RESPONDING", "down silent");
        check("UNKNOWN", "silent");
        check("ALLOCATED+COMPLETING", "busy");
        check("IDLE+MAINTENANCE+RESERVED", "maintenance");
        check("IDLE+CLOUD+POWERED_DOWN", "");
        for bad in ["", "IDLE+", "ID LE", "IDLE+DR-AIN", &"X".repeat(41)] {
            assert_eq!(node_from_flags(bad.split('+')), None, "{bad}");
        }
        assert_eq!(node_from_flags([]), None);
    }

    #[test]
    fn job_states_are_understood() {
        let check = |text: &str, expected| {
            assert_eq!(job_state(&text.split(' ').collect::<Vec<_>>()), expected, "{text}");
        };
        check("RUNNING", JobState::Running);
        check("RUNNING CONFIGURING", JobState::Running);
        check("COMPLETING", JobState::Completing);
        check("PENDING COMPLETING", JobState::Completing);
        check("FAILED COMPLETING", JobState::Completing);
        check("PENDING SPECIAL_EXIT", JobState::Pending);
        check("SUSPENDED", JobState::Suspended);
        check("OUT_OF_MEMORY", JobState::Failed);
        check("NODE_FAIL", JobState::NodeFailed);
        check("DEADLINE", JobState::TimedOut);
        check("PREEMPTED", JobState::Cancelled);
        check("SOMETHING_NEW", JobState::Unknown);
    }

    #[test]
    fn generic_resources_are_counted() {
        let count = |text: &str, expected| assert_eq!(gpu_count(text), expected, "{text}");
        count("gpu:h100:8", Some(8));
        count("gpu:4", Some(4));
        count("gpu", Some(1));
        count("gpu:a:2(S:0-1),gpu:b:2,shard:32", Some(4));
        count("gpu:h100:4(S:0,1),gpu:h200:4", Some(8));
        count("(null)", Some(0));
        count("shard:8", Some(0));
        count("gpux:8", Some(0));
        count("gpu:h100", None);
        count("gpu:4294967295,gpu:1", None);
        let indexes = |text: &str, expected: Option<&[u32]>| {
            assert_eq!(gpu_indexes(text).as_deref(), expected, "{text}");
        };
        indexes("gpu:h100:3(IDX:0-1,7)", Some(&[0, 1, 7]));
        indexes("gpu:2(IDX:3,1)", Some(&[1, 3]));
        indexes("gpu:h100:0(IDX:N/A)", Some(&[]));
        indexes("shard:2(1/8,1/8)", Some(&[]));
        indexes("", Some(&[]));
        indexes("gpu:a:1(IDX:0),gpu:b:1(IDX:4)", Some(&[0, 4]));
        indexes("gpu:h100:2", None);
        indexes("gpu:h100:2(CNT:2)", None);
        indexes("gpu:h100:2(IDX:0-4294967295)", None);
        indexes("gpu:h100:2(IDX:1-0)", None);
        indexes("gpu:h100:2(IDX:a)", None);
    }
}
