//! A TOML document that is taken apart key by key, where each error remembers its line.
//!
//! Deserializing into structs would stop at the first error.

use std::collections::BTreeSet;
use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::ConfigError;

/// The text and what was found wrong with it.
pub(super) struct Document<'t> {
    text: &'t str,
    errors: Vec<(usize, ConfigError)>,
}

impl<'t> Document<'t> {
    pub(super) fn new(text: &'t str) -> Document<'t> {
        Document { text, errors: Vec::new() }
    }

    /// The top of the document. Where the text is no TOML, that is reported, and what could be read is there.
    pub(super) fn root(&mut self) -> Table<'t> {
        let (table, errors) = DeTable::parse_recoverable(self.text);
        for error in errors {
            self.error(&error.span().unwrap_or(0..0), "", error.message());
        }
        let span = 0..0;
        Table { path: String::new(), table: table.into_inner(), span, used: BTreeSet::new() }
    }

    /// As if the document had such a table without keys.
    pub(super) fn empty_table(&self, path: &str) -> Table<'t> {
        Table { path: path.to_owned(), table: DeTable::new(), span: 0..0, used: BTreeSet::new() }
    }

    /// Notes an error at a place of the text.
    pub(super) fn error(&mut self, span: &Range<usize>, key: &str, message: impl Into<String>) {
        let at = span.start.min(self.text.len());
        let line = memchr::memchr_iter(b'\n', &self.text.as_bytes()[..at]).count() + 1;
        let error = ConfigError { line: Some(line), key: key.to_owned(), message: message.into() };
        self.errors.push((at, error));
    }

    /// The errors in the order of the text.
    pub(super) fn into_errors(mut self) -> Vec<ConfigError> {
        self.errors.sort_by_key(|(at, _)| *at);
        self.errors.into_iter().map(|(_, error)| error).collect()
    }
}

/// One table; what is not asked for by the end is an unknown key.
pub(super) struct Table<'t> {
    path: String,
    table: DeTable<'t>,
    span: Range<usize>,
    used: BTreeSet<&'static str>,
}

impl<'t> Table<'t> {
    /// The name of a key as a person finds it.
    pub(super) fn key(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    /// Where the table stands.
    pub(super) fn span(&self) -> Range<usize> {
        self.span.clone()
    }

    /// Where the value of a key stands; where the table does, if it is absent.
    pub(super) fn span_of(&self, key: &str) -> Range<usize> {
        self.table.get(key).map_or_else(|| self.span.clone(), Spanned::span)
    }

    pub(super) fn is_absent(&self, key: &str) -> bool {
        !self.table.contains_key(key)
    }

    fn get(&mut self, key: &'static str) -> Option<&Spanned<DeValue<'t>>> {
        self.used.insert(key);
        self.table.get(key)
    }

    /// A text that must be there, as `parse` reads it.
    pub(super) fn required<T>(
        &mut self,
        document: &mut Document<'_>,
        key: &'static str,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> Option<T> {
        if self.is_absent(key) {
            self.used.insert(key);
            document.error(&self.span, &self.key(key), "is missing");
            return None;
        }
        self.optional(document, key, parse)
    }

    /// A text as `parse` reads it; none where it is absent, and where it is wrong: then it is reported.
    pub(super) fn optional<T>(
        &mut self,
        document: &mut Document<'_>,
        key: &'static str,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> Option<T> {
        let name = self.key(key);
        let value = self.get(key)?;
        let span = value.span();
        let parsed = match value.get_ref() {
            DeValue::String(text) if text.is_empty() => Err("is empty".to_owned()),
            DeValue::String(text) => parse(text),
            other => Err(format!("is {}, not a text in quotes", article(other))),
        };
        parsed.map_err(|message| document.error(&span, &name, message)).ok()
    }

    /// A list of texts with their places.
    pub(super) fn strings(
        &mut self,
        document: &mut Document<'_>,
        key: &'static str,
    ) -> Option<Vec<(Range<usize>, String)>> {
        let name = self.key(key);
        let value = self.get(key)?;
        let DeValue::Array(items) = value.get_ref() else {
            let text = format!("is {}, not a list of texts", article(value.get_ref()));
            document.error(&value.span(), &name, text);
            return None;
        };
        let mut strings = Vec::new();
        for item in items.iter() {
            match item.get_ref() {
                DeValue::String(text) => strings.push((item.span(), text.to_string())),
                other => {
                    document.error(&item.span(), &name, format!("holds {}, not a text", article(other)));
                }
            }
        }
        (strings.len() == items.len()).then_some(strings)
    }

    /// The entries of `[[key]]`.
    pub(super) fn tables(&mut self, document: &mut Document<'_>, key: &'static str) -> Vec<Table<'t>> {
        let path = self.key(key);
        let Some(value) = self.get(key) else { return Vec::new() };
        let DeValue::Array(items) = value.get_ref() else {
            document.error(&value.span(), &path, format!("must be written as [[{key}]]"));
            return Vec::new();
        };
        let mut tables = Vec::new();
        for (i, item) in items.iter().enumerate() {
            let path = format!("{path}[{i}]");
            match item.get_ref() {
                DeValue::Table(table) => tables.push(Table {
                    path,
                    table: table.clone(),
                    span: item.span(),
                    used: BTreeSet::new(),
                }),
                other => document.error(&item.span(), &path, format!("is {}, not a table", article(other))),
            }
        }
        tables
    }

    /// Reports every key that nobody asked for.
    pub(super) fn finish(&self, document: &mut Document<'_>) {
        for key in self.table.keys().filter(|key| !self.used.contains(key.get_ref().as_ref())) {
            let known: Vec<&str> = self.used.iter().copied().collect();
            let text = format!("is not a key; there are: {}", known.join(", "));
            document.error(&key.span(), &self.key(key.get_ref()), text);
        }
    }
}

fn article(value: &DeValue<'_>) -> String {
    format!("a value of type {}", value.type_str())
}
