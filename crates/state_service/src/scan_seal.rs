//! Seal of the continuation tokens of SCAN.
//!
//! A token says behind which key of which group the next page begins, also where the client may not read that key. A
//! client carries it from one request to the next, so it is sealed: AES-256-GCM-SIV under a key of this run of the node.
//! Bound to it are the principal and the pattern; the key stands for the node's state store.
//!
//! ```text
//! token   base64url of: version u8 (3) | nonce (12) | ciphertext | tag (16)
//! sealed  length of the place u32 | place (scan_token.rs) | zeros up to a multiple of 128 bytes
//! nonce   first 12 bytes of HMAC-SHA-256 of what is bound and sealed
//! ```
//!
//! Invariants: the same place gives the same token, so that the node stays a function of its events; what does not open was
//! not sealed here for this principal and pattern. The length tells that of the key in steps of 128 bytes.

use std::sync::Arc;

use aws_lc_rs::aead::{AES_256_GCM_SIV, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use bytes::Bytes;
use mqtt::principal::Principal;

/// Seals the continuation tokens of one run of a node. A clone shares the key.
#[derive(Debug, Clone)]
pub struct ScanSeal(Arc<Keys>);

#[derive(Debug)]
struct Keys {
    cipher: LessSafeKey,
    nonces: hmac::Key,
}

/// Whose scan of what a token belongs to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ScanBinding(Bytes);

/// Bytes of the key that a seal is made from.
pub const SCAN_KEY_BYTES: usize = 32;

/// Tokens of versions 1 and 2 were not sealed.
const VERSION: u8 = 3;

const NONCE_BYTES: usize = 12;
const TAG_BYTES: usize = 16;
const LENGTH_BYTES: usize = 4;

/// Keys are mostly shorter, so that most tokens have one length.
const STEP: usize = 128;

impl ScanBinding {
    /// Binding to a principal, or to nobody, and a pattern.
    pub fn new(principal: Option<&Principal>, pattern: &[u8]) -> Self {
        let mut bytes = Vec::new();
        let (method, name) = principal.map_or(("", ""), |principal| (&*principal.method, &*principal.name));
        bytes.push(u8::from(principal.is_some()));
        for part in [method.as_bytes(), name.as_bytes(), pattern] {
            bytes.extend_from_slice(&(part.len() as u64).to_be_bytes());
            bytes.extend_from_slice(part);
        }
        Self(bytes.into())
    }
}

impl ScanSeal {
    /// Makes the seal from random bytes that nobody else knows.
    pub fn new(key: &[u8; SCAN_KEY_BYTES]) -> Self {
        let key = hmac::Key::new(hmac::HMAC_SHA256, key);
        let derive = |purpose: &[u8]| hmac::sign(&key, purpose);
        let cipher = UnboundKey::new(&AES_256_GCM_SIV, derive(b"scan token, cipher").as_ref());
        Self(Arc::new(Keys {
            cipher: LessSafeKey::new(cipher.expect("the key is as long as SHA-256 makes it")),
            nonces: hmac::Key::new(hmac::HMAC_SHA256, derive(b"scan token, nonces").as_ref()),
        }))
    }

    /// Token of a place.
    pub fn seal(&self, bound: &ScanBinding, place: &[u8]) -> Bytes {
        let length = u32::try_from(place.len()).expect("a key came in a packet");
        let mut sealed = Vec::with_capacity(LENGTH_BYTES + place.len() + STEP + TAG_BYTES);
        sealed.extend_from_slice(&length.to_be_bytes());
        sealed.extend_from_slice(place);
        sealed.resize(sealed.len().next_multiple_of(STEP), 0);
        let nonce = self.nonce(bound, &sealed);
        self.0
            .cipher
            .seal_in_place_append_tag(
                Nonce::assume_unique_for_key(nonce),
                Aad::from(&bound.0),
                &mut sealed,
            )
            .expect("a key is shorter than 64 GiB");
        let mut token = Vec::with_capacity(1 + NONCE_BYTES + sealed.len());
        token.push(VERSION);
        token.extend_from_slice(&nonce);
        token.extend_from_slice(&sealed);
        BASE64.encode(token).into()
    }

    /// Place of a token. `None` if it was not sealed here, or for another principal or pattern.
    pub fn open(&self, bound: &ScanBinding, token: &[u8]) -> Option<Bytes> {
        let token = BASE64.decode(token).ok()?;
        let (&version, rest) = token.split_first()?;
        let (nonce, sealed) = rest.split_first_chunk::<NONCE_BYTES>()?;
        let steps = sealed.len().checked_sub(TAG_BYTES)?;
        if version != VERSION || steps == 0 || !steps.is_multiple_of(STEP) {
            return None;
        }
        let mut sealed = sealed.to_vec();
        let opened = self.0.cipher.open_in_place(
            Nonce::assume_unique_for_key(*nonce),
            Aad::from(&bound.0),
            &mut sealed,
        );
        let (length, rest) = opened.ok()?.split_first_chunk::<LENGTH_BYTES>()?;
        let place = rest.get(..usize::try_from(u32::from_be_bytes(*length)).ok()?)?;
        Some(Bytes::copy_from_slice(place))
    }

    fn nonce(&self, bound: &ScanBinding, sealed: &[u8]) -> [u8; NONCE_BYTES] {
        let mut context = hmac::Context::with_key(&self.0.nonces);
        context.update(&(bound.0.len() as u64).to_be_bytes());
        context.update(&bound.0);
        context.update(sealed);
        let tag = context.sign();
        *tag.as_ref().first_chunk().expect("SHA-256 has 32 bytes")
    }
}

#[cfg(test)]
mod tests {
    use protocol::Text;

    use super::*;

    fn seal(key: u8) -> ScanSeal {
        ScanSeal::new(&[key; SCAN_KEY_BYTES])
    }

    fn principal(method: &'static str, name: &'static str) -> Principal {
        Principal::named(Text::from_static(name)).by_method(Text::from_static(method))
    }

    #[test]
    fn a_token_opens_for_its_principal_and_pattern_and_for_no_other() {
        let ann = principal("password", "ann");
        let bound = ScanBinding::new(Some(&ann), b"key*");
        let token = seal(1).seal(&bound, b"\x01key");
        assert_eq!(seal(1).open(&bound, &token).as_deref(), Some(&b"\x01key"[..]));
        for other in [
            ScanBinding::new(Some(&ann), b"key?"),
            ScanBinding::new(Some(&principal("password", "annk")), b"ey*"),
            ScanBinding::new(Some(&principal("x509", "ann")), b"key*"),
            ScanBinding::new(Some(&principal("", "")), b"key*"),
            ScanBinding::new(None, b"key*"),
        ] {
            assert_eq!(seal(1).open(&other, &token), None, "{other:?}");
        }
        assert_eq!(
            seal(2).open(&bound, &token),
            None,
            "of another run, or another node"
        );
    }

    #[test]
    fn a_token_shows_neither_key_nor_length_and_is_text() {
        let bound = ScanBinding::new(None, b"*");
        let short = seal(1).seal(&bound, b"\x01secret");
        let long = seal(1).seal(&bound, &[b"\x01secret".as_slice(), &[b'x'; 100]].concat());
        assert_eq!(short.len(), long.len());
        assert!(
            short
                .iter()
                .all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(byte))
        );
        let bytes = BASE64.decode(&short).unwrap();
        assert!(!bytes.windows(6).any(|window| window == b"secret"));
        assert_eq!(
            short,
            seal(1).seal(&bound, b"\x01secret"),
            "a function of what is sealed"
        );
        assert_ne!(
            bytes[1..13],
            BASE64.decode(&long).unwrap()[1..13],
            "a nonce is of one text"
        );
    }

    #[test]
    fn a_token_grows_with_its_key_and_no_faster() {
        let bound = ScanBinding::new(None, b"*");
        for length in [0, 1, 123, 124, 125, 65_535, 1 << 20] {
            let place = vec![7; length];
            let token = seal(1).seal(&bound, &place);
            assert!(
                token.len() <= (length + 4 + STEP + 29).div_ceil(3) * 4,
                "{length}"
            );
            assert_eq!(seal(1).open(&bound, &token).as_deref(), Some(&place[..]));
        }
    }

    #[test]
    fn what_was_changed_or_cut_or_made_up_does_not_open() {
        let bound = ScanBinding::new(None, b"*");
        let token = seal(1).seal(&bound, b"\x01key");
        let bytes = BASE64.decode(&token).unwrap();
        for place in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[place] ^= 1;
            assert_eq!(
                seal(1).open(&bound, BASE64.encode(&changed).as_bytes()),
                None,
                "{place}"
            );
            assert_eq!(
                seal(1).open(&bound, BASE64.encode(&bytes[..place]).as_bytes()),
                None
            );
        }
        for made_up in [
            &b"\x01key"[..],
            b"\x02\0\0\0\x01key",
            b"",
            b"AA",
            b"=",
            b"\xff",
            b"Aw",
        ] {
            assert_eq!(seal(1).open(&bound, made_up), None, "{made_up:?}");
        }
    }
}
