//! The copy of the state store that a node gets from another one, over connections that break before it is whole.
//!
//! What the others send to the node goes through a relay in this process. It ends each connection after so many bytes that none of them
//! can carry the copy, so it only arrives if it goes on where it was broken off; and it damages some bytes of a chunk.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::member::{Member, Place};

const KEYS: u64 = 16;
const VALUE_BYTES: usize = 800_000;

/// How often all keys are written while the node is away: more than the others' logs keep.
const ROUNDS: usize = 5;

/// What a connection carries: a good third of the copy.
const CARRIED_MAX: usize = 5_000_000;

/// In a row of so many equal bytes one is damaged: it is in the midst of a value.
const DAMAGED_IN: usize = 10_000;

/// What a chunk begins with: version, group and kind, as in `state_service/src/service/peers.rs`.
const CHUNK: &[u8] = b"\x01\0\0\0\0\x08";

/// What all connections through the relay have in common.
#[derive(Default)]
struct Weather {
    is_bad: AtomicBool,
    broken: AtomicU64,
    damaged: AtomicU64,
}

/// Gives on what comes at one address to another one.
fn relay(at: &str, to: String) -> Arc<Weather> {
    let weather = Arc::new(Weather::default());
    let listener = TcpListener::bind(at).expect("bound");
    let all = Arc::clone(&weather);
    std::thread::spawn(move || {
        for from in listener.incoming().flatten() {
            // The node may be away.
            if let Ok(to) = TcpStream::connect(&to) {
                let (back, forth) = (pair(&to, &from), pair(&from, &to));
                std::thread::spawn(move || carry(back, |_| true));
                let weather = Arc::clone(&all);
                let mut carried = 0;
                std::thread::spawn(move || carry(forth, |bytes| weather.meets(bytes, &mut carried)));
            }
        }
    });
    weather
}

pub(super) fn pair(from: &TcpStream, to: &TcpStream) -> (TcpStream, TcpStream) {
    let again = |stream: &TcpStream| stream.try_clone().expect("a descriptor");
    (again(from), again(to))
}

/// Until one side ends, or these bytes are not let through any more.
pub(super) fn carry((mut from, mut to): (TcpStream, TcpStream), mut may_pass: impl FnMut(&mut [u8]) -> bool) {
    let mut buffer = vec![0; 64 << 10];
    while let Ok(count) = from.read(&mut buffer)
        && count > 0
        && may_pass(&mut buffer[..count])
        && to.write_all(&buffer[..count]).is_ok()
    {}
    // The other side may have ended both.
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}

impl Weather {
    /// Whether the connection lasts over these bytes.
    fn meets(&self, bytes: &mut [u8], carried: &mut usize) -> bool {
        if !self.is_bad.load(Ordering::Acquire) {
            return true;
        }
        if self.damaged.load(Ordering::Acquire) == 0
            && let Some(at) = bytes.windows(CHUNK.len()).position(|window| window == CHUNK)
            && let Some(value) = bytes[at..]
                .chunks_exact_mut(DAMAGED_IN)
                .find(|row| is_of_value(row))
        {
            value[DAMAGED_IN / 2] ^= 1;
            self.damaged.fetch_add(1, Ordering::AcqRel);
        }
        *carried += bytes.len();
        let lasts = *carried <= CARRIED_MAX;
        self.broken.fetch_add(u64::from(!lasts), Ordering::AcqRel);
        lasts
    }
}

fn is_of_value(row: &[u8]) -> bool {
    row.iter().all(|byte| *byte == b'x')
}

#[test]
fn a_copy_goes_on_where_its_connection_broke_and_a_damaged_chunk_comes_again() {
    let mut place = Place::new();
    let config = place.path("config.toml");
    std::fs::write(&config, "[snapshot]\nlog_bytes_min = \"1 MiB\"\n").expect("written");
    place.options.extend(["--config".to_owned(), config]);
    let behind = place.peer(5);
    let weather = relay(&place.peer(2), behind.clone());
    let start_third = || {
        let mut command = place.command_for_peers_at(2, 3, ["127.0.0.1:0"; 2], &behind);
        command.args(["--peer-advertise", &place.peer(2)]);
        Member::spawn(command)
    };
    let (mut one, mut two, mut three) = (place.start(0, 3), place.start(1, 3), start_third());
    for member in [&mut one, &mut two, &mut three] {
        member.wait_ready();
    }
    three.kill();
    let value = place.path("value");
    std::fs::write(&value, "x".repeat(VALUE_BYTES)).expect("written");
    for _ in 0..ROUNDS {
        for key in 0..KEYS {
            one.set_file(&format!("key{key}"), &value);
        }
    }

    weather.is_bad.store(true, Ordering::Release);
    let mut three = start_third();
    three.logged(&["dropped what another node sent", "damaged"]);
    three.logged(&["the state store was taken over from another node"]);
    assert!(weather.broken.load(Ordering::Acquire) >= 2);
    assert_eq!(weather.damaged.load(Ordering::Acquire), 1);
    three.wait_ready();
    for member in [&one, &three] {
        assert_figure(member, "statehold_store_keys", KEYS);
        assert_figure(member, "statehold_store_differences_total", 0);
    }
    assert_figure(&three, "statehold_store_copies_fetched_total", 1);
    assert_figure(&one, "statehold_store_copies_fetched_total", 0);
    three.set("key", "after it");
    assert_eq!(two.get("key"), "after it");
}

#[track_caller]
fn assert_figure(member: &Member, name: &str, expected: u64) {
    let found = member.figure(name);
    assert!(
        (found - expected as f64).abs() < 0.1,
        "{name} is {found}, not {expected}"
    );
}
