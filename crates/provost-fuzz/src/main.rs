//! The fuzzer over one reader, whose name is in `PROVOST_FUZZ`: one program, because linking one for each reader takes
//! longer than fuzzing it. Started by `cargo xtask fuzz`.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use provost_fuzz::{TARGETS, Target};

static CHOSEN: LazyLock<&Target> = LazyLock::new(|| {
    let name = std::env::var("PROVOST_FUZZ").unwrap_or_default();
    let chosen = TARGETS.iter().find(|target| target.name == name);
    chosen.unwrap_or_else(|| panic!("PROVOST_FUZZ must name one of {TARGETS:?}"))
});

fuzz_target!(|bytes: &[u8]| (CHOSEN.run)(bytes));
