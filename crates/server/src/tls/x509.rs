//! What the server looks at in a certificate, or in a list of revoked ones.
//!
//! Whether a certificate may be trusted is not decided here: signatures, purposes and dates of clients' certificates are checked by
//! `webpki`.

use std::fmt;

use rustls::pki_types::{CertificateDer, CertificateRevocationListDer};
use thiserror::Error;
use x509_parser::oid_registry::{OID_SIG_ED448, OID_SIG_ED25519};
use x509_parser::prelude::{CertificateRevocationList, FromDer, X509Certificate, X509Version};
use x509_parser::public_key::PublicKey;

/// A certificate, as far as it is looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Certificate {
    /// As in `CN=pump, O=plant`.
    pub(crate) subject: String,
    /// As in `CN=plant authority`.
    pub(crate) issuer: String,
    /// It has no extensions, so it cannot say what it is for.
    pub(crate) is_version_1: bool,
    /// In base 16.
    pub(crate) serial: String,
    /// Seconds since the Unix epoch.
    pub(crate) not_before: i64,
    /// Seconds since the Unix epoch.
    pub(crate) not_after: i64,
    pub(crate) key: KeySize,
}

/// A list of revoked certificates, as far as it is looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RevocationList {
    pub(crate) issuer: String,
    /// Its number, or its date if it has none.
    pub(crate) number: String,
    /// Seconds since the Unix epoch, if a next list is announced.
    pub(crate) next_update: Option<i64>,
}

/// How large a public key is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeySize {
    /// Bits of the modulus.
    Rsa(u32),
    /// Bits of the curve's field.
    Curve(u32),
    /// A kind of which no size is asked.
    Other,
}

/// Bytes that are not what they should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Unreadable {
    /// No certificate of X.509.
    #[error("a certificate in it is malformed")]
    Certificate,
    /// No list of X.509.
    #[error("a list of revoked certificates in it is malformed")]
    List,
}

impl Certificate {
    pub(crate) fn read(certificate: &CertificateDer<'_>) -> Result<Self, Unreadable> {
        let (_, found) = X509Certificate::from_der(certificate).map_err(|_| Unreadable::Certificate)?;
        Ok(Self {
            subject: found.subject().to_string(),
            issuer: found.issuer().to_string(),
            is_version_1: found.version() == X509Version::V1,
            serial: found.raw_serial_as_string(),
            not_before: found.validity().not_before.timestamp(),
            not_after: found.validity().not_after.timestamp(),
            key: KeySize::of(&found),
        })
    }
}

impl RevocationList {
    pub(crate) fn read(list: &CertificateRevocationListDer<'_>) -> Result<Self, Unreadable> {
        let (_, found) = CertificateRevocationList::from_der(list).map_err(|_| Unreadable::List)?;
        let number = match found.crl_number() {
            Some(number) => number.to_string(),
            None => found.last_update().timestamp().to_string(),
        };
        Ok(Self {
            issuer: found.issuer().to_string(),
            number,
            next_update: found.next_update().map(|time| time.timestamp()),
        })
    }
}

impl KeySize {
    fn of(certificate: &X509Certificate<'_>) -> Self {
        let key = certificate.public_key();
        let bits = |bits: usize| u32::try_from(bits).unwrap_or(u32::MAX);
        match key.parsed() {
            Ok(PublicKey::RSA(key)) => Self::Rsa(bits(key.key_size())),
            Ok(PublicKey::EC(point)) => Self::Curve(bits(point.key_size())),
            _ if key.algorithm.algorithm == OID_SIG_ED25519 => Self::Curve(256),
            _ if key.algorithm.algorithm == OID_SIG_ED448 => Self::Curve(456),
            _ => Self::Other,
        }
    }

    /// Whether the key is as large as is asked of its kind.
    pub(crate) fn is_enough(self, rsa_bits_min: u32, ec_bits_min: u32) -> bool {
        match self {
            Self::Rsa(bits) => bits >= rsa_bits_min,
            Self::Curve(bits) => bits >= ec_bits_min,
            Self::Other => true,
        }
    }
}

impl fmt::Display for KeySize {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rsa(bits) => write!(to, "RSA with {bits} bits"),
            Self::Curve(bits) => write!(to, "an elliptic curve with {bits} bits"),
            Self::Other => to.write_str("of another kind"),
        }
    }
}
