//! A JSON Web Token as it comes: `header.payload.signature`, each in base64url (RFC 7515 section 7.1).
//!
//! Taking it apart believes nothing of it. Encrypted tokens, tokens with extensions that have to be understood (`crit`), and
//! algorithms that are not in the settings' list are none.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use serde::Deserialize;
use serde::de::IgnoredAny;
use thiserror::Error;

use crate::config::JwtAlgorithm;

/// Why a token lets nobody in. The words are for the operator and the client, and say nothing of what is in the token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub(in crate::authentication) enum TokenError {
    /// It is not of this form, or longer than [`TOKEN_BYTES_MAX`].
    #[error("what was sent is no token")]
    Malformed,
    /// Its algorithm is not one that is allowed here.
    #[error("the token is signed with an algorithm that is not allowed")]
    Algorithm,
    /// No key of the set fits its algorithm and key id.
    #[error("no key for the token is known")]
    UnknownKey,
    /// No key of the set has made the signature.
    #[error("the signature of the token is wrong")]
    Signature,
    /// What is signed are no claims.
    #[error("the token has no claims that can be read")]
    Claims,
    /// `iss`
    #[error("the token is of another issuer")]
    Issuer,
    /// `aud`
    #[error("the token is for another audience")]
    Audience,
    /// It has no `exp`.
    #[error("the token does not say when it expires")]
    NoExpiry,
    /// `exp`
    #[error("the token has expired")]
    Expired,
    /// `nbf`
    #[error("the token is not valid yet")]
    NotYetValid,
    /// The claim of the name is not there, or cannot be a name.
    #[error("the token does not say whose it is")]
    NoName,
    /// CONNECT has another User Name than the token.
    #[error("the token is not of the user name")]
    OtherUsername,
}

/// A token whose signature has not been looked at.
#[derive(Debug)]
pub(super) struct Token<'a> {
    pub(super) algorithm: JwtAlgorithm,
    pub(super) key_id: Option<String>,
    /// What the signature is of.
    pub(super) signed: &'a [u8],
    pub(super) payload: Vec<u8>,
    pub(super) signature: Vec<u8>,
}

/// The largest tokens that identity providers give out are a few KiB; more is work for nothing.
const TOKEN_BYTES_MAX: usize = 16 * 1_024;

#[derive(Deserialize)]
struct Header {
    alg: String,
    kid: Option<String>,
    crit: Option<IgnoredAny>,
}

impl<'a> Token<'a> {
    pub(super) fn parse(text: &'a [u8]) -> Result<Self, TokenError> {
        let parts = Parts::of(text).ok_or(TokenError::Malformed)?;
        let header: Header =
            serde_json::from_slice(&decoded(parts.header)?).map_err(|_| TokenError::Malformed)?;
        if header.crit.is_some() {
            return Err(TokenError::Malformed);
        }
        Ok(Self {
            algorithm: JwtAlgorithm::named(&header.alg).ok_or(TokenError::Algorithm)?,
            key_id: header.kid,
            signed: parts.signed,
            payload: decoded(parts.payload)?,
            signature: decoded(parts.signature)?,
        })
    }
}

/// What a token says that somebody else has verified.
#[cfg(feature = "kubernetes")]
pub(in crate::authentication) fn payload_of(text: &[u8]) -> Option<Vec<u8>> {
    decoded(Parts::of(text)?.payload).ok()
}

struct Parts<'a> {
    header: &'a [u8],
    payload: &'a [u8],
    signature: &'a [u8],
    signed: &'a [u8],
}

impl<'a> Parts<'a> {
    /// `None` if there are fewer or more than three.
    fn of(text: &'a [u8]) -> Option<Self> {
        if text.len() > TOKEN_BYTES_MAX {
            return None;
        }
        let mut dots = (0..).zip(text).filter(|(_, byte)| **byte == b'.');
        let (first, second) = (dots.next()?.0, dots.next()?.0);
        if dots.next().is_some() {
            return None;
        }
        Some(Self {
            header: text.get(..first)?,
            payload: text.get(first + 1..second)?,
            signature: text.get(second + 1..)?,
            signed: text.get(..second)?,
        })
    }
}

fn decoded(part: &[u8]) -> Result<Vec<u8>, TokenError> {
    BASE64.decode(part).map_err(|_| TokenError::Malformed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(header: &str, rest: &str) -> Result<JwtAlgorithm, TokenError> {
        let text = format!("{}.{rest}", BASE64.encode(header));
        Token::parse(text.as_bytes()).map(|token| token.algorithm)
    }

    #[test]
    fn a_token_has_three_parts() {
        assert_eq!(token(r#"{"alg":"ES256"}"#, "e30.AAAA"), Ok(JwtAlgorithm::Es256));
        for rest in [
            "",
            "e30",
            "e30.AAAA.AAAA",
            "e30.AAAA.",
            "e30.AA=A",
            "e3 .AAAA",
            "e30.\u{e9}",
        ] {
            assert_eq!(
                token(r#"{"alg":"ES256"}"#, rest),
                Err(TokenError::Malformed),
                "{rest}"
            );
        }
        for text in ["", ".", "..", "...", "\0.\0.\0"] {
            assert!(Token::parse(text.as_bytes()).is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_header_that_is_none_or_asks_for_more_is_refused() {
        for header in [
            "",
            "{}",
            "[]",
            r#"{"alg":1}"#,
            r#"{"alg":"ES256","alg":"ES256"}"#,
            r#"{"alg":"ES256","kid":7}"#,
            r#"{"alg":"ES256","crit":["b64"],"b64":false}"#,
            r#"{"alg":"ES256"} x"#,
        ] {
            assert_eq!(token(header, "e30.AAAA"), Err(TokenError::Malformed), "{header}");
        }
    }

    /// What is left out is not taken apart.
    #[test]
    fn a_header_may_be_deep_where_nobody_looks() {
        let deep = |name: &str| {
            format!(
                "{{\"alg\":\"ES256\",\"{name}\":{}1{}}}",
                "[".repeat(5_000),
                "]".repeat(5_000)
            )
        };
        assert_eq!(token(&deep("x"), "e30.AAAA"), Ok(JwtAlgorithm::Es256));
        assert_eq!(token(&deep("kid"), "e30.AAAA"), Err(TokenError::Malformed));
    }

    /// RFC 8725 section 3.1.
    #[test]
    fn no_signature_and_shared_secrets_are_no_algorithms() {
        for algorithm in [
            "none", "None", "NONE", "HS256", "HS384", "HS512", "rs256", "RS1", "dir", "",
        ] {
            let header = format!("{{\"alg\":\"{algorithm}\"}}");
            assert_eq!(token(&header, "e30."), Err(TokenError::Algorithm), "{algorithm}");
        }
    }

    #[test]
    fn a_token_that_is_too_long_is_not_read() {
        let of = |bytes: usize| {
            token(
                r#"{"alg":"ES256"}"#,
                &format!("{}.AAAA", "AAAA".repeat(bytes / 4)),
            )
        };
        assert!(of(TOKEN_BYTES_MAX - 64).is_ok());
        assert_eq!(of(TOKEN_BYTES_MAX), Err(TokenError::Malformed));
    }
}
