//! Prints what the API gave: tables for people, the object itself for programs.

mod table;

use std::io::{IsTerminal, Write};

use serde_json::Value;

use crate::cli::Format;
use crate::error::{Error, Exit};
pub use table::{Column, field, fields};

/// Prints a list as the API gave it.
pub fn list(page: &Value, columns: &[Column], format: Format) -> Result<(), Error> {
    let rows: &[Value] = page.get("items").and_then(Value::as_array).map_or(&[], Vec::as_slice);
    let text = match format {
        Format::Json => pretty(page)?,
        Format::Yaml => yaml(page)?,
        Format::Jsonl => lines(rows.iter().map(Value::to_string)),
        Format::Name => lines(rows.iter().map(name)),
        Format::Csv => table::csv(rows, columns),
        Format::Table => table::render(rows, columns, false),
        Format::Wide => table::render(rows, columns, true),
    };
    if rows.is_empty() && matches!(format, Format::Table | Format::Wide) {
        eprintln!("nothing to list");
        return Ok(());
    }
    print(&text)?;
    let more = page.get("next_cursor").is_some_and(|cursor| !cursor.is_null());
    if more && matches!(format, Format::Table | Format::Wide) {
        eprintln!("there are more; narrow the list, or read /v1 with a cursor");
    }
    Ok(())
}

/// Prints one thing; `people` makes the text for people.
pub fn one(value: &Value, format: Format, people: impl FnOnce(&Value) -> String) -> Result<(), Error> {
    let text = match format {
        Format::Table | Format::Wide => people(value),
        Format::Json => pretty(value)?,
        Format::Jsonl => format!("{value}\n"),
        Format::Yaml => yaml(value)?,
        Format::Name => match name(value) {
            unnamed if unnamed.is_empty() => {
                return Err(Error::new(Exit::Usage, "this has no name").remedy("use -o json or -o yaml"));
            }
            name => lines([name]),
        },
        Format::Csv => {
            return Err(Error::new(Exit::Usage, "csv is for lists").remedy("use -o json or -o yaml"));
        }
    };
    print(&text)
}

/// Prints text; a reader that has gone away (`| head`) ends the program quietly.
pub fn print(text: &str) -> Result<(), Error> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => std::process::exit(0),
        result => Ok(result?),
    }
}

/// Clears the screen before the next picture of a watch; not where the output is no screen.
pub fn clear() {
    if std::io::stdout().is_terminal() {
        print!("\x1b[H\x1b[2J");
    }
}

fn pretty(value: &Value) -> Result<String, Error> {
    let text = serde_json::to_string_pretty(value).map_err(|e| Error::chain(Exit::Failure, &e))?;
    Ok(text + "\n")
}

fn yaml(value: &Value) -> Result<String, Error> {
    serde_saphyr::to_string(value)
        .map(|text| text.trim_end().to_owned() + "\n")
        .map_err(|e| Error::new(Exit::Failure, "the answer cannot be written as YAML").why(e.to_string()))
}

fn lines(all: impl IntoIterator<Item = String>) -> String {
    all.into_iter().fold(String::new(), |text, line| text + &line + "\n")
}

/// What people call a thing.
fn name(row: &Value) -> String {
    ["number", "name", "id", "node", "scope"]
        .iter()
        .find_map(|key| row.get(key).and_then(Value::as_str))
        .unwrap_or_default()
        .to_owned()
}
