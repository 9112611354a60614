//! What proves a password of SCRAM-SHA-256 without being one.
//!
//! In text as RFC 5803 has it: `SCRAM-SHA-256$iterations:salt$stored-key:server-key`, the three in base64. Whoever reads it cannot
//! connect with it, but can try passwords.

use std::fmt;
use std::num::NonZeroU32;

use aws_lc_rs::hmac::HMAC_SHA256;
use aws_lc_rs::{digest, hmac, pbkdf2, rand};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use thiserror::Error;

/// Bytes of every key of SHA-256.
pub(super) const KEY_BYTES: usize = 32;

/// How often a password is hashed, unless something else is asked for: what a small device does in a tenth of a second or so.
pub const ITERATIONS: u32 = 15_000;

/// RFC 7677 forbids fewer.
const ITERATIONS_LEAST: u32 = 4_096;

/// More would keep every client busy for many seconds.
const ITERATIONS_MOST: u32 = 10_000_000;

/// Bytes of a new salt.
const SALT_BYTES: usize = 16;

/// A longer one is no salt of anybody.
const SALT_BYTES_MAX: usize = 256;

/// What the server keeps of one password.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret {
    pub(super) iterations: u32,
    pub(super) salt: Vec<u8>,
    pub(super) stored_key: [u8; KEY_BYTES],
    pub(super) server_key: [u8; KEY_BYTES],
}

/// A password or a number of iterations that cannot be used.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum SecretError {
    /// Clients would have to prepare it in the same way (SASLprep), which many do not.
    #[error("the password has to be printable ASCII, and one character at least")]
    Password,
    /// Too few or too many.
    #[error("the number of iterations is between {ITERATIONS_LEAST} and {ITERATIONS_MOST}")]
    Iterations,
}

impl Secret {
    /// With a salt of its own.
    pub fn of_password(password: &[u8], iterations: u32) -> Result<Self, SecretError> {
        let mut salt = vec![0; SALT_BYTES];
        rand::fill(&mut salt).expect("the system has random numbers");
        Self::salted(password, salt, iterations)
    }

    pub(super) fn salted(password: &[u8], salt: Vec<u8>, iterations: u32) -> Result<Self, SecretError> {
        let is_printable = password.iter().all(|byte| (b' '..=b'~').contains(byte));
        if password.is_empty() || !is_printable {
            return Err(SecretError::Password);
        }
        let rounds = NonZeroU32::new(iterations)
            .filter(|_| is_sensible(iterations))
            .ok_or(SecretError::Iterations)?;
        let mut salted = [0; KEY_BYTES];
        pbkdf2::derive(pbkdf2::PBKDF2_HMAC_SHA256, rounds, &salt, password, &mut salted);
        let key = hmac::Key::new(HMAC_SHA256, &salted);
        let client_key = hmac::sign(&key, b"Client Key");
        Ok(Self {
            iterations,
            salt,
            stored_key: fixed(digest::digest(&digest::SHA256, client_key.as_ref()).as_ref()),
            server_key: fixed(hmac::sign(&key, b"Server Key").as_ref()),
        })
    }

    /// What [`fmt::Display`] writes, without the scheme before it.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (cost, keys) = text.split_once('$')?;
        let (iterations, salt) = cost.split_once(':')?;
        let (stored_key, server_key) = keys.split_once(':')?;
        let iterations = iterations.parse().ok().filter(|count| is_sensible(*count))?;
        let salt = BASE64.decode(salt).ok()?;
        if salt.is_empty() || salt.len() > SALT_BYTES_MAX {
            return None;
        }
        Some(Self {
            iterations,
            salt,
            stored_key: BASE64.decode(stored_key).ok()?.try_into().ok()?,
            server_key: BASE64.decode(server_key).ok()?.try_into().ok()?,
        })
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "SCRAM-SHA-256${}:{}${}:{}",
            self.iterations,
            BASE64.encode(&self.salt),
            BASE64.encode(self.stored_key),
            BASE64.encode(self.server_key)
        )
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

fn is_sensible(iterations: u32) -> bool {
    (ITERATIONS_LEAST..=ITERATIONS_MOST).contains(&iterations)
}

fn fixed(bytes: &[u8]) -> [u8; KEY_BYTES] {
    bytes.try_into().expect("SHA-256 has 32 bytes")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Made with PostgreSQL's form in mind, which is the same; the keys are those of the example of RFC 7677.
    #[test]
    fn the_text_form_of_a_secret_is_that_of_rfc_5803() {
        let salt = BASE64.decode("W22ZaJ0SNY7soEsUEjb6gQ==").expect("base64");
        let secret = Secret::salted(b"pencil", salt, 4_096).expect("sensible");
        let text = secret.to_string();
        assert_eq!(
            text,
            "SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU="
        );
        let rest = text.strip_prefix("SCRAM-SHA-256$").expect("the scheme");
        assert_eq!(Secret::parse(rest), Some(secret));
    }

    #[test]
    fn a_text_that_is_no_secret_is_none() {
        let key = BASE64.encode([7; KEY_BYTES]);
        assert!(Secret::parse(&format!("4096:AAAA${key}:{key}")).is_some());
        for text in [
            String::new(),
            format!("4096:AAAA${key}"),
            format!("4095:AAAA${key}:{key}"),
            format!("4096:${key}:{key}"),
            format!("4096:AAA${key}:{key}"),
            format!("4096:AAAA${key}:AAAA"),
            format!("many:AAAA${key}:{key}"),
        ] {
            assert_eq!(Secret::parse(&text), None, "{text}");
        }
    }

    #[test]
    fn what_clients_would_write_in_another_way_is_no_password() {
        for password in ["", "caf\u{e9}", "a\n"] {
            assert_eq!(
                Secret::of_password(password.as_bytes(), ITERATIONS),
                Err(SecretError::Password)
            );
        }
        assert_eq!(Secret::of_password(b"p", 4_095), Err(SecretError::Iterations));
        let [one, other] = [(); 2].map(|()| Secret::of_password(b"p w", 4_096));
        assert_ne!(one, other, "each has its own salt");
    }
}
