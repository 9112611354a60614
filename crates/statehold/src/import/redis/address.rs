//! Where a Redis server is, and who asks.

use std::path::Path;

use anyhow::Context;

/// Where a server is: `redis://[USER@]HOST[:PORT][/DB]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Address {
    /// `rediss`.
    pub(super) is_tls: bool,
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) username: Option<String>,
    pub(super) db: u64,
}

const PORT: u16 = 6379;

impl Address {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let explain = || {
            "write for example redis://cache.example:6379/0, or rediss:// for TLS; the password is not a part of it, because other users of the machine \
             can see it: use --from-password-file or the variable REDISCLI_AUTH"
                .to_owned()
        };
        let (scheme, rest) = text.split_once("://").ok_or_else(explain)?;
        let is_tls = match scheme {
            "redis" => false,
            "rediss" => true,
            _ => return Err(explain()),
        };
        let (server, db) = rest.split_once('/').unwrap_or((rest, ""));
        let (username, place) = match server.rsplit_once('@') {
            Some((username, place)) => (Some(username), place),
            None => (None, server),
        };
        if username.is_some_and(|name| name.is_empty() || name.contains(':')) {
            return Err(explain());
        }
        let (host, port) = match place.rsplit_once(':') {
            // The colons of an address of version 6 are inside of its brackets.
            Some((host, port)) if !port.ends_with(']') => (host, port.parse().map_err(|_| explain())?),
            _ => (place, PORT),
        };
        let host = host.trim_start_matches('[').trim_end_matches(']');
        if host.is_empty() || port == 0 {
            return Err(explain());
        }
        Ok(Self {
            is_tls,
            host: host.to_owned(),
            port,
            username: username.map(str::to_owned),
            db: if db.is_empty() {
                0
            } else {
                db.parse().map_err(|_| explain())?
            },
        })
    }
}

/// The password of Redis, if there is one.
pub(super) fn password(file: Option<&Path>) -> anyhow::Result<Option<Vec<u8>>> {
    let Some(file) = file else {
        let set = std::env::var("REDISCLI_AUTH").ok();
        return Ok(set
            .filter(|password| !password.is_empty())
            .map(String::into_bytes));
    };
    let mut password = std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    while password.last().is_some_and(|byte| matches!(byte, b'\r' | b'\n')) {
        password.pop();
    }
    Ok(Some(password))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> (String, u16, Option<String>, u64) {
        let address = Address::parse(text).expect(text);
        (address.host, address.port, address.username, address.db)
    }

    #[test]
    fn an_address_has_what_is_needed() {
        assert_eq!(parse("redis://h"), ("h".to_owned(), 6379, None, 0));
        let all = ("h".to_owned(), 7, Some("me".to_owned()), 3);
        assert_eq!(parse("redis://me@h:7/3"), all);
        assert_eq!(parse("redis://[::1]:7/").0, "::1");
        assert_eq!(parse("redis://[::1]").1, 6379);
        assert_eq!(parse("rediss://h"), ("h".to_owned(), 6379, None, 0));
        let is_tls = |text| Address::parse(text).expect(text).is_tls;
        assert!(is_tls("rediss://h") && !is_tls("redis://h"));
    }

    #[test]
    fn what_is_none_is_explained_and_secrets_are_not_wanted_there() {
        for text in [
            "h",
            "http://h",
            "redisss://h",
            "rediss:h",
            "redis://",
            "redis://h:0",
            "redis://h:x",
            "redis://h/x",
            "redis://@h",
        ] {
            assert!(Address::parse(text).is_err(), "{text}");
        }
        let error = Address::parse("redis://me:secret@h").expect_err("a secret");
        assert!(
            !error.contains("secret@") && error.contains("REDISCLI_AUTH"),
            "{error}"
        );
    }
}
