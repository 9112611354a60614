//! The keys of an issuer: a JSON Web Key Set (RFC 7517).
//!
//! A key of the set that cannot be used here is left out; a set without any that can is none. Which algorithms a key is for
//! follows from the key, never from the token: an RSA key verifies RSA signatures only, and a secret (`oct`) verifies nothing.

use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ED25519, ParsedPublicKey, RSA_PKCS1_2048_8192_SHA256,
    RSA_PKCS1_2048_8192_SHA384, RSA_PKCS1_2048_8192_SHA512, RSA_PSS_2048_8192_SHA256,
    RSA_PSS_2048_8192_SHA384, RSA_PSS_2048_8192_SHA512, RsaParameters, RsaPublicKeyComponents,
    VerificationAlgorithm,
};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use serde::Deserialize;
use serde_json::Value;
use thiserror::Error;

use super::token::{Token, TokenError};
use crate::config::JwtAlgorithm;

/// What can verify tokens.
#[derive(Debug)]
pub(super) struct KeySet {
    keys: Vec<Key>,
}

/// Something else than a key set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum KeySetError {
    /// It is not JSON with a list `keys`.
    #[error("this is no JSON Web Key Set")]
    Malformed,
    /// It has so many keys that trying them is too much work.
    #[error("a key set has at most {KEYS_MAX} keys")]
    TooMany,
    /// All its keys are of other kinds.
    #[error("the key set has no key for signatures with RSA (2048 to 8192 bits), P-256, P-384 or Ed25519")]
    NoKey,
}

#[derive(Debug)]
struct Key {
    id: Option<String>,
    /// If the set says that the key is for one only.
    algorithm: Option<JwtAlgorithm>,
    material: Material,
}

#[derive(Debug)]
enum Material {
    Rsa(RsaPublicKeyComponents<Vec<u8>>),
    P256(ParsedPublicKey),
    P384(ParsedPublicKey),
    Ed25519(ParsedPublicKey),
}

/// Issuers have two or three; some have one for each of their customers.
const KEYS_MAX: usize = 256;

/// Signatures that are verified for one token without key id, or with one that several keys have.
const TRIES_MAX: usize = 4;

/// Bits of RSA: fewer are too weak, more take too long.
const RSA_BITS: std::ops::RangeInclusive<usize> = 2_048..=8_192;

#[derive(Deserialize)]
struct Set {
    keys: Vec<Value>,
}

#[derive(Deserialize)]
struct WebKey {
    kty: String,
    kid: Option<String>,
    alg: Option<String>,
    #[serde(rename = "use")]
    used_for: Option<String>,
    key_ops: Option<Vec<String>>,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
}

impl KeySet {
    pub(super) fn parse(json: &[u8]) -> Result<Self, KeySetError> {
        let set: Set = serde_json::from_slice(json).map_err(|_| KeySetError::Malformed)?;
        if set.keys.len() > KEYS_MAX {
            return Err(KeySetError::TooMany);
        }
        let keys: Vec<Key> = set.keys.into_iter().filter_map(Key::of).collect();
        if keys.is_empty() {
            return Err(KeySetError::NoKey);
        }
        Ok(Self { keys })
    }

    pub(super) fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether a key of the set has signed the token.
    pub(super) fn verify(&self, token: &Token<'_>) -> Result<(), TokenError> {
        let mut fitting = self.keys.iter().filter(|key| key.fits(token)).peekable();
        if fitting.peek().is_none() {
            return Err(TokenError::UnknownKey);
        }
        let is_signed = fitting.take(TRIES_MAX).any(|key| key.verifies(token));
        is_signed.then_some(()).ok_or(TokenError::Signature)
    }
}

impl Key {
    fn of(value: Value) -> Option<Self> {
        let key: WebKey = serde_json::from_value(value).ok()?;
        let is_for_signatures = key.used_for.as_deref().is_none_or(|used_for| used_for == "sig")
            && key
                .key_ops
                .as_ref()
                .is_none_or(|operations| operations.iter().any(|operation| operation == "verify"));
        if !is_for_signatures {
            return None;
        }
        let algorithm = match &key.alg {
            Some(name) => Some(JwtAlgorithm::named(name)?),
            None => None,
        };
        let material = Material::of(&key)?;
        Some(Self {
            id: key.kid,
            algorithm,
            material,
        })
    }

    /// Whether the token may be signed with it. One without an id may have signed any.
    fn fits(&self, token: &Token<'_>) -> bool {
        let is_named = match (&self.id, &token.key_id) {
            (Some(id), Some(named)) => id == named,
            _ => true,
        };
        is_named
            && self
                .algorithm
                .is_none_or(|algorithm| algorithm == token.algorithm)
            && self.material.is_for(token.algorithm)
    }

    fn verifies(&self, token: &Token<'_>) -> bool {
        let (signed, signature) = (token.signed, &token.signature);
        match &self.material {
            Material::Rsa(key) => rsa_parameters(token.algorithm)
                .is_some_and(|parameters| key.verify(parameters, signed, signature).is_ok()),
            Material::P256(key) | Material::P384(key) | Material::Ed25519(key) => {
                key.verify_sig(signed, signature).is_ok()
            }
        }
    }
}

impl Material {
    fn of(key: &WebKey) -> Option<Self> {
        match (key.kty.as_str(), key.crv.as_deref()) {
            ("RSA", _) => {
                let modulus = number(key.n.as_deref()?)?;
                let bits = modulus.len() * 8 - modulus.first()?.leading_zeros() as usize;
                let components = RsaPublicKeyComponents {
                    n: modulus,
                    e: number(key.e.as_deref()?)?,
                };
                let is_key = RSA_BITS.contains(&bits)
                    && components
                        .to_parsed_public_key(&RSA_PKCS1_2048_8192_SHA256)
                        .is_ok();
                is_key.then_some(Self::Rsa(components))
            }
            ("EC", Some("P-256")) => point(key, 32, &ECDSA_P256_SHA256_FIXED).map(Self::P256),
            ("EC", Some("P-384")) => point(key, 48, &ECDSA_P384_SHA384_FIXED).map(Self::P384),
            ("OKP", Some("Ed25519")) => {
                let bytes = BASE64.decode(key.x.as_deref()?).ok()?;
                ParsedPublicKey::new(&ED25519, bytes).ok().map(Self::Ed25519)
            }
            _ => None,
        }
    }

    fn is_for(&self, algorithm: JwtAlgorithm) -> bool {
        match self {
            Self::Rsa(_) => rsa_parameters(algorithm).is_some(),
            Self::P256(_) => algorithm == JwtAlgorithm::Es256,
            Self::P384(_) => algorithm == JwtAlgorithm::Es384,
            Self::Ed25519(_) => algorithm == JwtAlgorithm::EdDsa,
        }
    }
}

fn rsa_parameters(algorithm: JwtAlgorithm) -> Option<&'static RsaParameters> {
    match algorithm {
        JwtAlgorithm::Rs256 => Some(&RSA_PKCS1_2048_8192_SHA256),
        JwtAlgorithm::Rs384 => Some(&RSA_PKCS1_2048_8192_SHA384),
        JwtAlgorithm::Rs512 => Some(&RSA_PKCS1_2048_8192_SHA512),
        JwtAlgorithm::Ps256 => Some(&RSA_PSS_2048_8192_SHA256),
        JwtAlgorithm::Ps384 => Some(&RSA_PSS_2048_8192_SHA384),
        JwtAlgorithm::Ps512 => Some(&RSA_PSS_2048_8192_SHA512),
        JwtAlgorithm::Es256 | JwtAlgorithm::Es384 | JwtAlgorithm::EdDsa => None,
    }
}

/// Some issuers write zeros before a number.
fn number(text: &str) -> Option<Vec<u8>> {
    let bytes = BASE64.decode(text).ok()?;
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    bytes.get(zeros..).map(<[u8]>::to_vec)
}

/// A point on a curve whose coordinates have so many bytes.
fn point(
    key: &WebKey,
    bytes: usize,
    algorithm: &'static dyn VerificationAlgorithm,
) -> Option<ParsedPublicKey> {
    let mut point = vec![0x04];
    for coordinate in [&key.x, &key.y] {
        let coordinate = BASE64.decode(coordinate.as_deref()?).ok()?;
        point.extend((coordinate.len() == bytes).then_some(coordinate)?);
    }
    ParsedPublicKey::new(algorithm, point).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 7515 A.2.
    const RSA: &str = r#"{"kty":"RSA","e":"AQAB","n":"ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-4qPCJrcS2mJPMEzP1Pt0Bm4d4QlL-yRT-SFd2lZS-pCgNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf63kpaSHSXndS5z5rexMdbBYUsLA9e-KXBdQOS-UTo7WTBEMa2R2CapHg665xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6_I5IhlJH7aGhyxXFvUK-DWNmoudF8NAco9_h9iaGNj8q2ethFkMLs91kzk2PAcDTW9gb54h4FRWyuXpoQ"}"#;
    const RSA_TOKEN: &str = "eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ.cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4Bh-0Qc_lF5YKt_O8W2Fp5jujGbds9uJdbF9CUAr7t1dnZcAcQjbKBYNX4BAynRFdiuB--f_nZLgrnbyTyWzO75vRK5h6xBArLIARNPvkSjtQBMHlb1L07Qe7K0GarZRmB_eSN9383LcOLn6_dO--xi12jzDwusC-eOkHWEsqtFZESc6BfI7noOPqvhJ1phCnvWh6IeYI2w9QOYEUipUTI8np6LbgGY9Fs98rqVt5AXLIhWkWywlVmtVrBp0igcN_IoypGlUPQGe77Rw";

    /// RFC 7515 A.3.
    const P256: &str = r#"{"kty":"EC","crv":"P-256","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}"#;
    const P256_TOKEN: &str = "eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ.DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q";

    /// RFC 8037 A.4.
    const ED25519_KEY: &str =
        r#"{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}"#;
    const ED25519_TOKEN: &str = "eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc.hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcvMg3AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_MuM0KAg";

    fn set(keys: &[&str]) -> Result<KeySet, KeySetError> {
        KeySet::parse(format!("{{\"keys\":[{}]}}", keys.join(",")).as_bytes())
    }

    fn verify(keys: &[&str], token: &str) -> Result<(), TokenError> {
        set(keys).expect("keys").verify(&Token::parse(token.as_bytes())?)
    }

    /// With a further member.
    fn with(key: &str, member: &str) -> String {
        key.replacen('{', &format!("{{{member},"), 1)
    }

    /// With a header of one's own.
    fn headed(header: &str, token: &str) -> String {
        let rest = token.split_once('.').expect("a token").1;
        format!("{}.{rest}", BASE64.encode(header))
    }

    #[test]
    fn the_examples_of_the_standards_are_verified() {
        for (key, token) in [(RSA, RSA_TOKEN), (P256, P256_TOKEN), (ED25519_KEY, ED25519_TOKEN)] {
            assert_eq!(verify(&[key], token), Ok(()));
            assert_eq!(verify(&[RSA, P256, ED25519_KEY], token), Ok(()));
        }
    }

    #[test]
    fn a_token_that_was_changed_anywhere_is_not() {
        for (key, token) in [(RSA, RSA_TOKEN), (P256, P256_TOKEN), (ED25519_KEY, ED25519_TOKEN)] {
            let (signed, signature) = token.rsplit_once('.').expect("a token");
            let (header, payload) = signed.split_once('.').expect("a token");
            let mut other = BASE64.decode(payload).expect("base64");
            other[0] ^= 1;
            let payload_changed = format!("{header}.{}.{signature}", BASE64.encode(other));
            let mut other = BASE64.decode(signature).expect("base64");
            other[9] ^= 1;
            let signature_changed = format!("{signed}.{}", BASE64.encode(&other));
            let signature_cut = format!("{signed}.{}", BASE64.encode(&other[..other.len() - 1]));
            let without = format!("{signed}.");
            let zero = format!("{signed}.{}", BASE64.encode(vec![0; other.len()]));
            let algorithm = BASE64.decode(header).expect("base64");
            let spaced = String::from_utf8(algorithm).expect("text").replace(':', ": ");
            for changed in [
                payload_changed,
                signature_changed,
                signature_cut,
                without,
                zero,
                headed(&spaced, token),
            ] {
                assert_eq!(verify(&[key], &changed), Err(TokenError::Signature), "{changed}");
            }
        }
    }

    #[test]
    fn the_key_says_which_algorithm_it_is_for() {
        for (key, algorithm) in [
            (RSA, "ES256"),
            (RSA, "EdDSA"),
            (P256, "RS256"),
            (P256, "ES384"),
            (P256, "EdDSA"),
            (ED25519_KEY, "ES256"),
        ] {
            let token = headed(&format!("{{\"alg\":\"{algorithm}\"}}"), RSA_TOKEN);
            assert_eq!(verify(&[key], &token), Err(TokenError::UnknownKey), "{algorithm}");
        }
        // Of the same kind, but signed in another way.
        let token = headed(r#"{"alg":"PS256"}"#, RSA_TOKEN);
        assert_eq!(verify(&[RSA], &token), Err(TokenError::Signature));
        let bound = with(RSA, r#""alg":"PS256""#);
        assert_eq!(verify(&[&bound], RSA_TOKEN), Err(TokenError::UnknownKey));
        let bound = with(RSA, r#""alg":"RS256""#);
        assert_eq!(verify(&[&bound], RSA_TOKEN), Ok(()));
    }

    /// The attack of CVE-2015-9235: a public key, which everybody has, used as a secret.
    #[test]
    fn a_public_key_is_no_secret() {
        let token = headed(r#"{"alg":"HS256"}"#, RSA_TOKEN);
        assert_eq!(verify(&[RSA], &token), Err(TokenError::Algorithm));
        let secret = r#"{"kty":"oct","k":"AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_T"}"#;
        assert_eq!(set(&[secret]).expect_err("no key"), KeySetError::NoKey);
        assert_eq!(verify(&[secret, RSA], &token), Err(TokenError::Algorithm));
    }

    #[test]
    fn a_key_is_found_by_its_id() {
        let [one, other] = ["one", "other"].map(|id| with(ED25519_KEY, &format!("\"kid\":\"{id}\"")));
        let named = headed(r#"{"alg":"EdDSA","kid":"third"}"#, ED25519_TOKEN);
        assert_eq!(verify(&[&one, &other], &named), Err(TokenError::UnknownKey));
        // The header is part of what is signed.
        let named = headed(r#"{"alg":"EdDSA","kid":"other"}"#, ED25519_TOKEN);
        assert_eq!(verify(&[&one, &other], &named), Err(TokenError::Signature));
        assert_eq!(
            verify(&[&one, &other], ED25519_TOKEN),
            Ok(()),
            "without an id all fit"
        );
    }

    #[test]
    fn trying_keys_has_an_end() {
        let stranger = r#"{"kty":"OKP","crv":"Ed25519","x":"PUAXw-hDiVqStwqnTRt-vJyYLM8uxJaMwM1V8Sr0Zgw"}"#;
        let mut keys = vec![stranger; TRIES_MAX - 1];
        keys.push(ED25519_KEY);
        assert_eq!(verify(&keys, ED25519_TOKEN), Ok(()));
        keys.insert(0, stranger);
        assert_eq!(verify(&keys, ED25519_TOKEN), Err(TokenError::Signature));
    }

    #[test]
    fn keys_for_something_else_are_left_out() {
        let short = RSA.replace("uXpoQ", "").replacen("ofgW", "", 1);
        let off_curve = P256.replace("\"x_F", "\"x_G");
        for key in [
            "7",
            "{}",
            r#"{"kty":"AKP"}"#,
            &with(RSA, r#""use":"enc""#),
            &with(RSA, r#""key_ops":["encrypt"]"#),
            &with(RSA, r#""alg":"RSA-OAEP""#),
            &short,
            &off_curve,
            &P256.replace("P-256", "secp256k1"),
            &ED25519_KEY.replace("Ed25519", "X25519"),
            r#"{"kty":"RSA","n":"","e":"AQAB"}"#,
        ] {
            assert_eq!(set(&[key]).err(), Some(KeySetError::NoKey), "{key}");
            assert_eq!(set(&[key, RSA]).expect("one key").len(), 1);
        }
    }

    #[test]
    fn what_is_no_set_is_none() {
        for text in ["", "{}", "[]", "<html>", r#"{"keys":{}}"#, r#"{"keys":[]} x"#] {
            assert_eq!(
                KeySet::parse(text.as_bytes()).err(),
                Some(KeySetError::Malformed),
                "{text}"
            );
        }
        assert_eq!(set(&vec!["{}"; KEYS_MAX + 1]).err(), Some(KeySetError::TooMany));
        assert_eq!(set(&[]).err(), Some(KeySetError::NoKey));
        let deep = format!("{{\"keys\":{}", "[".repeat(100_000));
        assert_eq!(KeySet::parse(deep.as_bytes()).err(), Some(KeySetError::Malformed));
    }
}
