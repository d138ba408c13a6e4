//! How the keys of a configuration file are described to people. Each reader of a file has such a description beside
//! it, with a test that it names the same keys; the reference page is written from them.

/// One file.
#[derive(Clone, Copy, Debug)]
pub struct File {
    /// `provost.toml`.
    pub name: &'static str,
    /// Who reads it, and when.
    pub about: &'static str,
    /// Its tables, in the order in which people write them.
    pub tables: &'static [Table],
}

/// One table of a file.
#[derive(Clone, Copy, Debug)]
pub struct Table {
    /// As it is written: `[site]`, `[[slurm]]`; empty for the keys above all tables.
    pub header: &'static str,
    /// What it is for.
    pub about: &'static str,
    /// Its keys.
    pub keys: &'static [Key],
}

/// One key.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// Name.
    pub name: &'static str,
    /// What is written there, with its unit.
    pub kind: &'static str,
    /// What holds where the key is left out, as it would be written.
    pub default: Default,
    /// What it means.
    pub about: &'static str,
    /// A value as it is written.
    pub example: &'static str,
}

impl Key {
    /// A key, in the order in which its page tells it.
    pub const fn new(
        name: &'static str,
        kind: &'static str,
        default: Default,
        example: &'static str,
        about: &'static str,
    ) -> Key {
        Key { name, kind, default, about, example }
    }
}

/// What holds without a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Default {
    /// It must be there.
    Required,
    /// Nothing: what it switches on is off.
    Absent,
    /// As if this were written.
    Written(&'static str),
    /// What the words say.
    Told(&'static str),
}

impl File {
    /// The file with those keys that `value` gives something for, as TOML.
    pub fn toml(&self, value: impl Fn(&Key) -> Option<&'static str>) -> String {
        let mut text = String::new();
        for table in self.tables {
            let keys: Vec<String> = table
                .keys
                .iter()
                .filter_map(|key| Some(format!("{} = {}\n", key.name, value(key)?)))
                .collect();
            if keys.is_empty() {
                continue;
            }
            if !text.is_empty() {
                text.push('\n');
            }
            if !table.header.is_empty() {
                text += &format!("{}\n", table.header);
            }
            text += &keys.concat();
        }
        text
    }

    /// Every key with its example.
    pub fn example(&self) -> String {
        self.toml(|key| Some(key.example))
    }

    /// The page for people.
    pub fn markdown(&self) -> String {
        let mut page = format!("## {}\n\n{}\n", self.name, self.about);
        for table in self.tables {
            let header =
                if table.header.is_empty() { String::new() } else { format!("`{}`: ", table.header) };
            page += &format!("\n### {header}{}\n\n", table.about);
            page += "| key | value | default | meaning |\n|---|---|---|---|\n";
            for key in table.keys {
                let default = match key.default {
                    Default::Required => "must be there".to_owned(),
                    Default::Absent => "none".to_owned(),
                    Default::Written(value) => format!("`{value}`"),
                    Default::Told(words) => words.to_owned(),
                };
                page += &format!("| `{}` | {} | {default} | {} |\n", key.name, key.kind, key.about);
            }
        }
        page + &format!("\n### Every key of {}\n\n```toml\n{}```\n", self.name, self.example())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_written_table_by_table() {
        const KEY: Key =
            Key { name: "a", kind: "number", default: Default::Absent, about: "An a.", example: "1" };
        const FILE: File = File {
            name: "x.toml",
            about: "An x.",
            tables: &[
                Table { header: "", about: "Above.", keys: &[KEY] },
                Table {
                    header: "[t]",
                    about: "A t.",
                    keys: &[Key { default: Default::Written("2"), ..KEY }],
                },
            ],
        };
        assert_eq!(FILE.example(), "a = 1\n\n[t]\na = 1\n");
        let defaults = FILE.toml(|key| match key.default {
            Default::Written(value) => Some(value),
            _ => None,
        });
        assert_eq!(defaults, "[t]\na = 2\n");
        assert!(
            FILE.markdown().contains("### `[t]`: A t.\n")
                && FILE.markdown().contains("| `a` | number | `2` | An a. |")
        );
    }
}
