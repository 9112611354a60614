//! What is asked of the certificates of clients.
//!
//! Signatures, dates, purposes and revocation are checked by `webpki`, as `rustls` ships it; here are the limits around it: how
//! many certificates a client may send, and how small their keys may be.

use std::sync::Arc;
use std::time::Duration;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, OtherError, RootCertStore,
    SignatureScheme,
};
use thiserror::Error as ThisError;

use super::error::{TlsError, TlsProblem};
use super::expiry::Expiry;
use super::files;
use super::issuers;
use super::x509::{self, KeySize};
use crate::clock;
use crate::config::{self, ClientCertificate, CrlDoubt};

/// Checks the certificates of the clients of one listener.
#[derive(Debug)]
pub(crate) struct ClientVerifier {
    webpki: Arc<dyn ClientCertVerifier>,
    roots: Arc<RootCertStore>,
    rsa_bits_min: u32,
    ec_bits_min: u32,
}

/// Certificates that a client may send: its own and those between it and the authority. All of them together have at most 64 KiB,
/// which is a limit of `rustls`.
const CERTIFICATES_MAX: usize = 10;

/// Why a certificate that `webpki` accepts is refused all the same.
#[derive(Debug, ThisError)]
enum Refused {
    #[error("the client sent {0} certificates, more than {CERTIFICATES_MAX}")]
    TooMany(usize),
    #[error("the key of `{subject}` is too small: {key}")]
    SmallKey { subject: String, key: KeySize },
}

impl ClientVerifier {
    /// Reads the authorities of clients and the lists of revoked certificates. `None` if clients are not asked for certificates.
    pub(super) fn load(
        name: &str,
        settings: &config::Tls,
        provider: Arc<CryptoProvider>,
        expiries: &mut Vec<Expiry>,
    ) -> Result<Option<Arc<Self>>, TlsError> {
        let Some(file) = &settings.client_ca else {
            return Ok(None);
        };
        let setting = format!("{name}.client_ca");
        let mut roots = RootCertStore::empty();
        for certificate in files::certificates(&setting, file)? {
            let encoding = |cause| {
                let file = file.clone();
                TlsProblem::Encoding { file, cause }.at(&setting)
            };
            let found = x509::Certificate::read(&certificate).map_err(encoding)?;
            expiries.push(Expiry::of_certificate(&setting, file, found));
            roots.add(certificate).map_err(|cause| {
                let file = file.clone();
                TlsProblem::Content { file, cause }.at(&setting)
            })?;
        }
        let mut lists = Vec::new();
        for (index, file) in settings.crl.iter().enumerate() {
            let setting = format!("{name}.crl[{index}]");
            for list in files::revocation_lists(&setting, file)? {
                let found = x509::RevocationList::read(&list).map_err(|cause| {
                    let file = file.clone();
                    TlsProblem::Encoding { file, cause }.at(&setting)
                })?;
                expiries.extend(Expiry::of_list(&setting, file, found));
                lists.push(list);
            }
        }
        let roots = Arc::new(roots);
        let mut builder =
            WebPkiClientVerifier::builder_with_provider(Arc::clone(&roots), provider).with_crls(lists);
        if settings.client_cert == ClientCertificate::Optional {
            builder = builder.allow_unauthenticated();
        }
        if settings.crl_missing == CrlDoubt::Accept {
            builder = builder.allow_unknown_revocation_status();
        }
        if settings.crl_expired == CrlDoubt::Refuse {
            builder = builder.enforce_revocation_expiration();
        }
        let webpki = builder.build().map_err(|cause| {
            let file = file.clone();
            TlsProblem::Authorities { file, cause }.at(&setting)
        })?;
        Ok(Some(Arc::new(Self {
            webpki,
            roots,
            rsa_bits_min: settings.client_rsa_bits_min,
            ec_bits_min: settings.client_ec_bits_min,
        })))
    }

    /// The subjects of a client's certificate, of those between it and the authority that are needed, and of the authority.
    /// `None` if there is no such authority.
    pub(crate) fn path_of(&self, chain: &[CertificateDer<'static>]) -> Option<Vec<DistinguishedName>> {
        issuers::path(&self.roots, chain, now())
    }

    /// Whether an authority between a client's certificate and the trusted one, or that one, may vouch for some names only.
    pub(crate) fn has_name_constraints(&self, chain: &[CertificateDer<'static>]) -> bool {
        issuers::has_name_constraints(&self.roots, chain, now())
    }

    /// Why a client that is connected with these certificates has to go; `None` if it may stay.
    ///
    /// A list of revoked certificates that is missing or out of date throws nobody out: it says nothing against this client.
    pub(crate) fn objection(&self, chain: &[CertificateDer<'_>]) -> Option<Error> {
        let (own, between) = chain.split_first()?;
        let error = self.verify_client_cert(own, between, now()).err()?;
        (!is_doubt(&error)).then_some(error)
    }
}

/// Whether nothing speaks against a certificate but that a list of revoked ones is missing or out of date.
pub(crate) fn is_doubt(error: &Error) -> bool {
    matches!(
        error,
        Error::InvalidCertificate(
            CertificateError::UnknownRevocationStatus
                | CertificateError::ExpiredRevocationList
                | CertificateError::ExpiredRevocationListContext { .. }
        )
    )
}

impl ClientCertVerifier for ClientVerifier {
    fn offer_client_auth(&self) -> bool {
        self.webpki.offer_client_auth()
    }

    fn client_auth_mandatory(&self) -> bool {
        self.webpki.client_auth_mandatory()
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.webpki.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let count = 1 + intermediates.len();
        if count > CERTIFICATES_MAX {
            return Err(refused(Refused::TooMany(count)));
        }
        let verified = self.webpki.verify_client_cert(end_entity, intermediates, now)?;
        for certificate in std::iter::once(end_entity).chain(intermediates) {
            let x509::Certificate { subject, key, .. } = x509::Certificate::read(certificate)
                .map_err(|_| Error::InvalidCertificate(CertificateError::BadEncoding))?;
            if !key.is_enough(self.rsa_bits_min, self.ec_bits_min) {
                return Err(refused(Refused::SmallKey { subject, key }));
            }
        }
        Ok(verified)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.webpki
            .verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.webpki
            .verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.webpki.supported_verify_schemes()
    }
}

fn now() -> UnixTime {
    UnixTime::since_unix_epoch(Duration::from_millis(clock::wall()))
}

fn refused(why: Refused) -> Error {
    Error::InvalidCertificate(CertificateError::Other(OtherError(Arc::new(why))))
}
