//! The tables of the governor: of the site, and of its parts.

use provost_model::reference::Default::{Absent, Written};
use provost_model::reference::{Key, Table};

use super::{NODES, PERCENT, SPAN};

pub(super) const GOVERNOR: Table = Table {
    header: "[governor]",
    about: "How much may be disrupted at once, by automation and by people.",
    keys: &[
        Key::new(
            "max_unavailable",
            NODES,
            Written("2"),
            "2",
            "Nodes that may be out, whatever the cause; the larger of this and the next.",
        ),
        Key::new(
            "max_unavailable_percent",
            PERCENT,
            Written("10"),
            "10",
            "Share of the nodes that may be out.",
        ),
        Key::new(
            "isolations_per_window",
            NODES,
            Written("2"),
            "2",
            "Nodes that automation may newly isolate inside `window`; the larger of this and the next.",
        ),
        Key::new(
            "isolations_percent",
            PERCENT,
            Written("5"),
            "5",
            "Share of the nodes that it may newly isolate inside `window`.",
        ),
        Key::new("window", SPAN, Written("\"10m\""), "\"10m\"", "Window of the two keys before."),
        Key::new(
            "concurrent_disruptions",
            "whole number",
            Written("2"),
            "2",
            "Runbooks that disrupt and run at the same time.",
        ),
        Key::new(
            "breaker_percent",
            PERCENT,
            Written("30"),
            "30",
            "Share of nodes that are out at which no new automatic disruption starts until a person resets the breaker.",
        ),
    ],
};

pub(super) const RACK: Table = Table {
    header: "[governor.rack]",
    about: "Limits of every rack, beside those of the site. What is left out limits nothing; percents are of the rack's nodes.",
    keys: SCOPE,
};

pub(super) const LEAF: Table = Table {
    header: "[governor.leaf]",
    about: "The same for the nodes below every leaf switch.",
    keys: SCOPE,
};

pub(super) const PROJECT: Table = Table {
    header: "[governor.project.NAME]",
    about: "The same for the nodes that jobs of the project NAME (an account of Slurm) hold, or held when an open incident hit \
            them.",
    keys: SCOPE,
};

const SCOPE: &[Key] = &[
    Key::new(
        "max_unavailable",
        NODES,
        Absent,
        "1",
        "Nodes that may be out; the larger of this and the next.",
    ),
    Key::new("max_unavailable_percent", PERCENT, Absent, "25", "Share of the nodes that may be out."),
    Key::new(
        "isolations_per_window",
        NODES,
        Absent,
        "1",
        "Nodes that automation may newly isolate inside the `window` of `[governor]`; the larger of this and the next.",
    ),
    Key::new("isolations_percent", PERCENT, Absent, "25", "Share of the nodes that it may newly isolate."),
    Key::new(
        "concurrent_disruptions",
        "whole number",
        Absent,
        "1",
        "Runbooks that disrupt one of the nodes and run at the same time.",
    ),
];
