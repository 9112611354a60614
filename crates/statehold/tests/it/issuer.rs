//! Somebody who makes JSON Web Tokens.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair as _};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;

/// An issuer with one key.
pub(crate) struct Issuer {
    key: Ed25519KeyPair,
    id: String,
}

impl Issuer {
    /// Whose key has this id.
    pub(crate) fn new(id: &str) -> Self {
        Self {
            key: Ed25519KeyPair::generate().expect("random numbers"),
            id: id.to_owned(),
        }
    }

    /// The key set with the keys of these issuers.
    pub(crate) fn keys(of: &[&Self]) -> String {
        let keys = of.iter().map(|issuer| {
            let x = BASE64.encode(issuer.key.public_key().as_ref());
            format!(
                "{{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"use\":\"sig\",\"kid\":\"{}\",\"x\":\"{x}\"}}",
                issuer.id
            )
        });
        format!("{{\"keys\":[{}]}}", keys.collect::<Vec<_>>().join(","))
    }

    /// A token for `broker` that says who somebody is for a while, with further claims.
    pub(crate) fn token(&self, name: &str, lasts: Duration, further: &str) -> String {
        let expires = in_seconds(lasts);
        self.sign(&format!(
            "{{\"iss\":\"https://issuer.example\",\"aud\":[\"broker\"],\"sub\":\"{name}\",\"exp\":{expires}{further}}}"
        ))
    }

    /// A token with these claims.
    pub(crate) fn sign(&self, claims: &str) -> String {
        let header = format!("{{\"alg\":\"EdDSA\",\"kid\":\"{}\",\"typ\":\"JWT\"}}", self.id);
        let signed = format!("{}.{}", BASE64.encode(header), BASE64.encode(claims));
        let signature = self.key.sign(signed.as_bytes());
        format!("{signed}.{}", BASE64.encode(signature.as_ref()))
    }
}

/// The time after a while, in seconds since the epoch.
#[expect(clippy::disallowed_methods, reason = "tokens are made by another machine")]
pub(crate) fn in_seconds(lasts: Duration) -> f64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    (now.expect("after 1970") + lasts).as_secs_f64()
}

/// The same as text, to the millisecond. Days are counted as the calendar of the next centuries does.
pub(crate) fn rfc3339(lasts: Duration) -> String {
    let millis = (in_seconds(lasts) * 1_000.0) as u64;
    let (seconds, mut days, mut year) = (millis / 1_000, millis / 86_400_000, 1970);
    let is_leap =
        |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    while days >= 365 + u64::from(is_leap(year)) {
        days -= 365 + u64::from(is_leap(year));
        year += 1;
    }
    let mut month = 1;
    for length in [
        31,
        28 + u64::from(is_leap(year)),
        31,
        30,
        31,
        30,
        31,
        31,
        30,
        31,
        30,
        31,
    ] {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    let day = days + 1;
    let (hour, minute, second) = (seconds / 3_600 % 24, seconds / 60 % 60, seconds % 60);
    format!(
        "{year}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{:03}Z",
        millis % 1_000
    )
}
