//! The keys of one file, made from a key of the key file and the file's salt; and AES-256-GCM with them.

use std::fmt;

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::hkdf::{self, KeyType, Prk};
use aws_lc_rs::hmac;
use zeroize::Zeroizing;

use super::KEY_LEN;

/// Bytes by which something encrypted is longer than what it was.
pub(crate) const TAG_LEN: usize = 16;

/// What the keys of one file are made from.
pub(crate) struct FileKeys(Prk);

/// One key, and numbers that are used with it once.
pub(crate) struct FileCipher(LessSafeKey);

impl FileKeys {
    pub(super) fn derive(master: &[u8; KEY_LEN], salt: &[u8]) -> FileKeys {
        FileKeys(hkdf::Salt::new(hkdf::HKDF_SHA256, salt).extract(master))
    }

    /// The key for `purpose`; `part` tells parts of a file from each other that count from the beginning.
    pub(crate) fn cipher(&self, purpose: &str, part: &[u8]) -> FileCipher {
        let mut key = Zeroizing::new([0; KEY_LEN]);
        expand(&self.0, &[purpose.as_bytes(), part], &mut *key);
        let key = UnboundKey::new(&AES_256_GCM, &*key).expect("a key of this length");
        FileCipher(LessSafeKey::new(key))
    }

    /// A key for names that are to be found again and not to be read.
    pub(crate) fn names(&self, purpose: &str) -> hmac::Key {
        let mut key = Zeroizing::new([0; KEY_LEN]);
        expand(&self.0, &[purpose.as_bytes()], &mut *key);
        hmac::Key::new(hmac::HMAC_SHA256, &*key)
    }
}

impl FileCipher {
    /// Encrypts `data` in place. Returns the tag. A number must be used once; `associated` must be the same for opening.
    pub(crate) fn seal(&self, number: u64, associated: &[u8], data: &mut [u8]) -> [u8; TAG_LEN] {
        let tag = self
            .0
            .seal_in_place_separate_tag(nonce(number), Aad::from(associated), data)
            .expect("less than 64 GiB");
        tag.as_ref().try_into().expect("a tag of this length")
    }

    /// Decrypts `data`, which ends with its tag, in place. None: it was not encrypted like this.
    pub(crate) fn open<'a>(
        &self,
        number: u64,
        associated: &[u8],
        data: &'a mut [u8],
    ) -> Option<&'a mut [u8]> {
        self.0
            .open_in_place(nonce(number), Aad::from(associated), data)
            .ok()
    }
}

impl fmt::Debug for FileKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FileKeys")
    }
}

impl fmt::Debug for FileCipher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FileCipher")
    }
}

pub(super) fn expand(prk: &Prk, purpose: &[&[u8]], key: &mut [u8]) {
    prk.expand(purpose, Len(key.len()))
        .and_then(|expanded| expanded.fill(key))
        .expect("a key is short");
}

struct Len(usize);

impl KeyType for Len {
    fn len(&self) -> usize {
        self.0
    }
}

fn nonce(number: u64) -> Nonce {
    let mut nonce = [0; NONCE_LEN];
    nonce[NONCE_LEN - 8..].copy_from_slice(&number.to_be_bytes());
    Nonce::assume_unique_for_key(nonce)
}
