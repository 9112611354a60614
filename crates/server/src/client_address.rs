//! Where a connection comes from, as the log shows it.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use tokio::net::unix::UCred;

/// Where a connection comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ClientAddress {
    /// By TCP, or by a proxy that says so.
    Ip(SocketAddr),
    /// A process of this machine, by a Unix socket; as which user, if the system says so.
    Unix(Option<UCred>),
}

impl ClientAddress {
    /// `None` for a process of this machine.
    pub(crate) fn ip(&self) -> Option<IpAddr> {
        match self {
            Self::Ip(address) => Some(address.ip()),
            Self::Unix(_) => None,
        }
    }
}

impl fmt::Display for ClientAddress {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip(address) => address.fmt(to),
            Self::Unix(None) => to.write_str("unix"),
            Self::Unix(Some(credentials)) => {
                write!(to, "unix:uid={}", credentials.uid())?;
                match credentials.pid() {
                    Some(pid) => write!(to, ",pid={pid}"),
                    None => Ok(()),
                }
            }
        }
    }
}
