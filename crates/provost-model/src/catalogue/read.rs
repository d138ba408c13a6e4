//! Reads the tables of the catalogue.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::{CatalogueError, Entry, LinkFault};

#[derive(Deserialize)]
struct Row {
    code: Option<u32>,
    name: String,
    impact: String,
    classifications: String,
    recovery: String,
    runbook: Option<String>,
    application: bool,
    meaning: String,
    action: String,
    source: String,
}

/// Reads a word with the names that the type has in JSON.
pub(super) fn word<T: for<'de> Deserialize<'de>>(text: &str) -> Option<T> {
    let deserializer = serde::de::value::StrDeserializer::<serde::de::value::Error>::new(text);
    T::deserialize(deserializer).ok()
}

pub(super) fn entries(table: &'static str, text: &str) -> Result<Vec<Entry>, CatalogueError> {
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let mut entries = Vec::new();
    for row in reader.deserialize::<Row>() {
        let row = row.map_err(|source| CatalogueError::Read { table, source })?;
        let cell = |column, value: &str| CatalogueError::Cell {
            table,
            row: row.name.clone(),
            column,
            value: value.to_owned(),
        };
        let classifications = row
            .classifications
            .split(';')
            .filter(|name| !name.is_empty())
            .map(|name| word(name).ok_or_else(|| cell("classification", name)))
            .collect::<Result<Vec<_>, _>>()?;
        entries.push(Entry {
            code: row.code,
            impact: word(&row.impact).ok_or_else(|| cell("impact", &row.impact))?,
            classifications,
            recovery: word(&row.recovery).ok_or_else(|| cell("recovery", &row.recovery))?,
            runbook: row.runbook,
            application: row.application,
            meaning: row.meaning,
            action: row.action,
            source: row.source,
            name: row.name,
        });
    }
    Ok(entries)
}

/// Splits a table of codes into the codes and the entry for all others.
pub(super) fn coded(
    table: &'static str,
    entries: Vec<Entry>,
) -> Result<(BTreeMap<u32, Entry>, Entry), CatalogueError> {
    let mut unknown = None;
    let mut codes = BTreeMap::new();
    for entry in entries {
        match entry.code {
            Some(code) => drop(codes.insert(code, entry)),
            None => unknown = Some(entry),
        }
    }
    Ok((codes, unknown.ok_or(CatalogueError::Missing { table, row: "UNKNOWN" })?))
}

pub(super) fn link_faults(text: &str) -> Result<Vec<LinkFault>, CatalogueError> {
    const TABLE: &str = "nvlink5.csv";
    #[derive(Deserialize)]
    struct Row {
        xid: u32,
        units: String,
        subcode: u32,
        layout_before_r575: u32,
        layout_from_r575: u32,
        status: String,
        fatal: bool,
        recovery: String,
    }
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let mut rows = Vec::new();
    for row in reader.deserialize::<Row>() {
        let row = row.map_err(|source| CatalogueError::Read { table: TABLE, source })?;
        let cell = |column, value: &str| CatalogueError::Cell {
            table: TABLE,
            row: format!("{} {}", row.xid, row.units),
            column,
            value: value.to_owned(),
        };
        let status = row.status.strip_prefix("0x").and_then(|hex| u32::from_str_radix(hex, 16).ok());
        rows.push(LinkFault {
            xid: row.xid,
            units: row.units.split('/').map(str::to_owned).collect(),
            subcode: row.subcode,
            before_r575: row.layout_before_r575,
            from_r575: row.layout_from_r575,
            status: status.ok_or_else(|| cell("status", &row.status))?,
            fatal: row.fatal,
            recovery: word(&row.recovery).ok_or_else(|| cell("recovery", &row.recovery))?,
        });
    }
    Ok(rows)
}
