//! `statehold certs`

mod authority;
mod files;

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use clap::{Args, Subcommand};
use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, KeyPair, KeyUsagePurpose, SanType};

use self::authority::Authority;
use self::files::Files;
use crate::duration;
use crate::exit::{Exit, UsageError};
use crate::output;

/// Make certificates to try TLS out: an authority, and certificates for a server, clients and nodes.
///
/// They are for trying out: whoever has the directory can make more. Each says `O=Statehold test` in its name, and nothing
/// uses them without being told to. Keys are ECDSA P-256, in files that only their owner can read.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Certs {
    #[command(subcommand)]
    kind: Kind,
}

#[derive(Debug, Subcommand)]
enum Kind {
    /// An authority: ca.pem, which servers and clients trust, and ca.key, with which the others are made
    Ca {
        /// What the authority is called
        #[arg(long, default_value = "Statehold test CA")]
        name: String,
        #[command(flatten)]
        place: Place,
    },
    /// A certificate for a server: NAME.pem and NAME.key
    Server {
        /// Names and addresses by which clients ask for the server; the first one names the files
        #[arg(required = true, value_name = "NAME_OR_ADDRESS")]
        names: Vec<String>,
        #[command(flatten)]
        place: Place,
    },
    /// A certificate for a client: NAME.pem and NAME.key
    Client {
        /// What the client is called (CN); it names the files, too
        name: String,
        /// Organizational units of the client (OU), for rules that go by them
        #[arg(long, value_name = "NAME")]
        unit: Vec<String>,
        #[command(flatten)]
        place: Place,
    },
    /// A certificate for a server that is a client of other servers as well: NAME.pem and NAME.key
    Node {
        /// Names and addresses of the node; the first one names the files
        #[arg(required = true, value_name = "NAME_OR_ADDRESS")]
        names: Vec<String>,
        #[command(flatten)]
        place: Place,
    },
}

/// Where the files are, and how long they are good.
#[derive(Debug, Args)]
struct Place {
    /// Directory of the authority, where the new files are put, too; made if it is missing
    #[arg(long, value_name = "DIR", default_value = "certs")]
    out: PathBuf,
    /// How long the certificate is good [default: 1 year, for an authority 10 years]
    #[arg(long, value_name = "TIME", value_parser = parse_validity)]
    valid: Option<Duration>,
    /// Write over files that are there
    #[arg(long)]
    force: bool,
}

impl Certs {
    pub(crate) fn run(self) -> anyhow::Result<Exit> {
        let told = match self.kind {
            Kind::Ca { name, place } => authority(&name, &place)?,
            Kind::Server { names, place } => {
                let issued = issue(&names[0], subject_of(&names)?, &[SERVER], &place)?;
                let [cert, key] = issued.shown();
                format!(
                    "# for statehold.toml\n[[listeners]]\naddress = \"127.0.0.1:8883\"\n[listeners.tls]\ncert = {cert:?}\nkey = {key:?}\n# only clients with a certificate of this authority:\nclient_ca = {:?}",
                    place.shown("ca.pem")
                )
            }
            Kind::Client { name, unit, place } => {
                let mut params = CertificateParams::default();
                params.distinguished_name.push(DnType::CommonName, name.as_str());
                for unit in unit {
                    params
                        .distinguished_name
                        .push(DnType::OrganizationalUnitName, unit);
                }
                let issued = issue(&name, params, &[CLIENT], &place)?;
                let [cert, key] = issued.shown();
                format!(
                    "# to connect\nstatehold pub greeting hello --host localhost --cafile {} --cert {cert} --key {key}",
                    place.shown("ca.pem")
                )
            }
            Kind::Node { names, place } => {
                let issued = issue(&names[0], subject_of(&names)?, &[SERVER, CLIENT], &place)?;
                let [cert, key] = issued.shown();
                format!(
                    "# of the node\ncert = {cert:?}\nkey = {key:?}\nclient_ca = {:?}",
                    place.shown("ca.pem")
                )
            }
        };
        output::line(told)?;
        Ok(Exit::Done)
    }
}

const SERVER: ExtendedKeyUsagePurpose = ExtendedKeyUsagePurpose::ServerAuth;
const CLIENT: ExtendedKeyUsagePurpose = ExtendedKeyUsagePurpose::ClientAuth;

fn authority(name: &str, place: &Place) -> anyhow::Result<String> {
    let files = Files::at(&place.out, "ca")?;
    files.refuse_to_replace(place.force)?;
    let (certificate, key) = Authority::make(name, place.valid)?;
    files.write(&certificate.pem(), &key)?;
    let [cert, key] = files.shown();
    Ok(format!(
        "{cert} is what servers and clients trust; keep {key} to yourself\n# next\nstatehold certs server localhost 127.0.0.1 --out {out}\nstatehold certs client pump-7 --out {out}",
        out = place.out.display()
    ))
}

fn issue(
    name: &str,
    mut params: CertificateParams,
    purposes: &[ExtendedKeyUsagePurpose],
    place: &Place,
) -> anyhow::Result<Files> {
    let files = Files::at(&place.out, name)?;
    let authority = Authority::read(&place.out)?;
    files.refuse_to_replace(place.force)?;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = purposes.to_vec();
    let key = KeyPair::generate().context("cannot make a key")?;
    let certificate = authority.sign(params, &key, place.valid)?;
    files.write(&certificate.pem(), &key)?;
    Ok(files)
}

/// With all names and addresses as alternative names; the first one is the common name.
fn subject_of(names: &[String]) -> anyhow::Result<CertificateParams> {
    let mut params = CertificateParams::default();
    for name in names {
        let name = match name.parse::<IpAddr>() {
            Ok(address) => SanType::IpAddress(address),
            Err(_) => SanType::DnsName(host_name(name)?),
        };
        params.subject_alt_names.push(name);
    }
    params
        .distinguished_name
        .push(DnType::CommonName, names[0].as_str());
    Ok(params)
}

fn host_name(name: &str) -> anyhow::Result<rcgen::string::Ia5String> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '*' | '_');
    if name.is_empty() || !name.chars().all(is_name) {
        return Err(UsageError(format!("`{name}` is no name of a server, and no address")).into());
    }
    name.try_into()
        .with_context(|| format!("`{name}` is no name of a server"))
}

impl Place {
    fn shown(&self, file: &str) -> String {
        self.out.join(file).display().to_string()
    }
}

fn parse_validity(text: &str) -> Result<Duration, String> {
    let valid = duration::parse_positive(text)?;
    if valid > VALID_MOST {
        return Err("at most 100 years".to_owned());
    }
    Ok(valid)
}

/// Nothing that is tried out lasts longer, and dates have four digits for the year.
const VALID_MOST: Duration = Duration::from_hours(100 * 365 * 24);

const EXAMPLES: &str = "\
Examples:
  statehold certs ca --out certs
  statehold certs server localhost 127.0.0.1 --out certs
  statehold certs client pump-7 --out certs
  statehold certs node a.example 10.0.0.5 --out certs --valid 90d

Each command prints what to write into the settings, or how to connect.";
