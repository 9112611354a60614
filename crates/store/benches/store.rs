//! What a command, a read, a restore and the bytes of a request cost.
//!
//! `cargo bench -p store` on an idle machine; `cargo bench -p store -- "set"` for some of them.

use std::hint::black_box;

use bytes::Bytes;
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use protocol::state_store::{Reply, Request};
use protocol::{Hlc, Text};
use store::{
    Command, CommandAction, Condition, Dialect, EntryBuilder, Glob, Origin, RequestIdentity, RetryKey,
    ScanLimits, Stamp, Store, decode_entry,
};

/// How many keys the store has.
const KEYS: u64 = 1_000_000;

/// How long a value is, in bytes.
const VALUE_LENGTH: usize = 100;

/// Keys are used in an order that no cache can foresee: multiples of this, modulo their number.
const STRIDE: u64 = 7_368_787;

const CLOCK: u64 = 1_700_000_000_000;

fn key(number: u64) -> Bytes {
    Bytes::from(format!("sensor/{:012}", number % KEYS))
}

fn value(number: u64) -> Bytes {
    Bytes::from(vec![number.to_le_bytes()[0]; VALUE_LENGTH])
}

fn set(number: u64, expires_in: Option<u64>, retry: bool) -> Command {
    let correlation_data = number.to_be_bytes();
    let identity = RequestIdentity {
        client_id: "client",
        response_topic: "clients/client/services/statestore/_any_/command/invoke/response",
        correlation_data: &correlation_data,
        payload: b"",
    };
    Command {
        origin: Origin {
            node: 1,
            incarnation: 1,
            request: number,
        },
        action: CommandAction::Set {
            key: key(number.wrapping_mul(STRIDE)),
            value: value(number),
            condition: Condition::None,
            expires_in,
            timestamp: Hlc {
                wall: CLOCK,
                counter: 0,
                node: Text::from_static("client"),
            },
            fencing: None,
            retry: retry.then(|| RetryKey::new(&identity, Some(10))),
        },
    }
}

fn filled(expires_in: Option<u64>) -> Store {
    let mut store = Store::new();
    store.begin(Stamp::first(CLOCK));
    for number in 0..KEYS {
        store.apply(set(number, expires_in, false), &mut Vec::new());
    }
    assert_eq!(store.usage().keys, KEYS);
    store
}

fn applying(c: &mut Criterion) {
    let mut group = c.benchmark_group("apply, 1M keys");
    let cases = [
        ("set", None, false, filled(None)),
        ("set with retry", None, true, filled(None)),
        ("set with expiry", Some(1_000_000), false, filled(Some(1_000_000))),
    ];
    for (name, expires_in, retry, mut store) in cases {
        let mut number = 0;
        let mut effects = Vec::new();
        group.bench_function(name, |b| {
            let setup = || {
                number += 1;
                set(number, expires_in, retry)
            };
            b.iter_batched(
                setup,
                |command| store.apply(command, &mut effects),
                BatchSize::SmallInput,
            );
        });
    }

    let mut store = filled(None);
    let mut number = 0;
    group.bench_function("set while an image is held", |b| {
        let image = store.image();
        let setup = || {
            number += 1;
            set(number, None, false)
        };
        b.iter_batched(
            setup,
            |command| store.apply(command, &mut Vec::new()),
            BatchSize::SmallInput,
        );
        drop(image);
    });
    group.bench_function("image", |b| b.iter(|| store.image()));
    group.finish();
}

fn reading(c: &mut Criterion) {
    let store = filled(Some(1_000_000));
    let mut number = 0;
    c.bench_function("get, 1M keys", |b| {
        let setup = || {
            number += 1;
            key(number * STRIDE)
        };
        b.iter_batched(setup, |key| store.get(&key, CLOCK), BatchSize::SmallInput);
    });
    c.bench_function("next expiry, 1M keys", |b| b.iter(|| store.next_expiry()));
    let pattern = Glob::compile(b"*7*").expect("a valid pattern");
    c.bench_function("scan page, 1M keys", |b| {
        b.iter(|| store.scan(&pattern, None, CLOCK, ScanLimits::default(), &mut |_| true));
    });
}

fn snapshots(c: &mut Criterion) {
    let mut group = c.benchmark_group("snapshot, 1M keys");
    group.sample_size(10);
    for (name, expires_in) in [("without expiry", None), ("with expiry", Some(1_000_000))] {
        let store = filled(expires_in);
        let chunks: Vec<Bytes> = store.image().into_chunks().collect();
        let length: u64 = chunks.iter().map(|chunk| chunk.len() as u64).sum();
        group.throughput(Throughput::Bytes(length));
        group.bench_function(format!("write, {name}"), |b| {
            b.iter(|| {
                store
                    .image()
                    .into_chunks()
                    .map(|chunk| chunk.len())
                    .sum::<usize>()
            });
        });
        group.bench_function(format!("restore, {name}"), |b| {
            b.iter_with_large_drop(|| Store::restore(chunks.iter().cloned()));
        });
    }
    group.finish();
}

fn encoding(c: &mut Criterion) {
    let command = set(1, Some(1_000), true);
    c.bench_function("entry of 64 commands, encode", |b| {
        b.iter(|| {
            let mut entry = EntryBuilder::new();
            for _ in 0..64 {
                entry.push(black_box(&command));
            }
            entry.finish(Stamp::first(CLOCK))
        });
    });
    let mut entry = EntryBuilder::new();
    for _ in 0..64 {
        entry.push(&command);
    }
    let entry = entry.finish(Stamp::first(CLOCK));
    c.bench_function("entry of 64 commands, decode", |b| {
        b.iter(|| decode_entry(black_box(&entry).clone()));
    });

    let request = Request::Set {
        key: key(7),
        value: value(7),
        condition: Condition::NotExistsOrEqual,
        expires_in: Some(10_000),
    };
    let payload = request.encode();
    c.bench_function("request, parse", |b| {
        b.iter(|| Request::parse(black_box(&payload)));
    });
    let reply = Reply::Value(value(7));
    c.bench_function("reply with a value, encode", |b| {
        b.iter(|| black_box(&reply).encode(Dialect::Sdk));
    });
    c.bench_function("reply OK, encode", |b| {
        b.iter(|| black_box(&Reply::Ok).encode(Dialect::Sdk));
    });
    let identity = RequestIdentity {
        client_id: "client",
        response_topic: "clients/client/services/statestore/_any_/command/invoke/response",
        correlation_data: &[7; 16],
        payload: &payload,
    };
    c.bench_function("retry key", |b| {
        b.iter(|| RetryKey::new(black_box(&identity), Some(10)));
    });
}

criterion_group!(benches, applying, reading, snapshots, encoding);
criterion_main!(benches);
