//! Where a request goes: `https://host:port/path?query`, or `http` where that cannot be read along.

use std::net::IpAddr;

use hyper::Uri;
use rustls::pki_types::ServerName;
use thiserror::Error;

/// A server, and a place on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Url {
    is_tls: bool,
    host: String,
    port: u16,
    /// With the query, if there is one.
    path: String,
}

/// A text that cannot be used as an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum UrlError {
    /// It is no address of a server that speaks HTTP.
    #[error("write for example \"https://host.example:8443/path\"")]
    Malformed,
    /// It has a user name in it.
    #[error("secrets in an address end up in logs: leave out what stands before `@`")]
    UserInfo,
    /// What is sent there could be read along.
    #[error("`http` is for loopback addresses only: use `https`")]
    Plain,
}

impl Url {
    /// `http` to other machines only if that is allowed.
    pub fn parse(text: &str, allow_http: bool) -> Result<Self, UrlError> {
        let uri: Uri = text.parse().map_err(|_| UrlError::Malformed)?;
        let authority = uri.authority().ok_or(UrlError::Malformed)?;
        if authority.as_str().contains('@') {
            return Err(UrlError::UserInfo);
        }
        let is_tls = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return Err(UrlError::Malformed),
        };
        let host = authority.host();
        // One that is too large would be taken for none.
        let port = match authority.as_str().strip_prefix(host).unwrap_or_default() {
            "" if is_tls => 443,
            "" => 80,
            port => port
                .strip_prefix(':')
                .and_then(|port| port.parse().ok())
                .ok_or(UrlError::Malformed)?,
        };
        let host = host
            .strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'))
            .unwrap_or(host);
        let is_named = ServerName::try_from(host).is_ok();
        if !is_named || port == 0 {
            return Err(UrlError::Malformed);
        }
        if !is_tls && !allow_http && !is_loopback(host) {
            return Err(UrlError::Plain);
        }
        Ok(Self {
            is_tls,
            host: host.to_owned(),
            port,
            path: uri.path_and_query().map_or("/", |path| path.as_str()).to_owned(),
        })
    }

    /// Whether it is `https`.
    pub fn is_tls(&self) -> bool {
        self.is_tls
    }

    pub(crate) fn host(&self) -> &str {
        &self.host
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Path and query.
    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// As the header `Host` has it.
    pub(crate) fn authority(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }
}

/// A name counts as loopback if it is the one that always is.
fn is_loopback(host: &str) -> bool {
    match host.parse::<IpAddr>() {
        Ok(address) => address.is_loopback(),
        Err(_) => host.eq_ignore_ascii_case("localhost"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(text: &str) -> Result<(bool, String, String), UrlError> {
        Url::parse(text, false).map(|url| (url.is_tls, url.authority(), url.path))
    }

    fn url(is_tls: bool, authority: &str, path: &str) -> Result<(bool, String, String), UrlError> {
        Ok((is_tls, authority.to_owned(), path.to_owned()))
    }

    #[test]
    fn an_address_has_a_host_a_port_and_a_path() {
        assert_eq!(parts("https://who.example"), url(true, "who.example:443", "/"));
        assert_eq!(
            parts("https://who.example:8443/a?b=c"),
            url(true, "who.example:8443", "/a?b=c")
        );
        assert_eq!(parts("https://[::1]:8443/"), url(true, "[::1]:8443", "/"));
        assert_eq!(parts("http://127.0.0.1:80/"), url(false, "127.0.0.1:80", "/"));
        assert_eq!(parts("http://localhost:80/"), url(false, "localhost:80", "/"));
    }

    #[test]
    fn what_goes_to_another_machine_is_encrypted() {
        for text in [
            "http://who.example/",
            "http://10.0.0.1/",
            "http://localhost.example/",
            "http://[::2]/",
        ] {
            assert_eq!(parts(text), Err(UrlError::Plain), "{text}");
            assert!(Url::parse(text, true).is_ok());
        }
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for text in [
            "",
            "/",
            "who.example",
            "ftp://who.example/",
            "https://",
            "https://who.example:0/",
            "https://who.example:/",
            "https://who.example:99999/",
            "https://who example/",
        ] {
            assert_eq!(parts(text), Err(UrlError::Malformed), "{text}");
        }
        assert_eq!(parts("https://user:secret@who.example/"), Err(UrlError::UserInfo));
    }
}
