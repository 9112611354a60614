//! Certificates made for a test.

use std::path::PathBuf;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use tempfile::TempDir;

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

    /// Files with a certificate for `name` and its key.
    pub(crate) fn issue(&self, name: &str) -> Identity {
        let key = KeyPair::generate().expect("a key");
        let params = CertificateParams::new(vec![name.to_owned()]).expect("a name");
        let certificate = params.signed_by(&key, &self.issuer).expect("signed");
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
