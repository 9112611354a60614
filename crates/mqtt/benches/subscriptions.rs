//! Matching a topic against 1,000,000 subscriptions: the target is below 5 us.
//!
//! A plant of 1,000 lines with 250 devices each: every device's client subscribes to its own commands, every second to
//! one value of its line's devices (`+`), every second to everything below another device (`#`), and some dashboards
//! watch whole lines. A publish goes to a device drawn in a fixed order that visits memory all over.

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use mqtt::ids::SessionKey;
use mqtt::subscriptions::{Shares, Standing, Subscription, Subscriptions, point_of};
use protocol::topic::SubscriptionFilter;
use protocol::{Text, TopicFilter};
use std::hint::black_box;

const LINES: u32 = 1_000;
const DEVICES: u32 = 250;
const SEED: u64 = 0x5eed;

fn filter(text: String) -> TopicFilter {
    TopicFilter::parse(Text::new(text).expect("short")).expect("valid")
}

/// 500,000 filters without wildcards, 250,000 with `+`, 250,000 with `#`.
fn filters() -> impl Iterator<Item = (SessionKey, TopicFilter)> {
    (0..LINES * DEVICES).flat_map(|client| {
        let (line, device) = (client / DEVICES, client % DEVICES);
        let other = client.wrapping_mul(7_919) % DEVICES;
        [
            filter(format!("plant/line/{line}/device/{device}/command/set")),
            filter(format!("plant/line/{line}/device/{device}/command/get")),
            filter(format!("plant/line/{line}/device/+/value/{device}")),
            if device == 0 {
                filter(format!("plant/line/{line}/#"))
            } else {
                filter(format!("plant/line/{line}/device/{other}/value/{device}/#"))
            },
        ]
        .map(|filter| (SessionKey(client), filter))
    })
}

fn subscriptions() -> Subscriptions {
    let mut subscriptions = Subscriptions::new(SEED);
    for (session, filter) in filters() {
        subscriptions.subscribe(session, &filter, Subscription::default());
    }
    assert_eq!(subscriptions.len(), 1_000_000);
    subscriptions
}

fn topics(of: impl Fn(u32, u32) -> String) -> Vec<String> {
    let clients = (0..16_384_u32).map(|n| n.wrapping_mul(2_654_435_761) % (LINES * DEVICES));
    clients
        .map(|client| of(client / DEVICES, client % DEVICES))
        .collect()
}

fn matching(criterion: &mut Criterion) {
    let mut subscriptions = subscriptions();
    let commands = topics(|line, device| format!("plant/line/{line}/device/{device}/command/set"));
    let values = topics(|line, device| {
        format!(
            "plant/line/{line}/device/{device}/value/{}",
            (device * 31) % DEVICES
        )
    });
    let unknown = topics(|line, device| format!("office/{line}/room/{device}"));

    let mut group = criterion.benchmark_group("match one of 1,000,000");
    for (name, topics) in [
        ("exact and #", &commands),
        ("+ and #", &values),
        ("nothing", &unknown),
    ] {
        let mut next = 0;
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                next = (next + 1) % topics.len();
                let mut found = 0_u32;
                subscriptions.matches(&topics[next], &mut |session, _| {
                    found = found.wrapping_add(session.0);
                });
                black_box(found)
            });
        });
    }
    group.finish();

    let mut next = 0;
    criterion.bench_function("subscribe and unsubscribe beside 1,000,000", |bencher| {
        bencher.iter_batched(
            || {
                next += 1;
                filter(format!("plant/line/{}/device/+/new/{next}", next % LINES))
            },
            |filter| {
                subscriptions.subscribe(SessionKey(1), &filter, Subscription::default());
                subscriptions.unsubscribe(SessionKey(1), &filter)
            },
            BatchSize::SmallInput,
        );
    });
}

fn fan_out(criterion: &mut Criterion) {
    let mut subscriptions = Subscriptions::new(SEED);
    for session in 0..10_000 {
        subscriptions.subscribe(
            SessionKey(session),
            &filter("news/all".into()),
            Subscription::default(),
        );
    }
    criterion.bench_function("visit 10,000 subscribers of one filter", |bencher| {
        bencher.iter(|| {
            let mut found = 0_u32;
            subscriptions.matches("news/all", &mut |session, _| {
                found = found.wrapping_add(session.0);
            });
            black_box(found)
        });
    });
}

/// One of 10,000 sessions that share a filter.
fn sharing(criterion: &mut Criterion) {
    let share = Text::new("$share/crew/news/all").expect("short");
    let share = SubscriptionFilter::parse(share).expect("valid");
    let mut shares = Shares::new(SEED);
    for session in 0..10_000 {
        let (key, point) = (SessionKey(session), point_of(&format!("client{session}")));
        shares.subscribe(key, point, &share, Subscription::default());
        shares.stand(key, &share, Standing::Free);
    }
    let key = shares.find(&share).expect("it was made");
    criterion.bench_function("choose one of 10,000 by turns", |bencher| {
        bencher.iter(|| black_box(shares.choose(key, None)));
    });
    let topics = topics(|line, device| format!("news/{line}/{device}"));
    let mut next = 0;
    criterion.bench_function("choose one of 10,000 by hash", |bencher| {
        bencher.iter(|| {
            next = (next + 1) % topics.len();
            black_box(shares.choose(key, Some(point_of(&topics[next]))))
        });
    });
}

criterion_group!(benches, matching, fan_out, sharing);
criterion_main!(benches);
