//! `provost corpus`: labelled episodes, scored.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use provost_agent::kernel_log::{Format as LogFormat, Origin, Parser, Splitter};
use provost_model::catalogue::Catalogue;
use provost_model::signal::{Signal, Trust};
use provost_sim::corpus::{Corpus, Count, History, KernelReader, Place, Rate, Report, Row};
use serde_json::{Value, json};

use crate::cli::Format;
use crate::error::{Error, Exit};
use crate::output;

/// The agent's parser, over one kernel log.
struct AgentReader {
    splitter: Splitter,
    parser: Parser,
    number: u64,
}

impl KernelReader for AgentReader {
    fn read(&mut self, record: &[u8], place: Place) -> Option<Signal> {
        self.number += 1;
        let split = self.splitter.split(record);
        let origin = Origin {
            node: place.node,
            at: place.at,
            boot_id: Some(place.boot_id),
            sequence: Some(self.number),
            historic: place.historic,
            trust: Trust::Kernel,
        };
        self.parser.parse(self.number, &split).into_signal(origin)
    }
}

/// Plays the corpus through the agent's parser and the engine.
fn play(corpus: &Corpus, only: &str) -> Result<Report, Error> {
    let catalogue = Arc::new(Catalogue::embedded());
    let reader = move |driver| -> Box<dyn KernelReader> {
        let splitter = Splitter::new(LogFormat::Kmsg);
        Box::new(AgentReader { splitter, parser: Parser::new(Arc::clone(&catalogue), driver), number: 0 })
    };
    corpus.run(only, &reader).map_err(|e| Error::chain(Exit::Failure, &e))
}

/// `provost corpus run`: 0 at or above the floor.
pub fn run(dir: &Path, only: Option<&str>, format: Format) -> Result<u8, Error> {
    let corpus = Corpus::load(dir).map_err(|e| Error::chain(Exit::Usage, &e))?;
    let report = play(&corpus, only.unwrap_or(""))?;
    let broken = if only.is_none() { corpus.floor.broken(&report) } else { Vec::new() };
    output::one(&object(&report, &broken), format, |_| text(&report))?;
    for line in &broken {
        eprintln!("below the floor: {line}");
    }
    Ok(if broken.is_empty() { 0 } else { Exit::Failure as u8 })
}

fn object(report: &Report, broken: &[String]) -> Value {
    let count = |count: Count| {
        json!({
            "found": count.found, "missed": count.missed, "wrong": count.wrong,
            "recall": count.recall(), "precision": count.precision(),
        })
    };
    let row = |row: &Row| {
        json!({
            "episodes": row.episodes, "detection": count(row.detection),
            "isolation": count(row.isolation), "paging": count(row.paging),
        })
    };
    let classes: serde_json::Map<String, Value> =
        report.classes.iter().map(|(class, one)| (class.name().to_owned(), row(one))).collect();
    json!({
        "classes": classes, "total": row(&report.total), "findings": report.findings, "below_floor": broken,
    })
}

/// The table, then what was not right.
fn text(report: &Report) -> String {
    let mut text = table(report);
    if report.findings.is_empty() {
        return text + "\nnothing missed, no false alarm\n";
    }
    text.push_str("\nNot as labelled:\n");
    for finding in &report.findings {
        let (class, kind) = (finding.class.name(), finding.kind.words());
        // Writing to a string cannot fail.
        writeln!(text, "  {class}/{}: {kind}: {}", finding.episode, finding.detail).ok();
    }
    text
}

/// Recall and precision of each question, by class, with what they are made of.
fn table(report: &Report) -> String {
    let head = ["class", "episodes", "found", "recall", "prec.", "isolated", "recall", "prec."];
    let head: Vec<String> =
        head.iter().chain(&["paged", "recall", "prec."]).map(|s| (*s).to_owned()).collect();
    let rows = report.classes.iter().map(|(class, row)| cells(class.name(), row));
    let rows: Vec<Vec<String>> =
        std::iter::once(head).chain(rows).chain([cells("all", &report.total)]).collect();
    let widths: Vec<usize> =
        (0..rows[0].len()).map(|i| rows.iter().map(|row| row[i].len()).max().unwrap_or(0)).collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).enumerate();
        let cells: Vec<String> = cells
            .map(
                |(i, (cell, width))| {
                    if i == 0 { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
                },
            )
            .collect();
        cells.join("  ") + "\n"
    };
    rows.iter().map(line).collect()
}

fn cells(name: &str, row: &Row) -> Vec<String> {
    let share = |share: Option<f64>| share.map_or("-".to_owned(), |share| format!("{share:.3}"));
    let question = |count: Count| {
        let asked = format!("{}/{}", count.found, count.found + count.missed);
        [asked, share(count.recall()), share(count.precision())]
    };
    let mut cells = vec![name.to_owned(), row.episodes.to_string()];
    cells.extend([row.detection, row.isolation, row.paging].into_iter().flat_map(question));
    cells
}

/// `provost corpus titan`: years of failures, replayed.
pub fn titan(path: &Path, format: Format) -> Result<(), Error> {
    let table = find_table(path).ok_or_else(|| {
        Error::new(Exit::Usage, format!("`{}` holds no table gc_full*.csv", path.display()))
            .remedy("name the folder with the published table, or the table")
    })?;
    let unusable =
        |why: String| Error::new(Exit::Usage, format!("`{}` can't be used", table.display())).why(why);
    let file = std::fs::File::open(&table).map_err(|e| unusable(e.to_string()))?;
    let history = History::read(std::io::BufReader::new(file)).map_err(|e| unusable(e.to_string()))?;
    let object = serde_json::to_value(&history).map_err(|e| Error::chain(Exit::Failure, &e))?;
    output::one(&object, format, |_| history_text(&history))
}

fn find_table(path: &Path) -> Option<PathBuf> {
    if path.is_file() {
        return Some(path.to_owned());
    }
    let is_table = |file: &PathBuf| {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("gc_full") && name.ends_with(".csv")
    };
    let mut tables: Vec<PathBuf> =
        std::fs::read_dir(path).ok()?.filter_map(|entry| Some(entry.ok()?.path())).filter(is_table).collect();
    tables.sort();
    tables.into_iter().next()
}

fn history_text(history: &History) -> String {
    let day = |at: provost_model::time::Timestamp| at.to_string().chars().take(10).collect::<String>();
    let mut text = format!(
        "{} GPUs in {} places, {} to {}, {:.0} GPU-years; {} rows could not be read\n\n\
         failure  count  hours between, site  hours between, one GPU  in 1,000 days of 8 GPUs\n",
        history.gpus,
        history.places,
        day(history.from),
        day(history.until),
        history.gpu_hours / 8_766.0,
        history.unparsed,
    );
    let row = |name: &str, rate: &Rate| {
        format!(
            "{name:<7}  {:>5}  {:>19.1}  {:>22.0}  {:>23.3}\n",
            rate.failures, rate.site_hours, rate.gpu_hours, rate.in_1000_node_days
        )
    };
    text.extend(history.kinds.iter().map(|(kind, rate)| row(kind, rate)));
    text.push_str(&row("all", &history.all));
    for (what, lemons) in [("GPUs", history.lemon_gpus), ("places", history.lemon_places)] {
        text.push_str(&format!(
            "\nlemons: {} of {} {what} that failed did so again; {:.0} % of the failures\n",
            lemons.again,
            lemons.failed,
            lemons.share * 100.0
        ));
    }
    text.push('\n');
    for spares in &history.spares {
        text.push_str(&format!(
            "spares, when a replacement takes {} days: {} so that none waits, {} for 99 of 100\n",
            spares.repair_days, spares.always, spares.for_99_percent
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_corpus_reaches_its_floor() {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus");
        let corpus = Corpus::load(&dir).unwrap();
        let report = play(&corpus, "").unwrap();
        let broken = corpus.floor.broken(&report);
        assert!(broken.is_empty(), "{broken:#?}\n{}", text(&report));
        assert!(text(&report).lines().next().unwrap().len() <= 100, "the table is too wide");
    }
}
