//! Adversaries that occupy places which clients and nodes need.
//!
//! Each opens far more connections than there are places, from four addresses, and leaves them half done. The outcome says how long
//! somebody else then waits: at another address, and at one of the adversary's.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

use client::protocol::Text;
use client::protocol::packet::Packet;
use tokio::net::TcpSocket;
use tokio::runtime::Runtime;

use super::adversary::{Adversary, Arena, Outcome, World};
use super::attacker::{connect, encoded};
use crate::bench::clock;

pub(super) const ADVERSARIES: &[Adversary] = &[
    Adversary {
        name: "strangers_silent",
        about: "2,000 connections that say nothing, and a client that connects",
        world: World::Alone,
        settings: "",
        act: |arena| {
            let hello = encoded(&Packet::Connect(Box::new(connect("")?)));
            occupy(arena, arena.mqtt(), 2_000, b"", (&hello, CONNACK))
        },
    },
    Adversary {
        name: "strangers_half_connect",
        about: "2,000 connections with the first half of a CONNECT, and a client that connects",
        world: World::Alone,
        settings: "",
        act: |arena| {
            let hello = encoded(&Packet::Connect(Box::new(connect("")?)));
            occupy(
                arena,
                arena.mqtt(),
                2_000,
                &hello[..hello.len() / 2],
                (&hello, CONNACK),
            )
        },
    },
    Adversary {
        name: "strangers_half_scram",
        about: "2,000 exchanges of SCRAM that are half done, and a client that begins one",
        world: World::Alone,
        settings: "[[listeners]]\naddress = \"127.0.0.1:0\"\nauthentication = [\"scram\"]\n\
                   [authentication.scram]\nfile = \"{place}/clients.scram\"\n",
        act: |arena| {
            let mut packet = connect("")?;
            packet.properties.authentication_method = Some(Text::new("SCRAM-SHA-256")?);
            packet.properties.authentication_data = Some("n,,n=pump,r=fyko+d2lbbFgONRv9qkxdawL".into());
            let hello = encoded(&Packet::Connect(Box::new(packet)));
            occupy(arena, arena.last("mqtt")?, 2_000, &hello, (&hello, AUTH))
        },
    },
    Adversary {
        name: "strangers_half_websocket",
        about: "2,000 handshakes of WebSocket that are half done, and a client that does one",
        world: World::Alone,
        settings: "",
        act: |arena| {
            occupy(
                arena,
                arena.last("ws")?,
                2_000,
                &UPGRADE[..40],
                (UPGRADE, SWITCHED),
            )
        },
    },
    Adversary {
        name: "strangers_admin",
        about: "200 connections to the admin pages that ask for nothing, and a probe of /healthz",
        world: World::Alone,
        settings: "",
        act: |arena| occupy(arena, arena.last("admin")?, 200, b"GET /hea", (PROBE, HEALTHY)),
    },
    Adversary {
        name: "strangers_peers",
        about: "200 connections to the port of the nodes that say nothing, and a node that says hello",
        world: World::Cluster,
        settings: "",
        act: |arena| occupy(arena, arena.last("peers")?, 200, b"", (&foreign_hello(), HELLO)),
    },
];

const UPGRADE: &[u8] = b"GET /mqtt HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
    Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Protocol: mqtt\r\n\r\n";

const PROBE: &[u8] = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";

/// How answers begin that serve a client: CONNACK, AUTH, and those of HTTP and of a node.
const CONNACK: &[u8] = &[0x20];
const AUTH: &[u8] = &[0xF0];
const SWITCHED: &[u8] = b"HTTP/1.1 101";
const HEALTHY: &[u8] = b"HTTP/1.1 200";
const HELLO: &[u8] = b"sthdpeer";

/// The hello of a node of a version that nobody speaks, which is answered and refused.
fn foreign_hello() -> Vec<u8> {
    let address = b"127.0.0.1:1";
    let body = [
        // Versions, node, incarnation, nonce, clock, no cluster, size, groups, and the address with its length.
        &[200, 255][..],
        &7_u64.to_be_bytes(),
        &1_u32.to_be_bytes(),
        &[0; 24],
        &[0, 3, 0, 0, 0, 1, 0, 11],
        address,
    ]
    .concat();
    let length = u16::try_from(body.len()).unwrap_or(u16::MAX).to_be_bytes();
    [b"sthdpeer", &length[..], &body].concat()
}

/// Addresses of the adversary; nobody else's.
const ADDRESSES: [Ipv4Addr; 4] = [
    Ipv4Addr::new(127, 0, 3, 1),
    Ipv4Addr::new(127, 0, 3, 2),
    Ipv4Addr::new(127, 0, 3, 3),
    Ipv4Addr::new(127, 0, 3, 4),
];

/// For how long somebody waits before it is said that nobody was served.
const GIVES_UP: Duration = Duration::from_secs(30);

/// Opens so many connections, sends `beginning` on each, and measures how long others wait that ask, until an
/// answer begins as it should.
fn occupy(
    arena: &Arena<'_>,
    to: SocketAddr,
    count: usize,
    beginning: &[u8],
    asking: (&[u8], &[u8]),
) -> anyhow::Result<Outcome> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    arena.begin();
    let mut held = Vec::new();
    for from in ADDRESSES.iter().cycle().take(count) {
        // The system's backlog may be full, which is what the adversary wants.
        if let Ok(mut stream) = dial(&runtime, *from, to, DIALS_FOR) {
            // Closed already, if it got no place.
            let _ = stream.write_all(beginning);
            held.push(stream);
        }
    }
    let elsewhere = waits(&runtime, Ipv4Addr::LOCALHOST, to, asking);
    let here = waits(&runtime, ADDRESSES[0], to, asking);
    let became = format!("another address waits {elsewhere}, the same one {here}");
    Ok(Outcome::new(became, held.len() * beginning.len()))
}

/// How long it takes the adversary to give up one connection.
const DIALS_FOR: Duration = Duration::from_millis(100);

fn dial(runtime: &Runtime, from: Ipv4Addr, to: SocketAddr, within: Duration) -> anyhow::Result<TcpStream> {
    let stream = runtime.block_on(async {
        let socket = TcpSocket::new_v4()?;
        socket.bind(SocketAddr::from((from, 0)))?;
        anyhow::Ok(tokio::time::timeout(within, socket.connect(to)).await??)
    })?;
    let stream = stream.into_std()?;
    stream.set_nonblocking(false)?;
    Ok(stream)
}

/// How long a client at an address waits for an answer, which tries again when it is closed.
fn waits(runtime: &Runtime, from: Ipv4Addr, to: SocketAddr, asking: (&[u8], &[u8])) -> String {
    let began = clock::now();
    while began.elapsed() < GIVES_UP {
        if is_served(runtime, from, to, asking).unwrap_or(false) {
            return format!("{:.0} ms", began.elapsed().as_secs_f64() * 1e3);
        }
    }
    format!("longer than {GIVES_UP:?}")
}

/// Whether the answer that serves a client comes; who is busy says something else.
fn is_served(
    runtime: &Runtime,
    from: Ipv4Addr,
    to: SocketAddr,
    (hello, served): (&[u8], &[u8]),
) -> anyhow::Result<bool> {
    let mut stream = dial(runtime, from, to, GIVES_UP)?;
    stream.set_read_timeout(Some(GIVES_UP))?;
    stream.write_all(hello)?;
    let mut answer = [0; 64];
    let count = stream.read(&mut answer)?;
    Ok(answer
        .get(..count)
        .is_some_and(|answer| answer.starts_with(served)))
}
