//! Invariant: authorized. No message and no key reaches a client that may not have it, nobody publishes or writes what it may not, and
//! what was allowed and acknowledged is not lost.
//!
//! Before the rights change, everybody has heard what was sent, so that what is heard afterwards is judged by the new ones. What carries
//! DUP may have been sent before.

use std::collections::BTreeSet;
use std::sync::Arc;

use cluster::random::Random;
use mqtt::authorization::{
    BrokerMethod, BrokerResource, KeyMethod, Keys, Policy, Principals, Rule, Rules, StateStoreResource,
};
use mqtt::policies::{NamedPolicy, Policies};
use protocol::Text;
use protocol::state_store::topics::notified_key;

/// Topics `g/0` and following, keys `k-0` and following.
pub(super) const THINGS: usize = 3;

/// What a client may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Rights {
    pub(super) connect: bool,
    /// Subscribe to everything.
    pub(super) everything: bool,
    pub(super) publish: [bool; THINGS],
    pub(super) subscribe: [bool; THINGS],
    pub(super) read: [bool; THINGS],
    pub(super) write: [bool; THINGS],
}

/// What must not be seen, and what must.
#[derive(Debug, Default)]
pub(super) struct Authorized {
    /// Payloads of messages and values of keys that were not allowed.
    denied: BTreeSet<String>,
    /// Payloads whose publisher knows that they were taken.
    acknowledged: BTreeSet<String>,
    /// Those that the one who may have everything got.
    seen: BTreeSet<String>,
}

impl Rights {
    pub(super) const ALL: Self = Self {
        connect: true,
        everything: true,
        publish: [true; THINGS],
        subscribe: [true; THINGS],
        read: [true; THINGS],
        write: [true; THINGS],
    };

    pub(super) fn random(random: &mut Random) -> Self {
        let mut one_of = |n: usize| random.between(0, n) == 0;
        Self {
            connect: !one_of(6),
            everything: one_of(6),
            publish: std::array::from_fn(|_| one_of(2)),
            subscribe: std::array::from_fn(|_| one_of(2)),
            read: std::array::from_fn(|_| one_of(2)),
            write: std::array::from_fn(|_| one_of(2)),
        }
    }

    /// Whether it may have a message of this topic, or a subscription to it.
    pub(super) fn may_have(&self, name: &str, topic: &str) -> bool {
        if let Some(key) = notified_key(topic, name) {
            let key = thing(std::str::from_utf8(&key).unwrap_or_default(), "k-");
            return key.is_some_and(|key| self.read[key]);
        }
        match topic.split('/').next() {
            // Also with the right to everything, nobody hears what others are answered.
            Some("clients") => topic == format!("clients/{name}/response"),
            _ => self.everything || thing(topic, "g/").is_some_and(|topic| self.subscribe[topic]),
        }
    }

    /// Whether a subscription to this filter is to be granted.
    pub(super) fn may_subscribe(&self, name: &str, filter: &str) -> bool {
        self.everything || self.may_have(name, filter.trim_start_matches("$share/s/"))
    }

    fn rule(&self, name: &str) -> Rule {
        let mut broker_resources = Vec::new();
        let mut allow = |method, topics: Vec<String>| {
            if method == BrokerMethod::Connect || !topics.is_empty() {
                broker_resources.push(BrokerResource {
                    method,
                    client_ids: Vec::new(),
                    topics,
                    high_priority: None,
                });
            }
        };
        if self.connect {
            allow(BrokerMethod::Connect, Vec::new());
        }
        allow(BrokerMethod::Publish, named("g/", &self.publish));
        let mut filters = named("g/", &self.subscribe);
        filters.push("clients/{principal.clientId}/response".to_owned());
        if self.everything {
            filters.push("#".to_owned());
        }
        allow(BrokerMethod::Subscribe, filters);
        let keys = [(KeyMethod::Read, &self.read), (KeyMethod::Write, &self.write)];
        let keys = keys.map(|(method, keys)| (method, named("k-", keys)));
        let keys = keys.into_iter().filter(|(_, keys)| !keys.is_empty());
        Rule {
            line: None,
            principals: clients(vec![name.to_owned()]),
            broker_resources,
            state_store_resources: keys
                .map(|(method, keys)| StateStoreResource {
                    method,
                    keys: Keys::Text(keys),
                })
                .collect(),
        }
    }
}

impl Authorized {
    /// Somebody does what it may not.
    pub(super) fn denied(&mut self, payload: &str) {
        self.denied.insert(payload.to_owned());
    }

    /// Somebody hears that its message was taken.
    pub(super) fn acknowledged(&mut self, payload: &str) -> Result<(), String> {
        self.acknowledged.insert(payload.to_owned());
        self.check_shown("a publisher", payload)
    }

    /// Somebody sees a payload or value.
    pub(super) fn shown(&mut self, to: &str, is_host: bool, payload: &str) -> Result<(), String> {
        if is_host {
            self.seen.insert(payload.to_owned());
        }
        self.check_shown(to, payload)
    }

    /// When everything is quiet.
    pub(super) fn check(&self) -> Result<(), String> {
        match self.acknowledged.difference(&self.seen).next() {
            Some(lost) => Err(format!(
                "authorized: {lost} was allowed and acknowledged, and is lost"
            )),
            None => Ok(()),
        }
    }

    fn check_shown(&self, to: &str, payload: &str) -> Result<(), String> {
        if self.denied.contains(payload) {
            return Err(format!(
                "authorized: {payload}, which was not allowed, came to {to}"
            ));
        }
        Ok(())
    }
}

/// Everything for some clients, and its rights for each of the others.
pub(super) fn policies<'a>(
    everybody: Vec<String>,
    others: impl Iterator<Item = (&'a str, &'a Rights)>,
) -> Policies {
    let mut rules = vec![Rule {
        principals: clients(everybody),
        broker_resources: [
            BrokerMethod::Connect,
            BrokerMethod::Publish,
            BrokerMethod::Subscribe,
        ]
        .map(|method| BrokerResource {
            method,
            client_ids: Vec::new(),
            topics: match method {
                BrokerMethod::Connect => Vec::new(),
                BrokerMethod::Publish | BrokerMethod::Subscribe => vec!["#".to_owned()],
            },
            high_priority: None,
        })
        .into(),
        state_store_resources: vec![StateStoreResource {
            method: KeyMethod::ReadWrite,
            keys: Keys::Pattern(vec!["*".to_owned()]),
        }],
        ..Rule::default()
    }];
    rules.extend(others.map(|(name, rights)| rights.rule(name)));
    let policy = Policy::new(Rules { rules }).expect("the rules are well written");
    Policies::new(vec![NamedPolicy {
        name: Text::from_static("workload"),
        policy: Arc::new(policy),
    }])
}

/// The number of a topic or key.
pub(super) fn thing(name: &str, prefix: &str) -> Option<usize> {
    let number = name.strip_prefix(prefix)?.parse().ok()?;
    (number < THINGS).then_some(number)
}

fn named(prefix: &str, rights: &[bool; THINGS]) -> Vec<String> {
    let has = rights.iter().enumerate().filter(|(_, has)| **has);
    has.map(|(number, _)| format!("{prefix}{number}")).collect()
}

fn clients(client_ids: Vec<String>) -> Principals {
    Principals {
        client_ids,
        ..Principals::default()
    }
}
