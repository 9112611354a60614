//! What the server keeps of a password: its Argon2id (RFC 9106), with the parameters and the salt.
//!
//! In text as others write it: `$argon2id$v=19$m=19456,t=2,p=1$salt$hash`, the last two in base64 without padding. Whoever reads it
//! cannot connect with it, but can try passwords.

use std::fmt;

use argon2::{Algorithm, Argon2, Block, Params, Version};
use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::rand;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD as BASE64;

/// A password's hash, and how to compute it.
#[derive(Clone, PartialEq, Eq)]
pub struct PasswordHash {
    cost: Cost,
    salt: Vec<u8>,
    hash: Vec<u8>,
}

/// What computing a hash takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Cost {
    /// Memory, in KiB.
    pub(super) memory_kib: u32,
    /// Passes over the memory.
    pub(super) passes: u32,
    /// Parts of the memory that could be filled at the same time; here one after the other.
    pub(super) lanes: u32,
}

/// Memory for computing hashes, kept for the next one.
#[derive(Debug, Default)]
pub(super) struct Scratch(Vec<Block>);

/// What [`fmt::Display`] writes first; it is the version of the form, too.
const SCHEME: &str = "$argon2id$v=19$";

/// Bytes of a new salt.
const SALT_BYTES: usize = 16;

/// Bytes of a new hash.
const HASH_BYTES: usize = 32;

/// Bytes of a salt and of a hash that a file may have.
const SALT_BYTES_RANGE: std::ops::RangeInclusive<usize> = 8..=64;
const HASH_BYTES_RANGE: std::ops::RangeInclusive<usize> = 16..=64;

impl Default for Cost {
    /// As OWASP recommends: about 20 ms, and 19 MiB.
    fn default() -> Self {
        Self {
            memory_kib: 19_456,
            passes: 2,
            lanes: 1,
        }
    }
}

impl Cost {
    /// Less is guessed too fast; more would let the file take the server's memory and time.
    fn is_sensible(self) -> bool {
        (8_192..=131_072).contains(&self.memory_kib)
            && (1..=16).contains(&self.passes)
            && (1..=4).contains(&self.lanes)
    }
}

impl PasswordHash {
    /// With a salt of its own.
    pub fn of_password(password: &[u8]) -> Self {
        Self::salted(password, &random::<SALT_BYTES>(), Cost::default())
    }

    fn salted(password: &[u8], salt: &[u8], cost: Cost) -> Self {
        let mut hash = Self::decoy(cost, salt);
        hash.hash = hash.compute(password, &mut Scratch::default());
        hash
    }

    /// One that no password has, and that takes as long to find that out.
    pub(super) fn decoy(cost: Cost, salt: &[u8]) -> Self {
        Self {
            cost,
            salt: salt.to_vec(),
            hash: random::<HASH_BYTES>().to_vec(),
        }
    }

    /// Whether this is the password's. Always takes as long.
    pub(super) fn is_of(&self, password: &[u8], scratch: &mut Scratch) -> bool {
        let computed = self.compute(password, scratch);
        verify_slices_are_equal(&computed, &self.hash).is_ok()
    }

    pub(super) fn cost(&self) -> Cost {
        self.cost
    }

    fn compute(&self, password: &[u8], scratch: &mut Scratch) -> Vec<u8> {
        let Cost {
            memory_kib,
            passes,
            lanes,
        } = self.cost;
        let params = Params::new(memory_kib, passes, lanes, Some(self.hash.len()))
            .expect("the parameters are within their bounds");
        if scratch.0.len() < params.block_count() {
            scratch.0.resize(params.block_count(), Block::default());
        }
        let mut computed = vec![0; self.hash.len()];
        Argon2::new(Algorithm::Argon2id, Version::V0x13, params)
            .hash_password_into_with_memory(password, &self.salt, &mut computed, &mut scratch.0)
            .expect("a password of MQTT is short, and the salt long enough");
        computed
    }

    /// What [`fmt::Display`] writes; `None` also for parameters beyond the bounds.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut parts = text.strip_prefix(SCHEME)?.split('$');
        let (cost, salt, hash) = (parts.next()?, parts.next()?, parts.next()?);
        let mut numbers = cost.split(',');
        let mut number = |name: &str| {
            let digits = numbers.next()?.strip_prefix(name)?;
            let is_plain = digits.bytes().all(|byte| byte.is_ascii_digit());
            digits.parse().ok().filter(|_| is_plain)
        };
        let cost = Cost {
            memory_kib: number("m=")?,
            passes: number("t=")?,
            lanes: number("p=")?,
        };
        let (salt, hash) = (BASE64.decode(salt).ok()?, BASE64.decode(hash).ok()?);
        let fits = SALT_BYTES_RANGE.contains(&salt.len()) && HASH_BYTES_RANGE.contains(&hash.len());
        let is_whole = numbers.next().is_none() && parts.next().is_none();
        (cost.is_sensible() && fits && is_whole).then_some(Self { cost, salt, hash })
    }
}

impl fmt::Display for PasswordHash {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Cost {
            memory_kib,
            passes,
            lanes,
        } = self.cost;
        let (salt, hash) = (BASE64.encode(&self.salt), BASE64.encode(&self.hash));
        write!(to, "{SCHEME}m={memory_kib},t={passes},p={lanes}${salt}${hash}")
    }
}

impl fmt::Debug for PasswordHash {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("PasswordHash")
    }
}

fn random<const BYTES: usize>() -> [u8; BYTES] {
    let mut bytes = [0; BYTES];
    rand::fill(&mut bytes).expect("the system has random numbers");
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From the tests of the reference implementation.
    const OF_OTHERS: &str =
        "$argon2id$v=19$m=65536,t=2,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc";

    #[test]
    fn a_hash_that_others_made_is_of_its_password_only() {
        let hash = PasswordHash::parse(OF_OTHERS).expect("right");
        assert_eq!(hash.to_string(), OF_OTHERS);
        let mut scratch = Scratch::default();
        assert!(hash.is_of(b"password", &mut scratch));
        assert!(!hash.is_of(b"password ", &mut scratch));
        assert!(hash.is_of(b"password", &mut scratch), "the memory is used again");
    }

    #[test]
    fn each_hash_has_its_own_salt_and_is_read_again() {
        let [one, other] = [(); 2].map(|()| PasswordHash::of_password(b"pencil"));
        assert_ne!(one, other);
        assert_eq!(PasswordHash::parse(&one.to_string()), Some(one.clone()));
        assert!(one.is_of(b"pencil", &mut Scratch::default()));
    }

    const CHEAP: Cost = Cost {
        memory_kib: 8_192,
        passes: 1,
        lanes: 1,
    };

    #[test]
    fn what_asks_for_too_much_or_too_little_is_no_hash() {
        let with = |cost: &str| format!("$argon2id$v=19${cost}$c2FsdHNhbHQ${}", BASE64.encode([7; 32]));
        assert!(PasswordHash::parse(&with("m=8192,t=1,p=1")).is_some());
        for cost in [
            "m=8191,t=1,p=1",
            "m=131073,t=1,p=1",
            "m=4294967296,t=1,p=1",
            "m=8192,t=0,p=1",
            "m=8192,t=17,p=1",
            "m=8192,t=1,p=0",
            "m=8192,t=1,p=5",
            "m=8192,t=1,p=+1",
            "m=8192,t=1",
            "m=8192,t=1,p=1,data=AA",
            "t=1,m=8192,p=1",
            "",
        ] {
            assert_eq!(PasswordHash::parse(&with(cost)), None, "{cost}");
        }
    }

    #[test]
    fn what_is_not_quite_a_hash_is_none() {
        let (salt, hash) = ("c2FsdHNhbHQ", BASE64.encode([7; 32]));
        let cost = "m=8192,t=1,p=1";
        assert!(PasswordHash::parse(&format!("$argon2id$v=19${cost}${salt}${hash}")).is_some());
        for text in [
            format!("$argon2i$v=19${cost}${salt}${hash}"),
            format!("$argon2id$v=16${cost}${salt}${hash}"),
            format!("$argon2id${cost}${salt}${hash}"),
            format!("$argon2id$v=19${cost}${salt}"),
            format!("$argon2id$v=19${cost}$c2FsdA${hash}"),
            format!("$argon2id$v=19${cost}${salt}=${hash}"),
            format!("$argon2id$v=19${cost}${salt}$AAAA"),
            format!("$argon2id$v=19${cost}${salt}${hash}$"),
            format!("$argon2id$v=19${cost}${salt}${}", BASE64.encode([7; 65])),
        ] {
            assert_eq!(PasswordHash::parse(&text), None, "{text}");
        }
    }

    #[test]
    fn a_decoy_is_of_no_password_and_costs_as_much() {
        let decoy = PasswordHash::decoy(CHEAP, b"saltsalt");
        assert_eq!(decoy.cost(), CHEAP);
        assert!(!decoy.is_of(b"", &mut Scratch::default()));
    }
}
