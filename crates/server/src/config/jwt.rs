//! `[authentication.jwt]`: tokens of an issuer whose public keys are known.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::file::Problem;
use super::quantity;
use crate::https_client::Url;

/// The method `"jwt"`: JSON Web Tokens of an issuer whose public keys are known, as password of CONNECT or as enhanced
/// authentication with the method `JWT`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Jwt {
    /// File with the issuer's public keys, a JSON Web Key Set. It is read again on SIGHUP and a few seconds after it has changed; a
    /// file that cannot be used changes nothing. Either this or `keys_url`.
    pub keys_file: PathBuf,

    /// Where the issuer publishes its keys, as in `"https://issuer.example/.well-known/jwks.json"`. They are fetched when the server
    /// starts, every `refresh_interval`, and when a token names a key that is not known. Until they are there tokens are refused
    /// with 0x88. `http` is for loopback addresses only, unless `allow_http`.
    pub keys_url: String,

    /// PEM file with the authorities of `keys_url`; empty: those of the system.
    pub ca: PathBuf,

    /// Whether `keys_url` may be fetched without TLS from another machine. Whoever can change what comes back can make tokens.
    pub allow_http: bool,

    /// How often `keys_url` is fetched. A fetch that fails is tried again soon, and changes nothing.
    #[serde(with = "quantity::duration")]
    #[schemars(with = "quantity::DurationText")]
    pub refresh_interval: Duration,

    /// How long one fetch may take.
    #[serde(with = "quantity::duration")]
    #[schemars(with = "quantity::DurationText")]
    pub timeout: Duration,

    /// Who has to have made a token (`iss`), to the letter. Has to be set.
    pub issuer: String,

    /// For whom a token has to be made (`aud`): one of these. At least one is needed.
    pub audiences: Vec<String>,

    /// How tokens may be signed. A key of the issuer is used for the algorithms of its kind only.
    pub algorithms: Vec<JwtAlgorithm>,

    /// How far the clocks of the issuer and this machine may be apart: a token counts so much longer and earlier than it says. At
    /// most 10 minutes.
    #[serde(with = "quantity::duration")]
    #[schemars(with = "quantity::DurationText")]
    pub leeway: Duration,

    /// The claim that is the principal's name; one that begins with `/` is a path (JSON Pointer).
    pub name_claim: String,

    /// Which claims become attributes of the principal: the attribute's name, and the claim, as for `name_claim`. A claim that is
    /// a list gives each of its elements: `attributes = { group = "groups" }` and the claim `["a", "b"]` are the attributes
    /// `group/a` and `group/b` with the value `true`.
    pub attributes: BTreeMap<String, String>,

    /// Whether User Name of CONNECT has to be the principal's name, where a client sends one. Without it User Name is free.
    pub username_is_name: bool,
}

/// How a token may be signed. There is no way to allow none, or a shared secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum JwtAlgorithm {
    /// RSA with PKCS #1 and SHA-256.
    #[serde(rename = "RS256")]
    Rs256,
    /// RSA with PKCS #1 and SHA-384.
    #[serde(rename = "RS384")]
    Rs384,
    /// RSA with PKCS #1 and SHA-512.
    #[serde(rename = "RS512")]
    Rs512,
    /// RSA with PSS and SHA-256.
    #[serde(rename = "PS256")]
    Ps256,
    /// RSA with PSS and SHA-384.
    #[serde(rename = "PS384")]
    Ps384,
    /// RSA with PSS and SHA-512.
    #[serde(rename = "PS512")]
    Ps512,
    /// ECDSA with P-256 and SHA-256.
    #[serde(rename = "ES256")]
    Es256,
    /// ECDSA with P-384 and SHA-384.
    #[serde(rename = "ES384")]
    Es384,
    /// Ed25519.
    #[serde(rename = "EdDSA")]
    EdDsa,
}

impl JwtAlgorithm {
    /// All, which is what the settings allow if they do not say.
    pub const ALL: [Self; 9] = [
        Self::Rs256,
        Self::Rs384,
        Self::Rs512,
        Self::Ps256,
        Self::Ps384,
        Self::Ps512,
        Self::Es256,
        Self::Es384,
        Self::EdDsa,
    ];

    /// As the settings and the header of a token call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Rs256 => "RS256",
            Self::Rs384 => "RS384",
            Self::Rs512 => "RS512",
            Self::Ps256 => "PS256",
            Self::Ps384 => "PS384",
            Self::Ps512 => "PS512",
            Self::Es256 => "ES256",
            Self::Es384 => "ES384",
            Self::EdDsa => "EdDSA",
        }
    }

    /// The one of that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|algorithm| algorithm.name() == name)
    }
}

impl Jwt {
    /// What a listener with the method needs.
    pub(super) fn violations(&self, problems: &mut Vec<Problem>) {
        let mut problem = |setting: &str, why: &str| {
            problems.push(Problem::new(
                &format!("authentication.jwt.{setting}"),
                why.to_owned(),
            ));
        };
        match (self.keys_file.as_os_str().is_empty(), self.keys_url.is_empty()) {
            (true, true) => problem("keys_file", "the method `jwt` needs `keys_file` or `keys_url`"),
            (false, false) => problem("keys_url", "one of `keys_file` and `keys_url` only"),
            (true, false) => {
                if let Err(why) = Url::parse(&self.keys_url, self.allow_http) {
                    problem("keys_url", &why.to_string());
                }
            }
            (false, true) => {}
        }
        if self.issuer.is_empty() {
            problem("issuer", "the method `jwt` needs to know whose tokens count");
        }
        if self.audiences.is_empty() || self.audiences.iter().any(String::is_empty) {
            problem(
                "audiences",
                "without an audience tokens for others would count: name at least one",
            );
        }
        if self.algorithms.is_empty() {
            problem("algorithms", "at least one is needed");
        }
        if self.leeway > LEEWAY_MOST {
            problem("leeway", "clocks are not so far apart: at most 10min");
        }
        if self.name_claim.is_empty() {
            problem("name_claim", "a claim is needed, as in \"sub\"");
        }
        if self
            .attributes
            .keys()
            .any(|name| name.is_empty() || name.contains('/'))
        {
            problem(
                "attributes",
                "the name of an attribute is not empty, and has no `/` in it",
            );
        }
        for (setting, duration) in [
            ("refresh_interval", self.refresh_interval),
            ("timeout", self.timeout),
        ] {
            if duration.is_zero() {
                problem(setting, "more than 0s");
            }
        }
    }
}

impl Default for Jwt {
    fn default() -> Self {
        Self {
            keys_file: PathBuf::new(),
            keys_url: String::new(),
            ca: PathBuf::new(),
            allow_http: false,
            refresh_interval: Duration::from_secs(15 * 60),
            timeout: Duration::from_secs(10),
            issuer: String::new(),
            audiences: Vec::new(),
            algorithms: JwtAlgorithm::ALL.to_vec(),
            leeway: Duration::from_secs(30),
            name_claim: "sub".to_owned(),
            attributes: BTreeMap::new(),
            username_is_name: false,
        }
    }
}

/// More would let tokens count long after they have expired.
const LEEWAY_MOST: Duration = Duration::from_secs(10 * 60);
