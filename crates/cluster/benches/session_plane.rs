//! Who owns a key, and how long copies take to become one. Run: `cargo bench -p cluster`.

use bytes::Bytes;
use cluster::session_plane::encoding::{decode_record, encode_record};
use cluster::session_plane::queue::Queued;
use cluster::session_plane::{Actor, Dot, Record, Ring, VectorClock, Writer};
use cluster::{Incarnation, NodeId};
use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use std::hint::black_box;

fn actor(node: u64) -> Actor {
    Actor {
        node: NodeId(node),
        incarnation: Incarnation(1),
    }
}

fn rings(c: &mut Criterion) {
    for nodes in [3, 100] {
        let ring = Ring::new((1..=nodes).map(NodeId));
        let mut key = 0_u64;
        c.bench_function(&format!("three owners of {nodes} nodes"), |b| {
            b.iter(|| {
                key += 1;
                ring.owners(black_box(&key.to_be_bytes()), 3)
            });
        });
        c.bench_function(&format!("a ring of {nodes} nodes"), |b| {
            b.iter(|| Ring::new((1..=black_box(nodes)).map(NodeId)));
        });
    }
}

fn clocks(c: &mut Criterion) {
    let clock = |nodes: std::ops::Range<u64>| {
        let mut clock = VectorClock::new();
        for node in nodes {
            clock.increment(actor(node), 0).expect("there is room");
        }
        clock
    };
    for (name, one, other) in [
        ("one actor each", clock(1..2), clock(1..2)),
        ("two actors each", clock(1..3), clock(2..4)),
        ("16 actors each", clock(1..17), clock(9..25)),
    ] {
        c.bench_function(&format!("clocks compared, {name}"), |b| {
            b.iter(|| black_box(&one).compare(black_box(&other)));
        });
        c.bench_function(&format!("clocks joined, {name}"), |b| {
            b.iter_batched(
                || one.clone(),
                |mut one| one.merge(black_box(&other)),
                BatchSize::SmallInput,
            );
        });
    }
}

/// A queue with so many messages of 16 bytes of reference each.
fn queue(messages: usize) -> (Record<Queued>, Writer) {
    let (mut queue, mut writer) = (Record::absent(), Writer::new(actor(1)));
    let message = Bytes::from_static(&[7; 16]);
    for _ in 0..messages {
        let delta = queue.enqueue(&mut writer, 1, [message.clone()]);
        delta.expect("there is room");
    }
    (queue, writer)
}

fn queues(c: &mut Criterion) {
    for messages in [10, 1_000, 100_000] {
        let (before, mut writer) = queue(messages);
        let oldest: Vec<Dot> = before.entries().map(|entry| entry.dot).take(1).collect();
        let mut here = before.clone();
        let acknowledged = here.acknowledge(&mut writer, 2, oldest.clone());
        let acknowledged = acknowledged.expect("there is room").expect("it is there");
        let mut there = before.clone();
        let mut other = Writer::new(actor(2));
        let more = there.enqueue(&mut other, 2, [Bytes::new()]);
        more.expect("there is room");
        c.bench_function(
            &format!("queue of {messages}, one more and one acknowledged"),
            |b| {
                let (mut queue, mut writer) = queue(messages);
                b.iter(|| {
                    let delta = queue.enqueue(&mut writer, 1, [Bytes::new()]);
                    let oldest = queue.entries().next().map(|entry| entry.dot);
                    (delta, queue.acknowledge(&mut writer, 1, oldest))
                });
            },
        );
        c.bench_function(
            &format!("queue of {messages}, an acknowledgement taken over"),
            |b| {
                b.iter_batched_ref(
                    || before.clone(),
                    |copy| copy.apply(black_box(&acknowledged)),
                    BatchSize::LargeInput,
                );
            },
        );
        c.bench_function(&format!("queue of {messages}, merged after a split"), |b| {
            b.iter_batched_ref(
                || here.clone(),
                |copy| copy.merge(black_box(&there)),
                BatchSize::LargeInput,
            );
        });
        let bytes = encode_record(&before);
        c.bench_function(&format!("queue of {messages}, written and read"), |b| {
            b.iter(|| {
                let written = encode_record(black_box(&before));
                (written.len(), decode_record::<Queued>(black_box(&bytes)))
            });
        });
    }
}

criterion_group!(benches, rings, clocks, queues);
criterion_main!(benches);
