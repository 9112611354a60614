//! The server's own certificates, of which each client gets one.

use std::path::Path;
use std::sync::Arc;

use rustls::client::verify_server_name;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::ServerName;
use rustls::server::{ClientHello, ParsedCertificate, ResolvesServerCert};
use rustls::sign::CertifiedKey;

use super::error::{TlsError, TlsProblem};
use super::expiry::Expiry;
use super::files;
use super::x509;
use crate::config;

/// The server's certificates, of which each client gets one.
#[derive(Debug)]
pub(super) struct Certificates {
    /// For who names no server, or one that is not known.
    first: Arc<CertifiedKey>,
    further: Vec<Arc<CertifiedKey>>,
}

/// What keys of the server have at least; smaller ones are refused by clients, too.
const RSA_BITS_MIN: u32 = 2_048;
const EC_BITS_MIN: u32 = 256;

impl Certificates {
    pub(super) fn load(
        name: &str,
        settings: &config::Tls,
        provider: &CryptoProvider,
        expiries: &mut Vec<Expiry>,
    ) -> Result<Self, TlsError> {
        let mut load = |name: &str, cert, key| certified_key(name, cert, key, provider, expiries);
        let first = load(name, &settings.cert, &settings.key)?;
        let further = settings.certificates.iter().enumerate();
        let further = further
            .map(|(index, one)| load(&format!("{name}.certificates[{index}]"), &one.cert, &one.key))
            .collect::<Result<_, _>>()?;
        Ok(Self { first, further })
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
    expiries: &mut Vec<Expiry>,
) -> Result<Arc<CertifiedKey>, TlsError> {
    let setting = format!("{name}.cert");
    let chain = files::certificates(&setting, cert)?;
    for certificate in &chain {
        let file = cert.to_owned();
        let found = x509::Certificate::read(certificate).map_err(|cause| {
            let file = file.clone();
            TlsProblem::Encoding { file, cause }.at(&setting)
        })?;
        if !found.key.is_enough(RSA_BITS_MIN, EC_BITS_MIN) {
            let (subject, key) = (found.subject, found.key);
            return Err(TlsProblem::SmallKey { file, subject, key }.at(&setting));
        }
        expiries.push(Expiry::of_certificate(&setting, cert, found));
    }
    let setting = format!("{name}.key");
    let private = files::private_key(&setting, key)?;
    let certified = CertifiedKey::from_der(chain, private, provider).map_err(|cause| {
        let file = key.to_owned();
        TlsProblem::Content { file, cause }.at(&setting)
    })?;
    Ok(Arc::new(certified))
}
