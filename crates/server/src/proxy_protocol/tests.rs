use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use proptest::prelude::*;

use super::header::{Malformed, Progress, parse};
use super::{ProxyError, read};

const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";

/// What follows the header, and has to be left there.
const REST: &[u8] = b"\x10\x0d\0\x04MQTT\x05\x02\0\x3c\0\0\0";

/// Reads a header that is followed by other bytes, which are all left.
fn check(header: &[u8]) -> Result<Option<SocketAddr>, ProxyError> {
    let bytes = [header, REST].concat();
    let mut stream = &bytes[..];
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    let client = runtime.expect("a runtime").block_on(read(&mut stream))?;
    assert_eq!(stream, REST, "after {header:?}");
    Ok(client)
}

#[track_caller]
fn client(header: &[u8]) -> Option<String> {
    check(header)
        .unwrap_or_else(|error| panic!("{error}: {header:?}"))
        .map(|address| address.to_string())
}

#[track_caller]
fn malformed(header: &[u8]) -> Malformed {
    match check(header) {
        Err(ProxyError::Malformed(why)) => why,
        other => panic!("{other:?} of {header:?}"),
    }
}

/// A header of version 2 whose length is right.
fn binary(command: u8, family: u8, block: &[u8]) -> Vec<u8> {
    let length = u16::try_from(block.len()).expect("short enough");
    [SIGNATURE, &[command, family], &length.to_be_bytes(), block].concat()
}

fn bytes(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

#[test]
fn a_line_names_the_client() {
    assert_eq!(
        client(b"PROXY TCP4 192.0.2.1 192.0.2.2 56324 1883\r\n").as_deref(),
        Some("192.0.2.1:56324")
    );
    assert_eq!(
        client(b"PROXY TCP6 2001:db8::1 ::1 1 65535\r\n").as_deref(),
        Some("[2001:db8::1]:1")
    );
    let longest = "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff";
    let line = format!("PROXY TCP6 {longest} {longest} 65535 65535\r\n");
    assert_eq!(client(line.as_bytes()), Some(format!("[{longest}]:65535")));
}

#[test]
fn a_line_may_say_that_the_client_is_unknown() {
    for line in [
        &b"PROXY UNKNOWN\r\n"[..],
        b"PROXY UNKNOWN \r\n",
        b"PROXY UNKNOWN ffff::1 ffff::2 65535 65535\r\n",
        b"PROXY UNKNOWN what\xffever\r\n",
    ] {
        assert_eq!(client(line), None);
    }
}

#[test]
fn a_line_that_deviates_is_refused() {
    for line in [
        "PROXY \r\n",
        "PROXY TCP4\r\n",
        "PROXY UNKNOWNS\r\n",
        "PROXY UDP4 1.2.3.4 5.6.7.8 1 2\r\n",
        "PROXY TCP4 1.2.3.4 5.6.7.8 1\r\n",
        "PROXY TCP4 1.2.3.4 5.6.7.8 1 2 3\r\n",
        "PROXY TCP4 1.2.3.4 5.6.7.8 1 2 \r\n",
        "PROXY  TCP4 1.2.3.4 5.6.7.8 1 2\r\n",
        "PROXY tcp4 1.2.3.4 5.6.7.8 1 2\r\n",
        "PROXY TCP4 ::1 ::1 1 2\r\n",
        "PROXY TCP6 1.2.3.4 5.6.7.8 1 2\r\n",
        "PROXY TCP4 1.2.3.4 ::1 1 2\r\n",
        "PROXY TCP4 1.2.3 5.6.7.8 1 2\r\n",
        "PROXY TCP4 01.2.3.4 5.6.7.8 1 2\r\n",
        "PROXY TCP4 1.2.3.256 5.6.7.8 1 2\r\n",
        "PROXY TCP6 ::1%lo ::1 1 2\r\n",
        "PROXY TCP4 1.2.3.4 5.6.7.8 +1 2\r\n",
        "PROXY TCP4 1.2.3.4 5.6.7.8 01 2\r\n",
        "PROXY TCP4 1.2.3.4 5.6.7.8 65536 2\r\n",
        "PROXY TCP4 1.2.3.4 5.6.7.8 1 \r\n",
        "PROXY TCP4 1.2.3.4 5.6.7.8 1 2\n",
        "PROXY TCP4 1.2.3.4 5.6.7.8 1 2\rx",
        "PROXY UNKNOWN one\ntwo\r\n",
        "PROXY UNKNOWN one\r\r\n",
    ] {
        assert_eq!(malformed(line.as_bytes()), Malformed::Line, "{line:?}");
    }
}

#[test]
fn a_line_ends_within_107_bytes() {
    let line = |length: usize| format!("PROXY UNKNOWN {}\r\n", "x".repeat(length - 16));
    assert_eq!(client(line(107).as_bytes()), None);
    for length in [108, 109, 5000] {
        assert_eq!(malformed(line(length).as_bytes()), Malformed::LineLength);
    }
}

#[test]
fn what_begins_otherwise_is_refused_at_its_first_byte() {
    for start in [
        &b"\x10"[..],
        b"\x16\x03",
        b"GET / HTTP/1.1\r\n",
        b"PROXX",
        b"proxy",
        b"\r\n\r\n\r",
    ] {
        let long_enough = [start, &[0; 16]].concat();
        assert_eq!(parse(start), Err(Malformed::Start), "{start:?}");
        assert_eq!(malformed(&long_enough), Malformed::Start, "{start:?}");
    }
}

#[test]
fn a_binary_header_names_the_client() {
    let block = [192, 0, 2, 1, 192, 0, 2, 2, 0xdc, 0x04, 0x07, 0x5b];
    assert_eq!(
        client(&binary(0x21, 0x11, &block)).as_deref(),
        Some("192.0.2.1:56324")
    );
    // A field that nobody knows, and one that claims to be longer than the header.
    for fields in [&b"\xe0\0\x02ab"[..], b"\x04\xff\xff"] {
        let header = binary(0x21, 0x11, &[&block, fields].concat());
        assert_eq!(client(&header).as_deref(), Some("192.0.2.1:56324"));
    }
}

#[test]
fn a_binary_header_without_a_client_by_tcp_keeps_the_socket_s_address() {
    // Of the proxy itself, whatever family and block it has.
    assert_eq!(client(&binary(0x20, 0x00, b"")), None);
    assert_eq!(client(&binary(0x20, 0xff, b"123")), None);
    assert_eq!(client(&binary(0x20, 0x11, &[1; 12])), None);
    // Unspecified, by UDP, by a Unix socket.
    assert_eq!(client(&binary(0x21, 0x00, b"")), None);
    assert_eq!(client(&binary(0x21, 0x10, &[1; 12])), None);
    assert_eq!(client(&binary(0x21, 0x12, &[1; 12])), None);
    assert_eq!(client(&binary(0x21, 0x31, &[1; 216])), None);
}

#[test]
fn a_binary_header_that_deviates_is_refused() {
    for command in [0x00, 0x10, 0x11, 0x22, 0x2f, 0x31] {
        let header = binary(command, 0x11, &[1; 12]);
        assert_eq!(malformed(&header), Malformed::Command(command));
    }
    for family in [0x13, 0x1f, 0x03, 0x41, 0xf1] {
        let header = binary(0x21, family, &[1; 216]);
        assert_eq!(malformed(&header), Malformed::Family(family));
    }
    for (family, length) in [(0x11, 11), (0x12, 0), (0x21, 35), (0x32, 215)] {
        let header = binary(0x21, family, &vec![1; length]);
        assert_eq!(malformed(&header), Malformed::TooShort(length));
    }
}

#[test]
fn a_binary_header_is_refused_by_its_length_before_it_is_read() {
    assert_eq!(client(&binary(0x20, 0x00, &[0; 4096])), None);
    let beginning = [SIGNATURE, &[0x20, 0x00, 0x10, 0x01]].concat();
    assert_eq!(parse(&beginning), Err(Malformed::TooLong(4097)));
}

#[test]
fn a_connection_that_ends_in_the_header_is_told_from_a_malformed_one() {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    let runtime = runtime.expect("a runtime");
    for start in [&b""[..], b"PROXY TCP4 1.2.3.4", &SIGNATURE[..5]] {
        let ended = runtime.block_on(read(&mut &start[..]));
        assert!(matches!(ended, Err(ProxyError::Ended)), "{ended:?}");
    }
}

/// Gives a parser what it asks for, `step` bytes at once at most. Where the header ends, and what it says.
fn fed(bytes: &[u8], step: usize) -> (usize, Result<Progress, Malformed>) {
    let mut length = 0;
    loop {
        match parse(&bytes[..length]) {
            Ok(Progress::Missing(count)) if length < bytes.len() => {
                assert!(count > 0);
                length = bytes.len().min(length + count.min(step));
            }
            end => return (length, end),
        }
    }
}

/// A source and a destination, of one kind.
fn addresses() -> impl Strategy<Value = (IpAddr, IpAddr)> {
    prop_oneof![
        any::<(Ipv4Addr, Ipv4Addr)>().prop_map(|(source, destination)| (source.into(), destination.into())),
        any::<(Ipv6Addr, Ipv6Addr)>().prop_map(|(source, destination)| (source.into(), destination.into())),
    ]
}

proptest! {
    #[test]
    fn every_client_is_read_as_it_was_written(
        (source, destination) in addresses(),
        port: u16,
        other: u16,
        fields: Vec<u8>,
    ) {
        let expected = SocketAddr::new(source, port).to_string();
        let (name, family) = if source.is_ipv4() { ("TCP4", 0x11) } else { ("TCP6", 0x21) };
        let line = format!("PROXY {name} {source} {destination} {port} {other}\r\n");
        let by_line = client(line.as_bytes());
        prop_assert_eq!(by_line.as_deref(), Some(expected.as_str()));
        let addresses = [bytes(source), bytes(destination)].concat();
        let block = [&addresses[..], &port.to_be_bytes(), &other.to_be_bytes(), &fields].concat();
        prop_assert_eq!(client(&binary(0x21, family, &block)), Some(expected));
    }

    #[test]
    fn damaged_headers_are_read_alike_at_once_and_byte_by_byte(
        kind in 0..4_usize,
        at: prop::sample::Index,
        damage: Vec<u8>,
        step in 1..20_usize,
    ) {
        let mut bytes = [
            b"PROXY TCP4 192.0.2.1 192.0.2.2 56324 1883\r\n".to_vec(),
            b"PROXY UNKNOWN 192.0.2.1\r\n".to_vec(),
            binary(0x21, 0x21, &[7; 60]),
            binary(0x20, 0x00, &[7; 5]),
        ][kind].clone();
        let at = at.index(bytes.len());
        let end = bytes.len().min(at + damage.len());
        bytes.splice(at..end, damage);
        let (end, at_once) = fed(&bytes, usize::MAX);
        prop_assert!(end <= 16 + 4096);
        let (slow_end, slowly) = fed(&bytes, step);
        match at_once {
            // Where it is found out depends on what is read at once.
            Err(_) => prop_assert!(slowly.is_err(), "{slowly:?}"),
            Ok(_) => prop_assert_eq!((slow_end, slowly), (end, at_once)),
        }
    }

    #[test]
    fn any_bytes_are_refused_or_bounded(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let (end, _) = fed(&bytes, usize::MAX);
        prop_assert!(end <= bytes.len());
        let (end, _) = fed(&[SIGNATURE, &bytes].concat(), usize::MAX);
        prop_assert!(end <= 16 + 4096);
        let (end, _) = fed(&[b"PROXY ", &bytes[..]].concat(), usize::MAX);
        prop_assert!(end <= 107);
    }
}
