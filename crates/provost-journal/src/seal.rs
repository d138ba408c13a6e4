//! Sealed values: personal data and free text go into a record only as ciphertext with a keyed tag, so that
//! the journal can be shown, exported and proved without them, and lose them by losing a key.
//!
//! `DIR/keys/seal.key` has one key a line, `<id> <base64 of 32 bytes>`; the last one seals, all of them unseal.
//! From each come, by HKDF-SHA-256, one key for AES-256-GCM and one for the tag. Nonces are random: by NIST SP
//! 800-38D a key may seal 2^32 values (at one a second, a century); add a line before that.

use std::path::Path;

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::hkdf::{HKDF_SHA256, Prk, Salt};
use aws_lc_rs::{hmac, rand};
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use provost_model::record::{Sealed, Sensitive};

use crate::error::Error;
use crate::files;

const KEY_BYTES: usize = 32;
const TAG_BYTES: usize = 16;

/// The keys of a site, ready to seal and unseal.
pub struct Sealer {
    /// Oldest first; never empty.
    keys: Vec<Key>,
}

struct Key {
    id: String,
    cipher: LessSafeKey,
    tag: hmac::Key,
}

impl std::fmt::Debug for Sealer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.keys.iter().map(|key| &key.id)).finish()
    }
}

impl Sealer {
    /// Reads the keys of a data directory. Makes the first one where there is none and `may_create`: pass
    /// `false` where the journal has records, because a new key would leave their sealed values unreadable
    /// without a word.
    ///
    /// # Errors
    /// Where the key file is missing, can't be read, or holds something else.
    pub fn open(dir: &Path, may_create: bool) -> Result<Sealer, Error> {
        let path = dir.join("keys/seal.key");
        let error = |why: &str| Error::Key { path: path.clone(), why: why.to_owned() };
        let text = match files::read_secret(&path)? {
            Some(bytes) => {
                String::from_utf8(bytes).map_err(|_| error("it is no text; restore it from the backup"))?
            }
            None if may_create => {
                files::create_dir(&dir.join("keys"))?;
                let mut key = [0u8; KEY_BYTES];
                rand::fill(&mut key).map_err(|_| error("the system gives no random numbers"))?;
                let text = format!(
                    "{} {}\n",
                    key_id(&key).ok_or_else(|| error("it can't be derived"))?,
                    BASE64.encode(key)
                );
                files::write_atomically(&path, text.as_bytes(), 0o600)?;
                text
            }
            None => {
                return Err(error("it is missing and the journal has records; restore it from the backup"));
            }
        };
        let keys: Option<Vec<Key>> = text.lines().filter(|line| !line.is_empty()).map(Key::parse).collect();
        match keys {
            Some(keys) if !keys.is_empty() => Ok(Sealer { keys }),
            _ => Err(error(
                "a line is not `<id> <base64 of 32 bytes>` with the id of that key; restore it from the backup",
            )),
        }
    }

    /// Seals values with the newest key.
    ///
    /// # Errors
    /// Where the system gives no random numbers; nothing is sealed then.
    pub fn seal(&self, values: &[Sensitive]) -> Result<Vec<Sealed>, Error> {
        let key = self.keys.last().expect("a sealer has at least one key");
        values.iter().map(|value| key.seal(value)).collect()
    }

    /// The value in `sealed`.
    ///
    /// # Errors
    /// Where its key is not here, or value or field are not those that were sealed.
    pub fn unseal(&self, sealed: &Sealed) -> Result<String, Error> {
        let error = |what: String| Error::Seal { what };
        let key = self.keys.iter().find(|key| key.id == sealed.key).ok_or_else(|| {
            error(format!(
                "the key {} of a sealed {} is not in keys/seal.key",
                shorten(&sealed.key),
                shorten(&sealed.field)
            ))
        })?;
        key.unseal(sealed).ok_or_else(|| {
            error(format!("a sealed {} is not what the key {} sealed", shorten(&sealed.field), key.id))
        })
    }
}

fn shorten(text: &str) -> String {
    text.chars().take(40).collect()
}

fn derive(prk: &Prk, purpose: &[u8]) -> Option<[u8; KEY_BYTES]> {
    let mut out = [0u8; KEY_BYTES];
    prk.expand(&[purpose], HKDF_SHA256).and_then(|okm| okm.fill(&mut out)).ok()?;
    Some(out)
}

fn extract(secret: &[u8; KEY_BYTES]) -> Prk {
    Salt::new(HKDF_SHA256, b"provost seal v1").extract(secret)
}

/// The id depends on the key alone, so that a wrong key never has a right name.
fn key_id(secret: &[u8; KEY_BYTES]) -> Option<String> {
    let id = derive(&extract(secret), b"id")?;
    Some(format!("file-{:08x}", u32::from_be_bytes([id[0], id[1], id[2], id[3]])))
}

impl Key {
    fn parse(line: &str) -> Option<Key> {
        let (id, secret) = line.split_once(' ')?;
        let secret: [u8; KEY_BYTES] = BASE64.decode(secret.trim()).ok()?.try_into().ok()?;
        let prk = extract(&secret);
        (key_id(&secret)? == id).then_some(())?;
        Some(Key {
            id: id.to_owned(),
            cipher: LessSafeKey::new(UnboundKey::new(&AES_256_GCM, &derive(&prk, b"aes-256-gcm")?).ok()?),
            tag: hmac::Key::new(hmac::HMAC_SHA256, &derive(&prk, b"tag")?),
        })
    }

    fn seal(&self, value: &Sensitive) -> Result<Sealed, Error> {
        let failed =
            |_| Error::Seal { what: format!("the system gave no random numbers to seal a {}", value.field) };
        let mut nonce = [0u8; NONCE_LEN];
        rand::fill(&mut nonce).map_err(failed)?;
        let mut ct = Vec::with_capacity(NONCE_LEN + value.value.len() + AES_256_GCM.tag_len());
        ct.extend_from_slice(&nonce);
        ct.extend_from_slice(value.value.as_bytes());
        let tag = self
            .cipher
            .seal_in_place_separate_tag(
                Nonce::assume_unique_for_key(nonce),
                Aad::from(value.field.as_bytes()),
                &mut ct[NONCE_LEN..],
            )
            .map_err(failed)?;
        ct.extend_from_slice(tag.as_ref());
        Ok(Sealed {
            field: value.field.to_owned(),
            key: self.id.clone(),
            ct: BASE64.encode(&ct),
            tag: BASE64.encode(self.tag(value.field, &value.value)),
        })
    }

    fn tag(&self, field: &str, value: &str) -> [u8; TAG_BYTES] {
        let mut context = hmac::Context::with_key(&self.tag);
        // The length keeps `a` + `bc` and `ab` + `c` apart.
        context.update(&(field.len() as u64).to_be_bytes());
        context.update(field.as_bytes());
        context.update(value.as_bytes());
        context.sign().as_ref()[..TAG_BYTES].try_into().expect("HMAC-SHA-256 has more than 16 bytes")
    }

    fn unseal(&self, sealed: &Sealed) -> Option<String> {
        let mut ct = BASE64.decode(&sealed.ct).ok()?;
        let (nonce, text) = ct.split_at_mut_checked(NONCE_LEN)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let plain = self.cipher.open_in_place(nonce, Aad::from(sealed.field.as_bytes()), text).ok()?;
        let value = String::from_utf8(plain.to_vec()).ok()?;
        (BASE64.decode(&sealed.tag).ok()? == self.tag(&sealed.field, &value)).then_some(value)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use proptest::prelude::*;

    use super::*;
    use crate::files::testing::TempDir;

    fn reason(value: &str) -> Sensitive {
        Sensitive { field: "reason", value: value.to_owned() }
    }

    #[test]
    fn a_sealed_value_reads_back_after_a_restart_and_tells_nothing() {
        let dir = TempDir::new();
        let sealer = Sealer::open(&dir, true).unwrap();
        let sealed = sealer.seal(&[reason("dimm of bob"), reason("dimm of bob"), reason("other")]).unwrap();
        assert_ne!(sealed[0].ct, sealed[1].ct, "nonces differ");
        assert_eq!(sealed[0].tag, sealed[1].tag, "equal values can be joined");
        assert_ne!(sealed[0].tag, sealed[2].tag);
        assert!(!format!("{sealed:?} {sealer:?}").contains("bob"));
        let again = Sealer::open(&dir, false).unwrap();
        assert_eq!(again.unseal(&sealed[0]).unwrap(), "dimm of bob");
        let mode = std::fs::metadata(dir.join("keys/seal.key")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn the_tag_depends_on_field_and_key() {
        let (a, b) = (TempDir::new(), TempDir::new());
        let (a, b) = (Sealer::open(&a, true).unwrap(), Sealer::open(&b, true).unwrap());
        let note = Sensitive { field: "note", value: "x".to_owned() };
        let seal =
            |sealer: &Sealer, value: &Sensitive| sealer.seal(std::slice::from_ref(value)).unwrap().remove(0);
        assert_ne!(seal(&a, &note).tag, seal(&a, &reason("x")).tag);
        assert_ne!(seal(&a, &note).tag, seal(&b, &note).tag);
        let error = b.unseal(&seal(&a, &note)).unwrap_err().to_string();
        assert!(error.contains("is not in keys/seal.key"), "{error}");
    }

    #[test]
    fn a_second_line_takes_over_and_the_first_still_unseals() {
        let (dir, other) = (TempDir::new(), TempDir::new());
        let old = Sealer::open(&dir, true).unwrap().seal(&[reason("old")]).unwrap().remove(0);
        Sealer::open(&other, true).unwrap();
        let path = dir.join("keys/seal.key");
        let both = std::fs::read_to_string(&path).unwrap()
            + &std::fs::read_to_string(other.join("keys/seal.key")).unwrap();
        std::fs::write(&path, both).unwrap();
        let sealer = Sealer::open(&dir, false).unwrap();
        let new = sealer.seal(&[reason("new")]).unwrap().remove(0);
        assert_ne!(old.key, new.key);
        assert_eq!(sealer.unseal(&old).unwrap(), "old");
        assert_eq!(sealer.unseal(&new).unwrap(), "new");
    }

    #[test]
    fn a_key_file_that_can_not_be_used_is_one_clear_sentence() {
        let dir = TempDir::new();
        let check = |may_create, expected: &str| {
            let error = Sealer::open(&dir, may_create).unwrap_err().to_string();
            assert!(error.contains(expected), "{error} / {expected}");
        };
        check(false, "it is missing and the journal has records");
        Sealer::open(&dir, true).unwrap();
        let path = dir.join("keys/seal.key");
        let good = std::fs::read_to_string(&path).unwrap();
        let write = |text: &str| std::fs::write(&path, text).unwrap();
        write("");
        check(true, "restore it from the backup");
        write(&good.replace("file-", "file-0"));
        check(true, "with the id of that key");
        std::fs::write(&path, [0xff, 0xfe]).unwrap();
        check(true, "no text");
        write(&good);
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
        check(true, "chmod 600");
    }

    proptest! {
        #[test]
        fn any_text_reads_back_and_any_flipped_bit_is_noticed(text in "\\PC{0,200}", at in any::<usize>()) {
            let dir = TempDir::new();
            let sealer = Sealer::open(&dir, true).unwrap();
            let sealed = sealer.seal(&[reason(&text)]).unwrap().remove(0);
            prop_assert_eq!(&sealer.unseal(&sealed).unwrap(), &text);
            for part in 0..2 {
                let mut broken = sealed.clone();
                let field = if part == 0 { &mut broken.ct } else { &mut broken.tag };
                let mut bytes = BASE64.decode(field.as_str()).unwrap();
                let bit = at % (bytes.len() * 8);
                bytes[bit / 8] ^= 1 << (bit % 8);
                *field = BASE64.encode(bytes);
                prop_assert!(sealer.unseal(&broken).is_err());
            }
            let moved = Sealed { field: "note".to_owned(), ..sealed };
            prop_assert!(sealer.unseal(&moved).is_err());
        }
    }
}
