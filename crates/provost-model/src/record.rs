//! Record v1: the unit of the journal. The canonical bytes of a record are what is stored and hashed.
//!
//! [`Record::canonical`] refuses what has no [canonical] form, so that nothing that another reader could
//! understand differently ever becomes durable.

use std::borrow::Cow;

use serde::de::IgnoredAny;
use serde::ser::SerializeStruct;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::value::RawValue;

use crate::body::Body;
use crate::canonical;
use crate::ids::{ExecutionId, RecordId};
use crate::time::Timestamp;

/// The version that [`Record::canonical`] writes.
pub const VERSION: u32 = 1;
/// The largest record, in bytes; one larger is refused. A job that holds ten thousand nodes still fits.
pub const MAX_RECORD_BYTES: usize = 2 << 20;

/// One entry of the journal. Read by [`Record::parse`].
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// Format version, [`VERSION`].
    pub v: u32,
    /// Position in the journal, from 0, without gaps.
    pub seq: u64,
    /// Id of the record.
    pub id: RecordId,
    /// When it was decided.
    pub at: Timestamp,
    /// Site that it belongs to.
    pub site: String,
    /// Epoch of the controller that wrote it; grows by one at each start.
    pub epoch: u64,
    /// Who wrote it: `controller`, or `emergency` for records merged from the emergency journal.
    pub producer: String,
    /// The producer's own counter, without gaps.
    pub producer_seq: u64,
    /// What the record is about, for retention and review.
    pub class: Class,
    /// Whether it was done.
    pub outcome: Outcome,
    /// Who caused it.
    pub actor: Actor,
    /// What it is about.
    pub subject: Option<Subject>,
    /// By what right.
    pub decision: Option<Decision>,
    /// What happened, typed: `type` and `data` in JSON.
    pub body: Body,
    /// State before and after, where the record changes something that people set.
    pub change: Option<Change>,
    /// What it belongs to.
    pub corr: Corr,
    /// Personal data and free text, sealed. `apply` ignores it.
    pub sealed: Vec<Sealed>,
}

/// What a record is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// Evidence and its interpretation.
    Detection,
    /// Incidents, executions, notes.
    Response,
    /// Something was changed, or is about to be, outside.
    Privileged,
    /// Configuration, modes, access.
    Administration,
    /// The controller about itself.
    System,
}

/// Whether it was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Done.
    Ok,
    /// Refused by authorization or a rule.
    Denied,
    /// Tried and failed.
    Failed,
    /// Not known yet, or not known.
    Unknown,
}

/// Who caused a record.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Actor {
    /// What kind of actor.
    pub kind: ActorKind,
    /// Stable subject: `local:admin`, `system:engine`, `agent:gpu001`, `slurm:main`, `bmc:gpu001`.
    pub sub: String,
}

/// Kinds of actors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ActorKind {
    /// A person.
    Human,
    /// A program with a token of its own.
    Service,
    /// The controller by its rules.
    System,
    /// A node's agent.
    Agent,
    /// A scheduler, or somebody through it.
    Scheduler,
    /// The BMC of a node.
    Bmc,
}

impl Actor {
    /// The engine's own rules.
    pub fn engine() -> Actor {
        Actor { kind: ActorKind::System, sub: "system:engine".to_owned() }
    }

    /// The agent of a node.
    pub fn agent(node: &str) -> Actor {
        Actor { kind: ActorKind::Agent, sub: format!("agent:{node}") }
    }

    /// The BMC of a node.
    pub fn bmc(node: &str) -> Actor {
        Actor { kind: ActorKind::Bmc, sub: format!("bmc:{node}") }
    }

    /// A scheduler, or a person who acted through it.
    pub fn scheduler(cluster: &str) -> Actor {
        Actor { kind: ActorKind::Scheduler, sub: format!("slurm:{cluster}") }
    }
}

/// What a record is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Subject {
    /// `site`, `node`, `gpu`, `job`, `slot`, `incident`, `execution`, `source`, `switch`.
    pub kind: SubjectKind,
    /// Stable id.
    pub id: String,
    /// Name for people, where it is no personal data.
    pub name: Option<String>,
    /// Name of the node that it belongs to, where it is part of one.
    pub node: Option<String>,
}

/// Kinds of subjects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SubjectKind {
    /// The whole site.
    Site,
    /// A node.
    Node,
    /// A gpu.
    Gpu,
    /// A job of a scheduler.
    Job,
    /// A slot.
    Slot,
    /// A source of evidence: an agent, a scheduler.
    Source,
    /// An NVSwitch.
    Switch,
}

/// By what right something was done or refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decision {
    /// Allowed.
    pub allow: bool,
    /// Policies that decided, by id: `role:operator`, `rule:foreign-hold`.
    pub policies: Vec<String>,
    /// Roles that the actor had.
    pub roles: Vec<String>,
}

/// What people set, before and after.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// Path of the thing changed: `mode/site`, `guard/stopped`.
    pub path: String,
    /// Value before; null where there was none.
    pub from: Option<String>,
    /// Value after; null where it was removed.
    pub to: Option<String>,
}

/// What a record belongs to; null where it does not.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Corr {
    /// Execution.
    pub execution: Option<ExecutionId>,
    /// Number of the incident.
    pub incident: Option<String>,
    /// Request of a person or service.
    pub request: Option<String>,
    /// Step of the execution.
    pub step: Option<String>,
}

/// A value that only the key holder can read. `tag` is the same for the same value under the same key, so that
/// records can be joined without being read.
/// Fields in canonical order, which spares the sorting.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sealed {
    /// base64 of nonce (12 bytes), AES-256-GCM ciphertext and tag.
    pub ct: String,
    /// What the value is: `kernel_line`, `reason`, `note`, `answer`.
    pub field: String,
    /// Id of the key.
    pub key: String,
    /// base64 of the first 16 bytes of HMAC-SHA-256 over field and value.
    pub tag: String,
}

/// A value that the engine hands out for sealing; it never reaches a record unsealed.
#[derive(Clone, PartialEq, Eq)]
pub struct Sensitive {
    /// As [`Sealed::field`].
    pub field: &'static str,
    /// The value.
    pub value: String,
}

impl std::fmt::Debug for Sensitive {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Sensitive({}, {} bytes)", self.field, self.value.len())
    }
}

/// A record that must not become durable.
#[derive(Debug, thiserror::Error)]
pub enum CanonicalError {
    /// It has no canonical form.
    #[error("record {seq} cannot be written")]
    Value {
        /// Sequence.
        seq: u64,
        /// Why.
        #[source]
        source: canonical::Error,
    },
    /// Too large.
    #[error("record {seq} has {bytes} bytes; {MAX_RECORD_BYTES} are allowed")]
    TooLarge {
        /// Sequence.
        seq: u64,
        /// Its size.
        bytes: usize,
    },
    /// Not a record of a version that this program knows.
    #[error("the bytes are not a record of version {VERSION}")]
    Parse(#[source] serde_json::Error),
}

/// In the order of the canonical form, which then has nothing to sort.
impl Serialize for Record {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut written = serializer.serialize_struct("Record", 18)?;
        written.serialize_field("actor", &self.actor)?;
        written.serialize_field("at", &self.at)?;
        written.serialize_field("change", &self.change)?;
        written.serialize_field("class", &self.class)?;
        written.serialize_field("corr", &self.corr)?;
        written.serialize_field("data", &self.body)?;
        written.serialize_field("decision", &self.decision)?;
        written.serialize_field("epoch", &self.epoch)?;
        written.serialize_field("id", &self.id)?;
        written.serialize_field("outcome", &self.outcome)?;
        written.serialize_field("producer", &self.producer)?;
        written.serialize_field("producer_seq", &self.producer_seq)?;
        written.serialize_field("sealed", &self.sealed)?;
        written.serialize_field("seq", &self.seq)?;
        written.serialize_field("site", &self.site)?;
        written.serialize_field("subject", &self.subject)?;
        written.serialize_field("type", self.kind())?;
        written.serialize_field("v", &self.v)?;
        written.end()
    }
}

impl Record {
    /// The canonical bytes.
    ///
    /// # Errors
    /// Where the record holds a float, an integer that not every reader keeps exact, or too many bytes.
    pub fn canonical(&self) -> Result<Vec<u8>, CanonicalError> {
        let mut bytes = Vec::with_capacity(1_024);
        canonical::write(self, &mut bytes)
            .map_err(|source| CanonicalError::Value { seq: self.seq, source })?;
        if bytes.len() > MAX_RECORD_BYTES {
            return Err(CanonicalError::TooLarge { seq: self.seq, bytes: bytes.len() });
        }
        Ok(bytes)
    }

    /// Reads canonical bytes back.
    ///
    /// # Errors
    /// Where they are not a record that this version knows.
    pub fn parse(bytes: &[u8]) -> Result<Record, CanonicalError> {
        let parts: Parts<'_, Vec<Sealed>> = serde_json::from_slice(bytes).map_err(CanonicalError::Parse)?;
        let (mut record, sealed) = parts.into_record()?;
        record.sealed = sealed;
        Ok(record)
    }

    /// The same without its sealed values, at which no fold looks.
    ///
    /// # Errors
    /// As above.
    pub fn parse_to_fold(bytes: &[u8]) -> Result<Record, CanonicalError> {
        let parts: Parts<'_, IgnoredAny> = serde_json::from_slice(bytes).map_err(CanonicalError::Parse)?;
        Ok(parts.into_record()?.0)
    }

    /// The event's type as written: `incident.opened`.
    pub fn kind(&self) -> &'static str {
        self.body.kind()
    }
}

/// A record as it is read. `data` comes before `type` in canonical form, so it is passed over first: read as one,
/// the body would have to be kept as a tree of values until its type is known.
#[derive(Deserialize)]
struct Parts<'a, S> {
    v: u32,
    seq: u64,
    id: RecordId,
    at: Timestamp,
    site: String,
    epoch: u64,
    producer: String,
    producer_seq: u64,
    class: Class,
    outcome: Outcome,
    actor: Actor,
    subject: Option<Subject>,
    decision: Option<Decision>,
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    data: &'a RawValue,
    change: Option<Change>,
    corr: Corr,
    sealed: S,
}

impl<S> Parts<'_, S> {
    /// The record, and what was read of its sealed values.
    fn into_record(self) -> Result<(Record, S), CanonicalError> {
        let record = Record {
            v: self.v,
            seq: self.seq,
            id: self.id,
            at: self.at,
            site: self.site,
            epoch: self.epoch,
            producer: self.producer,
            producer_seq: self.producer_seq,
            class: self.class,
            outcome: self.outcome,
            actor: self.actor,
            subject: self.subject,
            decision: self.decision,
            body: Body::parse(&self.kind, self.data).map_err(CanonicalError::Parse)?,
            change: self.change,
            corr: self.corr,
            sealed: Vec::new(),
        };
        Ok((record, self.sealed))
    }
}
