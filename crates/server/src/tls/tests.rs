use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyIdMethod, KeyPair, PublicKeyData, RevokedCertParams, SerialNumber, SubjectPublicKeyInfo,
    date_time_ymd,
};
use rustls::SupportedCipherSuite;
use rustls::pki_types::CertificateDer;
use tempfile::TempDir;

use super::*;
use crate::config::{ClientCertificate, CrlDoubt};

/// docs/transports.md names them.
#[test]
fn only_suites_with_forward_secrecy_and_authenticated_encryption_are_offered() {
    let offered: Vec<_> = aws_lc_rs::default_provider()
        .cipher_suites
        .iter()
        .map(SupportedCipherSuite::suite)
        .map(|suite| suite.as_str().expect("a known suite"))
        .collect();
    assert_eq!(
        offered,
        [
            "TLS13_AES_256_GCM_SHA384",
            "TLS13_AES_128_GCM_SHA256",
            "TLS13_CHACHA20_POLY1305_SHA256",
            "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
            "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
            "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
            "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
            "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
            "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
        ]
    );
}

/// An authority with files, and the settings of a listener that trusts it.
struct Authority {
    directory: TempDir,
    issuer: Issuer<'static, KeyPair>,
    settings: config::Tls,
}

impl Authority {
    fn new() -> Self {
        Self::named("an authority")
    }

    fn named(name: &str) -> Self {
        let (params, key) = (authority(name), key());
        let certificate = params.self_signed(&key).expect("signed");
        let directory = TempDir::new().expect("a directory");
        let file = |name: &str, text: &str| {
            let file = directory.path().join(name);
            std::fs::write(&file, text).expect("written");
            file
        };
        let settings = config::Tls {
            client_ca: Some(file("ca.pem", &certificate.pem())),
            ..config::Tls::of(
                file("server.pem", &certificate.pem()),
                file("server.key", &key.serialize_pem()),
            )
        };
        Self {
            directory,
            issuer: Issuer::new(params, key),
            settings,
        }
    }

    fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let file = self.directory.path().join(name);
        std::fs::write(&file, content).expect("written");
        file
    }

    /// A certificate of this authority, after `change`.
    fn issue(
        &self,
        key: &impl PublicKeyData,
        change: impl FnOnce(&mut CertificateParams),
    ) -> CertificateDer<'static> {
        issue(&self.issuer, key, change)
    }

    /// Adds a list of revoked certificates, in the form that the name says.
    fn revoke(&mut self, name: &str, serials: &[u64], next_update: i32) {
        let list = list(&self.issuer, serials, next_update);
        let file = match Path::new(name).extension() {
            Some(der) if der == "der" => self.file(name, list.der()),
            _ => self.file(name, list.pem().expect("text")),
        };
        self.settings.crl.push(file);
    }

    /// What is said to a client with these certificates.
    fn check(&self, chain: &[CertificateDer<'_>]) -> Result<(), String> {
        let verifier = self.load().verifier.expect("clients are asked");
        let (own, between) = chain.split_first().expect("at least one");
        let now =
            rustls::pki_types::UnixTime::since_unix_epoch(std::time::Duration::from_millis(clock::wall()));
        let verified =
            rustls::server::danger::ClientCertVerifier::verify_client_cert(&*verifier, own, between, now);
        verified
            .map(|_| ())
            .map_err(|error| explanation::of_error(&error))
    }

    fn load(&self) -> Loaded {
        load("listeners[0].tls", &self.settings).expect("the files are right")
    }

    fn problem(&self) -> String {
        match load("listeners[0].tls", &self.settings) {
            Ok(_) => panic!("the files are accepted"),
            Err(error) => error.to_string(),
        }
    }
}

fn authority(name: &str) -> CertificateParams {
    let mut params = CertificateParams::new(Vec::new()).expect("no names");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(rcgen::DnType::CommonName, name);
    params
}

fn issue(
    issuer: &Issuer<'_, KeyPair>,
    key: &impl PublicKeyData,
    change: impl FnOnce(&mut CertificateParams),
) -> CertificateDer<'static> {
    let mut params = CertificateParams::new(vec!["pump".to_owned()]).expect("a name");
    params.distinguished_name.push(rcgen::DnType::CommonName, "pump");
    params.serial_number = Some(SerialNumber::from(7));
    change(&mut params);
    params.signed_by(key, issuer).expect("signed").der().clone()
}

fn list(issuer: &Issuer<'_, KeyPair>, serials: &[u64], next_update: i32) -> rcgen::CertificateRevocationList {
    let revoked = |serial: &u64| RevokedCertParams {
        serial_number: SerialNumber::from(*serial),
        revocation_time: date_time_ymd(2_020, 1, 1),
        reason_code: None,
        invalidity_date: None,
    };
    let params = CertificateRevocationListParams {
        this_update: date_time_ymd(2_019, 1, 1),
        next_update: date_time_ymd(next_update, 1, 1),
        crl_number: SerialNumber::from(1),
        issuing_distribution_point: None,
        revoked_certs: serials.iter().map(revoked).collect(),
        key_identifier_method: KeyIdMethod::Sha256,
    };
    params.signed_by(issuer).expect("signed")
}

fn key() -> KeyPair {
    KeyPair::generate().expect("a key")
}

#[track_caller]
fn refused(checked: Result<(), String>, why: &str) {
    let error = checked.expect_err("it is refused");
    assert!(error.contains(why), "{error} does not say {why}");
}

#[test]
fn a_certificate_has_to_be_of_the_authority_for_clients_and_of_the_present() {
    let (authority, other) = (Authority::new(), Authority::named("another"));
    let key = key();
    assert_eq!(authority.check(&[authority.issue(&key, |_| {})]), Ok(()));
    refused(
        authority.check(&[other.issue(&key, |_| {})]),
        "of no authority in client_ca",
    );
    let for_itself = CertificateParams::default().self_signed(&key).expect("signed");
    refused(
        authority.check(&[for_itself.der().clone()]),
        "of no authority in client_ca",
    );
    let expired = authority.issue(&key, |params| params.not_after = date_time_ymd(2_020, 1, 1));
    refused(authority.check(&[expired]), "expired");
    let early = authority.issue(&key, |params| params.not_before = date_time_ymd(4_000, 1, 1));
    refused(authority.check(&[early]), "not valid yet");
    let of_server = authority.issue(&key, |params| {
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    });
    refused(authority.check(&[of_server]), "does not allow extended key usage");
    refused(
        authority.check(&[CertificateDer::from(vec![0x30, 3, 1, 2, 3])]),
        "BadEncoding",
    );
}

#[test]
fn a_key_has_to_be_as_large_as_the_settings_say() {
    let mut authority = Authority::new();
    let small = SubjectPublicKeyInfo::from_pem(RSA_1024).expect("a key");
    let small = authority.issue(&small, |_| {});
    refused(
        authority.check(&[small]),
        "the key of `CN=pump` is too small: RSA with 1024 bits",
    );
    let curve = authority.issue(&key(), |_| {});
    assert_eq!(authority.check(std::slice::from_ref(&curve)), Ok(()));
    authority.settings.client_ec_bits_min = 384;
    refused(authority.check(&[curve]), "an elliptic curve with 256 bits");
    let key = KeyPair::generate_for(&rcgen::PKCS_ECDSA_P384_SHA384).expect("a key");
    assert_eq!(authority.check(&[authority.issue(&key, |_| {})]), Ok(()));
    let key = KeyPair::generate_for(&rcgen::PKCS_ED25519).expect("a key");
    refused(authority.check(&[authority.issue(&key, |_| {})]), "256 bits");
}

#[test]
fn a_client_sends_only_so_many_certificates() {
    let authority = Authority::new();
    let chain = vec![authority.issue(&key(), |_| {}); 11];
    assert_eq!(authority.check(&chain[..10]), Ok(()));
    refused(
        authority.check(&chain),
        "the client sent 11 certificates, more than 10",
    );
}

#[test]
fn who_is_in_a_list_is_refused_in_either_form() {
    for name in ["list.pem", "list.der"] {
        let mut authority = Authority::new();
        let certificate = authority.issue(&key(), |_| {});
        authority.revoke(name, &[6, 8], 4_000);
        assert_eq!(authority.check(std::slice::from_ref(&certificate)), Ok(()));
        authority.settings.crl.clear();
        authority.revoke(name, &[7], 4_000);
        refused(authority.check(&[certificate]), "is revoked");
    }
}

#[test]
fn an_old_list_lets_nobody_in_unless_the_settings_say_so() {
    let mut authority = Authority::new();
    let certificate = authority.issue(&key(), |_| {});
    let chain = [certificate];
    authority.revoke("list.pem", &[8], 2_020);
    refused(authority.check(&chain), "revocation list expired");
    authority.settings.crl_expired = CrlDoubt::Accept;
    assert_eq!(authority.check(&chain), Ok(()));
    let revoked = authority.issue(&key(), |params| {
        params.serial_number = Some(SerialNumber::from(8));
    });
    refused(authority.check(&[revoked]), "is revoked");
}

#[test]
fn each_authority_needs_a_list_unless_the_settings_say_otherwise() {
    let mut authority = Authority::new();
    let (own, between) = (key(), key());
    let params = super::tests::authority("an authority between");
    let middle = params
        .signed_by(&between, &authority.issuer)
        .expect("signed")
        .der()
        .clone();
    let issuer = Issuer::new(params, between);
    let chain = [issue(&issuer, &own, |_| {}), middle];
    assert_eq!(authority.check(&chain), Ok(()));
    authority.revoke("list.pem", &[], 4_000);
    refused(authority.check(&chain), "has no list of the authority");
    authority.settings.crl_missing = CrlDoubt::Accept;
    assert_eq!(authority.check(&chain), Ok(()));
    authority.settings.crl_missing = CrlDoubt::Refuse;
    let second = authority.file("second.pem", list(&issuer, &[7], 4_000).pem().expect("text"));
    authority.settings.crl.push(second);
    refused(authority.check(&chain), "is revoked");
}

#[test]
fn who_is_connected_is_sent_away_for_what_is_known_and_not_for_doubt() {
    let mut authority = Authority::new();
    let chain = [authority.issue(&key(), |_| {})];
    let objection = |authority: &Authority, chain: &[CertificateDer<'_>]| {
        let verifier = authority.load().verifier.expect("clients are asked");
        verifier
            .objection(chain)
            .map(|error| explanation::of_error(&error))
    };
    assert_eq!(objection(&authority, &chain), None);
    authority.revoke("old.pem", &[], 2_020);
    assert_eq!(objection(&authority, &chain), None);
    authority.settings.crl.clear();
    authority.revoke("list.pem", &[7], 4_000);
    let why = objection(&authority, &chain).expect("revoked");
    assert!(why.contains("is revoked"), "{why}");
    assert!(objection(&Authority::new(), &chain).is_some());
    assert_eq!(objection(&authority, &[]), None);
}

#[test]
fn without_a_certificate_a_client_may_go_on_only_where_it_is_optional() {
    use rustls::server::danger::ClientCertVerifier;
    let mut authority = Authority::new();
    let is_mandatory =
        |authority: &Authority| authority.load().verifier.expect("asked").client_auth_mandatory();
    assert!(is_mandatory(&authority));
    authority.settings.client_cert = ClientCertificate::Optional;
    assert!(!is_mandatory(&authority));
}

#[test]
fn a_session_is_never_resumed_where_certificates_are_asked_for() {
    let mut authority = Authority::new();
    let config = authority.load().config;
    assert!(!config.session_storage.can_cache());
    assert_eq!(config.send_tls13_tickets, 0);
    authority.settings.client_ca = None;
    assert!(authority.load().config.session_storage.can_cache());
}

#[test]
fn files_that_are_not_what_they_should_be_are_named() {
    let mut authority = Authority::new();
    let nothing = authority.file("nothing", "");
    authority.settings.crl = vec![nothing];
    let problem = authority.problem();
    assert!(
        problem.starts_with("`listeners[0].tls.crl[0]`: ")
            && problem.ends_with("contains no list of revoked certificates"),
        "{problem}"
    );
    authority.settings.crl = vec![authority.file("malformed.der", [0x30, 3, 1, 2, 3])];
    let problem = authority.problem();
    assert!(
        problem.ends_with("a list of revoked certificates in it is malformed"),
        "{problem}"
    );
    authority.settings.crl = vec!["/nowhere/list.pem".into()];
    assert!(authority.problem().contains("cannot read /nowhere/list.pem"));
    authority.settings.crl.clear();

    let small = SubjectPublicKeyInfo::from_pem(RSA_1024).expect("a key");
    let params = CertificateParams::new(vec!["server".to_owned()]).expect("a name");
    let certificate = params.signed_by(&small, &authority.issuer).expect("signed");
    authority.settings.cert = authority.file("small.pem", certificate.pem());
    let problem = authority.problem();
    assert!(problem.starts_with("`listeners[0].tls.cert`: "), "{problem}");
    assert!(problem.ends_with("too small: RSA with 1024 bits"), "{problem}");
}

#[test]
fn all_that_expires_is_known() {
    let mut authority = Authority::new();
    authority.revoke("list.pem", &[], 2_100);
    let mut figures = crate::metrics::Figures::default();
    let tls = Tls::load("listeners[0].tls", &authority.settings).expect("right");
    tls.expiries().show(&mut figures);
    let settings: Vec<_> = figures
        .certificates
        .iter()
        .map(|one| one.setting.as_str())
        .collect();
    assert_eq!(settings, ["listeners[0].tls.cert", "listeners[0].tls.client_ca"]);
    let [list] = &figures.revocation_lists[..] else {
        panic!("{figures:?}");
    };
    assert_eq!(list.setting, "listeners[0].tls.crl[0]");
    assert_eq!(list.at, date_time_ymd(2_100, 1, 1).unix_timestamp());
    assert!(list.subject.contains("CN=an authority"), "{}", list.subject);
}

/// A public key of 1024 bits; nobody has its private key.
const RSA_1024: &str = "\
-----BEGIN PUBLIC KEY-----\n\
MIGfMA0GCSqGSIb3DQEBAQUAA4GNADCBiQKBgQC/cKIm1P0r9bv0C3JilOAYH2Or\n\
vIVFyOEOh8DpKzJYwmR1xHVNMnHPICBAjTqY/kdobU8PozUJRHrSxd+/jvzONQJI\n\
6Iz4a4Q+kzdNpGD9EuzIZdyZmmIXb6xb9ZTin52MS/ZbXrnnR3KoRLu0QnNCh41N\n\
Vx/ZEjFt5+6QHWGvYQIDAQAB\n\
-----END PUBLIC KEY-----";

/// Made once with `openssl x509 -req`, which makes certificates of version 1 where it is given no extensions.
const VERSION_1: &str = "\
-----BEGIN CERTIFICATE-----
MIIBIjCByQIUDFcH/Urmabv5wZepTH/jH4d91JswCgYIKoZIzj0EAwIwEzERMA8G
A1UEAwwIb2xkIHB1bXAwIBcNMjYxMTI1MTgwNTA0WhgPMjEyNjExMDExODA1MDRa
MBMxETAPBgNVBAMMCG9sZCBwdW1wMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE
tR9I34i/sfTCTbmgq2fjvxUVzAQc/Xh9WlzPtoKEG1iXwptl+Z4EkQJibhn5M/J7
HwiD+3LzBhD21do3n6nLEjAKBggqhkjOPQQDAgNIADBFAiEAyJmc4Qz10zchTjf3
lJjONOLO8Gc/P2rhbxHXfXXM+sgCIA0dLsM0fMKsPqpSs9Uw1em7ypIHnUQqtA5s
MbHzqMut
-----END CERTIFICATE-----
";

#[test]
fn files_that_others_make_and_that_cannot_be_used_say_what_to_do() {
    let authority = Authority::new();
    let own = std::fs::read_to_string(&authority.settings.cert).expect("written");
    let other = Authority::named("another one");
    let other = std::fs::read_to_string(&other.settings.cert).expect("written");

    authority.file("server.pem", format!("{other}{own}"));
    let problem = authority.problem();
    assert!(
        problem.contains("the first certificate is that of `CN=another one`")
            && problem.contains("put the server's own"),
        "{problem}"
    );
    authority.file("server.pem", &other);
    assert!(!authority.problem().contains("put the server's own"));
    authority.file("server.pem", VERSION_1);
    let problem = authority.problem();
    assert!(
        problem.contains("`CN=old pump` is of X.509 version 1"),
        "{problem}"
    );
    authority.file("server.pem", &own);
    for marks in ["BEGIN ENCRYPTED PRIVATE KEY", "BEGIN EC PRIVATE KEY"] {
        let end = marks.replace("BEGIN", "END");
        authority.file(
            "server.key",
            format!("-----{marks}-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: x\n\nAAAA\n-----{end}-----\n"),
        );
        let problem = authority.problem();
        assert!(
            problem.contains("has a passphrase") && problem.contains("openssl pkey"),
            "{problem}"
        );
    }
}

#[test]
fn a_client_with_a_certificate_of_version_1_is_told_from_others() {
    use rustls::pki_types::pem::PemObject;

    let authority = Authority::new();
    let certificate = CertificateDer::from_pem_slice(VERSION_1.as_bytes()).expect("a certificate");
    let why = authority.check(&[certificate]).expect_err("refused");
    assert!(why.contains("version 1") && why.contains("-extfile"), "{why}");
}
