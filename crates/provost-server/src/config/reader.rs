//! Reads a TOML document key by key and collects every error with its line, so that a person mends them all
//! in one go. A key that nobody asked for is an error.

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// One thing that is wrong in a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Line, from 1.
    pub line: usize,
    /// Key: `slurm[0].mode`.
    pub key: String,
    /// What is wrong and what to write.
    pub message: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.key.is_empty() {
            return write!(f, "line {}: {}", self.line, self.message);
        }
        write!(f, "line {}: {}: {}", self.line, self.key, self.message)
    }
}

/// The text of a document and what was found wrong in it.
#[derive(Debug)]
pub struct Findings<'t> {
    text: &'t str,
    found: Vec<Finding>,
}

impl<'t> Findings<'t> {
    /// Nothing found yet.
    pub fn new(text: &'t str) -> Findings<'t> {
        Findings { text, found: Vec::new() }
    }

    /// Adds a finding at a byte offset.
    pub fn add(&mut self, offset: usize, key: impl Into<String>, message: impl Into<String>) {
        let before = self.text.get(..offset.min(self.text.len())).unwrap_or(self.text);
        let line = before.bytes().filter(|b| *b == b'\n').count() + 1;
        self.found.push(Finding { line, key: key.into(), message: message.into() });
    }

    /// All findings in order of lines.
    pub fn into_sorted(mut self) -> Vec<Finding> {
        self.found.sort_by(|a, b| (a.line, &a.key).cmp(&(b.line, &b.key)));
        self.found
    }

    /// Nothing was found.
    pub fn is_empty(&self) -> bool {
        self.found.is_empty()
    }
}

/// One table of the document.
pub struct Section<'a, 't> {
    path: String,
    offset: usize,
    table: &'a DeTable<'t>,
    asked: BTreeSet<&'static str>,
}

impl<'a, 't> Section<'a, 't> {
    /// The document itself.
    pub fn root(table: &'a Spanned<DeTable<'t>>) -> Section<'a, 't> {
        Section { path: String::new(), offset: 0, table: table.get_ref(), asked: BTreeSet::new() }
    }

    /// Where this table stands.
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// The full name of a key of this table.
    pub fn name(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    fn get(&mut self, key: &'static str) -> Option<&'a Spanned<DeValue<'t>>> {
        self.asked.insert(key);
        self.table.get(key)
    }

    /// A string, where the key is there.
    pub fn string(&mut self, key: &'static str, findings: &mut Findings<'_>) -> Option<String> {
        let value = self.get(key)?;
        match value.get_ref().as_str() {
            Some(text) => Some(text.to_owned()),
            None => {
                findings.add(value.span().start, self.name(key), "must be a text in quotes");
                None
            }
        }
    }

    /// A string that must be there.
    pub fn required(&mut self, key: &'static str, findings: &mut Findings<'_>) -> String {
        match self.string(key, findings) {
            Some(text) if !text.is_empty() => text,
            Some(_) => {
                findings.add(self.offset, self.name(key), "must not be empty");
                String::new()
            }
            None => {
                if !self.table.contains_key(key) {
                    findings.add(self.offset, self.name(key), "is missing");
                }
                String::new()
            }
        }
    }

    /// A path; a relative one is below `base`.
    pub fn path(&mut self, key: &'static str, base: &Path, findings: &mut Findings<'_>) -> Option<PathBuf> {
        self.string(key, findings).map(|text| base.join(text))
    }

    /// Reports why what a key names can't be used, with the whole chain of causes.
    pub fn usable<T>(
        &self,
        key: &str,
        opened: Result<T, impl std::error::Error>,
        findings: &mut Findings<'_>,
    ) {
        let Err(error) = opened else { return };
        let causes = std::iter::successors(error.source(), |cause| cause.source());
        let message = causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"));
        let offset = self.table.get(key).map_or(self.offset, |value| value.span().start);
        findings.add(offset, self.name(key), message);
    }

    /// Anything that is read from a string; its error says what to write.
    pub fn parsed<T>(&mut self, key: &'static str, findings: &mut Findings<'_>) -> Option<T>
    where
        T: FromStr,
        T::Err: fmt::Display,
    {
        let offset = self.table.get(key).map_or(self.offset, |value| value.span().start);
        let text = self.string(key, findings)?;
        match text.parse() {
            Ok(value) => Some(value),
            Err(error) => {
                findings.add(offset, self.name(key), error.to_string());
                None
            }
        }
    }

    /// One of a closed set of words.
    pub fn word<T: Copy>(
        &mut self,
        key: &'static str,
        words: &[(&str, T)],
        findings: &mut Findings<'_>,
    ) -> Option<T> {
        let offset = self.table.get(key).map_or(self.offset, |value| value.span().start);
        let text = self.string(key, findings)?;
        let found = words.iter().find(|(word, _)| *word == text).map(|(_, value)| *value);
        if found.is_none() {
            let all: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
            findings.add(offset, self.name(key), format!("`{text}` is none of: {}", all.join(", ")));
        }
        found
    }

    /// A whole number not below zero.
    pub fn number(&mut self, key: &'static str, findings: &mut Findings<'_>) -> Option<u32> {
        let value = self.get(key)?;
        let number =
            value.get_ref().as_integer().and_then(|n| u32::from_str_radix(n.as_str(), n.radix()).ok());
        if number.is_none() {
            findings.add(value.span().start, self.name(key), "must be a whole number from 0 to 4294967295");
        }
        number
    }

    /// A list of strings.
    pub fn strings(&mut self, key: &'static str, findings: &mut Findings<'_>) -> Option<Vec<String>> {
        let value = self.get(key)?;
        let list: Option<Vec<String>> = value
            .get_ref()
            .as_array()
            .and_then(|items| items.iter().map(|item| item.get_ref().as_str().map(str::to_owned)).collect());
        if list.is_none() {
            findings.add(value.span().start, self.name(key), "must be a list of texts: [\"a\", \"b\"]");
        }
        list
    }

    /// A table inside this one.
    pub fn section(&mut self, key: &'static str, findings: &mut Findings<'_>) -> Option<Section<'a, 't>> {
        let value = self.get(key)?;
        let Some(table) = value.get_ref().as_table() else {
            findings.add(
                value.span().start,
                self.name(key),
                format!("must be a table: [{}]", self.name(key)),
            );
            return None;
        };
        Some(Section { path: self.name(key), offset: value.span().start, table, asked: BTreeSet::new() })
    }

    /// A list of tables: `[[key]]`.
    pub fn sections(&mut self, key: &'static str, findings: &mut Findings<'_>) -> Vec<Section<'a, 't>> {
        let Some(value) = self.get(key) else { return Vec::new() };
        let Some(items) = value.get_ref().as_array() else {
            findings.add(
                value.span().start,
                self.name(key),
                format!("must be written [[{}]]", self.name(key)),
            );
            return Vec::new();
        };
        let mut sections = Vec::new();
        for (i, item) in items.iter().enumerate() {
            let path = format!("{}[{i}]", self.name(key));
            match item.get_ref().as_table() {
                Some(table) => {
                    sections.push(Section { path, offset: item.span().start, table, asked: BTreeSet::new() })
                }
                None => findings.add(item.span().start, path, "must be a table"),
            }
        }
        sections
    }

    /// The keys of a table whose names people choose.
    pub fn open_keys(&self) -> impl Iterator<Item = (&'a str, usize)> + use<'a, 't> {
        self.table.iter().map(|(key, value)| (key.get_ref().as_ref(), value.span().start))
    }

    /// Names and tables of a table whose keys people choose.
    pub fn open_sections(&self, findings: &mut Findings<'_>) -> Vec<(String, Section<'a, 't>)> {
        let mut sections = Vec::new();
        for (key, value) in self.table {
            let name: &str = key.get_ref().as_ref();
            let (path, offset) = (self.name(name), value.span().start);
            match value.get_ref().as_table() {
                Some(table) => {
                    sections.push((name.to_owned(), Section { path, offset, table, asked: BTreeSet::new() }))
                }
                None => findings.add(offset, &path, format!("must be a table: [{path}]")),
            }
        }
        sections
    }

    /// Keys and strings of a table whose keys people choose.
    pub fn open_strings(&self, findings: &mut Findings<'_>) -> Vec<(String, usize, String)> {
        let mut strings = Vec::new();
        for (key, value) in self.table {
            let name: &str = key.get_ref().as_ref();
            match value.get_ref().as_str() {
                Some(text) => strings.push((name.to_owned(), value.span().start, text.to_owned())),
                None => findings.add(value.span().start, self.name(name), "must be a text in quotes"),
            }
        }
        strings
    }

    /// Reports every key that nobody asked for.
    pub fn finish(self, findings: &mut Findings<'_>) {
        for (key, _) in self.table {
            let name: &str = key.get_ref().as_ref();
            if !self.asked.contains(name) {
                let known: Vec<&str> = self.asked.iter().copied().collect();
                findings.add(
                    key.span().start,
                    self.name(name),
                    format!("is not known here; known are: {}", known.join(", ")),
                );
            }
        }
    }
}
