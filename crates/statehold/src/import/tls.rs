//! TLS to what is imported from: whom to believe there, and who one is.

use std::io;
use std::path::PathBuf;

use clap::Args;
use server::{TlsFault, TlsFiles};

use crate::exit::UsageError;

/// The files of TLS for `--from`, which are not those for Statehold.
#[derive(Debug, Clone, Args)]
pub(super) struct FromTls {
    /// Trust the certificates in this PEM file instead of the system's, for --from
    #[arg(long, value_name = "FILE", requires = "from")]
    from_cafile: Option<PathBuf>,
    /// Appear there with the certificate in this PEM file
    #[arg(long, value_name = "FILE", requires_all = ["from", "from_key"])]
    from_cert: Option<PathBuf>,
    /// The private key of --from-cert, PEM
    #[arg(long, value_name = "FILE", requires = "from_cert")]
    from_key: Option<PathBuf>,
}

impl FromTls {
    /// Files for a connection that has TLS.
    pub(super) fn files(&self) -> TlsFiles {
        TlsFiles {
            ca: self.from_cafile.clone().unwrap_or_default(),
            cert: self.from_cert.clone().unwrap_or_default(),
            key: self.from_key.clone().unwrap_or_default(),
        }
    }

    /// Where there is no TLS, whoever has given files for it expects something else.
    pub(super) fn refuse_files(&self, instead: &str) -> Result<(), UsageError> {
        let given = [
            ("--from-cafile", &self.from_cafile),
            ("--from-cert", &self.from_cert),
        ];
        match given.iter().find(|(_, file)| file.is_some()) {
            Some((option, _)) => Err(UsageError(format!(
                "{option} is for TLS, and --from is without it: write {instead}"
            ))),
            None => Ok(()),
        }
    }
}

/// What to do about a connection with TLS that has failed: nothing, or a piece of a sentence.
pub(super) fn advice(error: &io::Error) -> &'static str {
    match TlsFault::of(error) {
        None => "",
        Some(TlsFault::Issuer) => {
            ": its certificate is of no authority that is believed here: name that authority's with --from-cafile"
        }
        Some(TlsFault::Name) => ": its certificate is for other names: write one of those in --from",
        Some(TlsFault::Wanted) => {
            ": it wants a certificate of an authority that it believes: --from-cert and --from-key"
        }
        Some(TlsFault::NotTls) => ": it does not speak TLS at that port",
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Only {
        #[arg(long)]
        from: Option<String>,
        #[command(flatten)]
        tls: FromTls,
    }

    #[test]
    fn files_belong_to_a_server_and_a_certificate_to_its_key() {
        let parse = |line: &str| Only::try_parse_from(line.split(' '));
        assert!(parse("x --from-cafile f").is_err());
        assert!(parse("x --from u --from-cert f").is_err());
        assert!(parse("x --from u --from-key f").is_err());
        let given = parse("x --from u --from-cafile a --from-cert c --from-key k").expect("all of them");
        let refused = given.tls.refuse_files("u://").expect_err("without TLS");
        assert!(
            refused.0.contains("--from-cafile") && refused.0.contains("u://"),
            "{refused}"
        );
        let files = given.tls.files();
        assert_eq!(
            [files.ca, files.cert, files.key].map(|file| file.display().to_string()),
            ["a", "c", "k"]
        );
        assert!(parse("x --from u").expect("none").tls.refuse_files("").is_ok());
    }
}
