use std::sync::Arc;
use std::time::Duration;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, GeneralSubtree, IsCa, Issuer, KeyPair, NameConstraints,
};
use rustls::RootCertStore;
use rustls::pki_types::UnixTime;

use super::super::asking::anonymous;
use super::*;
use crate::config::AuthenticationMethod;
use crate::{clock, tls};

/// Who signs, and its certificate.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    der: CertificateDer<'static>,
}

fn params(common_names: &[&str], dns: &[&str]) -> CertificateParams {
    let dns: Vec<_> = dns.iter().map(|name| (*name).to_owned()).collect();
    let mut params = CertificateParams::new(dns).expect("names");
    params.distinguished_name = rcgen::DistinguishedName::new();
    for name in common_names {
        params.distinguished_name.push(DnType::CommonName, *name);
    }
    params
}

impl Authority {
    fn root(name: &str) -> Self {
        let (mut params, key) = (params(&[name], &[]), KeyPair::generate().expect("a key"));
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let der = params.self_signed(&key).expect("signed").der().clone();
        Self {
            issuer: Issuer::new(params, key),
            der,
        }
    }

    fn below(&self, name: &str) -> Self {
        self.below_for(name, None)
    }

    /// One that may vouch for names below this one only.
    fn below_for(&self, name: &str, permitted: Option<&str>) -> Self {
        let (mut params, key) = (params(&[name], &[]), KeyPair::generate().expect("a key"));
        params.name_constraints = permitted.map(|name| NameConstraints {
            permitted_subtrees: vec![GeneralSubtree::DnsName(name.to_owned())],
            excluded_subtrees: Vec::new(),
        });
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let certificate = params.signed_by(&key, &self.issuer).expect("signed");
        Self {
            der: certificate.der().clone(),
            issuer: Issuer::new(params, key),
        }
    }

    fn issue(&self, params: &CertificateParams) -> CertificateDer<'static> {
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.issuer).expect("signed");
        certificate.der().clone()
    }
}

/// The common names on the path to this root.
fn path(root: &Authority, chain: &[CertificateDer<'static>]) -> Option<Vec<String>> {
    let mut roots = RootCertStore::empty();
    roots.add(root.der.clone()).expect("a root");
    let now = UnixTime::since_unix_epoch(Duration::from_millis(clock::wall()));
    let path = tls::issuers::path(&Arc::new(roots), chain, now)?;
    let name = |subject: &rustls::DistinguishedName| {
        let name = Name::of_der(subject.as_ref()).expect("a name");
        name.common_names().collect()
    };
    Some(path.iter().map(name).collect())
}

#[test]
fn the_name_is_the_one_common_name_or_a_dns_name() {
    let root = Authority::root("root");
    let name =
        |params: CertificateParams| name_of_certificate(&root.issue(&params)).map(|name| name.to_string());
    assert_eq!(name(params(&["pump"], &["p.example"])).as_deref(), Some("pump"));
    assert_eq!(
        name(params(&[], &["P.Example", "q.example"])).as_deref(),
        Some("p.example"),
        "DNS names have one case"
    );
    assert_eq!(name(params(&[], &[])), None);
    assert_eq!(name(params(&["a\0b"], &[])), None);
    assert_eq!(
        name_of_certificate(&CertificateDer::from(b"\x30\x03abc".to_vec())),
        None
    );
}

/// As `webpki` has it, which holds constraints against DNS names and never against common names.
#[test]
fn below_an_authority_with_name_constraints_a_common_name_is_no_name() {
    let root = Authority::root("root");
    let constrained = root.below_for("between", Some("plant.example"));
    let free = root.below("free");
    let roots = |authority: &Authority| {
        let mut roots = RootCertStore::empty();
        roots.add(authority.der.clone()).expect("a root");
        roots
    };
    let now = UnixTime::since_unix_epoch(Duration::from_millis(clock::wall()));
    let is_constrained = |root: &Authority, chain: &[CertificateDer<'static>]| {
        tls::issuers::has_name_constraints(&roots(root), chain, now)
    };
    let of =
        |authority: &Authority, params: &CertificateParams| [authority.issue(params), authority.der.clone()];
    let by_name = params(&["admin"], &[]);
    assert!(is_constrained(&root, &of(&constrained, &by_name)));
    assert!(
        is_constrained(&constrained, &[constrained.issue(&by_name)]),
        "the root itself"
    );
    assert!(!is_constrained(&root, &of(&free, &by_name)));
    // What is not on the path does not count.
    let [own, between] = of(&free, &by_name);
    assert!(!is_constrained(&root, &[own, constrained.der.clone(), between]));
    // webpki would let the common name through, and no DNS name of elsewhere.
    assert!(path(&root, &of(&constrained, &by_name)).is_some());
    assert!(path(&root, &of(&constrained, &params(&[], &["pump.plant.example"]))).is_some());
    assert!(path(&root, &of(&constrained, &params(&[], &["admin.example"]))).is_none());
}

#[test]
fn only_authorities_that_vouch_for_the_certificate_are_on_the_path() {
    let root = Authority::root("root");
    let between = root.below("between");
    let own = between.issue(&params(&["pump"], &[]));
    let chain = [own.clone(), between.der.clone()];
    assert_eq!(path(&root, &chain).expect("a path"), ["pump", "between", "root"]);

    // Whatever else a client sends is nobody's word: neither one of its own making, nor a true one that it has found.
    let (forged, stranger) = (
        Authority::root("privileged"),
        Authority::root("other").below("privileged"),
    );
    let with_more = [
        own.clone(),
        forged.der,
        between.der,
        stranger.der,
        root.below("privileged").der,
    ];
    assert_eq!(
        path(&root, &with_more).expect("a path"),
        ["pump", "between", "root"]
    );
    assert_eq!(path(&root, &[own]), None, "one is missing");
    assert_eq!(
        path(&Authority::root("root"), &with_more),
        None,
        "of the same name only"
    );
    assert_eq!(path(&root, &[]), None);
}

#[test]
fn without_a_certificate_or_with_another_method_it_is_not_mine() {
    let method = X509Method::load(&config::X509::default()).expect("nothing to read");
    let mut asked = anonymous(&[AuthenticationMethod::X509]);
    assert_eq!(method.answer(&asked), Verdict::NotMine);
    asked.certificates = vec![Authority::root("root").issue(&params(&["pump"], &[]))];
    let Verdict::Answer(Answer::Accept { principal, .. }) = method.answer(&asked) else {
        panic!("not let in");
    };
    assert_eq!(principal.expect("somebody").name.as_str(), "pump");
    asked.question.method = Some(Text::from_static("SCRAM-SHA-256"));
    assert_eq!(method.answer(&asked), Verdict::NotMine);
}

/// A certificate of a trusted authority is still written by somebody else.
#[test]
fn bytes_that_are_no_certificate_are_refused_and_nothing_worse() {
    let whole = Authority::root("root").issue(&params(&["pump"], &["p.example"]));
    for at in 0..whole.len() {
        name_of_certificate(&CertificateDer::from(whole[..at].to_vec()));
        let mut changed = whole.to_vec();
        changed[at] ^= 0x55;
        name_of_certificate(&CertificateDer::from(changed));
    }
}
