//! Signed notes and checkpoints after C2SP (`signed-note`, `tlog-checkpoint`): the few lines that a person, a
//! witness or a printer can keep, and against which everything stored can be proved years later.
//!
//! Of the signature kinds only Ed25519 (0x01) is used. Lines of other keys are kept apart and ignored, as the
//! specification asks, so that a witness may add its own.

use std::path::{Path, PathBuf};

use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;

use crate::error::Error;
use crate::files;
use crate::merkle::Hash;

/// The signature kind of Ed25519 in key ids and key texts.
const ED25519_KIND: u8 = 1;
/// The largest note that is read; a checkpoint with a few witnesses has under 1 KiB.
pub(crate) const MAX_NOTE_BYTES: usize = 65_536;

/// The name of a site's log: `provost.<site>/log1`.
///
/// # Errors
/// Where the site's name holds something that a key name may not.
pub fn origin(site: &str) -> Result<String, Error> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if site.is_empty() || site.len() > 100 || !site.chars().all(allowed) {
        return Err(Error::SiteName { site: site.chars().take(100).collect() });
    }
    Ok(format!("provost.{site}/log1"))
}

/// First four bytes of SHA-256 over name, line feed, kind and public key.
fn key_id(name: &str, public: &[u8]) -> [u8; 4] {
    let mut message = name.as_bytes().to_vec();
    message.extend_from_slice(&[b'\n', ED25519_KIND]);
    message.extend_from_slice(public);
    let hash = digest(&SHA256, &message);
    hash.as_ref()[..4].try_into().expect("SHA-256 has more than four bytes")
}

/// The private key of a log.
pub struct Signer {
    pair: Ed25519KeyPair,
    verifier: Verifier,
}

impl std::fmt::Debug for Signer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Signer({})", self.verifier)
    }
}

impl Signer {
    /// From a key in PKCS #8; `None` where it is none.
    pub fn from_pkcs8(name: &str, pkcs8: &[u8]) -> Option<Signer> {
        let pair = Ed25519KeyPair::from_pkcs8(pkcs8).ok()?;
        let public = pair.public_key().as_ref().try_into().ok()?;
        Some(Signer { pair, verifier: Verifier::new(name.to_owned(), public) })
    }

    /// The key file of a data directory.
    pub fn path(dir: &Path) -> PathBuf {
        dir.join("keys/journal.ed25519")
    }

    /// Reads the key of a data directory; makes one where there is none and `may_create`.
    pub(crate) fn load(dir: &Path, name: &str, may_create: bool) -> Result<Signer, Error> {
        let path = Signer::path(dir);
        let key_error = |why: &str| Error::Key { path: path.clone(), why: why.to_owned() };
        let pkcs8 = match files::read_secret(&path)? {
            Some(bytes) => bytes,
            None if may_create => {
                files::create_dir(&dir.join("keys"))?;
                let document = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new())
                    .map_err(|_| key_error("the system gives no random numbers"))?;
                files::write_atomically(&path, document.as_ref(), 0o600)?;
                document.as_ref().to_vec()
            }
            None => {
                return Err(key_error(
                    "it is missing and the journal has records; restore it from the backup",
                ));
            }
        };
        let signer = Signer::from_pkcs8(name, &pkcs8)
            .ok_or_else(|| key_error("it holds no Ed25519 key in PKCS #8; restore it from the backup"))?;
        let public = dir.join("keys/journal.vkey");
        if !public.exists() {
            files::write_atomically(&public, format!("{}\n", signer.verifier).as_bytes(), 0o644)?;
        }
        Ok(signer)
    }

    /// The public half.
    pub fn verifier(&self) -> &Verifier {
        &self.verifier
    }

    /// Signs a text, which ends with a line feed.
    pub fn sign(&self, text: &str) -> String {
        let mut signature = self.verifier.id.to_vec();
        signature.extend_from_slice(self.pair.sign(text.as_bytes()).as_ref());
        format!("{text}\n— {} {}\n", self.verifier.name, BASE64.encode(signature))
    }
}

/// The public key of a log. Its text is `name+id+base64`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verifier {
    name: String,
    id: [u8; 4],
    public: [u8; 32],
}

/// The text is not a verifier key.
#[derive(Debug, thiserror::Error)]
#[error(
    "`{text}` is not a verifier key such as provost.hel-1/log1+0123abcd+AQ…; take it from keys/journal.vkey"
)]
pub struct ParseVerifierError {
    text: String,
}

impl std::fmt::Display for Verifier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut key = vec![ED25519_KIND];
        key.extend_from_slice(&self.public);
        write!(f, "{}+{:08x}+{}", self.name, u32::from_be_bytes(self.id), BASE64.encode(key))
    }
}

impl std::str::FromStr for Verifier {
    type Err = ParseVerifierError;

    fn from_str(text: &str) -> Result<Verifier, ParseVerifierError> {
        let parse = || {
            // base64 may hold `+`, names may not: split from the left.
            let (name, rest) = text.split_once('+')?;
            let (id, key) = rest.split_once('+')?;
            let key = BASE64.decode(key).ok()?;
            let (kind, public) = key.split_first()?;
            let verifier = Verifier::new(name.to_owned(), public.try_into().ok()?);
            let named = id.len() == 8 && u32::from_str_radix(id, 16).ok()? == u32::from_be_bytes(verifier.id);
            (named && *kind == ED25519_KIND && !name.is_empty() && !name.contains(char::is_whitespace))
                .then_some(verifier)
        };
        parse().ok_or_else(|| ParseVerifierError { text: text.chars().take(120).collect() })
    }
}

impl Verifier {
    fn new(name: String, public: [u8; 32]) -> Verifier {
        Verifier { id: key_id(&name, &public), name, public }
    }

    /// The key's name, which is the log's origin.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The checkpoint in a note, where this key signed it.
    ///
    /// # Errors
    /// What is wrong with the note, as the rest of a sentence.
    pub fn checkpoint(&self, note: &str) -> Result<Checkpoint, String> {
        if note.len() > MAX_NOTE_BYTES {
            return Err("is larger than 64 KiB".to_owned());
        }
        let split = note.rfind("\n\n").ok_or("has no signature block")?;
        let (text, signatures) = (&note[..=split], &note[split + 2..]);
        let ours = signatures.lines().find_map(|line| {
            let (name, signature) = line.strip_prefix("— ")?.split_once(' ')?;
            let signature = BASE64.decode(signature).ok()?;
            (name == self.name && signature.starts_with(&self.id)).then_some(signature)
        });
        let signature = ours.ok_or_else(|| format!("carries no signature of the key {}", self.short()))?;
        UnparsedPublicKey::new(&ED25519, &self.public)
            .verify(text.as_bytes(), &signature[4..])
            .map_err(|_| format!("carries a signature that the key {} did not make", self.short()))?;
        let checkpoint = Checkpoint::parse(text).ok_or("is signed but is no checkpoint")?;
        if checkpoint.origin != self.name {
            return Err(format!("is of the log {}, not of {}", checkpoint.origin, self.name));
        }
        Ok(checkpoint)
    }

    fn short(&self) -> String {
        format!("{}+{:08x}", self.name, u32::from_be_bytes(self.id))
    }
}

/// What a log says about itself at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// Name of the log.
    pub origin: String,
    /// Number of records.
    pub size: u64,
    /// Root over them.
    pub root: Hash,
}

impl Checkpoint {
    /// The text that is signed.
    pub fn text(&self) -> String {
        format!("{}\n{}\n{}\n", self.origin, self.size, BASE64.encode(self.root))
    }

    /// Reads the text that is signed; `None` where it is none. Extension lines are allowed and ignored.
    pub fn parse(text: &str) -> Option<Checkpoint> {
        let mut lines = text.strip_suffix('\n')?.split('\n');
        let origin = lines.next().filter(|line| !line.is_empty())?;
        let size = lines.next()?;
        let root = BASE64.decode(lines.next()?).ok()?;
        // `007` and `+7` parse as a number, but two texts for one size would be two checkpoints.
        let number: u64 = size.parse().ok().filter(|number: &u64| number.to_string() == size)?;
        Some(Checkpoint { origin: origin.to_owned(), size: number, root: root.try_into().ok()? })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn signer() -> Signer {
        let document = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
        Signer::from_pkcs8("provost.hel-1/log1", document.as_ref()).unwrap()
    }

    fn checkpoint() -> Checkpoint {
        Checkpoint { origin: "provost.hel-1/log1".to_owned(), size: 7, root: [9; 32] }
    }

    #[test]
    fn the_specifications_example_verifies() {
        // The published vector of C2SP signed-note. It is no checkpoint, and only that is wrong with it.
        let key = "example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k";
        let signature =
            "Uw2QOkn8srV1yJGh2VYRlL1Tnagv1YEq6TfXppzi2ONncAlTgK7Ztg1ERYNZXsYjOBH3mFXmRKuwHjG1Yu72IneyaQM=";
        let note = format!("This is an example message.\n\n— example.com/foo {signature}\n");
        let verifier: Verifier = key.parse().unwrap();
        assert_eq!(verifier.to_string(), key);
        assert_eq!(verifier.checkpoint(&note), Err("is signed but is no checkpoint".to_owned()));
        let changed = verifier.checkpoint(&note.replace("This", "That")).unwrap_err();
        assert!(changed.contains("did not make"), "{changed}");
    }

    #[test]
    fn a_changed_key_text_is_refused() {
        let own = signer().verifier().to_string();
        assert_eq!(own.parse::<Verifier>().unwrap().to_string(), own);
        for (at, with) in [(0, "x"), (own.len() - 5, "?"), (own.find('+').unwrap() + 1, "z")] {
            let mut broken = own.clone();
            broken.replace_range(at..=at, with);
            assert!(broken.parse::<Verifier>().is_err(), "{broken}");
        }
    }

    #[test]
    fn a_signed_checkpoint_reads_back_and_a_changed_one_does_not() {
        let signer = signer();
        let note = signer.sign(&checkpoint().text());
        assert_eq!(signer.verifier().checkpoint(&note), Ok(checkpoint()));
        let check = |note: &str, expected: &str| {
            let error = signer.verifier().checkpoint(note).unwrap_err();
            assert!(error.contains(expected), "{error} / {expected}");
        };
        check(&note.replace("\n7\n", "\n8\n"), "did not make");
        check(&note.replace("— provost", "— other"), "no signature of the key");
        check(&note.replace("\n\n", "\n"), "no signature block");
        check(&signer.sign("provost.hel-1/log1\n07\nCQkJ\n"), "no checkpoint");
        check(&signer.sign(&checkpoint().text().replace("hel-1", "osl-1")), "of the log provost.osl-1/log1");
        let other = self::signer();
        check(&other.sign(&checkpoint().text()), "no signature of the key");
        // A witness's line beside ours does no harm.
        let witnessed = format!("{note}— witness.example AAAAAAAA\n");
        assert_eq!(signer.verifier().checkpoint(&witnessed), Ok(checkpoint()));
    }

    #[test]
    fn only_names_that_fit_into_a_key_become_an_origin() {
        assert_eq!(origin("hel-1").unwrap(), "provost.hel-1/log1");
        for bad in ["", "a b", "a+b", "a/b", "ä", "a\n"] {
            assert!(origin(bad).is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parsers_panic(text in "\\PC*", lines in "(provost|\n|—| |[0-9]|=|\\+){0,40}") {
            for text in [text, lines] {
                prop_assert!(signer().verifier().checkpoint(&text).is_err());
                prop_assert!(text.parse::<Verifier>().is_err());
                if let Some(checkpoint) = Checkpoint::parse(&text) {
                    prop_assert!(text.starts_with(&checkpoint.text()));
                }
            }
        }
    }
}
