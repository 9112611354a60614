//! Which server a command talks to, and as whom.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use client::{Client, Options, Reconnect, StateStore, TlsOptions};

use crate::duration;

/// The server that a command talks to.
#[derive(Debug, Args)]
#[command(next_help_heading = "Server")]
pub(crate) struct ServerArgs {
    /// Name or address of the server, or unix: and the path of a Unix socket
    #[arg(long, short = 'H', env = "STATEHOLD_HOST", default_value = "127.0.0.1")]
    pub(crate) host: String,
    /// Port [default: 1883, with TLS 8883]
    #[arg(long, short = 'p', env = "STATEHOLD_PORT")]
    pub(crate) port: Option<u16>,
    /// Connect with TLS; --cafile and --cert imply it
    #[arg(long)]
    pub(crate) tls: bool,
    /// Trust the certificates in this PEM file instead of the system's
    #[arg(long, value_name = "FILE")]
    pub(crate) cafile: Option<PathBuf>,
    /// Appear with the certificate in this PEM file
    #[arg(long, value_name = "FILE", requires = "key_file")]
    pub(crate) cert: Option<PathBuf>,
    /// The private key of --cert, PEM
    #[arg(long = "key", id = "key_file", value_name = "FILE", requires = "cert")]
    pub(crate) key_file: Option<PathBuf>,
    /// Expect the server's certificate to be for this name [default: the host]
    #[arg(long, value_name = "NAME")]
    pub(crate) server_name: Option<String>,
    /// User name
    #[arg(long, short = 'u', env = "STATEHOLD_USERNAME")]
    pub(crate) username: Option<String>,
    /// Password; other users of this machine can see it: rather use --password-file or STATEHOLD_PASSWORD
    #[arg(
        long,
        env = "STATEHOLD_PASSWORD",
        hide_env_values = true,
        requires = "username"
    )]
    pub(crate) password: Option<String>,
    /// Read the password from this file; a line break at its end does not count
    #[arg(long, value_name = "FILE", conflicts_with = "password", requires = "username")]
    pub(crate) password_file: Option<PathBuf>,
    /// What to call oneself [default: drawn at random]
    #[arg(long, short = 'i', value_name = "ID")]
    pub(crate) client_id: Option<String>,
    /// How long to wait for the connection, and for each answer
    #[arg(long, default_value = "5s", value_name = "TIME", value_parser = duration::parse_positive)]
    pub(crate) timeout: Duration,
}

impl ServerArgs {
    /// Options for one request: no session stays behind, and a lost connection is an error.
    pub(crate) fn options(&self) -> anyhow::Result<Options> {
        let mut options = Options::new(self.address())
            .clean_start(true)
            .session_expiry(Duration::ZERO)
            .connect_timeout(self.timeout)
            .timeout(self.timeout)
            .reconnect(Reconnect::Never);
        if let Some(tls) = self.tls_options() {
            options = options.tls(tls);
        }
        if let Some(username) = &self.username {
            options = options.credentials(username, self.password()?);
        }
        if let Some(client_id) = &self.client_id {
            options = options.client_id(client_id);
        }
        Ok(options)
    }

    /// Options for a command that goes on when the connection is lost.
    pub(crate) fn lasting_options(&self) -> anyhow::Result<Options> {
        let options = self.options()?.session_expiry(SESSION_EXPIRY);
        // Who names itself wants to be remembered.
        let options = options.clean_start(self.client_id.is_none());
        Ok(options.reconnect(Reconnect::AfterFirst))
    }

    /// Connects for one request to the state store.
    pub(crate) async fn state_store(&self) -> anyhow::Result<StateStore> {
        Ok(Client::connect(self.options()?).await?.state_store())
    }

    pub(crate) fn address(&self) -> String {
        if self.is_unix() {
            return self.host.clone();
        }
        let default = if self.has_tls() { 8883 } else { 1883 };
        let port = self.port.unwrap_or(default);
        if self.host.contains(':') {
            format!("[{}]:{port}", self.host)
        } else {
            format!("{}:{port}", self.host)
        }
    }

    /// Whether the server is at a Unix socket, which has no port.
    pub(crate) fn is_unix(&self) -> bool {
        self.host.starts_with("unix:")
    }

    fn has_tls(&self) -> bool {
        self.tls || self.cafile.is_some() || self.cert.is_some()
    }

    fn tls_options(&self) -> Option<TlsOptions> {
        if !self.has_tls() {
            return None;
        }
        let mut tls = TlsOptions::new();
        if let Some(file) = &self.cafile {
            tls = tls.ca_file(file);
        }
        if let (Some(certificate), Some(key)) = (&self.cert, &self.key_file) {
            tls = tls.identity(certificate, key);
        }
        if let Some(name) = &self.server_name {
            tls = tls.server_name(name);
        }
        Some(tls)
    }

    pub(crate) fn password(&self) -> anyhow::Result<Vec<u8>> {
        let Some(file) = &self.password_file else {
            return Ok(self.password.clone().unwrap_or_default().into_bytes());
        };
        let mut password = std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
        // Some editors put a byte order mark in front.
        if password.starts_with("\u{feff}".as_bytes()) {
            password.drain(.."\u{feff}".len());
        }
        if password.last() == Some(&b'\n') {
            password.pop();
        }
        if password.last() == Some(&b'\r') {
            password.pop();
        }
        Ok(password)
    }
}

/// How long a server remembers the session of a lasting command that has lost its connection.
const SESSION_EXPIRY: Duration = Duration::from_secs(300);

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Only {
        #[command(flatten)]
        server: ServerArgs,
    }

    fn parse(line: &str) -> ServerArgs {
        Only::parse_from(line.split(' ')).server
    }

    #[test]
    fn the_port_follows_tls_and_addresses_of_version_6_are_bracketed() {
        assert_eq!(parse("x -H h").address(), "h:1883");
        assert_eq!(parse("x -H h --cafile f").address(), "h:8883");
        assert_eq!(parse("x -H ::1 -p 5").address(), "[::1]:5");
        assert_eq!(parse("x -H unix:/run/s -p 5").address(), "unix:/run/s");
    }

    #[test]
    fn a_password_file_may_end_with_a_line_break() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), "se cret\r\n").expect("written");
        let server = parse(&format!("x -u me --password-file {}", file.path().display()));
        assert_eq!(server.password().expect("read"), b"se cret");
    }
}
