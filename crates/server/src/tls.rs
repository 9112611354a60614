//! TLS of the listeners and of the admin pages: made from the files that the settings name, and made anew when they change.
//!
//! A handshake takes what is there when it begins; connections keep what they began with, but for clients whose certificate does not
//! hold any more ([`crate::revocation`]). Files that cannot be used stop the server while it starts, and change nothing later.

mod certificates;
mod client_verifier;
mod error;
mod expiry;
pub(crate) mod explanation;
pub(crate) mod files;
pub(crate) mod issuers;
mod x509;

use std::path::PathBuf;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs;
use rustls::server::NoServerSessionStorage;
use tokio::sync::watch;

use self::certificates::Certificates;
pub(crate) use self::client_verifier::{ClientVerifier, is_doubt};
pub use self::error::{TlsError, TlsProblem};
pub(crate) use self::expiry::Expiries;
use self::expiry::{Expiry, Reminder};
use crate::audit;
use crate::clock;
use crate::config;
use crate::stamp::{Stamp, stamp};

/// The TLS of one listener, and what its files looked like.
#[derive(Debug)]
pub(crate) struct Tls {
    /// As in `listeners[0].tls`.
    name: String,
    settings: config::Tls,
    current: watch::Sender<Arc<ServerConfig>>,
    /// `None` where clients are not asked for certificates.
    verifier: watch::Sender<Option<Arc<ClientVerifier>>>,
    expiries: watch::Sender<Arc<[Expiry]>>,
    reminder: Reminder,
    /// Of what `current` was made from, keys left out.
    digest: String,
    /// When `current` was made, or tried.
    used: Vec<Stamp>,
    /// At the last look.
    seen: Vec<Stamp>,
}

/// What is made of the files.
struct Loaded {
    config: Arc<ServerConfig>,
    verifier: Option<Arc<ClientVerifier>>,
    expiries: Arc<[Expiry]>,
}

impl Tls {
    /// Reads the files. The name is that of the table, as in `listeners[0].tls`.
    pub(crate) fn load(name: &str, settings: &config::Tls) -> Result<Self, TlsError> {
        let used = stamps(settings);
        let loaded = load(name, settings)?;
        let mut reminder = Reminder::new(settings.expiry_warning);
        reminder.look(&loaded.expiries, clock::now());
        Ok(Self {
            name: name.to_owned(),
            settings: settings.clone(),
            current: watch::Sender::new(loaded.config),
            verifier: watch::Sender::new(loaded.verifier),
            expiries: watch::Sender::new(loaded.expiries),
            reminder,
            digest: digest(settings),
            seen: used.clone(),
            used,
        })
    }

    /// Where handshakes find what holds at the moment.
    pub(crate) fn current(&self) -> watch::Receiver<Arc<ServerConfig>> {
        self.current.subscribe()
    }

    /// What is asked of the certificates of clients at the moment; `None` if they are not asked for any.
    pub(crate) fn verifier(&self) -> Option<watch::Receiver<Option<Arc<ClientVerifier>>>> {
        self.settings
            .client_ca
            .is_some()
            .then(|| self.verifier.subscribe())
    }

    /// When what is used at the moment expires.
    pub(crate) fn expiries(&self) -> Expiries {
        Expiries(vec![self.expiries.subscribe()])
    }

    /// Reads the files again if they have changed and no longer do: a certificate and its key are two files.
    pub(crate) fn look(&mut self) {
        let before = std::mem::replace(&mut self.seen, stamps(&self.settings));
        if self.seen != self.used && self.seen == before {
            self.reload();
        }
        let expiries = Arc::clone(&self.expiries.borrow());
        self.reminder.look(&expiries, clock::now());
    }

    /// Reads the files again.
    pub(crate) fn reload(&mut self) {
        self.used = stamps(&self.settings);
        match load(&self.name, &self.settings) {
            Ok(loaded) => {
                self.current.send_replace(loaded.config);
                self.verifier.send_replace(loaded.verifier);
                self.expiries.send_replace(loaded.expiries);
                self.reminder.forget();
                let now = digest(&self.settings);
                audit::reloaded(&self.name, &self.digest, Ok(&now));
                self.digest = now;
                tracing::info!(listener = self.name, "took the files of TLS anew");
            }
            Err(error) => {
                audit::reloaded(&self.name, &self.digest, Err(&error));
                tracing::error!(%error, "cannot take the files of TLS anew: the old ones stay in use");
            }
        }
    }
}

/// Of certificates and what clients' are checked by.
fn digest(settings: &config::Tls) -> String {
    let further = settings.certificates.iter().map(|one| &one.cert);
    let files = std::iter::once(&settings.cert)
        .chain(&settings.client_ca)
        .chain(&settings.crl)
        .chain(further);
    audit::digest(files.map(PathBuf::as_path))
}

fn stamps(settings: &config::Tls) -> Vec<Stamp> {
    let further = settings.certificates.iter().flat_map(|one| [&one.cert, &one.key]);
    [&settings.cert, &settings.key]
        .into_iter()
        .chain(&settings.client_ca)
        .chain(&settings.crl)
        .chain(further)
        .map(|file| stamp(file))
        .collect()
}

fn load(name: &str, settings: &config::Tls) -> Result<Loaded, TlsError> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let mut expiries = Vec::new();
    let certificates = Certificates::load(name, settings, &provider, &mut expiries)?;
    let verifier = ClientVerifier::load(name, settings, Arc::clone(&provider), &mut expiries)?;
    let versions: &[_] = match settings.min_version {
        config::TlsVersion::V1_2 => &[&rustls::version::TLS13, &rustls::version::TLS12],
        config::TlsVersion::V1_3 => &[&rustls::version::TLS13],
    };
    let builder = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(versions)
        .expect("the provider has suites for both versions");
    let certificates = Arc::new(certificates);
    let config = match &verifier {
        None => builder.with_no_client_auth().with_cert_resolver(certificates),
        Some(verifier) => {
            let mut config = builder
                .with_client_cert_verifier(Arc::clone(verifier) as _)
                .with_cert_resolver(certificates);
            // A handshake that goes on with an old session looks at no certificate.
            config.session_storage = Arc::new(NoServerSessionStorage {});
            config.send_tls13_tickets = 0;
            config
        }
    };
    expiries.sort();
    expiries.dedup();
    Ok(Loaded {
        config: Arc::new(config),
        verifier,
        expiries: expiries.into(),
    })
}

#[cfg(test)]
mod tests;
