//! Files that are written by the program they describe, so that they can't drift from it. They are committed,
//! so that a change of them is seen in review.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::process;
use crate::suite::build;
use crate::workspace::Workspace;

/// The generated files. A new one is one more line here.
const PAGES: &[Page] = &[
    Page { file: "docs/reference/cli.md", source: Source::Help },
    Page { file: "docs/reference/config.md", source: Source::Output(&["config", "reference"]) },
    Page { file: "docs/reference/faults.md", source: Source::Output(&["explain", "--catalogue"]) },
    Page { file: "runbooks/schema.json", source: Source::Output(&["runbook", "schema"]) },
    Page { file: "README.md", source: Source::Block("corpus", &["corpus", "run"]) },
];

/// A generated file.
struct Page {
    /// From the root.
    file: &'static str,
    source: Source,
}

/// Where the text of a page comes from.
enum Source {
    /// The help of `provost` and of every command below it.
    Help,
    /// What `provost` prints with these arguments.
    Output(&'static [&'static str]),
    /// Part of a page that people write: what `provost` prints up to its first empty line, between the marks
    /// `<!-- gen:NAME -->` and `<!-- end:NAME -->`.
    Block(&'static str, &'static [&'static str]),
}

/// What to do with the pages.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Write them.
    Write,
    /// Fail where a committed one differs.
    Check,
}

/// Levels of commands below `provost`; help is not followed deeper.
const MAX_DEPTH: usize = 4;
/// Columns of help texts, whatever terminal this runs in.
const COLUMNS: &str = "100";

/// Writes or checks all pages.
pub(crate) fn run(mode: Mode) -> Result<()> {
    let workspace = Workspace::load()?;
    build(&workspace)?;
    let provost = workspace.target.join("debug/provost");
    let mut stale = Vec::new();
    for page in PAGES {
        let path = workspace.root.join(page.file);
        let text = match page.source {
            Source::Help => help_page(&provost),
            Source::Output(args) => read(&provost, args),
            Source::Block(name, args) => {
                let written = std::fs::read_to_string(&path)?;
                read(&provost, args).and_then(|text| replace_block(&written, name, &text))
            }
        }
        .with_context(|| format!("{} can't be made", page.file))?;
        if std::fs::read_to_string(&path).is_ok_and(|committed| committed == text) {
            continue;
        }
        stale.push(page.file);
        if mode == Mode::Write {
            if let Some(folder) = path.parent() {
                std::fs::create_dir_all(folder)?;
            }
            std::fs::write(&path, text).with_context(|| format!("{} can't be written", page.file))?;
            println!("{} written", page.file);
        }
    }
    if mode == Mode::Check && !stale.is_empty() {
        bail!("{} would change: run `cargo xtask gen` and commit it", stale.join(", "));
    }
    Ok(())
}

fn read(provost: &Path, args: &[&str]) -> Result<String> {
    let mut command = Command::new(provost);
    command.args(args).env("COLUMNS", COLUMNS).env("NO_COLOR", "1");
    let text = process::read(&mut command)?;
    if text.is_empty() { bail!("`provost {}` prints nothing", args.join(" ")) } else { Ok(text + "\n") }
}

/// `page` with the first paragraph of `text` between the marks of a block.
fn replace_block(page: &str, name: &str, text: &str) -> Result<String> {
    let (begin, end) = (format!("<!-- gen:{name} -->\n"), format!("<!-- end:{name} -->"));
    let (Some(from), Some(to)) = (page.find(&begin), page.find(&end)) else {
        bail!("it lacks the marks `{}` and `{end}`", begin.trim_end());
    };
    let from = from + begin.len();
    if from > to {
        bail!("its mark `{end}` comes first");
    }
    let paragraph: Vec<&str> = text.lines().take_while(|line| !line.is_empty()).map(str::trim_end).collect();
    Ok(format!("{}```text\n{}\n```\n{}", &page[..from], paragraph.join("\n"), &page[to..]))
}

fn help_page(provost: &Path) -> Result<String> {
    let mut page = "# Commands\n\nWritten by `cargo xtask gen` from the program's own help.\n".to_owned();
    add_help(provost, &[], &mut page)?;
    Ok(page)
}

fn add_help(provost: &Path, path: &[&str], page: &mut String) -> Result<()> {
    let args: Vec<&str> = path.iter().copied().chain(["--help"]).collect();
    let help = read(provost, &args)?;
    let name: String = std::iter::once("provost").chain(path.iter().copied()).collect::<Vec<_>>().join(" ");
    page.push_str(&format!("\n{} `{name}`\n\n```text\n", "#".repeat(path.len().min(2) + 2)));
    page.extend(help.lines().map(|line| format!("{}\n", line.trim_end())));
    page.push_str("```\n");
    if path.len() < MAX_DEPTH {
        for command in subcommands(&help) {
            let below: Vec<&str> = path.iter().copied().chain([command]).collect();
            add_help(provost, &below, page)?;
        }
    }
    Ok(())
}

/// The names that a help text lists under `Commands:`, without `help` itself.
fn subcommands(help: &str) -> Vec<&str> {
    let list =
        help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    // A name stands after two spaces; a description that goes on is indented further.
    let names = list.filter_map(|line| line.strip_prefix("  ").filter(|rest| !rest.starts_with(' ')));
    names.filter_map(|line| line.split_whitespace().next()).filter(|name| *name != "help").collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_of_a_page_is_replaced() {
        let check = |page: &str, expected: Option<&str>| {
            let replaced = replace_block(page, "a", "1  2  \n3\n\nmore\n").ok();
            assert_eq!(replaced.as_deref(), expected, "{page}");
        };
        let done = "x\n<!-- gen:a -->\n```text\n1  2\n3\n```\n<!-- end:a -->\ny\n";
        check("x\n<!-- gen:a -->\n<!-- end:a -->\ny\n", Some(done));
        check("x\n<!-- gen:a -->\nold\n\nold\n<!-- end:a -->\ny\n", Some(done));
        check(done, Some(done));
        check("x\n", None);
        check("<!-- end:a -->\n<!-- gen:a -->\n", None);
        check("<!-- gen:b -->\n<!-- end:b -->\n", None);
    }

    #[test]
    fn commands_are_found_in_help() {
        let check = |help: &str, expected: &[&str]| assert_eq!(subcommands(help), expected, "{help}");
        check("A thing\n\nUsage: a\n\nOptions:\n  -h, --help\n", &[]);
        let help = "A\n\nCommands:\n  up      Runs it\n          in front\n  demo    Shows\n  help    Print\n\nOptions:\n  -h\n";
        check(help, &["up", "demo"]);
    }
}
