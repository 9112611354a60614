//! The header as a pure function of its bytes.
//!
//! Source: `proxy-protocol.txt` of HAProxy, sections 2.1 and 2.2. Further fields (TLV) are skipped, the checksum among them.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use thiserror::Error;

/// What the bytes so far are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Progress {
    /// The beginning of a header, to which so many more bytes belong at least.
    Missing(usize),
    /// A header, and the client's address if it names one.
    Complete(Option<SocketAddr>),
}

/// What no header is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub(crate) enum Malformed {
    #[error(
        "the connection does not begin with a header; let the proxy send one (send-proxy-v2), \
         or set listeners.proxy_protocol = false where clients come without a proxy"
    )]
    Start,
    #[error("the header of version 1 is not a line of its form")]
    Line,
    #[error("the header of version 1 is longer than {LINE_BYTES_MAX} bytes")]
    LineLength,
    #[error("the header has an unknown version or command, {0:#04x}")]
    Command(u8),
    #[error("the header has an unknown address family or protocol, {0:#04x}")]
    Family(u8),
    #[error("the header has {0} bytes after its first 16, too few for its addresses")]
    TooShort(usize),
    #[error("the header has {0} bytes after its first 16, more than {BLOCK_BYTES_MAX}")]
    TooLong(usize),
}

/// What a line of version 1 begins with.
const LINE_START: &[u8] = b"PROXY ";

/// The shortest line: `PROXY UNKNOWN` and its end. The beginning of version 2 is one byte longer.
const LINE_BYTES_MIN: usize = 15;

/// The longest line, by the specification.
const LINE_BYTES_MAX: usize = 107;

/// What a header of version 2 begins with.
const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";

/// Signature, version and command, family and protocol, length of the rest.
const BEGINNING_BYTES: usize = 16;

/// Addresses and further fields. The specification means a header to fit in 536 bytes; clients' certificates may be more.
const BLOCK_BYTES_MAX: usize = 4096;

/// Reads a header, or the beginning of one, with nothing after it.
pub(super) fn parse(bytes: &[u8]) -> Result<Progress, Malformed> {
    if bytes.is_empty() {
        return Ok(Progress::Missing(LINE_BYTES_MIN));
    }
    if begins_like(bytes, LINE_START) {
        return parse_line(bytes);
    }
    if begins_like(bytes, SIGNATURE) {
        return parse_binary(bytes);
    }
    Err(Malformed::Start)
}

/// Whether one is the beginning of the other.
fn begins_like(bytes: &[u8], start: &[u8]) -> bool {
    let length = bytes.len().min(start.len());
    bytes[..length] == start[..length]
}

/// Version 1.
fn parse_line(bytes: &[u8]) -> Result<Progress, Malformed> {
    let is_end = |byte: &u8| matches!(byte, b'\r' | b'\n');
    let length = bytes.iter().position(is_end).unwrap_or(bytes.len());
    let (text, end) = bytes.split_at(length);
    let missing = match end {
        b"\r\n" => return client_of_line(text).map(Progress::Complete),
        b"\r" => 1,
        b"" => LINE_BYTES_MIN.saturating_sub(bytes.len()).max(2),
        _ => return Err(Malformed::Line),
    };
    if bytes.len() + missing > LINE_BYTES_MAX {
        return Err(Malformed::LineLength);
    }
    Ok(Progress::Missing(missing))
}

fn client_of_line(text: &[u8]) -> Result<Option<SocketAddr>, Malformed> {
    let text = text.strip_prefix(LINE_START).ok_or(Malformed::Line)?;
    if text == b"UNKNOWN" || text.starts_with(b"UNKNOWN ") {
        return Ok(None);
    }
    let text = std::str::from_utf8(text).map_err(|_| Malformed::Line)?;
    let words: Vec<&str> = text.split(' ').collect();
    let &[family, source, destination, source_port, destination_port] = words.as_slice() else {
        return Err(Malformed::Line);
    };
    let client = match family {
        "TCP4" => both::<Ipv4Addr>(source, destination).map(Into::into),
        "TCP6" => both::<Ipv6Addr>(source, destination).map(Into::into),
        _ => None,
    };
    match (client, port(source_port), port(destination_port)) {
        (Some(client), Some(port), Some(_)) => Ok(Some(SocketAddr::new(client, port))),
        _ => Err(Malformed::Line),
    }
}

/// The first of two addresses of one kind.
fn both<A: std::str::FromStr>(source: &str, destination: &str) -> Option<A> {
    destination.parse::<A>().ok()?;
    source.parse().ok()
}

/// Decimal, without a sign or zeros before it.
fn port(text: &str) -> Option<u16> {
    let port: u16 = text.parse().ok()?;
    (port.to_string() == text).then_some(port)
}

/// Version 2.
fn parse_binary(bytes: &[u8]) -> Result<Progress, Malformed> {
    let Some((beginning, block)) = bytes.split_first_chunk::<BEGINNING_BYTES>() else {
        return Ok(Progress::Missing(BEGINNING_BYTES - bytes.len()));
    };
    let &[.., command, family, length_high, length_low] = beginning;
    let length = usize::from(u16::from_be_bytes([length_high, length_low]));
    if length > BLOCK_BYTES_MAX {
        return Err(Malformed::TooLong(length));
    }
    let address_bytes = match command {
        LOCAL => 0,
        PROXY => address_bytes(family)?,
        _ => return Err(Malformed::Command(command)),
    };
    if length < address_bytes {
        return Err(Malformed::TooShort(length));
    }
    if block.len() < length {
        return Ok(Progress::Missing(length - block.len()));
    }
    let client = match (command, family) {
        (PROXY, TCP_4) => client_of_block::<4>(block),
        (PROXY, TCP_6) => client_of_block::<16>(block),
        // The proxy itself, or a client that did not come by TCP.
        _ => None,
    };
    Ok(Progress::Complete(client))
}

/// How many bytes the addresses take. Families are above, protocols below.
fn address_bytes(family: u8) -> Result<usize, Malformed> {
    match (family >> 4, family & 0x0f) {
        // Unspecified: whatever there is means nothing.
        (0, 0..=2) | (1..=3, 0) => Ok(0),
        (1, 1 | 2) => Ok(12),
        (2, 1 | 2) => Ok(36),
        (3, 1 | 2) => Ok(216),
        _ => Err(Malformed::Family(family)),
    }
}

/// Source and destination, then their ports.
fn client_of_block<const N: usize>(block: &[u8]) -> Option<SocketAddr>
where
    [u8; N]: Into<std::net::IpAddr>,
{
    let (source, rest) = block.split_first_chunk::<N>()?;
    let (port, _) = rest.get(N..)?.split_first_chunk::<2>()?;
    Some(SocketAddr::new((*source).into(), u16::from_be_bytes(*port)))
}

/// Version 2, and the proxy itself connects, for instance to see whether the server lives.
const LOCAL: u8 = 0x20;
/// Version 2, and a client connects through the proxy.
const PROXY: u8 = 0x21;
/// TCP over IPv4.
const TCP_4: u8 = 0x11;
/// TCP over IPv6.
const TCP_6: u8 = 0x21;
