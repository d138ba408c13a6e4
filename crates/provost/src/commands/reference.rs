//! `provost config reference`: every key of every file, from the descriptions beside their readers.

use provost_model::reference::File;

use crate::error::Error;
use crate::output;

/// In the order in which people write them.
const FILES: [File; 3] = [
    provost_server::config::reference::FILE,
    provost_agent::config::reference::FILE,
    provost_server::config::reference::INVENTORY_FILE,
];

const HEAD: &str = "# Configuration

Written by `cargo xtask gen` from what the programs themselves know of their files. A length of time is a whole number
and a unit: `250ms`, `5s`, `10m`, `24h`, `3d`. A name is 1 to 63 letters, digits, `-`, `_` and `.`.
";

/// Prints the page.
pub fn print() -> Result<(), Error> {
    output::print(&page())
}

fn page() -> String {
    FILES.iter().fold(HEAD.to_owned(), |page, file| page + "\n" + &file.markdown())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// Keys of the contract that no part of the program reads yet.
    const NOT_BUILT: &[&str] = &["[[kubernetes]]", "[[scrape]]", "[fence]"];

    #[test]
    fn the_contract_has_no_key_that_the_page_lacks() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/design/09-contract.md");
        let Ok(contract) = std::fs::read_to_string(&file) else {
            assert!(std::env::var_os("CI").is_none_or(|ci| ci != "true"), "{} is missing", file.display());
            println!("{} is missing: the keys of the contract are not compared", file.display());
            return;
        };
        let blocks: Vec<&str> =
            contract.split("```toml\n").skip(1).filter_map(|b| b.split("```").next()).collect();
        let page: Vec<String> = FILES.iter().map(|file| file.markdown()).collect();
        let mut compared = 0;
        for (block, page) in blocks.iter().zip(&page) {
            let mut built = true;
            for line in block.lines().map(str::trim).filter(|line| !line.starts_with('#')) {
                let word = line.split([' ', '=']).next().unwrap_or_default();
                if word.starts_with('[') {
                    built = !NOT_BUILT.contains(&word);
                }
                if !built || word.is_empty() {
                    continue;
                }
                compared += 1;
                assert!(page.contains(&format!("`{word}`")), "`{word}` is not described");
            }
        }
        assert!(compared > 40, "{compared}");
    }
}
