//! Certificates made for a test.

use std::path::PathBuf;
use std::sync::Arc;

use rcgen::{
    BasicConstraints, Certificate, CertificateParams, CertificateRevocationListParams, DnType, IsCa, Issuer,
    KeyIdMethod, KeyPair, RevokedCertParams, SerialNumber, date_time_ymd,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use tempfile::TempDir;

use crate::configured::Configured;
use crate::harness::Ran;

/// A certificate authority with a directory for PEM files.
pub(crate) struct Authority {
    directory: TempDir,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate and its key.
pub(crate) struct Identity {
    pub(crate) cert: PathBuf,
    pub(crate) key: PathBuf,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        // Each has a name of its own.
        let name = format!("authority {:02x?}", &key.public_key_raw()[1..9]);
        params.distinguished_name.push(DnType::CommonName, name);
        let certificate = params.self_signed(&key).expect("a certificate");
        let directory = TempDir::new().expect("a directory");
        std::fs::write(directory.path().join("ca.pem"), certificate.pem()).expect("written");
        Self {
            directory,
            issuer: Issuer::new(params, key),
        }
    }

    pub(crate) fn ca_file(&self) -> String {
        self.directory
            .path()
            .join("ca.pem")
            .to_str()
            .expect("text")
            .to_owned()
    }

    /// What a client of TLS is told that trusts this authority only.
    pub(crate) fn client_config(&self) -> Arc<ClientConfig> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_root_certificates(self.roots())
            .with_no_client_auth();
        Arc::new(config)
    }

    /// The same of one that shows a certificate, by TLS 1.2: when its handshake is done, that of the server is.
    pub(crate) fn client_config_of(&self, identity: &Identity) -> Arc<ClientConfig> {
        let chain = CertificateDer::pem_file_iter(&identity.cert).expect("PEM");
        let chain = chain.collect::<Result<_, _>>().expect("certificates");
        let key = PrivateKeyDer::from_pem_file(&identity.key).expect("a key");
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS12])
            .expect("versions")
            .with_root_certificates(self.roots())
            .with_client_auth_cert(chain, key);
        Arc::new(config.expect("they belong together"))
    }

    fn roots(&self) -> RootCertStore {
        let mut roots = RootCertStore::empty();
        let certificate = CertificateDer::from_pem_file(self.ca_file()).expect("PEM");
        roots.add(certificate).expect("a root");
        roots
    }

    /// Sets a key at the server's listener with TLS, trusting this authority, with further options.
    pub(crate) fn set(&self, server: &Configured, options: &[&str]) -> Ran {
        let ca_file = self.ca_file();
        let trusting = ["set", "k", "v", "--cafile", &ca_file];
        server.run("mqtts", &[&trusting[..], options].concat())
    }

    /// Files with a certificate for `name` and its key.
    pub(crate) fn issue(&self, name: &str) -> Identity {
        self.issue_with(name, |_| {})
    }

    /// The same, after `change`.
    pub(crate) fn issue_with(&self, name: &str, change: impl FnOnce(&mut CertificateParams)) -> Identity {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new(vec![name.to_owned()]).expect("a name");
        change(&mut params);
        let certificate = params.signed_by(&key, &self.issuer).expect("signed");
        self.identity(name, &certificate, &key)
    }

    /// A certificate that only its own key vouches for.
    pub(crate) fn self_signed(&self, name: &str) -> Identity {
        let key = KeyPair::generate().expect("a key");
        let params = CertificateParams::new(vec![name.to_owned()]).expect("a name");
        let certificate = params.self_signed(&key).expect("signed");
        self.identity(name, &certificate, &key)
    }

    fn identity(&self, name: &str, certificate: &Certificate, key: &KeyPair) -> Identity {
        let file = |end: &str, text: String| {
            let file = self.directory.path().join(format!("{name}.{end}"));
            std::fs::write(&file, text).expect("written");
            file
        };
        Identity {
            cert: file("pem", certificate.pem()),
            key: file("key", key.serialize_pem()),
        }
    }
}

impl Authority {
    /// Writes the list of revoked certificates, to the file that this returns.
    pub(crate) fn revoke(&self, serials: &[u64]) -> String {
        self.list(serials, 4_000)
    }

    /// The same, of a list whose time was over long ago.
    pub(crate) fn expired_list(&self) -> String {
        self.list(&[], 2_020)
    }

    fn list(&self, serials: &[u64], next_update: i32) -> String {
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
        let list = params.signed_by(&self.issuer).expect("signed");
        let file = self.directory.path().join("list.pem");
        std::fs::write(&file, list.pem().expect("text")).expect("written");
        file.to_str().expect("text").to_owned()
    }
}

impl Identity {
    /// As the settings of `[listeners.tls]` have it.
    pub(crate) fn settings(&self) -> String {
        format!(
            "cert = \"{}\"\nkey = \"{}\"\n",
            self.cert.display(),
            self.key.display()
        )
    }

    /// Puts this identity where another one is.
    pub(crate) fn replace(&self, other: &Self) {
        std::fs::copy(&self.cert, &other.cert).expect("copied");
        std::fs::copy(&self.key, &other.key).expect("copied");
    }

    /// As options of a command.
    pub(crate) fn options(&self) -> [&str; 4] {
        let text = |path: &'_ PathBuf| path.to_str().expect("text").to_owned().leak() as &str;
        ["--cert", text(&self.cert), "--key", text(&self.key)]
    }
}
