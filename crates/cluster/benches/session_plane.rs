//! Owners of a key, and clocks of copies. Run: `cargo bench -p cluster`.

use cluster::session_plane::{Actor, Ring, VectorClock};
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

criterion_group!(benches, rings, clocks);
criterion_main!(benches);
