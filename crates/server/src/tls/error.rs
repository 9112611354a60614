//! What is wrong with the files of TLS, in words for an operator.

use std::io;
use std::path::PathBuf;

use rustls::pki_types::pem;
use thiserror::Error;

use super::x509::{KeySize, Unreadable};

/// A setting of TLS that cannot be used.
#[derive(Debug, Error)]
#[error("`{setting}`: {problem}")]
pub struct TlsError {
    /// As in `listeners[0].tls.cert`.
    pub setting: String,
    /// What is wrong with it.
    pub problem: TlsProblem,
}

/// What is wrong with a file.
#[derive(Debug, Error)]
pub enum TlsProblem {
    /// It cannot be read, or is not PEM.
    #[error("cannot use {}: {cause}", .file.display())]
    File {
        /// Which.
        file: PathBuf,
        /// Why.
        cause: pem::Error,
    },
    /// It cannot be read, or is far too large.
    #[error("cannot read {}: {cause}", .file.display())]
    Unread {
        /// Which.
        file: PathBuf,
        /// Why.
        cause: io::Error,
    },
    /// It has no certificate in it.
    #[error("{} contains no certificate", .file.display())]
    NoCertificate {
        /// Which.
        file: PathBuf,
    },
    /// It has no list of revoked certificates in it.
    #[error("{} contains no list of revoked certificates", .file.display())]
    NoList {
        /// Which.
        file: PathBuf,
    },
    /// A certificate or list in it is not one.
    #[error("cannot use {}: {cause}", .file.display())]
    Encoding {
        /// Which.
        file: PathBuf,
        /// Why.
        cause: Unreadable,
    },
    /// A key in it is easier to break than is accepted.
    #[error("{}: the key of `{subject}` is too small: {key}", .file.display())]
    SmallKey {
        /// Which.
        file: PathBuf,
        /// Whose key.
        subject: String,
        /// What it has.
        key: KeySize,
    },
    /// A certificate in it is of X.509 version 1.
    #[error(
        "{}: the certificate of `{subject}` is of X.509 version 1, which no client accepts; issue it as version 3 \
         (openssl x509 -req with -extfile, or statehold certs)", .file.display()
    )]
    Version1 {
        /// Which.
        file: PathBuf,
        /// Whose certificate.
        subject: String,
    },
    /// The private key in it is encrypted.
    #[error(
        "{}: the private key has a passphrase, and nobody is there to type it; write it without one \
         (openssl pkey -in KEY -out KEY), and keep it with mode 0600", .file.display()
    )]
    Passphrase {
        /// Which.
        file: PathBuf,
    },
    /// The key belongs to another than the first certificate.
    #[error(
        "{}: the first certificate is that of `{first}`, but the key belongs to that of `{own}`; put the server's own \
         certificate first, and behind it the one that issued it", .file.display()
    )]
    Order {
        /// Which.
        file: PathBuf,
        /// Whose is the first.
        first: String,
        /// Whose the key is.
        own: String,
    },
    /// What is in it is of a kind that is not known, or does not belong to the certificate.
    #[error("cannot use {}: {cause}", .file.display())]
    Content {
        /// Which.
        file: PathBuf,
        /// Why.
        cause: rustls::Error,
    },
    /// The authorities of clients, or the lists of revoked certificates, are of a kind that is not known.
    #[error("cannot use {}: {cause}", .file.display())]
    Authorities {
        /// The file of the authorities.
        file: PathBuf,
        /// Why.
        cause: rustls::server::VerifierBuilderError,
    },
}

impl TlsProblem {
    pub(crate) fn at(self, setting: &str) -> TlsError {
        TlsError {
            setting: setting.to_owned(),
            problem: self,
        }
    }
}
