//! What the settings leave open that has to be closed: files that others of the machine can read or write, and one authority for
//! clients and nodes.
//!
//! [`crate::named_files`] asks here, for `serve` and `config check`. What gives away the server is an error, and nothing is started;
//! what is dangerous on a machine with other users, and usual in a container, is a warning. A file that cannot be read is told by
//! whoever reads it.

use std::fmt;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use protocol::Escaped;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use x509_parser::prelude::{FromDer as _, X509Certificate};

use crate::config::{self, Config};

/// A setting that leaves something open.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct Exposure {
    /// As in `authentication.scram.file`.
    pub setting: String,
    /// What is open, and what to do.
    pub what: String,
}

/// A file of the settings.
struct Named<'a> {
    setting: String,
    file: &'a Path,
    kind: Kind,
}

/// What a file is good for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Whoever reads it can try passwords, or be who it belongs to.
    Secret,
    /// It decides who gets in, or what they may do.
    Deciding,
    /// It tells what was done.
    Record,
}

/// Bits of a mode that are about others than owner and group.
const OTHERS_READ: u32 = 0o004;
const OTHERS_WRITE: u32 = 0o002;
const OTHERS: u32 = 0o007;

/// In a directory with this bit only the owner of a file can replace it.
const KEPT_BY_OWNERS: u32 = 0o1000;

/// What others could use.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Exposures {
    /// A server with these would let anybody in.
    pub(crate) errors: Vec<Exposure>,
    pub(crate) warnings: Vec<Exposure>,
}

/// Looks at the settings, and at what they name.
pub(crate) fn look(config: &Config) -> Exposures {
    let mut found = Exposures::default();
    found.errors.extend(shared_authorities(config));
    found.warnings.extend(data_dir(config));
    for named in files(config) {
        match named.look() {
            Ok(warning) => found.warnings.extend(warning),
            Err(error) => found.errors.push(error),
        }
    }
    found
}

impl fmt::Display for Exposure {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "`{}`: {}", self.setting, self.what)
    }
}

impl Named<'_> {
    fn look(&self) -> Result<Option<Exposure>, Exposure> {
        let mode = match mode(self.file) {
            Some(mode) => mode,
            // It is made when it is needed.
            None if self.kind == Kind::Record => 0,
            None => return Ok(None),
        };
        let shown = self.file.display();
        if mode & OTHERS_WRITE != 0 && self.kind == Kind::Record {
            return Ok(Some(self.exposure(format!(
                "every user of this machine can change {shown}: take the right from others (chmod o-w)"
            ))));
        }
        if mode & OTHERS_WRITE != 0 {
            return Err(self.exposure(format!(
                "every user of this machine can change {shown}, and with it who gets in: take the right from others (chmod o-w)"
            )));
        }
        if self.kind != Kind::Deciding && mode & OTHERS_READ != 0 {
            return Ok(Some(self.exposure(format!(
                "every user of this machine can read {shown}: take the right from others (chmod o-r)"
            ))));
        }
        let directory = self.file.parent().filter(|parent| !parent.as_os_str().is_empty());
        let of_directory = mode_of(directory.unwrap_or(Path::new(".")));
        let is_open = |mode: u32| mode & OTHERS_WRITE != 0 && mode & KEPT_BY_OWNERS == 0;
        Ok(of_directory.is_some_and(is_open).then(|| {
            self.exposure(format!(
                "every user of this machine can put another file in the place of {shown}: take the right to its directory from others (chmod o-w)"
            ))
        }))
    }

    fn exposure(&self, what: String) -> Exposure {
        Exposure {
            setting: self.setting.clone(),
            what,
        }
    }
}

fn data_dir(config: &Config) -> Option<Exposure> {
    let mode = mode_of(&config.data_dir).filter(|mode| mode & OTHERS != 0)?;
    let can = if mode & OTHERS_WRITE != 0 {
        "change"
    } else {
        "look into"
    };
    Some(Exposure {
        setting: "data_dir".to_owned(),
        what: format!(
            "every user of this machine can {can} {}, which has mode {:04o}: messages, keys and sessions are for the server alone (chmod 0700)",
            config.data_dir.display(),
            mode & 0o7777
        ),
    })
}

/// The files that are worth something to others.
fn files(config: &Config) -> Vec<Named<'_>> {
    let mut files = Files(Vec::new());
    files.add("audit.file", &config.audit.file, Kind::Record);
    files.add("admin.tokens", &config.admin.tokens, Kind::Secret);
    files.add("admin.tls.cert", &config.admin.tls.cert, Kind::Deciding);
    files.add("admin.tls.key", &config.admin.tls.key, Kind::Secret);
    files.add("otlp.ca", &config.otlp.ca, Kind::Deciding);
    files.add("otlp.key", &config.otlp.key, Kind::Secret);
    for (name, file) in &config.otlp.header_files {
        files.add(format!("otlp.header_files.{name}"), file, Kind::Secret);
    }
    for (name, policy) in &config.authorization {
        files.add(format!("authorization.{name}.file"), &policy.file, Kind::Deciding);
    }
    add_authentication(&mut files, &config.authentication);
    for (index, listener) in config.listeners.iter().enumerate() {
        if let Some(tls) = &listener.tls {
            add_listener(&mut files, index, tls);
        }
    }
    if let Some(cluster) = &config.cluster {
        files.add("cluster.tls.cert", &cluster.tls.cert, Kind::Deciding);
        files.add("cluster.tls.key", &cluster.tls.key, Kind::Secret);
        files.add("cluster.tls.ca", &cluster.tls.ca, Kind::Deciding);
        for (which, file) in cluster.tls.crl.iter().enumerate() {
            files.add(format!("cluster.tls.crl[{which}]"), file, Kind::Deciding);
        }
    }
    files.0
}

fn add_authentication<'a>(files: &mut Files<'a>, settings: &'a config::Authentication) {
    let name = |rest: &str| format!("authentication.{rest}");
    for (rest, file, kind) in [
        ("password.file", &settings.password.file, Kind::Secret),
        ("scram.file", &settings.scram.file, Kind::Secret),
        ("custom.key", &settings.custom.key, Kind::Secret),
        ("custom.ca", &settings.custom.ca, Kind::Deciding),
        ("jwt.keys_file", &settings.jwt.keys_file, Kind::Deciding),
        ("jwt.ca", &settings.jwt.ca, Kind::Deciding),
        ("k8s_sat.ca", &settings.k8s_sat.ca, Kind::Deciding),
        (
            "x509.attributes_file",
            &settings.x509.attributes_file,
            Kind::Deciding,
        ),
    ] {
        files.add(name(rest), file, kind);
    }
    for (header, file) in &settings.custom.header_files {
        files.add(name(&format!("custom.header_files.{header}")), file, Kind::Secret);
    }
}

fn add_listener<'a>(files: &mut Files<'a>, index: usize, tls: &'a config::Tls) {
    let name = |rest: &str| format!("listeners[{index}].tls.{rest}");
    files.add(name("cert"), &tls.cert, Kind::Deciding);
    files.add(name("key"), &tls.key, Kind::Secret);
    for (which, further) in tls.certificates.iter().enumerate() {
        files.add(
            name(&format!("certificates[{which}].cert")),
            &further.cert,
            Kind::Deciding,
        );
        files.add(
            name(&format!("certificates[{which}].key")),
            &further.key,
            Kind::Secret,
        );
    }
    if let Some(file) = &tls.client_ca {
        files.add(name("client_ca"), file, Kind::Deciding);
    }
    for (which, file) in tls.crl.iter().enumerate() {
        files.add(name(&format!("crl[{which}]")), file, Kind::Deciding);
    }
}

/// Collects those that are set.
struct Files<'a>(Vec<Named<'a>>);

impl<'a> Files<'a> {
    fn add(&mut self, setting: impl Into<String>, file: &'a Path, kind: Kind) {
        if !file.as_os_str().is_empty() {
            let setting = setting.into();
            self.0.push(Named { setting, file, kind });
        }
    }
}

/// Whoever has a certificate of the nodes' authority is believed to be a node, so no client may get one.
fn shared_authorities(config: &Config) -> Vec<Exposure> {
    let Some(cluster) = &config.cluster else {
        return Vec::new();
    };
    let of_nodes = certificates(&cluster.tls.ca);
    let listeners = config.listeners.iter().enumerate();
    let shared = listeners.filter_map(|(index, listener)| {
        let file = listener.tls.as_ref()?.client_ca.as_ref()?;
        let of_clients = certificates(file);
        let shared = of_clients
            .iter()
            .find(|client| of_nodes.iter().any(|node| leads_to(client, node)))?;
        let (_, shared) = X509Certificate::from_der(shared).ok()?;
        Some(Exposure {
            setting: format!("listeners[{index}].tls.client_ca"),
            what: format!(
                "`{}` in {} is an authority of the nodes as well, or below one in cluster.tls.ca: every client would be \
                 believed to be a node. Give the nodes an authority of their own (statehold certs)",
                Escaped::new(&shared.subject().to_string()),
                file.display()
            ),
        })
    });
    shared.collect()
}

/// Whether certificates of an authority of clients hold before one of nodes: it is the same key, or signed by it as far as names tell.
fn leads_to(client: &CertificateDer<'_>, node: &CertificateDer<'_>) -> bool {
    let parsed = (X509Certificate::from_der(client), X509Certificate::from_der(node));
    let (Ok((_, client)), Ok((_, node))) = parsed else {
        return false;
    };
    client.public_key().raw == node.public_key().raw
        || client.issuer() != client.subject() && client.issuer() == node.subject()
}

/// Those of a PEM file; none if it cannot be read, which is told elsewhere.
fn certificates(file: &Path) -> Vec<CertificateDer<'static>> {
    let found = CertificateDer::pem_file_iter(file);
    found.map_or_else(|_| Vec::new(), |found| found.filter_map(Result::ok).collect())
}

/// Of what a link leads to. `None` if it is no file: a pipe or a terminal is read once.
fn mode(file: &Path) -> Option<u32> {
    let about = fs::metadata(file).ok()?;
    about.is_file().then(|| about.permissions().mode())
}

fn mode_of(directory: &Path) -> Option<u32> {
    Some(fs::metadata(directory).ok()?.permissions().mode())
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::path::PathBuf;

    use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
    use tempfile::TempDir;

    use super::*;
    use crate::config::{Cluster, Listener, Tls};

    fn set_mode(file: &Path, mode: u32) {
        fs::set_permissions(file, Permissions::from_mode(mode)).expect("owned");
    }

    fn error(config: &Config) -> Option<Exposure> {
        look(config).errors.pop()
    }

    fn warnings(config: &Config) -> Vec<Exposure> {
        let found = look(config);
        assert_eq!(found.errors, []);
        found.warnings
    }

    /// A directory with a file of secrets of this mode, and settings with it.
    fn with_secrets(mode: u32) -> (TempDir, Config) {
        let directory = TempDir::new().expect("a directory");
        set_mode(directory.path(), 0o700);
        let file = directory.path().join("clients.scram");
        fs::write(&file, "").expect("written");
        set_mode(&file, mode);
        let mut config = Config {
            data_dir: directory.path().to_owned(),
            ..Config::default()
        };
        config.authentication.scram.file = file;
        (directory, config)
    }

    #[test]
    fn a_file_of_secrets_is_not_for_others_of_the_machine() {
        for mode in [0o600, 0o640, 0o660] {
            let (_directory, config) = with_secrets(mode);
            assert_eq!(look(&config), Exposures::default(), "{mode:o}");
        }
        let (_directory, config) = with_secrets(0o644);
        let warnings = warnings(&config);
        assert_eq!(warnings.len(), 1);
        let warning = warnings[0].to_string();
        assert!(warning.starts_with("`authentication.scram.file`: every user of this machine can read /"));
        assert!(warning.ends_with("clients.scram: take the right from others (chmod o-r)"));
        let (_directory, config) = with_secrets(0o602);
        let error = error(&config)
            .expect("everybody could let himself in")
            .to_string();
        assert!(
            error.contains("can change") && error.ends_with("(chmod o-w)"),
            "{error}"
        );
    }

    #[test]
    fn what_decides_may_be_read_and_not_changed() {
        let (_directory, mut config) = with_secrets(0o646);
        let file = std::mem::take(&mut config.authentication.scram.file);
        config.authentication.jwt.keys_file.clone_from(&file);
        assert_eq!(
            error(&config).expect("keys of anybody").setting,
            "authentication.jwt.keys_file"
        );
        set_mode(&file, 0o644);
        assert_eq!(look(&config), Exposures::default());
    }

    #[test]
    fn a_record_is_told_of_and_stops_nothing() {
        let (directory, mut config) = with_secrets(0o622);
        config.audit.file = std::mem::take(&mut config.authentication.scram.file);
        let what = |config: &Config| warnings(config).pop().map(|warning| warning.what);
        assert!(what(&config).expect("a warning").contains("can change"));
        set_mode(&config.audit.file, 0o604);
        assert!(what(&config).expect("a warning").contains("can read"));
        config.audit.file = directory.path().join("to/be/made");
        assert_eq!(what(&config), None);
    }

    #[test]
    fn directories_that_others_use_are_told() {
        let (directory, config) = with_secrets(0o600);
        for (mode, expected) in [
            (0o755, &["can look into"][..]),
            (0o700, &[]),
            (0o750, &[]),
            (0o1777, &["can change"]),
            (0o777, &["can change", "put another file in the place"]),
        ] {
            set_mode(directory.path(), mode);
            let warnings = warnings(&config);
            assert_eq!(warnings.len(), expected.len(), "{mode:o} {warnings:?}");
            for (warning, expected) in warnings.iter().zip(expected) {
                assert!(warning.what.contains(expected), "{warning}");
            }
        }
    }

    #[test]
    fn what_is_not_there_is_told_by_who_reads_it() {
        let mut config = Config {
            data_dir: PathBuf::from("/no/such/directory"),
            ..Config::default()
        };
        config.authentication.password.file = PathBuf::from("/no/such/file");
        assert_eq!(look(&config), Exposures::default());
    }

    struct Authority {
        pem: String,
        issuer: Issuer<'static, KeyPair>,
    }

    fn authority(name: &str, of: Option<&Authority>) -> Authority {
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        let pem = match of {
            Some(of) => params.signed_by(&key, &of.issuer).expect("signed").pem(),
            None => params.self_signed(&key).expect("signed").pem(),
        };
        Authority {
            pem,
            issuer: Issuer::new(params, key),
        }
    }

    #[test]
    fn clients_and_nodes_have_no_authority_in_common() {
        let (directory, mut config) = with_secrets(0o600);
        let (nodes, other) = (authority("nodes", None), authority("clients", None));
        let below = authority("clients below nodes", Some(&nodes));
        let again = authority("nodes", None);
        let file = |name: &str, pem: &str| {
            let file = directory.path().join(name);
            fs::write(&file, pem).expect("written");
            file
        };
        let mut cluster = Cluster::default();
        cluster.tls.ca = file("nodes.pem", &nodes.pem);
        config.cluster = Some(cluster);
        let mut refuses = |pem: &str| {
            let tls = Tls {
                client_ca: Some(file("clients.pem", pem)),
                ..Tls::of("", "")
            };
            config.listeners = vec![Listener {
                tls: Some(tls),
                ..Listener::default()
            }];
            error(&config).map(|error| error.to_string())
        };
        assert_eq!(refuses(&other.pem), None);
        assert_eq!(refuses(&again.pem), None, "the name alone is not the authority");
        let error = refuses(&format!("{}{}", other.pem, nodes.pem)).expect("the same one");
        assert!(
            error.starts_with("`listeners[0].tls.client_ca`: `CN=nodes` in"),
            "{error}"
        );
        assert!(
            error.contains("every client would be believed to be a node"),
            "{error}"
        );
        assert!(
            refuses(&below.pem)
                .expect("a chain leads to it")
                .contains("CN=clients below nodes")
        );
    }
}
