//! Slurm's text output, and what an operator or a broken pipe may put into it.

use proptest::prelude::*;

use super::*;

fn node_text(name: &str, state: &str, more: &str) -> String {
    format!(
        "NodeName={name} Arch=x86_64 CoresPerSocket=32 \n   CPUAlloc=0 CPUTot=64\n   Gres=gpu:h100:8\n   \
         OS=Linux 6.1 #1 SMP \n   State={state} ThreadsPerCore=1 TmpDisk=0\n   Partitions=serving,batch \n   \
         CfgTRES=cpu=64\n   AllocTRES=\n{more}\n"
    )
}

#[test]
fn a_node_is_read() {
    let text = node_text(
        "gpu001",
        "MIXED+DRAIN",
        "   Reason=dimm [slot 3] [root@2026-11-30T20:23:48]\n          second line\n   Comment=rack 7 \n",
    );
    let parsed = nodes(&text);
    let node = &parsed.items["gpu001"];
    assert_eq!(parsed.unparsed, 0);
    assert!(node.drain && node.busy && !node.down);
    assert_eq!(node.state, "MIXED+DRAIN");
    assert_eq!(node.reason, "dimm [slot 3]\nsecond line");
    assert_eq!(node.reason_user.as_deref(), Some("root"));
    assert_eq!(node.reason_at.unwrap().to_string(), "2026-11-30T20:23:48.000Z");
    assert_eq!(node.comment, "rack 7");
    assert_eq!(node.partitions, ["serving", "batch"]);
    assert_eq!(node.gpus, Some(8));
}

#[test]
fn reasons_are_split() {
    let check = |line: &str, expected: (&str, Option<&str>, bool)| {
        let (words, user, at) = reason(line);
        assert_eq!((words, user, at.is_some()), expected, "{line}");
    };
    check("dimm [root@2026-11-30T20:23:48]", ("dimm", Some("root"), true));
    check("dimm [a@b@2026-11-30T20:23:48]", ("dimm", Some("a@b"), true));
    check(
        "a [b@2026-11-30T20:23:48] [root@2026-11-30T20:23:48]",
        ("a [b@2026-11-30T20:23:48]", Some("root"), true),
    );
    check("dimm", ("dimm", None, false));
    check("dimm [root@yesterday]", ("dimm [root@yesterday]", None, false));
    check("dimm [@2026-11-30T20:23:48]", ("dimm", None, true));
    check("", ("", None, false));
    check("]", ("]", None, false));
}

#[test]
fn what_an_operator_writes_forges_no_field() {
    // A reason can't: Slurm sets its further lines in.
    let text = node_text(
        "gpu001",
        "IDLE+DRAIN",
        "   Reason=x State=IDLE [root@2026-11-30T20:23:48]\n          State=IDLE\n             Comment=y\n",
    );
    let node = &nodes(&text).items["gpu001"];
    assert!(node.drain);
    assert_eq!(node.comment, "");
    // A comment can make the node ambiguous, but can't change what is read.
    let check = |more: &str, unparsed: u64, left: &str| {
        let text = node_text("gpu001", "IDLE+DRAIN", more) + &node_text("gpu002", "IDLE", "");
        let parsed = nodes(&text);
        assert_eq!(parsed.unparsed, unparsed, "{more}");
        assert_eq!(parsed.items.keys().map(String::as_str).collect::<Vec<_>>().join(" "), left, "{more}");
    };
    check("   Comment=a\n   State=IDLE\n", 1, "gpu002");
    check("   Comment=a\n   Comment=provost:h\n", 1, "gpu002");
    check("   Comment=a\n\nNodeName=gpu002 x\n   State=IDLE\n", 2, "gpu001");
    check("   Comment=a\n\nNodeName=gpu002 x\n", 2, "gpu001");
}

#[test]
fn what_is_no_node_is_counted() {
    let check = |text: &str, unparsed: u64| {
        let parsed = nodes(text);
        assert_eq!((parsed.unparsed, parsed.items.len()), (unparsed, 0), "{text}");
    };
    check("", 0);
    check("No nodes in the system\n", 1);
    check("NodeName=gpu001 Arch=x86_64", 1);
    check("NodeName= Arch=x86_64\n   State=IDLE", 1);
    check("NodeName=gpu[1-2]\n   State=IDLE", 1);
    check("NodeName=gpu001\n   State=", 1);
    check("NodeName=gpu001\n   State=IDLE\n   Partitions=a b", 1);
}

#[test]
fn partitions_are_read() {
    let parsed = partitions(
        "PartitionName=batch\n   AllocNodes=ALL Default=YES QoS=N/A\n   MaxNodes=UNLIMITED\n   \
         Nodes=gpu[001-002],spare01\n\nPartitionName=empty\n   Nodes=(null)\n\nPartitionName=bad\n   Nodes=gpu[\n\
         \nPartitionName=none\n   State=UP\n",
    );
    assert_eq!(parsed.unparsed, 2);
    assert_eq!(parsed.items["batch"], ["gpu001", "gpu002", "spare01"]);
    assert!(parsed.items["empty"].is_empty());
    assert_eq!(parsed.items.len(), 2);
}

#[test]
fn events_are_read() {
    let parsed = events(
        "|2026-11-30T20:23:44|Unknown||slurm(64030)|Cluster Registered TRES\n\
         gpu002|2026-11-30T21:11:47|2026-11-30T21:11:48|DRAIN|root(0)|dimm|a\n\
         gpu002|2026-11-30T21:11:45|Unknown|DOWN*|ops|provost INC-1: x\n\
         a line of a reason\n\
         gpu003|yesterday|Unknown|DRAIN|root(0)|x\n\
         gpu003|2026-11-30T21:11:45|x|DRAIN|root(0)|x\n",
    );
    let row = |event: &NodeEvent| {
        let until = event.until.map_or("-".to_owned(), |at| at.to_string());
        format!("{} {} {until} {} {} {}", event.node, event.from, event.state, event.user, event.reason)
    };
    assert_eq!(
        parsed.items.iter().map(row).collect::<Vec<_>>(),
        [
            "gpu002 2026-11-30T21:11:45.000Z - DOWN* ops provost INC-1: x",
            "gpu002 2026-11-30T21:11:47.000Z 2026-11-30T21:11:48.000Z DRAIN root dimm|a",
        ]
    );
    assert_eq!(parsed.unparsed, 3);
}

proptest! {
    /// Cut and broken text is survived, and never closes a node that is open or opens one that is closed.
    #[test]
    fn broken_text_is_survived(cut in 0_usize..700, at in 0_usize..700, with in "[ =\\nA-Z\\[\\]@+a-d]{0,12}") {
        let text = node_text("gpu001", "IDLE+DRAIN", "   Reason=dimm [root@2026-11-30T20:23:48]\n   Comment=c\n")
            + &node_text("gpu002", "IDLE", "");
        let mut broken = text.clone();
        broken.truncate(cut.min(text.len()));
        nodes(&broken);
        partitions(&broken);
        events(&broken);
        let mut broken = text.clone();
        broken.insert_str(at.min(text.len()), &with);
        let parsed = nodes(&broken);
        partitions(&broken);
        events(&broken);
        prop_assert!(parsed.items.len() as u64 + parsed.unparsed >= 1);
    }

    #[test]
    fn any_text_is_survived(text in "\\PC{0,200}") {
        nodes(&text);
        partitions(&text);
        events(&text);
        reason(&text);
        time(&text);
    }
}
