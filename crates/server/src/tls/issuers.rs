//! Which authorities vouch for a client's certificate.
//!
//! A client may send any certificates along, and those that nothing needs are not looked at in a handshake. So it counts only what
//! is on a path of signatures from the client's own to an authority that is trusted.

use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::{DistinguishedName, RootCertStore};
use webpki::{EndEntityCert, KeyUsage};

/// The subjects on the path, from the client's own certificate to the authority that is trusted. `None` if there is no path.
pub(crate) fn path(
    roots: &RootCertStore,
    chain: &[CertificateDer<'static>],
    now: UnixTime,
) -> Option<Vec<DistinguishedName>> {
    let (own, between) = chain.split_first()?;
    let own = EndEntityCert::try_from(own).ok()?;
    let algorithms = rustls::crypto::aws_lc_rs::default_provider().signature_verification_algorithms;
    let path = own.verify_for_usage(
        algorithms.all,
        &roots.roots,
        between,
        now,
        KeyUsage::client_auth(),
        // It was asked in the handshake, and is asked again while the client is connected.
        None,
        None,
    );
    let path = path.ok()?;
    let between = path.intermediate_certificates().map(|one| one.subject());
    let subjects = std::iter::once(own.subject())
        .chain(between)
        .chain(std::iter::once(path.anchor().subject.as_ref()));
    Some(subjects.map(DistinguishedName::in_sequence).collect())
}
