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

/// Network that counts as one source of connections, since one site has all of its addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum SourceNetwork {
    /// One address of IPv4, also where it is written as one of IPv6.
    V4([u8; 4]),
    /// A /64 of IPv6.
    V6([u8; 8]),
    /// A user of this machine, if the system says which.
    Unix(Option<u32>),
    /// Behind a load balancer, until its PROXY header names the client. All of them count as one network.
    Unnamed,
}

impl SourceNetwork {
    /// The network that a client's address is part of.
    pub(crate) fn of(peer: ClientAddress) -> Self {
        match peer {
            ClientAddress::Ip(address) => Self::of_ip(address.ip()),
            ClientAddress::Unix(credentials) => Self::Unix(credentials.map(|credentials| credentials.uid())),
        }
    }

    /// The network of an IP address.
    pub(crate) fn of_ip(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(address) => Self::V4(address.octets()),
            IpAddr::V6(address) => {
                let [a, b, c, d, e, f, g, h, ..] = address.octets();
                Self::V6([a, b, c, d, e, f, g, h])
            }
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
