//! The server's own certificates, of which each client gets one.

use std::path::Path;
use std::sync::Arc;

use rustls::client::verify_server_name;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName};
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

/// Behind each certificate the one of its issuer: some clients do not look for it elsewhere.
fn warn_of_order(setting: &str, file: &Path, names: &[(String, String)]) {
    let out_of_order = names.windows(2).find(|pair| pair[0].1 != pair[1].0);
    if let Some([(subject, issuer), (next, _)]) = out_of_order {
        tracing::warn!(
            setting,
            file = %file.display(),
            subject,
            issuer,
            next,
            "certificates are in the wrong order: some clients refuse them; behind each one put that of its issuer"
        );
    }
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
    let mut names = Vec::new();
    for certificate in &chain {
        let file = cert.to_owned();
        let found = x509::Certificate::read(certificate).map_err(|cause| {
            let file = file.clone();
            TlsProblem::Encoding { file, cause }.at(&setting)
        })?;
        if found.is_version_1 {
            let subject = found.subject;
            return Err(TlsProblem::Version1 { file, subject }.at(&setting));
        }
        names.push((found.subject.clone(), found.issuer.clone()));
        if !found.key.is_enough(RSA_BITS_MIN, EC_BITS_MIN) {
            let (subject, key) = (found.subject, found.key);
            return Err(TlsProblem::SmallKey { file, subject, key }.at(&setting));
        }
        expiries.push(Expiry::of_certificate(&setting, cert, found));
    }
    let of_key = format!("{name}.key");
    let private = files::private_key(&of_key, key)?;
    let certified = CertifiedKey::from_der(chain.clone(), private.clone_key(), provider);
    let certified = certified.map_err(|cause| {
        let is_of = |certificate: &CertificateDer<'static>| {
            CertifiedKey::from_der(vec![certificate.clone()], private.clone_key(), provider).is_ok()
        };
        let Some(own) = chain.iter().position(is_of) else {
            let file = key.to_owned();
            return TlsProblem::Content { file, cause }.at(&of_key);
        };
        let (first, own) = (names[0].0.clone(), names[own].0.clone());
        let file = cert.to_owned();
        TlsProblem::Order { file, first, own }.at(&setting)
    })?;
    warn_of_order(&setting, cert, &names);
    Ok(Arc::new(certified))
}
