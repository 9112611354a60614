//! What comes to the port of the nodes and is no node, or no good one. Bytes are written by hand: another program may write others.

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use socket2::{Domain, Socket, Type};

use super::member::Place;

/// Versions of the protocol between nodes that this program speaks.
const SPOKEN: [u8; 2] = [5, 5];

const CLOCK: u8 = 6;
const VERSION: u8 = 1;
const WELCOME: &[u8] = b"\0\0\0\x01\x06";

fn wall() -> u64 {
    #[expect(clippy::disallowed_methods, reason = "a node is told the time")]
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    u64::try_from(since.expect("after 1970").as_millis()).expect("before the end")
}

/// The hello of a node that is not formed and wants a cluster of three.
fn hello(versions: [u8; 2], wall: u64, address: &str) -> Vec<u8> {
    let mut body = versions.to_vec();
    body.extend(7_u64.to_be_bytes());
    body.extend(1_u32.to_be_bytes());
    body.push(1);
    body.extend(8_u64.to_be_bytes());
    body.extend(wall.to_be_bytes());
    body.extend(0_u64.to_be_bytes());
    body.extend(3_u16.to_be_bytes());
    body.extend(1_u32.to_be_bytes());
    body.extend(u16::try_from(address.len()).expect("short").to_be_bytes());
    body.extend(address.bytes());
    let mut bytes = b"sthdpeer".to_vec();
    bytes.extend(u16::try_from(body.len()).expect("short").to_be_bytes());
    bytes.extend(body);
    bytes
}

fn read_hello(stream: &mut TcpStream) {
    let mut head = [0; 10];
    stream.read_exact(&mut head).expect("a hello");
    assert_eq!(&head[..8], b"sthdpeer");
    let mut body = vec![0; usize::from(u16::from_be_bytes([head[8], head[9]]))];
    stream.read_exact(&mut body).expect("a hello");
}

/// Kind and body of the next frame.
fn read_frame(stream: &mut TcpStream) -> (u8, Vec<u8>) {
    let mut length = [0; 4];
    stream.read_exact(&mut length).expect("a frame");
    let mut frame = vec![0; u32::from_be_bytes(length) as usize];
    stream.read_exact(&mut frame).expect("a frame");
    let kind = frame.remove(0);
    (kind, frame)
}

/// Code and text of the refusal that has to come.
fn read_refusal(stream: &mut TcpStream) -> (u8, String) {
    let (kind, mut body) = read_frame(stream);
    assert_eq!(kind, 4, "{body:?}");
    let code = body.remove(0);
    (code, String::from_utf8(body).expect("text"))
}

#[test]
fn a_clock_that_is_off_is_told_on_both_sides() {
    for (off, said) in [(60_000, "ahead of"), (-60_000, "behind")] {
        let place = Place::new();
        let other = TcpListener::bind(place.peer(1)).expect("bound");
        let mut member = place.start(0, 3);
        let (mut stream, _) = other.accept().expect("dialled");
        read_hello(&mut stream);
        let theirs = hello(SPOKEN, wall().saturating_add_signed(off), &place.peer(1));
        stream.write_all(&theirs).expect("sent");
        stream.write_all(WELCOME).expect("sent");
        let (code, text) = read_refusal(&mut stream);
        assert_eq!(code, CLOCK);
        assert!(
            text.contains(said) && text.contains("cluster.clock_skew_max"),
            "{text}"
        );
        member.logged(&["refused a node", "the clock of node", said]);
    }
}

#[test]
fn a_version_that_nobody_speaks_is_told_on_both_sides() {
    let place = Place::new();
    let mut member = place.start(0, 3);
    member.logged(&["waiting for a cluster to be formed"]);
    let mut stream = TcpStream::connect(place.peer(0)).expect("connected");
    stream
        .write_all(&hello([200, 255], wall(), &place.peer(1)))
        .expect("sent");
    read_hello(&mut stream);
    let (code, text) = read_refusal(&mut stream);
    assert_eq!(code, VERSION);
    assert!(text.contains("versions 200 to 255"), "{text}");
    member.logged(&["refused a node", "versions 200 to 255"]);
}

#[test]
fn garbage_at_the_port_of_the_nodes_hurts_nobody() {
    let place = Place::new();
    let mut members = place.start_all(3);
    let good = hello(SPOKEN, wall(), &place.peer(1));
    let mut damaged = good.clone();
    damaged[10] = 9;
    let mut long = good.clone();
    long[8] = 0xff;
    let pieces: [&[u8]; 6] = [
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x16\x03\x01\x02\0\x01\0\x01",
        &[0; 4096],
        &damaged,
        &long,
        &good[..20],
    ];
    let all: Vec<_> = pieces
        .iter()
        .map(|piece| {
            let mut stream = TcpStream::connect(place.peer(0)).expect("connected");
            // It may be closed before all of it was sent.
            let _ = stream.write_all(piece);
            stream
        })
        .collect();
    members[0].logged(&[
        "refused a connection at cluster.peer_listen",
        "not a node of Statehold",
    ]);
    members[0].set("k", "v");
    assert_eq!(members[1].get("k"), "v");
    for mut stream in all {
        // Closed, or reset because of what was not read.
        let _ = stream.read_to_end(&mut Vec::new());
    }
    assert!(members[0].figure("statehold_peer_connections_refused_total{cause=\"protocol\"}") >= 5.0);
    assert!((members[0].figure("statehold_peers_connected") - 2.0).abs() < 0.1);
}

#[test]
fn who_is_no_member_is_told_so() {
    let place = Place::new();
    let members = place.start_all(3);
    let mut stream = TcpStream::connect(place.peer(0)).expect("connected");
    stream
        .write_all(&hello(SPOKEN, wall(), &place.peer(4)))
        .expect("sent");
    read_hello(&mut stream);
    let (code, text) = read_refusal(&mut stream);
    assert_eq!(code, 3);
    assert!(text.contains("statehold cluster add"), "{text}");
    drop(members);
}

/// As many as the port has places for, several times over, from its own address and from others; each opened again as soon as it ends.
#[test]
fn silent_strangers_do_not_keep_a_node_out_that_is_started_again() {
    let place = Place::new();
    let mut members = place.start_all(3);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        members.pop().expect("three").kill();
        for member in 0..2 {
            for from in 1..=4 {
                let (to, is_over) = (place.peer(member), &is_over);
                scope.spawn(move || hold_places(Ipv4Addr::new(127, 0, 1, from), &to, is_over));
            }
        }
        let pool =
            |reason| format!("statehold_strangers_refused_total{{pool=\"peers\",reason=\"{reason}\"}}");
        while members
            .iter()
            .any(|member| member.figure(&pool("gave_way")) < 100.0)
        {}
        let mut back = place.start(2, 3);
        back.wait_ready();
        // It is reached by the others, and they by it.
        while back.figure("statehold_peers_connected") < 2.0 {}
        members[0].set("k", "v");
        assert_eq!(back.get("k"), "v");
        for member in &members {
            while member.figure("statehold_peers_connected") < 2.0 {}
            assert!(member.figure("statehold_strangers{pool=\"peers\"}") <= 64.0);
        }
        is_over.store(true, Ordering::Release);
    });
}

/// Keeps connections that say nothing at a port.
fn hold_places(from: Ipv4Addr, to: &str, is_over: &AtomicBool) {
    const HELD: usize = 40;
    let to: SocketAddr = to.parse().expect("an address");
    let mut held = VecDeque::new();
    while !is_over.load(Ordering::Acquire) {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
        let bound = socket.bind(&SocketAddr::from((from, 0)).into());
        // The system may have no port left for a moment.
        if bound.and_then(|()| socket.connect(&to.into())).is_ok() {
            held.push_back(socket);
        }
        if held.len() > HELD {
            held.pop_front();
        }
    }
}
