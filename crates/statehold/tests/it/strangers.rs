//! Connections whose client never says who it is, and those who come after them.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};

use crate::authority::Authority;
use crate::configured::Configured;
use crate::harness::page;

/// Of a client without a name.
const CONNECT: &[u8] = b"\x10\x0d\0\x04MQTT\x05\x02\0\x3c\0\0\0";

const LISTENER: &str = "[[listeners]]\naddress = \"127.0.0.1:0\"\n";

/// Where the strangers are, and somebody else.
const THERE: Ipv4Addr = Ipv4Addr::new(127, 0, 1, 1);
const ELSEWHERE: Ipv4Addr = Ipv4Addr::new(127, 0, 1, 2);

fn places(strangers: u32, of_address: u32) -> String {
    format!("[limits]\nstrangers_max = {strangers}\nstrangers_per_address_max = {of_address}\n")
}

/// Connections from an address that say nothing.
fn silent(count: usize, from: Ipv4Addr, to: &str) -> Vec<TcpStream> {
    (0..count).map(|_| dial(from, to)).collect()
}

fn dial(from: Ipv4Addr, to: &str) -> TcpStream {
    let to: SocketAddr = to.parse().expect("an address");
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).expect("a socket");
    let from = SocketAddr::from((from, 0));
    socket.bind(&from.into()).expect("an address of this machine");
    socket.connect(&to.into()).expect("the system accepts");
    socket.into()
}

/// Whether the server answers these bytes.
fn is_answered(stream: &mut TcpStream, bytes: &[u8]) -> bool {
    // It may be closed already.
    let _ = stream.write_all(bytes);
    stream.read_exact(&mut [0; 1]).is_ok()
}

fn strangers(server: &Configured, pool: &str) -> f64 {
    server.figure(&format!("statehold_strangers{{pool=\"{pool}\"}}"))
}

fn refused(server: &Configured, pool: &str, reason: &str) -> f64 {
    server.figure(&format!(
        "statehold_strangers_refused_total{{pool=\"{pool}\",reason=\"{reason}\"}}"
    ))
}

/// Strangers that have lost their place to others of their address, as newcomers or as those that are overdue.
fn crowded_out(server: &Configured, pool: &str) -> f64 {
    refused(server, pool, "address") + refused(server, pool, "gave_way")
}

#[test]
fn who_says_nothing_keeps_nobody_else_out() {
    let server = Configured::start(&format!("{LISTENER}{}", places(40, 30)));
    let to = server.at("mqtt");
    let waiting = silent(100, THERE, to);
    while crowded_out(&server, to) < 70.0 {}
    // Of another address one is let in without delay, however many there are of others.
    let many: Vec<_> = (0..20).map(|_| dial(ELSEWHERE, to)).collect();
    assert!(strangers(&server, to) <= 40.0);
    let mut stream = dial(Ipv4Addr::LOCALHOST, to);
    assert!(is_answered(&mut stream, CONNECT));
    // Of the same address as soon as those have had their time.
    while !is_answered(&mut dial(THERE, to), CONNECT) {}
    assert!(refused(&server, to, "gave_way") > 0.0);
    drop((waiting, many));
}

#[test]
fn a_client_takes_no_strangers_place_once_it_is_known() {
    let server = Configured::start(&format!("{LISTENER}{}", places(1, 1)));
    let to = server.at("mqtt");
    let mut clients = Vec::new();
    while clients.len() < 5 {
        let mut stream = dial(THERE, to);
        if is_answered(&mut stream, CONNECT) {
            clients.push(stream);
        }
    }
    while strangers(&server, to) > 0.0 {}
    assert!(server.figure("statehold_connections") >= 5.0);
    drop(clients);
}

#[test]
fn strangers_of_one_network_of_ipv6_are_counted_together_behind_a_proxy() {
    let server = Configured::start(&format!(
        "{LISTENER}allow_anonymous = true\nproxy_protocol = true\n{}connect_timeout = \"1h\"\n",
        places(40, 10)
    ));
    let to = server.at("mqtt");
    let proxied = |client: &str| {
        let mut stream = dial(Ipv4Addr::LOCALHOST, to);
        // It may be closed already.
        let _ = stream.write_all(format!("PROXY TCP6 {client} 2001:db8::1 4711 1883\r\n").as_bytes());
        stream
    };
    let one_network: Vec<_> = (1..=30_u16)
        .map(|host| proxied(&format!("2001:db8:0:1::{host:x}")))
        .collect();
    while crowded_out(&server, to) < 20.0 {}
    assert!(strangers(&server, to) <= 10.0);
    // Another network has places of its own, and so have many.
    let others: Vec<_> = (2..=31_u16)
        .map(|network| proxied(&format!("2001:db8:0:{network:x}::1")))
        .collect();
    while strangers(&server, to) < 40.0 {}
    // The newest of the fullest network gives way: with this timeout nobody is overdue. While many headers are still to be read, those
    // without one are the fullest.
    while !is_answered(&mut proxied("2001:db8:0:ff::1"), CONNECT) {}
    drop((one_network, others));
}

#[test]
fn handshakes_that_never_end_give_way() {
    let authority = Authority::new();
    let tls = authority.issue("localhost");
    let server = Configured::start(&format!(
        "{LISTENER}[listeners.tls]\n{}{LISTENER}allow_anonymous = true\n[listeners.websocket]\n{}connect_timeout = \"2s\"\n",
        tls.settings(),
        places(20, 20)
    ));
    let beginnings: [(&str, &[u8]); 4] = [
        ("mqtts", b""),
        ("mqtts", b"\x16\x03\x01\x02\x00\x01"),
        ("ws", b""),
        ("ws", b"GET /mqtt HTTP/1.1\r\nHost: localhost\r\nUpgr"),
    ];
    let mut halves = Vec::new();
    for (scheme, beginning) in beginnings.iter().cycle().take(200) {
        let mut stream = dial(THERE, server.at(scheme));
        // It may be closed already.
        let _ = stream.write_all(beginning);
        halves.push(stream);
    }
    // Of another address at once, of the same one when those have had a fifth of the time.
    authority.set(&server, &[]).expect(0);
    for scheme in ["mqtts", "ws"] {
        while refused(&server, server.at(scheme), "gave_way") < 1.0 {
            halves.push(dial(THERE, server.at(scheme)));
        }
    }
}

#[test]
fn silent_connections_leave_the_health_pages_alone() {
    let server = Configured::start(LISTENER);
    let to = server.at("admin");
    let mut waiting = silent(100, THERE, to);
    waiting.extend(silent(100, Ipv4Addr::LOCALHOST, to));
    for half in &mut waiting {
        // It may have given way already.
        let _ = half.write_all(b"GET /healthz HTTP/1.1\r\nHo");
    }
    for path in ["/healthz", "/readyz"] {
        let (status, body) = page(to, path);
        assert!(status.contains("200"), "{status} {body}");
    }
    assert!(refused(&server, "admin", "gave_way") > 0.0);
}

#[test]
fn any_number_of_probes_at_once_is_answered() {
    const AT_ONCE: usize = 30;
    let server = Configured::start(LISTENER);
    let to = server.at("admin");
    for _ in 0..20 {
        let mut probes = silent(AT_ONCE, THERE, to);
        for probe in &mut probes {
            let request = format!("GET /readyz HTTP/1.1\r\nHost: {to}\r\nConnection: close\r\n\r\n");
            probe.write_all(request.as_bytes()).expect("sent");
        }
        for probe in &mut probes {
            let mut answer = String::new();
            probe.read_to_string(&mut answer).expect("answered");
            assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        }
    }
}
