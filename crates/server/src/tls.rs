//! TLS of the listeners: made from the files that the settings name, and made anew when they change.
//!
//! A handshake takes what is there when it begins; connections keep what they began with. Files that cannot be used
//! stop the server while it starts, and change nothing later.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::verify_server_name;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::{ClientHello, ParsedCertificate, ResolvesServerCert, WebPkiClientVerifier};
use rustls::sign::CertifiedKey;
use rustls::{RootCertStore, ServerConfig};
use thiserror::Error;
use tokio::sync::watch;

use crate::config;
use crate::stamp::{Stamp, stamp};

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
    /// It has no certificate in it.
    #[error("{} contains no certificate", .file.display())]
    NoCertificate {
        /// Which.
        file: PathBuf,
    },
    /// What is in it is of a kind that is not known, or does not belong to the certificate.
    #[error("cannot use {}: {cause}", .file.display())]
    Content {
        /// Which.
        file: PathBuf,
        /// Why.
        cause: rustls::Error,
    },
    /// The authorities of clients are of a kind that is not known.
    #[error("cannot use {}: {cause}", .file.display())]
    Authorities {
        /// Which.
        file: PathBuf,
        /// Why.
        cause: rustls::server::VerifierBuilderError,
    },
}

/// The TLS of one listener, and what its files looked like.
#[derive(Debug)]
pub(crate) struct Tls {
    /// As in `listeners[0].tls`.
    name: String,
    settings: config::Tls,
    current: watch::Sender<Arc<ServerConfig>>,
    /// When `current` was made, or tried.
    used: Vec<Stamp>,
    /// At the last look.
    seen: Vec<Stamp>,
}

impl Tls {
    /// Reads the files of the listener at this place in the settings.
    pub(crate) fn load(index: usize, settings: &config::Tls) -> Result<Self, TlsError> {
        let name = format!("listeners[{index}].tls");
        let used = stamps(settings);
        let config = server_config(&name, settings)?;
        Ok(Self {
            name,
            settings: settings.clone(),
            current: watch::Sender::new(Arc::new(config)),
            seen: used.clone(),
            used,
        })
    }

    /// Where handshakes find what holds at the moment.
    pub(crate) fn current(&self) -> watch::Receiver<Arc<ServerConfig>> {
        self.current.subscribe()
    }

    /// Reads the files again if they have changed and no longer do: a certificate and its key are two files.
    pub(crate) fn look(&mut self) {
        let before = std::mem::replace(&mut self.seen, stamps(&self.settings));
        if self.seen != self.used && self.seen == before {
            self.reload();
        }
    }

    /// Reads the files again.
    pub(crate) fn reload(&mut self) {
        self.used = stamps(&self.settings);
        match server_config(&self.name, &self.settings) {
            Ok(config) => {
                self.current.send_replace(Arc::new(config));
                tracing::info!(listener = self.name, "took the files of TLS anew");
            }
            Err(error) => {
                tracing::error!(%error, "cannot take the files of TLS anew: the old ones stay in use");
            }
        }
    }
}

fn stamps(settings: &config::Tls) -> Vec<Stamp> {
    let further = settings.certificates.iter().flat_map(|one| [&one.cert, &one.key]);
    [&settings.cert, &settings.key]
        .into_iter()
        .chain(&settings.client_ca)
        .chain(further)
        .map(|file| stamp(file))
        .collect()
}

fn server_config(name: &str, settings: &config::Tls) -> Result<ServerConfig, TlsError> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let certificates = Certificates::load(name, settings, &provider)?;
    let versions: &[_] = match settings.min_version {
        config::TlsVersion::V1_2 => &[&rustls::version::TLS13, &rustls::version::TLS12],
        config::TlsVersion::V1_3 => &[&rustls::version::TLS13],
    };
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(versions)
        .expect("the provider has suites for both versions");
    let builder = match &settings.client_ca {
        None => builder.with_no_client_auth(),
        Some(file) => {
            let setting = format!("{name}.client_ca");
            let roots = authorities(&setting, file)?;
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
            builder.with_client_cert_verifier(verifier.map_err(|cause| TlsError {
                setting,
                problem: TlsProblem::Authorities {
                    file: file.clone(),
                    cause,
                },
            })?)
        }
    };
    Ok(builder.with_cert_resolver(Arc::new(certificates)))
}

fn authorities(setting: &str, file: &Path) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in chain(setting, file)? {
        roots.add(certificate).map_err(|cause| TlsError {
            setting: setting.to_owned(),
            problem: TlsProblem::Content {
                file: file.to_owned(),
                cause,
            },
        })?;
    }
    Ok(roots)
}

fn chain(setting: &str, file: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let error = |problem| TlsError {
        setting: setting.to_owned(),
        problem,
    };
    let unusable = |cause| {
        error(TlsProblem::File {
            file: file.to_owned(),
            cause,
        })
    };
    let certificates = CertificateDer::pem_file_iter(file).map_err(unusable)?;
    let certificates = certificates.collect::<Result<Vec<_>, _>>().map_err(unusable)?;
    if certificates.is_empty() {
        return Err(error(TlsProblem::NoCertificate {
            file: file.to_owned(),
        }));
    }
    Ok(certificates)
}

/// The server's certificates, of which each client gets one.
#[derive(Debug)]
struct Certificates {
    /// For who names no server, or one that is not known.
    first: Arc<CertifiedKey>,
    further: Vec<Arc<CertifiedKey>>,
}

impl Certificates {
    fn load(name: &str, settings: &config::Tls, provider: &CryptoProvider) -> Result<Self, TlsError> {
        let further = settings.certificates.iter().enumerate();
        Ok(Self {
            first: certified_key(name, &settings.cert, &settings.key, provider)?,
            further: further
                .map(|(index, one)| {
                    certified_key(
                        &format!("{name}.certificates[{index}]"),
                        &one.cert,
                        &one.key,
                        provider,
                    )
                })
                .collect::<Result<_, _>>()?,
        })
    }
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let named = hello.server_name().and_then(|name| {
            let name = ServerName::try_from(name).ok()?;
            std::iter::once(&self.first)
                .chain(&self.further)
                .find(|key| is_for(key, &name))
        });
        Some(Arc::clone(named.unwrap_or(&self.first)))
    }
}

fn is_for(key: &CertifiedKey, name: &ServerName<'_>) -> bool {
    key.end_entity_cert()
        .and_then(ParsedCertificate::try_from)
        .is_ok_and(|certificate| verify_server_name(&certificate, name).is_ok())
}

fn certified_key(
    name: &str,
    cert: &Path,
    key: &Path,
    provider: &CryptoProvider,
) -> Result<Arc<CertifiedKey>, TlsError> {
    let chain = chain(&format!("{name}.cert"), cert)?;
    let error = |problem| TlsError {
        setting: format!("{name}.key"),
        problem,
    };
    let private = PrivateKeyDer::from_pem_file(key).map_err(|cause| {
        error(TlsProblem::File {
            file: key.to_owned(),
            cause,
        })
    })?;
    let certified = CertifiedKey::from_der(chain, private, provider).map_err(|cause| {
        error(TlsProblem::Content {
            file: key.to_owned(),
            cause,
        })
    })?;
    Ok(Arc::new(certified))
}
