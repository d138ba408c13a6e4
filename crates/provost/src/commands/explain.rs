//! `provost explain`: what Provost makes of a kernel log.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;

use provost_agent::kernel_log::{Format as LogFormat, explain};
use provost_model::catalogue::Catalogue;

use crate::cli::{Explain, Format};
use crate::error::{Error, Exit};
use crate::output;

/// Reads, explains, prints; constant memory however long the log is.
pub fn run(command: &Explain, format: Format) -> Result<(), Error> {
    if command.catalogue {
        return output::print(&super::faults::page(&Catalogue::embedded()));
    }
    let path = command.file.as_deref().unwrap_or(Path::new("-"));
    let reader: Box<dyn BufRead> = if path == Path::new("-") {
        Box::new(std::io::stdin().lock())
    } else {
        let file = File::open(path).map_err(|e| {
            Error::new(Exit::Usage, format!("`{}` cannot be read", path.display())).why(e.to_string())
        })?;
        Box::new(BufReader::with_capacity(256 * 1024, file))
    };
    let mut out = std::io::BufWriter::with_capacity(64 * 1024, std::io::stdout().lock());
    let mut text = Vec::new();
    let for_people = matches!(format, Format::Table | Format::Wide);
    let lines = explain(reader, LogFormat::Any, command.driver);
    let mut lines = if for_people && !command.all { lines.reports() } else { lines };
    let mut explained = 0_u64;
    for line in lines.by_ref() {
        let line = line?;
        explained += 1;
        let written = match format {
            Format::Jsonl | Format::Json => {
                text.clear();
                serde_json::to_writer(&mut text, &line).map_err(|e| Error::chain(Exit::Failure, &e))?;
                text.push(b'\n');
                out.write_all(&text)
            }
            Format::Table | Format::Wide => {
                let row = serde_json::to_value(&line).map_err(|e| Error::chain(Exit::Failure, &e))?;
                writeln!(out, "{}", told(&row))
            }
            Format::Yaml | Format::Csv | Format::Name => {
                return Err(Error::new(Exit::Usage, "explain prints for people, or one object a line")
                    .remedy("use -o jsonl"));
            }
        };
        match written {
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => return Ok(()),
            written => written?,
        }
    }
    out.flush()?;
    if explained == 0 {
        // Nothing on standard output is an answer too, but a person wants to know that it is one.
        eprintln!("{} lines, none of which reports anything", lines.lines_read());
    }
    Ok(())
}

fn told(row: &serde_json::Value) -> String {
    let field = |path| output::field(row, path);
    let code = match row.get("code") {
        Some(code) if !code.is_null() => format!(" {code}"),
        _ => String::new(),
    };
    format!(
        "{:>6}  {:8}  {}{code} {}\n        {}\n        do: {}",
        field("line"),
        field("severity"),
        field("kind"),
        field("pci"),
        field("meaning"),
        field("action"),
    )
}
