use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair as _};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::config::JwtAlgorithm;

/// 2026-11-21 in seconds.
const NOW: u64 = 1_795_219_200;

/// Somebody whose tokens count.
struct Issuer {
    key: Ed25519KeyPair,
    settings: Jwt,
}

impl Issuer {
    fn new() -> Self {
        Self {
            key: Ed25519KeyPair::generate().expect("random numbers"),
            settings: Jwt {
                issuer: "https://issuer.example".to_owned(),
                audiences: vec!["broker".to_owned(), "spare".to_owned()],
                ..Jwt::default()
            },
        }
    }

    fn keys(&self) -> KeySet {
        let x = BASE64.encode(self.key.public_key().as_ref());
        let set = json!({"keys": [{"kty": "OKP", "crv": "Ed25519", "x": x}]});
        KeySet::parse(set.to_string().as_bytes()).expect("a key")
    }

    fn sign(&self, claims: &[u8]) -> String {
        let signed = format!(
            "{}.{}",
            BASE64.encode(r#"{"alg":"EdDSA"}"#),
            BASE64.encode(claims)
        );
        let signature = self.key.sign(signed.as_bytes());
        format!("{signed}.{}", BASE64.encode(signature.as_ref()))
    }

    fn verify(&self, claims: &Value) -> Result<Verified, TokenError> {
        let token = self.sign(claims.to_string().as_bytes());
        verify(token.as_bytes(), &self.keys(), &self.settings, NOW * 1_000)
    }

    /// Usual claims, some of them other ones.
    fn with(&self, others: &Value) -> Result<Verified, TokenError> {
        let mut claims = json!({
            "iss": "https://issuer.example",
            "aud": "broker",
            "sub": "pump-7",
            "exp": NOW + 600,
        });
        for (name, value) in others.as_object().expect("an object") {
            if value.is_null() {
                claims.as_object_mut().expect("an object").remove(name);
            } else {
                claims[name] = value.clone();
            }
        }
        self.verify(&claims)
    }

    fn error(&self, others: &Value) -> Option<TokenError> {
        self.with(others).err()
    }

    fn attributes(&self, others: &Value) -> Vec<(String, String)> {
        let principal = self.with(others).expect("right").principal;
        let all = principal.attributes.iter();
        all.map(|(name, value)| (name.to_string(), value.to_string()))
            .collect()
    }
}

#[test]
fn a_token_says_who_somebody_is_and_for_how_long() {
    let verified = Issuer::new().with(&json!({})).expect("right");
    assert_eq!(verified.principal.name.as_str(), "pump-7");
    assert!(verified.principal.attributes.is_empty());
    // The 30 seconds by which clocks may differ.
    assert_eq!(verified.expires_in, Duration::from_secs(630));
}

#[test]
fn a_token_has_to_be_of_the_issuer_and_for_us() {
    let issuer = Issuer::new();
    for other in [
        json!(null),
        json!("https://issuer.example/"),
        json!("HTTPS://issuer.example"),
        json!(["https://issuer.example"]),
        json!(7),
    ] {
        assert_eq!(
            issuer.error(&json!({"iss": other})),
            Some(TokenError::Issuer),
            "{other}"
        );
    }
    for other in [
        json!(null),
        json!("other"),
        json!(""),
        json!([]),
        json!(["other", 7]),
        json!({"broker": 1}),
    ] {
        assert_eq!(
            issuer.error(&json!({"aud": other})),
            Some(TokenError::Audience),
            "{other}"
        );
    }
    assert_eq!(issuer.error(&json!({"aud": ["other", "spare"]})), None);
}

#[test]
fn a_token_counts_for_its_time_only() {
    let issuer = Issuer::new();
    assert_eq!(issuer.error(&json!({"exp": null})), Some(TokenError::NoExpiry));
    assert_eq!(issuer.error(&json!({"exp": NOW - 29})), None);
    assert_eq!(issuer.error(&json!({"exp": NOW - 30})), Some(TokenError::Expired));
    assert_eq!(issuer.error(&json!({"exp": -1e300})), Some(TokenError::Expired));
    assert_eq!(issuer.error(&json!({"exp": 0})), Some(TokenError::Expired));
    assert_eq!(
        issuer.error(&json!({"exp": "tomorrow"})),
        Some(TokenError::Claims)
    );
    assert_eq!(issuer.error(&json!({"nbf": NOW + 30})), None);
    assert_eq!(
        issuer.error(&json!({"nbf": NOW + 31})),
        Some(TokenError::NotYetValid)
    );
    assert_eq!(issuer.error(&json!({"nbf": []})), Some(TokenError::Claims));
    let lifetime = |exp: Value| issuer.with(&json!({"exp": exp})).expect("right").expires_in;
    assert_eq!(lifetime(json!(NOW as f64 + 0.5)), Duration::from_millis(30_500));
    for far in [json!(1e300), json!(u64::MAX)] {
        assert_eq!(lifetime(far), LIFETIME_MOST);
    }
}

#[test]
fn a_name_is_a_text_of_mqtt_that_is_not_empty() {
    let mut issuer = Issuer::new();
    for name in [
        json!(null),
        json!(""),
        json!("a\u{0}b"),
        json!(["pump"]),
        json!({"a": "b"}),
    ] {
        assert_eq!(
            issuer.error(&json!({"sub": name})),
            Some(TokenError::NoName),
            "{name}"
        );
    }
    issuer.settings.name_claim = "/device/serial".to_owned();
    let named = issuer.with(&json!({"device": {"serial": 7}})).expect("right");
    assert_eq!(named.principal.name.as_str(), "7");
}

#[test]
fn claims_become_the_attributes_that_the_settings_name() {
    let mut issuer = Issuer::new();
    for (name, claim) in [
        ("site", "https://example.com/site"),
        ("role", "/realm/role"),
        ("group", "groups"),
        ("none", "none"),
    ] {
        issuer
            .settings
            .attributes
            .insert(name.to_owned(), claim.to_owned());
    }
    let attributes = issuer.attributes(&json!({
        "https://example.com/site": "north",
        "realm": {"role": true},
        "groups": ["a", "b/c", 7, ["d"], null, "e\u{0}"],
        "other": "left out",
    }));
    let expected = [
        ("group/7", "true"),
        ("group/a", "true"),
        ("group/b/c", "true"),
        ("role", "true"),
        ("site", "north"),
    ];
    assert_eq!(
        attributes,
        expected.map(|(name, value)| (name.to_owned(), value.to_owned()))
    );
    assert_eq!(issuer.attributes(&json!({"realm": {"role": {"a": 1}}})), []);
}

#[test]
fn what_is_signed_has_to_be_claims() {
    let issuer = Issuer::new();
    let deep = format!("{{\"a\":{}1{}}}", "[".repeat(500), "]".repeat(500));
    for payload in ["", "7", "[]", "null", "{", "\u{feff}{}", &deep] {
        let token = issuer.sign(payload.as_bytes());
        let verified = verify(token.as_bytes(), &issuer.keys(), &issuer.settings, NOW * 1_000);
        assert_eq!(verified, Err(TokenError::Claims), "{payload}");
    }
    let token = issuer.sign(b"{\"sub\":\"\xff\"}");
    let verified = verify(token.as_bytes(), &issuer.keys(), &issuer.settings, NOW * 1_000);
    assert_eq!(verified, Err(TokenError::Claims));
}

#[test]
fn only_algorithms_of_the_settings_count() {
    let mut issuer = Issuer::new();
    issuer.settings.algorithms = vec![JwtAlgorithm::Es256, JwtAlgorithm::Rs256];
    assert_eq!(issuer.error(&json!({})), Some(TokenError::Algorithm));
}

/// Who has no key is told nothing of what the claims should be.
#[test]
fn the_signature_is_looked_at_before_the_claims() {
    let (issuer, other) = (Issuer::new(), Issuer::new());
    let token = other.sign(br#"{"iss":"me"}"#);
    let verified = verify(token.as_bytes(), &issuer.keys(), &issuer.settings, NOW * 1_000);
    assert_eq!(verified, Err(TokenError::Signature));
}

proptest! {
    #[test]
    fn bytes_of_others_let_nobody_in(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let issuer = Issuer::new();
        prop_assert!(verify(&bytes, &issuer.keys(), &issuer.settings, NOW * 1_000).is_err());
    }

    #[test]
    fn texts_that_look_like_tokens_let_nobody_in(
        header in "\\{(\"(alg|kid|crit)\":\"?(EdDSA|none|HS256|1)\"?,?){0,3}\\}",
        payload in "\\{(\"(iss|aud|exp|sub)\":\"?[a-z0-9]{0,5}\"?,?){0,4}\\}",
        signature in prop::collection::vec(any::<u8>(), 60..70),
    ) {
        let issuer = Issuer::new();
        let token = [header.as_bytes(), payload.as_bytes(), &signature].map(|part| BASE64.encode(part)).join(".");
        prop_assert!(verify(token.as_bytes(), &issuer.keys(), &issuer.settings, NOW * 1_000).is_err());
    }

    #[test]
    fn a_token_with_another_byte_lets_nobody_in(at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let issuer = Issuer::new();
        let claims = json!({"iss": "https://issuer.example", "aud": "broker", "sub": "pump-7", "exp": NOW + 600});
        let mut token = issuer.sign(claims.to_string().as_bytes()).into_bytes();
        let at = at.index(token.len());
        prop_assume!(token[at] != byte);
        token[at] = byte;
        prop_assert!(verify(&token, &issuer.keys(), &issuer.settings, NOW * 1_000).is_err());
    }
}
