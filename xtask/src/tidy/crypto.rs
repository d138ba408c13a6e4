//! Every crate in the tree that hashes, signs or encrypts, with its purpose. Our keys, our journal and our
//! connections use one provider, aws-lc-rs; whatever else computes a hash is listed here, so that an auditor
//! finds the whole of it on one page and a new one comes in only by a decision.
//!
//! Read from what cargo builds for this machine, not from `Cargo.lock`: that also names optional providers
//! which no feature turns on.

use std::collections::BTreeSet;
use std::process::Command;

use anyhow::Result;

use super::Finding;
use crate::process;
use crate::workspace::{Workspace, cargo};

/// The list. Keep it sorted.
const PURPOSES: &[(&str, &str)] = &[
    ("ahash", "spreads the keys of in-memory tables; nothing is stored or compared by it"),
    ("aws-lc-rs", "the provider: hashes and signatures of the journal, sealed values, TLS"),
    ("aws-lc-sys", "the C library below aws-lc-rs"),
    ("chacha20", "draws the cases of property tests; in no program"),
    ("foldhash", "spreads the keys of in-memory tables; nothing is stored or compared by it"),
    ("nohash-hasher", "leaves the keys of in-memory tables as they are, in the YAML reader"),
    ("rcgen", "writes certificates; signs with aws-lc-rs"),
    ("rustls", "TLS; all its cryptography is aws-lc-rs"),
    ("rustls-webpki", "checks certificates; verifies signatures with aws-lc-rs"),
    ("subtle", "compares secrets in constant time, for rustls"),
];

/// Names of crates that do such work, exactly or as the beginning of a name.
const KNOWN: &[&str] = &[
    "aes",
    "ahash",
    "argon2",
    "aws-lc",
    "bcrypt",
    "blake",
    "boring",
    "chacha20",
    "cipher",
    "crc",
    "crypto",
    "curve25519",
    "digest",
    "dsa",
    "ecdsa",
    "ed25519",
    "elliptic-curve",
    "fnv",
    "foldhash",
    "ghash",
    "hkdf",
    "hmac",
    "k256",
    "md-5",
    "md5",
    "nohash",
    "openssl",
    "orion",
    "p256",
    "p384",
    "p521",
    "pbkdf2",
    "poly1305",
    "rapidhash",
    "rcgen",
    "ring",
    "ripemd",
    "rsa",
    "rustc-hash",
    "rustls",
    "scrypt",
    "secp256k1",
    "sha-1",
    "sha1",
    "sha2",
    "sha3",
    "signature",
    "siphasher",
    "sodiumoxide",
    "subtle",
    "twox-hash",
    "xxhash",
];

/// Begin like a name above and compute nothing.
const HARMLESS: &[&str] = &["rustls-pki-types", "rustls-pemfile", "rustls-native-certs", "crypto-common"];

/// Where findings point to.
const HERE: &str = "xtask/src/tidy/crypto.rs";

/// Finds crates without a purpose, and purposes without a crate.
pub(super) fn check(workspace: &Workspace) -> Result<Vec<Finding>> {
    let args = ["tree", "--workspace", "--locked", "--prefix", "none", "--format", "{p}"];
    let tree = process::read(Command::new(cargo()).args(args).current_dir(&workspace.root))?;
    Ok(breaches(&tree).into_iter().map(|text| Finding::new(HERE, 1, text)).collect())
}

fn breaches(tree: &str) -> Vec<String> {
    let built: BTreeSet<&str> = tree.lines().filter_map(|line| line.split(' ').next()).collect();
    let purpose = |name: &str| PURPOSES.iter().any(|(listed, _)| *listed == name);
    let new = built.iter().filter(|name| is_crypto(name) && !purpose(name));
    let new = new.map(|name| format!("`{name}` is in the tree and computes hashes or signatures: for what?"));
    let gone = PURPOSES.iter().filter(|(name, _)| !built.contains(name));
    let gone = gone.map(|(name, _)| format!("`{name}` is no longer in the tree: strike it from the list"));
    new.chain(gone).collect()
}

fn is_crypto(name: &str) -> bool {
    !HARMLESS.contains(&name) && KNOWN.iter().any(|known| name.starts_with(known))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crates_that_hash_or_sign() {
        let check = |name: &str, expected: bool| assert_eq!(is_crypto(name), expected, "{name}");
        check("sha2", true);
        check("sha2-asm", true);
        check("ring", true);
        check("ed25519-dalek", true);
        check("rustls-pki-types", false);
        check("serde", false);
        check("crossbeam-channel", false);
    }

    #[test]
    fn both_directions_are_found() {
        let all: String = PURPOSES.iter().map(|(name, _)| format!("{name} v1.0.0\n")).collect();
        assert_eq!(breaches(&all), Vec::<String>::new());
        assert_eq!(breaches(&format!("{all}md5 v0.7.0\nserde v1.0.0\n")).len(), 1);
        assert_eq!(breaches("").len(), PURPOSES.len());
    }
}
