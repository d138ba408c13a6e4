//! One episode as it is written: what happened, and what is right.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use provost_model::time::Span;
use serde::{Deserialize, Deserializer, Serialize, de};

use super::CorpusError;
use super::timeline::{self, Moment};

/// What an episode is really about. The name of its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// A part of a node is broken.
    Hardware,
    /// A program failed; the hardware is fine.
    Application,
    /// Links and switches.
    Fabric,
    /// File systems and disks.
    Storage,
    /// Those who watch fail, or look as if.
    Monitor,
    /// Somebody wrote what only the kernel may say.
    Forged,
    /// Nothing is wrong.
    Benign,
}

impl Class {
    /// All, in the order in which they are told.
    pub const ALL: &[Class] = &[
        Class::Hardware,
        Class::Application,
        Class::Fabric,
        Class::Storage,
        Class::Monitor,
        Class::Forged,
        Class::Benign,
    ];

    /// The name as written.
    pub const fn name(self) -> &'static str {
        match self {
            Class::Hardware => "hardware",
            Class::Application => "application",
            Class::Fabric => "fabric",
            Class::Storage => "storage",
            Class::Monitor => "monitor",
            Class::Forged => "forged",
            Class::Benign => "benign",
        }
    }
}

/// An episode.
#[derive(Clone, Debug)]
pub struct Episode {
    /// Its class.
    pub class: Class,
    /// Its name, once in the whole corpus.
    pub id: String,
    /// What happened, for people.
    pub story: String,
    /// The rule or the case that says what is right.
    pub why: String,
    /// Major version of the GPU driver, where it matters.
    pub driver: Option<u32>,
    /// What happens when, in order.
    pub(super) moments: Vec<Moment>,
    /// How long it is watched, from its beginning.
    pub lasts: Duration,
    /// What is right.
    pub expect: Expect,
}

/// What is right.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Expect {
    /// Conditions that an incident has to name.
    pub detect: Vec<Detect>,
    /// Conditions that the owner of a job has to be told, without an incident.
    pub note: Vec<Detect>,
    /// Conditions that may be found or not; both are right.
    pub may: Vec<Detect>,
    /// How many incidents that makes; as many as places in `detect`, where it is not given.
    pub incidents: Option<usize>,
    /// Nodes that must get no new work.
    pub isolate: Vec<Isolate>,
    /// Nodes that may be isolated or not; both are right.
    pub may_isolate: BTreeSet<String>,
    /// A person has to be called.
    pub page: bool,
    /// A person may be called or not; both are right.
    pub may_page: bool,
}

/// A condition at a place: `gpu003/2 xid.79`, `gpu003 edac`, `* storage_stall`, `gpu003/2 xid.48|xid.63`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Detect {
    /// Node, GPU of a node, name of a source, or `*` for any.
    pub place: String,
    /// Any of these.
    pub conditions: Vec<String>,
}

/// A node, and when: `gpu003`, `gpu003 after 60s`, `gpu003 by 3s`, from the episode's beginning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Isolate {
    /// Node.
    pub node: String,
    /// Not before.
    pub after: Duration,
    /// Not later.
    pub by: Option<Duration>,
}

impl std::str::FromStr for Detect {
    type Err = String;

    fn from_str(text: &str) -> Result<Detect, String> {
        let (place, conditions) = text
            .split_once(' ')
            .filter(|(place, conditions)| !place.is_empty() && !conditions.contains(' '))
            .ok_or_else(|| format!("`{text}` is not a place and a condition, such as `gpu003/2 xid.79`"))?;
        let conditions = conditions.split('|').map(str::to_owned).collect();
        Ok(Detect { place: place.to_owned(), conditions })
    }
}

impl std::fmt::Display for Detect {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.place, self.conditions.join("|"))
    }
}

impl std::str::FromStr for Isolate {
    type Err = String;

    fn from_str(text: &str) -> Result<Isolate, String> {
        let mut words = text.split(' ');
        let node = words.next().unwrap_or_default().to_owned();
        let mut isolate = Isolate { node, after: Duration::ZERO, by: None };
        let wrong =
            || format!("`{text}` is not a node, such as `gpu003`, `gpu003 after 60s` or `gpu003 by 3s`");
        while let Some(word) = words.next() {
            let span: Span = words.next().and_then(|span| span.parse().ok()).ok_or_else(wrong)?;
            match word {
                "after" => isolate.after = span.0,
                "by" => isolate.by = Some(span.0),
                _ => return Err(wrong()),
            }
        }
        if isolate.node.is_empty() { Err(wrong()) } else { Ok(isolate) }
    }
}

fn from_text<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: std::str::FromStr<Err = String>,
{
    String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
}

impl<'de> Deserialize<'de> for Detect {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Detect, D::Error> {
        from_text(deserializer)
    }
}

impl<'de> Deserialize<'de> for Isolate {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Isolate, D::Error> {
        from_text(deserializer)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    episode: Vec<Written>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    id: String,
    story: String,
    why: String,
    driver: Option<u32>,
    timeline: String,
    lasts: Option<Span>,
    #[serde(default)]
    expect: Expect,
}

/// An episode is watched for so long after the last thing that happens in it: a page that waits for automation
/// would have been sent by then.
const AFTERWARDS: Duration = Duration::from_secs(240);
/// No episode is watched for longer.
const LONGEST: Duration = Duration::from_secs(8 * 86_400);

/// Reads the episodes of a file.
pub(super) fn parse(class: Class, path: &Path, text: &str) -> Result<Vec<Episode>, CorpusError> {
    let file: File = toml::from_str(text)
        .map_err(|source| CorpusError::Format { path: path.to_owned(), source: Box::new(source) })?;
    let read = |written: Written| {
        let id = written.id.clone();
        episode(class, written).map_err(|problem| CorpusError::Episode { path: path.to_owned(), id, problem })
    };
    file.episode.into_iter().map(read).collect()
}

fn episode(class: Class, written: Written) -> Result<Episode, String> {
    let moments = timeline::parse(&written.timeline)?;
    let end = moments.last().map_or(Duration::ZERO, |moment| moment.at);
    let lasts = written.lasts.map_or(end + AFTERWARDS, |span| span.0);
    if lasts < end || lasts > LONGEST {
        return Err(format!("it lasts {}; it may last from its last line to 8d", Span(lasts)));
    }
    let expect = written.expect;
    for isolate in &expect.isolate {
        if !timeline::is_node(&isolate.node) {
            return Err(format!("`{}` is no node of the site", isolate.node));
        }
    }
    if written.story.trim().is_empty() || written.why.trim().is_empty() {
        return Err("story and why must say something".to_owned());
    }
    Ok(Episode {
        class,
        id: written.id,
        story: written.story,
        why: written.why,
        driver: written.driver,
        moments,
        lasts,
        expect,
    })
}

/// Ids are unique, so that a finding names one episode.
pub(super) fn check_ids(dir: &Path, episodes: &[Episode]) -> Result<(), CorpusError> {
    let mut seen = BTreeSet::new();
    match episodes.iter().find(|episode| !seen.insert(&episode.id)) {
        None => Ok(()),
        Some(twice) => Err(CorpusError::Episode {
            path: dir.join(format!("{}.toml", twice.class.name())),
            id: twice.id.clone(),
            problem: "another episode has the same id".to_owned(),
        }),
    }
}
