//! The arrows between crates. The list is complete: a new arrow is a change of design, made here and in
//! ARCHITECTURE.md, with its reason.

use super::Finding;
use crate::workspace::{Dependency, Package, Workspace};

/// Which crate may depend on which others of this workspace.
const ARROWS: &[(&str, &[&str])] = &[
    ("provost-model", &[]),
    ("provost-engine", &["provost-model"]),
    ("provost-journal", &["provost-model"]),
    ("provost-controller", &["provost-model", "provost-engine", "provost-journal"]),
    ("provost-wire", &["provost-model"]),
    ("provost-telemetry", &["provost-model", "provost-wire"]),
    ("provost-connect", &["provost-model"]),
    ("provost-agent", &["provost-model", "provost-wire"]),
    (
        "provost-sim",
        &[
            "provost-model",
            "provost-engine",
            "provost-journal",
            "provost-controller",
            "provost-wire",
            "provost-telemetry",
        ],
    ),
    ("provost-ui", &["provost-model"]),
    (
        "provost-api",
        &[
            "provost-model",
            "provost-engine",
            "provost-controller",
            "provost-telemetry",
            "provost-ui",
            "provost-connect",
        ],
    ),
    (
        "provost-server",
        &[
            "provost-model",
            "provost-engine",
            "provost-journal",
            "provost-controller",
            "provost-wire",
            "provost-telemetry",
            "provost-connect",
            "provost-api",
        ],
    ),
    // The model is among them because the client commands print the views that it defines.
    ("provost", &["provost-server", "provost-agent", "provost-sim", "provost-journal", "provost-model"]),
    (
        "provost-fuzz",
        &["provost-model", "provost-engine", "provost-journal", "provost-wire", "provost-agent"],
    ),
    ("xtask", &[]),
];

/// Arrows that only tests walk.
const TEST_ARROWS: &[(&str, &str)] = &[
    // Only a real controller gives a handle, and a controller needs a journal.
    ("provost-api", "provost-journal"),
];

/// May depend on anything, and only tests may depend on it.
const TESTKIT: &str = "provost-testkit";

/// Where tasks and sockets live; the rest is synchronous, so that it can be tested without a clock.
const ASYNC_CRATES: &[&str] = &["provost-connect", "provost-api", "provost-server", "provost", TESTKIT];

/// Finds arrows that are not in the list, in the `Cargo.toml` of the crate that has them.
pub(super) fn check(workspace: &Workspace) -> Vec<Finding> {
    let found = |package: &Package, text: String| {
        let manifest = workspace.relative(&package.dir.join("Cargo.toml"));
        Finding::new(&manifest, 1, text)
    };
    let mut findings = Vec::new();
    for package in &workspace.packages {
        let breaches = package.dependencies.iter().filter_map(|dependency| breach(&package.name, dependency));
        findings.extend(breaches.map(|text| found(package, text)));
        if package.name != TESTKIT && allowed(&package.name).is_none() {
            let text = format!("`{}` has no row in the list of arrows", package.name);
            findings.push(found(package, text));
        }
    }
    findings
}

fn allowed(package: &str) -> Option<&'static [&'static str]> {
    ARROWS.iter().find(|(name, _)| *name == package).map(|(_, arrows)| *arrows)
}

/// What is wrong with the arrow from `package` to `dependency`.
fn breach(package: &str, dependency: &Dependency) -> Option<String> {
    let to = dependency.name.as_str();
    if to == "tokio" && !dependency.dev && !ASYNC_CRATES.contains(&package) {
        return Some(format!("`{package}` is synchronous and may not depend on tokio"));
    }
    if !dependency.local || package == TESTKIT || (to == TESTKIT && dependency.dev) {
        return None;
    }
    if to == TESTKIT {
        return Some(format!("`{package}` depends on `{TESTKIT}`, which only tests may"));
    }
    let tested = dependency.dev && TEST_ARROWS.contains(&(package, to));
    let known = tested || allowed(package).is_some_and(|arrows| arrows.contains(&to));
    (!known).then(|| format!("the arrow `{package}` → `{to}` is not in the list"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrows() {
        let check = |from: &str, to: &str, dev: bool, allowed: bool| {
            let dependency = Dependency { name: to.to_owned(), dev, local: to.starts_with("provost") };
            assert_eq!(breach(from, &dependency).is_none(), allowed, "{from} → {to}, dev {dev}");
        };
        check("provost-engine", "provost-model", false, true);
        check("provost-engine", "provost-journal", false, false);
        check("provost-model", "provost-engine", true, false);
        check("provost-server", "provost-api", false, true);
        check("provost-api", "provost-server", false, false);
        check("provost-api", "provost-journal", false, false);
        check("provost-agent", "provost-engine", false, false);
        check("provost-engine", "provost-testkit", true, true);
        check("provost-engine", "provost-testkit", false, false);
        check("provost-testkit", "provost-server", false, true);
        check("provost-engine", "serde", false, true);
        check("provost-engine", "tokio", false, false);
        check("provost-agent", "tokio", false, false);
        check("provost-server", "tokio", false, true);
        check("provost-new", "provost-model", false, false);
        check("xtask", "provost-model", false, false);
    }

    #[test]
    fn every_row_names_crates_that_have_a_row() {
        for (name, arrows) in ARROWS {
            for to in *arrows {
                assert!(allowed(to).is_some(), "{name} → {to}");
            }
        }
    }
}
