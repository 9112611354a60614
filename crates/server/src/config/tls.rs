//! `[listeners.tls]`: certificates of the server, and what is asked of those of clients.

use std::path::PathBuf;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::file::Problem;
use super::quantity;

/// TLS of a listener.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Tls {
    /// PEM file with the server's certificate, followed by those between it and the authority. An RSA key has at least 2048 bits.
    pub cert: PathBuf,

    /// PEM file with the private key of `cert`. If every user of the machine can read it, a line of level `warn` says so.
    pub key: PathBuf,

    /// PEM file with the authorities of client certificates, one or several. With it, a client without a certificate of one of
    /// them is refused in the handshake (but see `client_cert`). Only for clients: the certificate has to be one for the
    /// purpose of a client (extended key usage), if it says for which purpose it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "PathBuf")]
    pub client_ca: Option<PathBuf>,

    /// Whether a client of a listener with `client_ca` has to have a certificate.
    #[serde(default)]
    pub client_cert: ClientCertificate,

    /// Files with lists of revoked certificates (CRL), PEM or DER. A client whose certificate, or one between it and the authority, is in
    /// one of them is refused in the handshake, and disconnected with 0x87 if it is connected when the list is read. An
    /// authority's list is used if the authority has signed it; each authority needs one, see `crl_missing`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub crl: Vec<PathBuf>,

    /// What a list of `crl` is worth after its time (`nextUpdate`).
    #[serde(default)]
    pub crl_expired: CrlDoubt,

    /// What becomes of a client if `crl` has no list of the authority that has issued its certificate, or one between it and
    /// the authority.
    #[serde(default)]
    pub crl_missing: CrlDoubt,

    /// Bits that an RSA key in a client's certificate, or in one between it and the authority, has at least: 2048 to 8192.
    #[serde(default = "rsa_bits_min")]
    pub client_rsa_bits_min: u32,

    /// Bits that a key on an elliptic curve in such a certificate has at least: 256 to 521. A key of Ed25519 has 256.
    #[serde(default = "ec_bits_min")]
    pub client_ec_bits_min: u32,

    /// How long before one of these certificates or lists expires a line of level `warn` says so, once a day.
    #[serde(default = "expiry_warning", with = "quantity::duration")]
    #[schemars(with = "quantity::DurationText")]
    pub expiry_warning: Duration,

    /// The oldest version of TLS that is spoken.
    #[serde(default)]
    pub min_version: TlsVersion,

    /// Further certificates. A client that names a server (SNI) gets the first one that is for this name, any other client
    /// the one above.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub certificates: Vec<Certificate>,
}

/// A certificate of the server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Certificate {
    /// PEM file, as `tls.cert`.
    pub cert: PathBuf,

    /// PEM file with its private key.
    pub key: PathBuf,
}

/// A version of TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub enum TlsVersion {
    /// TLS 1.2 and 1.3.
    #[default]
    #[serde(rename = "1.2")]
    V1_2,
    /// TLS 1.3 only.
    #[serde(rename = "1.3")]
    V1_3,
}

/// Whether a client of a listener with `client_ca` has to have a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ClientCertificate {
    /// A client without one is refused in the handshake.
    #[default]
    Required,
    /// A client without one goes on, and says who it is in another way (`authentication`). One that has a certificate is refused if
    /// that is not a good one.
    Optional,
}

/// What is done when it cannot be told whether a certificate is revoked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CrlDoubt {
    /// The client is refused.
    #[default]
    Refuse,
    /// The client is let in: what the list says holds as far as it goes.
    Accept,
}

impl Tls {
    /// With these files, and defaults for the rest.
    pub fn of(cert: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Self {
        Self {
            cert: cert.into(),
            key: key.into(),
            client_ca: None,
            client_cert: ClientCertificate::default(),
            crl: Vec::new(),
            crl_expired: CrlDoubt::default(),
            crl_missing: CrlDoubt::default(),
            client_rsa_bits_min: rsa_bits_min(),
            client_ec_bits_min: ec_bits_min(),
            expiry_warning: expiry_warning(),
            min_version: TlsVersion::default(),
            certificates: Vec::new(),
        }
    }

    /// Whether everybody who gets through the handshake has a certificate of `client_ca`.
    pub fn requires_certificates(&self) -> bool {
        self.client_ca.is_some() && self.client_cert == ClientCertificate::Required
    }

    /// What the types do not say; `name` is as in `listeners[0].tls`.
    pub(super) fn violations(&self, name: &str, problems: &mut Vec<Problem>) {
        let mut require = |holds: bool, setting: &str, why: &str| {
            if !holds {
                problems.push(Problem::new(&format!("{name}.{setting}"), why.to_owned()));
            }
        };
        require(
            self.client_ca.is_some() || self.crl.is_empty(),
            "crl",
            "without `client_ca` no client has a certificate that could be revoked",
        );
        require(
            self.client_ca.is_some() || self.client_cert == ClientCertificate::Required,
            "client_cert",
            "without `client_ca` no client is asked for a certificate",
        );
        require(
            (2_048..=8_192).contains(&self.client_rsa_bits_min),
            "client_rsa_bits_min",
            "between 2048 and 8192",
        );
        require(
            (256..=521).contains(&self.client_ec_bits_min),
            "client_ec_bits_min",
            "between 256 and 521",
        );
    }
}

fn rsa_bits_min() -> u32 {
    2_048
}

fn ec_bits_min() -> u32 {
    256
}

fn expiry_warning() -> Duration {
    Duration::from_hours(30 * 24)
}
