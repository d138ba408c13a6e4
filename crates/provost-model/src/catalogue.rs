//! The catalogue of faults: what each code means and what it may lead to.
//!
//! The tables are the CSV files of `catalogue/`, written in our own words from published facts; the files are
//! part of the program, so that the same version always judges the same. What a line says about itself goes
//! before the table: an NVSwitch error tells whether it is fatal, Xid 154 tells what it advises.
//! [`Catalogue::assess`] is the one place where both come together.

mod read;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use read::{coded, entries, link_faults, word};

use crate::response::Classification;
use crate::signal::{Impact, Signal, SignalFields, SignalKind};

/// What brings the subject back. The order is by how much it disturbs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Recovery {
    /// Nothing to do.
    None,
    /// The owner starts the program again.
    RestartApp,
    /// Xid 154 of the same GPU says what to do.
    FollowAdvice,
    /// Somebody who knows the part has to look.
    ContactSupport,
    /// The node is drained and examined.
    RunDiag,
    /// The node is drained, nothing more.
    Drain,
    /// The GPU is reset.
    ResetGpu,
    /// The node is drained, then its GPUs are reset.
    DrainAndReset,
    /// The node is started again.
    RebootNode,
}

impl Recovery {
    /// The advice of Xid 154 (NVML's recovery actions 0 to 7). A number that NVML does not define needs a person.
    pub fn from_advice(advice: u32) -> Recovery {
        match advice {
            0 => Recovery::None,
            1 | 6 => Recovery::ResetGpu,
            2 | 7 => Recovery::RebootNode,
            3 => Recovery::Drain,
            4 => Recovery::DrainAndReset,
            _ => Recovery::ContactSupport,
        }
    }
}

/// One code or one kind of kernel line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Xid or SXid number; none for kinds of kernel lines and for the entry that stands for unknown codes.
    pub code: Option<u32>,
    /// Name in the driver's source, or of the kind.
    pub name: String,
    /// How grave it is where the line itself does not say.
    pub impact: Impact,
    /// What it implies at that impact.
    pub classifications: Vec<Classification>,
    /// What brings the subject back.
    pub recovery: Recovery,
    /// Runbook that deals with it, where one is there.
    pub runbook: Option<String>,
    /// A program's own fault until the repeat rule says otherwise: a note on the job, never on the node.
    pub application: bool,
    /// What it means, one sentence.
    pub meaning: String,
    /// What a person does, one sentence.
    pub action: String,
    /// Where the facts come from.
    pub source: String,
}

/// What Provost does about a fault by itself, from nothing to most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Answer {
    /// Keeps the evidence; touches nothing.
    Record,
    /// Tells the owner of the job; touches nothing else.
    Note,
    /// Opens an incident for a person; touches nothing.
    Incident,
    /// Opens an incident; its runbook waits for a moment that costs nobody anything.
    Recover,
    /// Opens an incident, keeps new work off the node at once, and runs the runbook.
    Hold,
}

impl Answer {
    /// One phrase for people.
    pub const fn text(self) -> &'static str {
        match self {
            Answer::Record => "keeps the evidence; touches nothing",
            Answer::Note => "tells the owner of the job; touches nothing",
            Answer::Incident => "opens an incident for a person; touches nothing",
            Answer::Recover => "opens an incident; mends it when the node is idle",
            Answer::Hold => "opens an incident, holds the node, mends it",
        }
    }
}

/// The judgement on one signal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assessment<'a> {
    /// The entry that was used.
    pub entry: &'a Entry,
    /// How grave it is, with what the line said.
    pub impact: Impact,
    /// What it implies at that impact.
    pub classifications: &'a [Classification],
    /// What brings the subject back, with what the line said.
    pub recovery: Recovery,
    /// Runbook that deals with it at that impact, where one is there.
    pub runbook: Option<&'a str>,
}

impl Assessment<'_> {
    /// What Provost does by itself.
    pub fn answer(&self) -> Answer {
        match self.runbook {
            _ if self.entry.application => Answer::Note,
            _ if self.classifications.contains(&Classification::BlocksPlacement) => Answer::Hold,
            _ if !self.raises() => Answer::Record,
            Some(_) => Answer::Recover,
            None => Answer::Incident,
        }
    }

    /// Worth an alert: at least minor. Below it there is a note at most.
    pub fn raises(&self) -> bool {
        self.impact >= Impact::Minor
    }
}

/// Runbook of a critical GPU code that has none of its own (ruling 5).
const UNCLASSIFIED: &str = "gpu-fault-unclassified";
/// Runbook of a fault that reaches every GPU behind the same NVLink connections.
const NVLINK: &str = "nvlink-fatal";
/// Runbook of the driver's advice to recover a GPU.
const ADVICE: &str = "gpu-reset-needed";

/// Ruling 5: a critical code of a GPU holds its node, with or without a runbook of its own. So does one of an
/// NVSwitch: every GPU of the node is behind it.
const CRITICAL_GPU: [Classification; 3] =
    [Classification::BlocksPlacement, Classification::Pages, Classification::CountsForSla];
/// A critical condition that is not about a GPU touches nothing until it has a runbook.
const CRITICAL_OTHER: [Classification; 2] = [Classification::Pages, Classification::CountsForSla];

/// The SXid that switches report while their links come up; worth nothing unless it calls itself fatal.
const BOOT_NOISE: u32 = 22_013;

/// Which layout IntrInfo of Xids 144–150 has; it changed with driver R575.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkLayout {
    /// Before R575: ten bits.
    BeforeR575,
    /// From R575 on: seven bits.
    FromR575,
}

impl LinkLayout {
    /// By the major version of the driver; newest where it is not known.
    pub fn of_driver(major: Option<u32>) -> LinkLayout {
        if major.is_some_and(|major| major < 575) { LinkLayout::BeforeR575 } else { LinkLayout::FromR575 }
    }
}

/// One row of the decode table of Xids 144–150.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkFault {
    xid: u32,
    /// Names of the reporting unit as the lines spell it; any of them.
    pub units: Vec<String>,
    subcode: u32,
    before_r575: u32,
    from_r575: u32,
    status: u32,
    /// Fatal for the link or the GPU.
    pub fatal: bool,
    /// What brings the GPU back.
    pub recovery: Recovery,
}

/// All tables.
#[derive(Clone, Debug)]
pub struct Catalogue {
    xids: BTreeMap<u32, Entry>,
    sxids: BTreeMap<u32, Entry>,
    kernel: BTreeMap<String, Entry>,
    links: Vec<LinkFault>,
    unknown_xid: Entry,
    unknown_sxid: Entry,
}

/// A table of the catalogue can't be used.
#[derive(Debug, thiserror::Error)]
pub enum CatalogueError {
    /// Not CSV with the columns expected.
    #[error("read the table {table} of the catalogue")]
    Read {
        /// Name of the file.
        table: &'static str,
        /// Cause.
        #[source]
        source: csv::Error,
    },
    /// A cell holds something else than its column allows.
    #[error("table {table} of the catalogue, `{row}`: `{value}` is no {column}")]
    Cell {
        /// Name of the file.
        table: &'static str,
        /// First cells of the row.
        row: String,
        /// Column.
        column: &'static str,
        /// What stands there.
        value: String,
    },
    /// A row that has to be there is not.
    #[error("table {table} of the catalogue lacks the row `{row}`")]
    Missing {
        /// Name of the file.
        table: &'static str,
        /// Row.
        row: &'static str,
    },
}

impl Catalogue {
    /// The catalogue that is part of the program. It takes a millisecond to build: keep it.
    pub fn embedded() -> Catalogue {
        Catalogue::parse(
            include_str!("../../../catalogue/xid.csv"),
            include_str!("../../../catalogue/sxid.csv"),
            include_str!("../../../catalogue/kernel.csv"),
            include_str!("../../../catalogue/nvlink5.csv"),
        )
        .expect("the embedded tables are read by the tests of this module")
    }

    /// From the text of the four tables.
    ///
    /// # Errors
    /// Where a table is not as expected; the error names table, row and column.
    pub fn parse(xid: &str, sxid: &str, kernel: &str, nvlink5: &str) -> Result<Catalogue, CatalogueError> {
        let (xids, unknown_xid) = coded("xid.csv", entries("xid.csv", xid)?)?;
        let (sxids, unknown_sxid) = coded("sxid.csv", entries("sxid.csv", sxid)?)?;
        let kernel =
            entries("kernel.csv", kernel)?.into_iter().map(|entry| (entry.name.clone(), entry)).collect();
        let links = link_faults(nvlink5)?;
        Ok(Catalogue { xids, sxids, kernel, links, unknown_xid, unknown_sxid })
    }

    /// The entry of an Xid. A code that is not in the table gets the entry for unknown codes: it is kept, asks
    /// for a person and is never critical by itself.
    pub fn xid(&self, code: u32) -> &Entry {
        self.xids.get(&code).unwrap_or(&self.unknown_xid)
    }

    /// The entry of an SXid; see [`Catalogue::xid`].
    pub fn sxid(&self, code: u32) -> &Entry {
        self.sxids.get(&code).unwrap_or(&self.unknown_sxid)
    }

    /// The entry of a kind. Xid and SXid without a code are unknown codes.
    pub fn kernel(&self, kind: SignalKind) -> &Entry {
        match kind {
            SignalKind::Sxid => &self.unknown_sxid,
            _ => self.kernel.get(kind.name()).unwrap_or(&self.unknown_xid),
        }
    }

    /// All Xids, by code.
    pub fn xids(&self) -> impl Iterator<Item = (u32, &Entry)> {
        self.xids.iter().map(|(code, entry)| (*code, entry))
    }

    /// All SXids, by code.
    pub fn sxids(&self) -> impl Iterator<Item = (u32, &Entry)> {
        self.sxids.iter().map(|(code, entry)| (*code, entry))
    }

    /// All kinds of lines that have no code.
    pub fn kinds(&self) -> impl Iterator<Item = (SignalKind, &Entry)> {
        self.kernel.iter().filter_map(|(name, entry)| Some((word(name)?, entry)))
    }

    /// The entry for a kind and its code.
    pub fn entry(&self, kind: SignalKind, code: Option<u32>) -> &Entry {
        match (kind, code) {
            (SignalKind::Xid, Some(code)) => self.xid(code),
            (SignalKind::Sxid, Some(code)) => self.sxid(code),
            _ => self.kernel(kind),
        }
    }

    /// Judges a signal that an agent sent.
    pub fn assess_signal(&self, signal: &Signal) -> Assessment<'_> {
        self.assess(signal.kind, signal.code, &signal.fields, Some(signal.impact))
    }

    /// Judges a condition: the entry, corrected by what the line says about itself. `stated` is how grave the rule
    /// that matched the line says it is; it counts for kinds whose lines range from harmless to grave.
    pub fn assess(
        &self,
        kind: SignalKind,
        code: Option<u32>,
        fields: &SignalFields,
        stated: Option<Impact>,
    ) -> Assessment<'_> {
        let entry = self.entry(kind, code);
        let by_word = fields.fatal.map(|fatal| if fatal { Impact::Critical } else { Impact::Minor });
        let (impact, recovery) = match (kind, code) {
            (SignalKind::Xid, Some(154)) => match fields.recovery_to {
                Some(0) => (Impact::Info, Recovery::None),
                Some(advice) => (Impact::Critical, Recovery::from_advice(advice)),
                // The advice was cut off: somebody has to look, and nothing is made up.
                None => (Impact::Major, Recovery::ContactSupport),
            },
            (SignalKind::Xid, Some(144..=150)) => {
                let impact = by_word.or(stated).unwrap_or(entry.impact);
                (impact, if impact == Impact::Critical { Recovery::DrainAndReset } else { Recovery::None })
            }
            (SignalKind::Sxid, _) => {
                let impact = match by_word.unwrap_or(entry.impact) {
                    Impact::Minor if code == Some(BOOT_NOISE) => Impact::Info,
                    impact => impact,
                };
                let harmless = impact < Impact::Major && entry.impact >= Impact::Major;
                (impact, if harmless { Recovery::None } else { entry.recovery })
            }
            (SignalKind::Xid | SignalKind::GpuLost, _) => (entry.impact, entry.recovery),
            _ => (stated.unwrap_or(entry.impact), entry.recovery),
        };
        Assessment {
            entry,
            impact,
            classifications: implied(kind, entry, impact),
            recovery,
            runbook: runbook(kind, code, entry, impact),
        }
    }

    /// The row that explains an Xid 144–150: by the bits of IntrInfo in the layout given, else by the unit that
    /// the line names. Where several bits of the status are set, the gravest row counts.
    pub fn link_fault(
        &self,
        xid: u32,
        unit: &str,
        intr_info: u32,
        status: u32,
        layout: LinkLayout,
    ) -> Option<&LinkFault> {
        let subcode = link_subcode(intr_info);
        let rows = || self.links.iter().filter(move |row| row.xid == xid && row.subcode == subcode);
        let in_status = |row: &&LinkFault| {
            if row.status == 0 { status == 0 } else { status & row.status == row.status }
        };
        let by_bits = |row: &&LinkFault| match layout {
            LinkLayout::BeforeR575 => row.before_r575 == intr_info & 0x3ff,
            LinkLayout::FromR575 => row.from_r575 == intr_info & 0x7f,
        };
        let by_name = |row: &&LinkFault| row.units.iter().any(|name| name == unit);
        let gravest = |row: &&LinkFault| (row.fatal, row.recovery);
        rows()
            .filter(by_bits)
            .filter(in_status)
            .max_by_key(gravest)
            .or_else(|| rows().filter(by_name).filter(in_status).max_by_key(gravest))
    }
}

/// The subcode of IntrInfo: bits 25 to 20 in both layouts.
pub const fn link_subcode(intr_info: u32) -> u32 {
    (intr_info >> 20) & 0x3f
}

/// An entry's own classifications hold for its own impact; a line that is graver or milder than its entry gets
/// what its impact implies.
fn implied(kind: SignalKind, entry: &Entry, impact: Impact) -> &[Classification] {
    match (impact, kind) {
        _ if impact == entry.impact => &entry.classifications,
        (Impact::Critical, SignalKind::Xid | SignalKind::Sxid | SignalKind::GpuLost) => &CRITICAL_GPU,
        (Impact::Critical, _) => &CRITICAL_OTHER,
        _ => &[],
    }
}

/// An entry's own runbook is for its own impact: a line that is milder needs none, a graver one what its kind does.
fn runbook(kind: SignalKind, code: Option<u32>, entry: &Entry, impact: Impact) -> Option<&str> {
    let own = entry.runbook.as_deref();
    match (kind, code) {
        _ if impact < entry.impact => None,
        _ if impact == entry.impact && own.is_some() => own,
        (SignalKind::Xid, Some(144..=150)) | (SignalKind::Sxid, _) if impact == Impact::Critical => {
            Some(NVLINK)
        }
        (SignalKind::Xid, Some(154)) if impact == Impact::Critical => Some(ADVICE),
        (SignalKind::Xid | SignalKind::GpuLost, _) if impact == Impact::Critical => Some(UNCLASSIFIED),
        _ => own.filter(|_| entry.application),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::PathBuf;

    use super::*;

    /// A table of the facts, or nothing where the checkout stands alone.
    fn facts(name: &str) -> Option<Vec<BTreeMap<String, String>>> {
        let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/facts/faults").join(name);
        if !path.exists() {
            assert!(std::env::var_os("CI").is_none_or(|ci| ci != "true"), "{} is missing", path.display());
            eprintln!("skipped: {} is missing", path.display());
            return None;
        }
        Some(csv::Reader::from_path(path).unwrap().deserialize().map(Result::unwrap).collect())
    }

    fn kinds() -> Vec<SignalKind> {
        "gpu_lost gpu_driver gpu_nvlink gpu_peermem nic_link nic_firmware nic_power pcie_aer mce edac cpu_thermal \
         storage_stall storage_error hung_task soft_lockup disk oom panic"
            .split_whitespace()
            .map(|name| word(name).unwrap())
        .collect()
    }

    #[test]
    fn every_entry_is_complete() {
        let catalogue = Catalogue::embedded();
        let runbooks = [
            "gpu-lost",
            "application-fault",
            "gpu-memory-uncorrectable",
            "row-remap-pending",
            "nvlink-fatal",
            "gpu-reset-needed",
        ];
        let kernel = kinds();
        assert_eq!(catalogue.kernel.len(), kernel.len());
        let unknown = [&catalogue.unknown_xid, &catalogue.unknown_sxid];
        let entries = catalogue.xids.values().chain(catalogue.sxids.values());
        for entry in entries.chain(kernel.iter().map(|kind| catalogue.kernel(*kind))).chain(unknown) {
            for (column, text) in [("meaning", &entry.meaning), ("action", &entry.action)] {
                assert!(text.ends_with('.') && text.len() > 15, "{}: {column} is `{text}`", entry.name);
            }
            assert!(!entry.name.is_empty() && !entry.source.is_empty(), "{entry:?}");
            let known = entry.runbook.as_deref().is_none_or(|name| runbooks.contains(&name));
            assert!(known, "{}: no runbook {:?} yet", entry.name, entry.runbook);
            assert!(!entry.application || entry.impact <= Impact::Minor, "{}", entry.name);
            assert_eq!(entry.impact == Impact::Critical, !entry.classifications.is_empty(), "{}", entry.name);
        }
        let meanings: BTreeSet<&str> = catalogue.xids.values().map(|entry| entry.meaning.as_str()).collect();
        assert_eq!(meanings.len(), catalogue.xids.len(), "every Xid has a sentence of its own");
    }

    #[test]
    fn critical_gpu_codes_hold_their_node() {
        let catalogue = Catalogue::embedded();
        for (code, entry) in catalogue.xids().filter(|(_, entry)| entry.impact == Impact::Critical) {
            assert_eq!(entry.classifications, CRITICAL_GPU, "{code}");
        }
        let lost = catalogue.kernel(SignalKind::GpuLost);
        assert_eq!(lost.classifications, CRITICAL_GPU);
        assert_eq!(
            (lost.runbook.as_deref(), catalogue.xid(79).runbook.as_deref()),
            (Some("gpu-lost"), Some("gpu-lost"))
        );
        for kind in kinds().into_iter().filter(|kind| *kind != SignalKind::GpuLost) {
            assert!(
                !catalogue.kernel(kind).classifications.contains(&Classification::BlocksPlacement),
                "{kind:?}"
            );
        }
    }

    #[test]
    fn all_177_xids_and_their_facts_are_there() {
        let Some(rows) = facts("xid.csv") else { return };
        let catalogue = Catalogue::embedded();
        assert_eq!((rows.len(), catalogue.xids.len()), (177, 177));
        for row in rows {
            let entry = catalogue.xid(row["code"].parse().unwrap());
            assert_eq!(entry.name, row["name"]);
            assert_eq!(Some(entry.impact), word(&row["default_severity"]), "{}", row["code"]);
            assert_eq!(Some(entry.recovery), word(&row["recommended_action"]), "{}", row["code"]);
        }
    }

    #[test]
    fn all_sxids_and_their_facts_are_there() {
        let Some(rows) = facts("sxid.csv") else { return };
        let catalogue = Catalogue::embedded();
        assert_eq!(catalogue.sxids.len(), rows.len());
        for row in rows {
            let entry = catalogue.sxid(row["code"].parse().unwrap());
            assert_eq!(entry.name, row["name"]);
            assert_eq!(Some(entry.impact), word(&row["default_severity"]), "{}", row["code"]);
            assert_eq!(Some(entry.recovery), word(&row["recommended_action"]), "{}", row["code"]);
        }
    }

    #[test]
    fn what_the_line_says_goes_before_the_table() {
        let catalogue = Catalogue::embedded();
        let fields = |fatal, recovery_to| SignalFields { fatal, recovery_to, ..SignalFields::default() };
        let check = |kind, code, fields: SignalFields, stated, impact, recovery| {
            let judged = catalogue.assess(kind, code, &fields, stated);
            assert_eq!((judged.impact, judged.recovery), (impact, recovery), "{kind:?} {code:?} {fields:?}");
            let holds = judged.classifications.contains(&Classification::BlocksPlacement);
            let gpu = matches!(kind, SignalKind::Xid | SignalKind::Sxid | SignalKind::GpuLost);
            assert_eq!(holds, gpu && impact == Impact::Critical, "{kind:?} {code:?} {fields:?}");
        };
        use Impact::{Critical, Info, Major, Minor};
        use SignalKind::{Edac, GpuLost, Sxid, Xid};
        check(Xid, Some(79), fields(None, None), None, Critical, Recovery::RebootNode);
        check(Xid, Some(79), fields(None, None), Some(Info), Critical, Recovery::RebootNode);
        check(GpuLost, Some(79), fields(None, None), None, Critical, Recovery::RebootNode);
        check(Xid, Some(95), fields(None, None), None, Critical, Recovery::DrainAndReset);
        check(Xid, Some(94), fields(None, None), None, Major, Recovery::RestartApp);
        check(Xid, Some(45), fields(None, None), None, Info, Recovery::None);
        check(Xid, Some(999), fields(None, None), None, Major, Recovery::ContactSupport);
        check(Xid, None, fields(None, None), None, Major, Recovery::ContactSupport);
        check(Xid, Some(149), fields(Some(false), None), None, Minor, Recovery::None);
        check(Xid, Some(145), fields(Some(true), None), None, Critical, Recovery::DrainAndReset);
        check(Xid, Some(154), fields(None, Some(0)), None, Info, Recovery::None);
        check(Xid, Some(154), fields(None, Some(1)), None, Critical, Recovery::ResetGpu);
        check(Xid, Some(154), fields(None, Some(99)), None, Critical, Recovery::ContactSupport);
        check(Xid, Some(154), fields(None, None), None, Major, Recovery::ContactSupport);
        check(Sxid, Some(20034), fields(None, None), None, Critical, Recovery::DrainAndReset);
        check(Sxid, Some(20034), fields(Some(false), None), None, Minor, Recovery::None);
        check(Sxid, Some(22_013), fields(Some(false), None), None, Info, Recovery::None);
        check(Sxid, Some(22_013), fields(Some(true), None), None, Critical, Recovery::None);
        check(Sxid, Some(99_999), fields(Some(true), None), None, Critical, Recovery::ContactSupport);
        check(Edac, None, fields(None, None), None, Minor, Recovery::None);
        check(Edac, None, fields(None, None), Some(Critical), Critical, Recovery::None);
    }

    #[test]
    fn case_b05_a_non_fatal_subcode_stays_non_fatal() {
        let catalogue = Catalogue::embedded();
        let check = |xid, unit, intr_info, status, layout, expected: Option<(&str, bool)>| {
            let row = catalogue.link_fault(xid, unit, intr_info, status, layout);
            assert_eq!(
                row.map(|row| (row.units[0].as_str(), row.fatal)),
                expected,
                "{unit} {intr_info:#010x}"
            );
        };
        let (old, new) = (LinkLayout::of_driver(Some(570)), LinkLayout::of_driver(None));
        assert_eq!((old, new), (LinkLayout::BeforeR575, LinkLayout::FromR575));
        check(145, "RLW_SRC_TRACK", 0x0408_4507, 0x4, new, Some(("RLW_SRC_TRACK", false)));
        check(145, "RLW_SRC_TRACK", 0x0408_4507, 0x5, new, Some(("RLW_SRC_TRACK", true)));
        check(145, "?", 0x0409_a0c2, 0x8, old, Some(("RLW_RXPIPE", false)));
        check(145, "?", 0x0409_a0c2, 0x8, new, None);
        check(149, "NETIR_LINK_EVT", 0x0255_25c6, 0, new, Some(("NETIR_LINK_EVT", true)));
        check(144, "SAW_MVB", 1, 0x2, new, Some(("SAW_MVB", true)));
        check(144, "SAW_MVB", u32::MAX, u32::MAX, new, None);
    }

    #[test]
    fn a_broken_table_says_where() {
        let header = "code,name,impact,classifications,recovery,runbook,application,meaning,action,source\n";
        let parse = |row: &str| {
            let error = Catalogue::parse(&format!("{header}{row}"), header, header, "").unwrap_err();
            error.to_string()
        };
        assert!(parse("1,A,grave,,none,,false,m,a,s\n").contains("`A`: `grave` is no impact"));
        assert!(parse("1,A,info,x,none,,false,m,a,s\n").contains("`x` is no classification"));
        assert!(parse("1,A,info,,pray,,false,m,a,s\n").contains("`pray` is no recovery"));
        assert!(parse("1,A,info,,none,,false,m,a,s\n").contains("lacks the row `UNKNOWN`"));
        assert!(parse("x,A,info\n").contains("xid.csv"));
    }
}
