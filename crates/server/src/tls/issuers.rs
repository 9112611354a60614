//! Which authorities vouch for a client's certificate.
//!
//! A client may send any certificates along, and those that nothing needs are not looked at in a handshake. So it counts only what
//! is on a path of signatures from the client's own to an authority that is trusted.

use rustls::pki_types::{CertificateDer, TrustAnchor, UnixTime};
use rustls::{DistinguishedName, RootCertStore};
use webpki::{EndEntityCert, KeyUsage, VerifiedPath};
use x509_parser::prelude::{FromDer as _, X509Certificate};

/// The subjects on the path, from the client's own certificate to the authority that is trusted. `None` if there is no path.
pub(crate) fn path(
    roots: &RootCertStore,
    chain: &[CertificateDer<'static>],
    now: UnixTime,
) -> Option<Vec<DistinguishedName>> {
    walk(roots, chain, now, |path| {
        let between = path.intermediate_certificates().map(|one| one.subject());
        let subjects = std::iter::once(path.end_entity().subject())
            .chain(between)
            .chain(std::iter::once(path.anchor().subject.as_ref()));
        subjects.map(DistinguishedName::in_sequence).collect()
    })
}

/// Whether an authority on the path may vouch for some names only; also if there is no path. Common names are held against no
/// constraint.
pub(crate) fn has_name_constraints(
    roots: &RootCertStore,
    chain: &[CertificateDer<'static>],
    now: UnixTime,
) -> bool {
    let is_constrained_root = |root: &TrustAnchor<'_>| root.name_constraints.is_some();
    // A path costs signatures, and most have no such authority.
    let may_be =
        roots.roots.iter().any(is_constrained_root) || chain.iter().skip(1).any(|one| is_constrained(one));
    let on_path = || {
        walk(roots, chain, now, |path| {
            let mut between = path.intermediate_certificates();
            is_constrained_root(path.anchor()) || between.any(|one| is_constrained(&one.der()))
        })
    };
    may_be && on_path().unwrap_or(true)
}

/// What cannot be read may be anything.
fn is_constrained(certificate: &CertificateDer<'_>) -> bool {
    X509Certificate::from_der(certificate).map_or(true, |(_, certificate)| {
        !matches!(certificate.name_constraints(), Ok(None))
    })
}

/// Shows the path from the client's own certificate to the authority that is trusted, if there is one.
fn walk<T>(
    roots: &RootCertStore,
    chain: &[CertificateDer<'static>],
    now: UnixTime,
    look: impl FnOnce(&VerifiedPath<'_>) -> T,
) -> Option<T> {
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
    Some(look(&path.ok()?))
}
