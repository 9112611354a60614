//! Where a node can be reached by others: a name or an IP address, and a port.

use core::net::SocketAddr;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// Where a node can be reached by others, as in `10.0.0.1:7000`, `[::1]:7000` or `a.example:7000`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PeerAddress(Arc<str>);

/// Text that is no such address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{text}` is not the address of a node; write for example \"10.0.0.1:7000\", \"[::1]:7000\", \"a.example:7000\""
)]
pub struct AddressError {
    /// As given, its beginning.
    pub text: String,
}

impl PeerAddress {
    /// As text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The IP address and port, unless it is a name.
    pub fn ip(&self) -> Option<SocketAddr> {
        self.0.parse().ok()
    }
}

impl From<SocketAddr> for PeerAddress {
    fn from(address: SocketAddr) -> Self {
        Self(address.to_string().into())
    }
}

impl FromStr for PeerAddress {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let is_name = |host: &str| {
            let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
            !host.is_empty() && host.len() <= NAME_BYTES_MAX && host.bytes().all(is_allowed)
        };
        let is_named = || {
            let (host, port) = text.rsplit_once(':')?;
            let is_port = port.bytes().all(|byte| byte.is_ascii_digit()) && port.parse::<u16>().is_ok();
            (is_name(host) && is_port).then_some(())
        };
        // Written as the system writes it, so that one address has one form.
        if let Ok(address) = text.parse::<SocketAddr>() {
            return Ok(address.into());
        }
        match is_named() {
            Some(()) => Ok(Self(text.into())),
            None => Err(AddressError {
                text: text.chars().take(NAME_BYTES_MAX).collect(),
            }),
        }
    }
}

impl fmt::Display for PeerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Names of the domain name system have at most so many bytes.
const NAME_BYTES_MAX: usize = 253;

#[cfg(test)]
mod tests {
    use super::PeerAddress;

    #[test]
    fn addresses_are_read_and_written() {
        for text in ["10.0.0.1:7000", "[::1]:7000", "a.example:7000", "node_1:1"] {
            let address: PeerAddress = text.parse().expect("an address");
            assert_eq!(address.to_string(), text);
        }
        let long: PeerAddress = "[0:0::1]:7".parse().expect("an address");
        assert_eq!(long.as_str(), "[::1]:7");
    }

    #[test]
    fn what_is_not_an_address_is_refused() {
        let long = format!("{}:1", "x".repeat(254));
        for text in [
            "", "a", ":1", "a:", "a:+1", "a:65536", "a b:1", "a\n:1", "::1:x", "[::1]", "ä:1", &long,
        ] {
            assert!(text.parse::<PeerAddress>().is_err(), "{text:?}");
        }
    }
}
