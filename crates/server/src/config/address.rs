//! Where a listener is: an IP address and a port, or the path of a Unix socket.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Where a listener is.
///
/// As text it is `127.0.0.1:1883`, `[::1]:1883` or `unix:/run/statehold.sock`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum ListenAddress {
    /// TCP.
    Ip(SocketAddr),
    /// A Unix socket at a path.
    Unix(SocketPath),
}

/// The path of a Unix socket, which the system takes and the `statehold ready` line can show.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SocketPath(String);

/// What a file of a Unix socket lets its owner, its group and others do; as in `chmod`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct FileMode(u32);

/// What no listener can be at.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum AddressError {
    /// Neither kind.
    #[error(
        "`{text}` is not an address; write for example \"127.0.0.1:1883\", \"[::1]:1883\", \
         \"unix:/run/statehold.sock\""
    )]
    Unknown {
        /// As given.
        text: String,
    },
    /// A path that cannot be used.
    #[error(
        "the path of a Unix socket has 1 to {PATH_BYTES_MAX} bytes, and no space, comma or control character"
    )]
    Path,
}

/// Text that is not a file's mode.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{text}` is not a mode; write for example \"0660\"")]
pub struct FileModeError {
    text: String,
}

/// What the text of a Unix socket's address begins with.
const UNIX: &str = "unix:";

/// Linux has 108 bytes for the path with its end.
const PATH_BYTES_MAX: usize = 107;

impl ListenAddress {
    /// Whether only this machine reaches it.
    pub fn is_local(&self) -> bool {
        match self {
            Self::Ip(address) => address.ip().is_loopback(),
            Self::Unix(_) => true,
        }
    }

    /// Whether it is one of IPv4 that is written as one of IPv6, which takes no connections of IPv4.
    pub(super) fn is_mapped(&self) -> bool {
        match self {
            Self::Ip(SocketAddr::V6(address)) => address.ip().to_ipv4_mapped().is_some(),
            Self::Ip(SocketAddr::V4(_)) | Self::Unix(_) => false,
        }
    }
}

impl From<SocketAddr> for ListenAddress {
    fn from(address: SocketAddr) -> Self {
        Self::Ip(address)
    }
}

impl FromStr for ListenAddress {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        if let Some(path) = text.strip_prefix(UNIX) {
            return SocketPath::parse(path).map(Self::Unix);
        }
        let unknown = |_| AddressError::Unknown {
            text: text.to_owned(),
        };
        text.parse().map(Self::Ip).map_err(unknown)
    }
}

impl TryFrom<String> for ListenAddress {
    type Error = AddressError;

    fn try_from(text: String) -> Result<Self, AddressError> {
        text.parse()
    }
}

impl From<ListenAddress> for String {
    fn from(address: ListenAddress) -> Self {
        address.to_string()
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip(address) => address.fmt(to),
            Self::Unix(SocketPath(path)) => write!(to, "{UNIX}{path}"),
        }
    }
}

impl SocketPath {
    fn parse(path: &str) -> Result<Self, AddressError> {
        let has_room = (1..=PATH_BYTES_MAX).contains(&path.len());
        // The ready line separates words by spaces, and addresses by commas.
        let is_one_word = !path.contains(|c: char| c.is_whitespace() || c.is_control() || c == ',');
        if has_room && is_one_word {
            Ok(Self(path.to_owned()))
        } else {
            Err(AddressError::Path)
        }
    }

    /// As the file system takes it.
    pub fn to_path(&self) -> PathBuf {
        PathBuf::from(&self.0)
    }
}

impl FileMode {
    /// As the system takes it.
    pub fn bits(self) -> u32 {
        self.0
    }
}

impl Default for FileMode {
    /// Owner and group.
    fn default() -> Self {
        Self(0o660)
    }
}

impl TryFrom<String> for FileMode {
    type Error = FileModeError;

    fn try_from(text: String) -> Result<Self, FileModeError> {
        let is_octal = (3..=4).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
        let bits = u32::from_str_radix(&text, 8).ok().filter(|_| is_octal);
        // More would be the sticky and the set-id bits.
        match bits.filter(|bits| *bits <= 0o777) {
            Some(bits) => Ok(Self(bits)),
            None => Err(FileModeError { text }),
        }
    }
}

impl From<FileMode> for String {
    fn from(FileMode(bits): FileMode) -> Self {
        format!("{bits:04o}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_written() {
        for text in [
            "127.0.0.1:1883",
            "[::1]:0",
            "unix:/run/statehold.sock",
            "unix:relative.sock",
        ] {
            let address: ListenAddress = text.parse().expect("an address");
            assert_eq!(address.to_string(), text);
        }
        let is_local = |text: &str| {
            text.parse()
                .is_ok_and(|address: ListenAddress| address.is_local())
        };
        assert!(is_local("[::1]:0"));
        assert!(is_local("unix:/run/statehold.sock"));
        assert!(!is_local("10.0.0.1:1883"));
    }

    #[test]
    fn what_is_not_an_address_is_refused() {
        let longest = format!("unix:/{}", "x".repeat(PATH_BYTES_MAX - 1));
        assert!(longest.parse::<ListenAddress>().is_ok());
        for text in [
            "localhost:1883",
            "1883",
            "/run/statehold.sock",
            "unix:",
            "unix:/with space",
            "unix:/one,two",
            "unix:\0abstract",
            &format!("{longest}x"),
        ] {
            assert!(text.parse::<ListenAddress>().is_err(), "{text}");
        }
    }

    #[test]
    fn modes_are_read_and_written_in_base_8() {
        let read = |text: &str| FileMode::try_from(text.to_owned());
        assert_eq!(read("0660"), Ok(FileMode::default()));
        assert_eq!(read("600").map(String::from), Ok("0600".to_owned()));
        for text in ["", "6", "0o660", "0888", "4777", "+660", "00660", "rw-rw----"] {
            assert!(read(text).is_err(), "{text}");
        }
    }
}
