//! The TLS of requests: whom to believe, and how to say who one is.
//!
//! Files that have changed are read before the next connection is made. If they cannot be used then, what was in them holds.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use thiserror::Error;

use crate::stamp::{Stamp, stamp};

/// Files of PEM; an empty path is none.
#[derive(Debug, Clone, Default)]
pub struct TlsFiles {
    /// Authorities; none: those of the system.
    pub ca: PathBuf,
    /// A certificate to be known by.
    pub cert: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

/// Files that cannot be used.
#[derive(Debug, Error)]
pub enum ClientTlsError {
    /// One cannot be read, or is not PEM.
    #[error("cannot use {}: {cause}", .file.display())]
    File {
        /// Which.
        file: PathBuf,
        /// Why.
        cause: pem::Error,
    },
    /// There is no certificate in it.
    #[error("{} contains no certificate", .file.display())]
    NoCertificate {
        /// Which.
        file: PathBuf,
    },
    /// What is in it is of a kind that is not known, or certificate and key do not belong together.
    #[error("cannot use {}: {cause}", .file.display())]
    Content {
        /// Which.
        file: PathBuf,
        /// Why.
        cause: rustls::Error,
    },
    /// The system has no list of authorities.
    #[error("the system has no authorities: name a file")]
    NoAuthorities,
}

/// What connections are made with.
#[derive(Debug)]
pub(super) struct ClientTls {
    files: TlsFiles,
    current: Arc<ClientConfig>,
    /// What the files looked like when `current` was made, or tried.
    used: [Stamp; 3],
}

impl ClientTls {
    pub(super) fn load(files: TlsFiles) -> Result<Self, ClientTlsError> {
        let used = stamps(&files);
        Ok(Self {
            current: Arc::new(client_config(&files, HTTP)?),
            files,
            used,
        })
    }

    /// What holds at the moment.
    pub(super) fn current(&mut self) -> Arc<ClientConfig> {
        let seen = stamps(&self.files);
        if seen != self.used {
            self.used = seen;
            match client_config(&self.files, HTTP) {
                Ok(config) => self.current = Arc::new(config),
                Err(error) => {
                    tracing::error!(%error, "cannot take the files for asking a server anew: the old ones stay in use");
                }
            }
        }
        Arc::clone(&self.current)
    }
}

fn stamps(files: &TlsFiles) -> [Stamp; 3] {
    [&files.ca, &files.cert, &files.key].map(|file| stamp(file))
}

/// What is spoken, as a server is told of it (ALPN).
const HTTP: &[&[u8]] = &[b"http/1.1"];

pub(super) fn client_config(files: &TlsFiles, spoken: &[&[u8]]) -> Result<ClientConfig, ClientTlsError> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("the provider has suites for TLS 1.2 and 1.3")
        .with_root_certificates(authorities(&files.ca)?);
    let mut config = if files.cert.as_os_str().is_empty() {
        builder.with_no_client_auth()
    } else {
        let key = PrivateKeyDer::from_pem_file(&files.key).map_err(|cause| ClientTlsError::File {
            file: files.key.clone(),
            cause,
        })?;
        let chain = certificates(&files.cert)?;
        builder
            .with_client_auth_cert(chain, key)
            .map_err(|cause| ClientTlsError::Content {
                file: files.key.clone(),
                cause,
            })?
    };
    config.alpn_protocols = spoken.iter().map(|name| name.to_vec()).collect();
    Ok(config)
}

fn authorities(file: &Path) -> Result<RootCertStore, ClientTlsError> {
    let mut roots = RootCertStore::empty();
    if file.as_os_str().is_empty() {
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        return if roots.is_empty() {
            Err(ClientTlsError::NoAuthorities)
        } else {
            Ok(roots)
        };
    }
    for certificate in certificates(file)? {
        roots.add(certificate).map_err(|cause| ClientTlsError::Content {
            file: file.to_owned(),
            cause,
        })?;
    }
    Ok(roots)
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, ClientTlsError> {
    let unusable = |cause| ClientTlsError::File {
        file: file.to_owned(),
        cause,
    };
    let certificates = CertificateDer::pem_file_iter(file).map_err(unusable)?;
    let certificates = certificates.collect::<Result<Vec<_>, _>>().map_err(unusable)?;
    if certificates.is_empty() {
        return Err(ClientTlsError::NoCertificate {
            file: file.to_owned(),
        });
    }
    Ok(certificates)
}
