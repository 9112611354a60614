//! What a decision costs: a thousand rules, of which a client has a few, or all.

use std::hint::black_box;
use std::sync::Arc;

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use mqtt::authorization::{
    Access, BrokerMethod, BrokerResource, KeyMethod, Keys, Policy, Principals, Request, Rule, Rules,
    StateStoreResource, Subject,
};
use mqtt::principal::Attributes;
use protocol::{Text, TopicFilter, TopicName};

const RULES: usize = 1_000;

/// Rules that differ in whom they are about and in what they allow.
fn policy(principals: impl Fn(usize) -> Principals) -> Arc<Policy> {
    let rule = |number: usize| {
        let resource = |method, topics: Vec<String>| BrokerResource {
            method,
            client_ids: Vec::new(),
            topics,
            high_priority: None,
        };
        Rule {
            line: None,
            principals: principals(number),
            broker_resources: vec![
                resource(BrokerMethod::Connect, Vec::new()),
                resource(
                    BrokerMethod::Publish,
                    vec![
                        format!("plant/{number}/{{principal.clientId}}/#"),
                        format!("shared/+/area-{number}"),
                    ],
                ),
                resource(BrokerMethod::Subscribe, vec![format!("commands/{number}/+/#")]),
            ],
            state_store_resources: vec![StateStoreResource {
                method: KeyMethod::ReadWrite,
                keys: Keys::Pattern(vec![
                    format!("plant/{number}/{{principal.clientId}}/*"),
                    format!("shared-{number}-*"),
                ]),
            }],
        }
    };
    let rules = (0..RULES).map(rule).collect();
    Arc::new(Policy::new(Rules { rules }).expect("the rules have no mistake"))
}

fn everybody(_: usize) -> Principals {
    Principals {
        client_ids: vec!["*".to_owned()],
        ..Principals::default()
    }
}

fn one_plant(number: usize) -> Principals {
    Principals {
        attributes: vec![[("plant".to_owned(), number.to_string())].into()],
        ..Principals::default()
    }
}

fn text(text: &str) -> Text {
    Text::new(text).expect("a short text")
}

fn subject() -> Subject {
    let attributes = [("plant", "900"), ("group", "pumps"), ("site", "north")];
    Subject {
        client_id: text("pump-000017"),
        username: Some(text("pump-000017")),
        attributes: attributes
            .map(|(name, value)| (text(name), text(value)))
            .into_iter()
            .collect::<Attributes>(),
    }
}

fn decide(c: &mut Criterion) {
    let mut group = c.benchmark_group("authorization");
    let topic = TopicName::parse(text("plant/900/pump-000017/telemetry/flow")).expect("a topic");
    let denied = TopicName::parse(text("plant/901/pump-000018/telemetry/flow")).expect("a topic");
    let filter = TopicFilter::parse(text("commands/900/+/#")).expect("a filter");
    let key = b"plant/900/pump-000017/limits".as_slice();
    for (name, policy) in [
        ("one_rule_of_1000", policy(one_plant)),
        ("all_1000_rules", policy(everybody)),
    ] {
        let mut access = Access::new(Arc::clone(&policy), subject());
        assert!(access.may_publish(&topic).is_allowed());
        assert!(!access.may_publish(&denied).is_allowed());
        assert!(access.may_read_key(key).is_allowed());
        assert!(access.may_subscribe(&filter).is_allowed());
        group.bench_function(format!("{name}/publish_warm"), |b| {
            b.iter(|| access.may_publish(black_box(&topic)));
        });
        group.bench_function(format!("{name}/publish_cold"), |b| {
            b.iter(|| access.decide(Request::Publish(black_box(&topic))));
        });
        group.bench_function(format!("{name}/publish_cold_denied"), |b| {
            b.iter(|| access.decide(Request::Publish(black_box(&denied))));
        });
        group.bench_function(format!("{name}/subscribe"), |b| {
            b.iter(|| access.may_subscribe(black_box(&filter)));
        });
        group.bench_function(format!("{name}/read_key_warm"), |b| {
            b.iter(|| access.may_read_key(black_box(key)));
        });
        group.bench_function(format!("{name}/read_key_cold"), |b| {
            b.iter(|| access.decide(Request::ReadKey(black_box(key))));
        });
        group.bench_function(format!("{name}/connect"), |b| {
            b.iter_batched(
                subject,
                |subject| Access::new(Arc::clone(&policy), subject).may_connect(),
                BatchSize::SmallInput,
            );
        });
    }
    group.finish();
}

criterion_group!(benches, decide);
criterion_main!(benches);
