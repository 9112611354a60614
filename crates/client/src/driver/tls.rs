//! TLS: whom to trust, and as whom to appear.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};

/// Whom to trust, and as whom to appear. Files are PEM.
#[derive(Debug, Clone, Default)]
pub struct TlsOptions {
    ca_file: Option<PathBuf>,
    identity: Option<(PathBuf, PathBuf)>,
    server_name: Option<String>,
}

/// Certificates or keys that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file that cannot be read or is not PEM.
    #[error("cannot use {}: {cause}", .file.display())]
    File {
        /// Which.
        file: PathBuf,
        /// Why.
        cause: rustls::pki_types::pem::Error,
    },
    /// A file without a certificate.
    #[error("{} contains no certificate", .file.display())]
    NoCertificate {
        /// Which.
        file: PathBuf,
    },
    /// The system has no trusted certificates, and none were given.
    #[error("the system has no trusted certificates: name a CA file")]
    NoSystemCertificates,
    /// A name that cannot be that of a server.
    #[error("{name:?} cannot be the name of a server")]
    ServerName {
        /// Which.
        name: String,
    },
    /// The certificate and the key do not fit, or are of an unknown kind.
    #[error("cannot set up TLS")]
    Setup(#[from] rustls::Error),
}

impl TlsOptions {
    /// Trusts the certificates of the system, appears as nobody.
    pub fn new() -> Self {
        Self::default()
    }

    /// Trusts the certificates in this file, and no other.
    #[must_use]
    pub fn ca_file(mut self, file: impl Into<PathBuf>) -> Self {
        self.ca_file = Some(file.into());
        self
    }

    /// Appears with this certificate chain and its private key.
    #[must_use]
    pub fn identity(mut self, certificate_file: impl Into<PathBuf>, key_file: impl Into<PathBuf>) -> Self {
        self.identity = Some((certificate_file.into(), key_file.into()));
        self
    }

    /// Expects a certificate for this name; by default for the host connected to, `localhost` at a Unix socket.
    #[must_use]
    pub fn server_name(mut self, name: impl Into<String>) -> Self {
        self.server_name = Some(name.into());
        self
    }
}

/// TLS options that have been checked.
#[derive(Debug, Clone)]
pub(crate) struct Tls {
    pub(crate) config: Arc<ClientConfig>,
    pub(crate) server_name: ServerName<'static>,
}

impl Tls {
    pub(crate) fn new(options: &TlsOptions, host: &str) -> Result<Self, TlsError> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
        let builder = builder.with_root_certificates(roots(options.ca_file.as_deref())?);
        let config = match &options.identity {
            None => builder.with_no_client_auth(),
            Some((certificate_file, key_file)) => {
                let key = PrivateKeyDer::from_pem_file(key_file);
                let key = key.map_err(|cause| TlsError::File {
                    file: key_file.clone(),
                    cause,
                })?;
                builder.with_client_auth_cert(certificates(certificate_file)?, key)?
            }
        };
        let name = options.server_name.clone().unwrap_or_else(|| host.to_owned());
        let server_name = ServerName::try_from(name.clone()).map_err(|_| TlsError::ServerName { name })?;
        Ok(Self {
            config: Arc::new(config),
            server_name,
        })
    }
}

fn roots(ca_file: Option<&Path>) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    match ca_file {
        Some(file) => {
            for certificate in certificates(file)? {
                roots.add(certificate)?;
            }
        }
        None => {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            if roots.is_empty() {
                return Err(TlsError::NoSystemCertificates);
            }
        }
    }
    Ok(roots)
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let unusable = |cause| TlsError::File {
        file: file.to_owned(),
        cause,
    };
    let found = CertificateDer::pem_file_iter(file).map_err(unusable)?;
    let certificates = found.collect::<Result<Vec<_>, _>>().map_err(unusable)?;
    if certificates.is_empty() {
        return Err(TlsError::NoCertificate {
            file: file.to_owned(),
        });
    }
    Ok(certificates)
}
