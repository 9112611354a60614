//! A client of the state store: asks for anything that can be asked of a few keys, and remembers what it was told.

use std::collections::BTreeMap;

use bytes::Bytes;
use cluster::random::Random;
use mqtt::now::Now;
use protocol::packet::Publish;
use protocol::properties::UserProperties;
use protocol::{Hlc, Packet};

use super::client::Client;
use super::page::Page;
use crate::history::{Call, Condition, MILLISECOND, Outcome, Version};
use crate::machine::Machine;
use crate::promises::l1::Histories;
use crate::transcript;

/// A client of the state store, and what it asked.
#[derive(Debug)]
pub(super) struct Keeper {
    pub(super) client: Client,
    next_request: u64,
    asked: BTreeMap<Bytes, Asked>,
    /// Requests without an answer that it has at most.
    asked_max: usize,
    /// Over so many groups it scans; 0: it does not.
    scanned_groups: u32,
    /// The page of its scan that comes next.
    next_page: Option<Page>,
    pages: u64,
}

/// A request without an answer.
#[derive(Debug)]
struct Asked {
    what: What,
    publish: Publish,
}

/// What is asked.
#[derive(Debug)]
enum What {
    /// Something of a key, at this place of its history.
    Key { key: String, place: usize },
    /// A page, since this moment.
    Page { page: Page, since: u64 },
}

/// Requests without an answer that a keeper has at most.
const ASKED_MAX: usize = 20;

/// One of so many requests is for a page of a scan.
const SCANNED_EVERY: usize = 12;

/// Keys that all keepers write and read, of each kind.
const KEYS: usize = 3;

/// Of how many fencing tokens, older than all clocks, one is chosen.
const TOKENS: usize = 5;

/// How long a lease lasts at most, in milliseconds.
const LEASE_MAX: usize = 300;

impl Keeper {
    pub(super) fn new(name: String) -> Self {
        Self {
            client: Client::keeper(name),
            next_request: 0,
            asked: BTreeMap::new(),
            asked_max: ASKED_MAX,
            scanned_groups: 0,
            next_page: None,
            pages: 0,
        }
    }

    /// With so many requests without an answer at most: each makes it harder to find out in which order they were executed.
    pub(super) fn with_asked_max(self, asked_max: usize) -> Self {
        Self { asked_max, ..self }
    }

    /// Of several nodes whose state store has so many groups: scans now and then.
    pub(super) fn of_several(self, groups: u32) -> Self {
        Self {
            client: self.client.of_several(),
            scanned_groups: groups,
            ..self
        }
    }

    /// Sends a random request, at this moment of the clock that all clients share.
    pub(super) fn ask(
        &mut self,
        machine: &mut Machine,
        at: u64,
        random: &mut Random,
        histories: &mut Histories,
    ) {
        if !self.client.is_connected() || self.asked.len() >= self.asked_max {
            return;
        }
        self.next_request += 1;
        if self.scanned_groups > 0 && random.between(0, SCANNED_EVERY) == 0 {
            let next = self.next_page.take();
            let page = next.unwrap_or_else(|| Page::first(random, self.scanned_groups));
            return self.scan(machine, at, histories, page);
        }
        let (key, call) = choose(random, &self.client.name, self.next_request);
        self.send(machine, at, histories, (key, call));
    }

    /// Reads a key.
    pub(super) fn get(&mut self, machine: &mut Machine, at: u64, histories: &mut Histories, key: String) {
        self.next_request += 1;
        self.send(machine, at, histories, (key, Call::Get));
    }

    /// Sends one of its requests a second time, without waiting for the answer to the first.
    pub(super) fn ask_again(&mut self, machine: &mut Machine, random: &mut Random) -> bool {
        if !self.client.is_connected() || self.asked.is_empty() {
            return false;
        }
        let nth = random.between(0, self.asked.len());
        let publish = self.asked.values().nth(nth).map(|asked| asked.publish.clone());
        if let Some(publish) = publish {
            self.client.request(machine, publish);
        }
        true
    }

    /// How many pages of scans it was given.
    pub(super) fn pages(&self) -> u64 {
        self.pages
    }

    /// How many requests it waits for.
    pub(super) fn asked_len(&self) -> usize {
        self.asked.len()
    }

    fn send(
        &mut self,
        machine: &mut Machine,
        at: u64,
        histories: &mut Histories,
        (key, call): (String, Call),
    ) {
        let place = histories.asked(at, &key, call.clone());
        let arguments = arguments(&key, &call);
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let token = match call {
            Call::Set { token, .. } | Call::Delete { token, .. } => token,
            Call::Get | Call::List => None,
        };
        self.publish(machine, at, (&arguments, token), What::Key { key, place });
    }

    fn scan(&mut self, machine: &mut Machine, at: u64, histories: &mut Histories, page: Page) {
        let since = histories.moment(at);
        let asked = page.clone();
        self.publish(
            machine,
            at,
            (&asked.arguments(), None),
            What::Page { page, since },
        );
    }

    fn publish(
        &mut self,
        machine: &mut Machine,
        at: u64,
        (arguments, token): (&[&str], Option<Version>),
        what: What,
    ) {
        let now = Now {
            wall: at / MILLISECOND,
            ..machine.now()
        };
        let Packet::Publish(mut publish) = transcript::request(&self.client.name, now, 1, arguments) else {
            return;
        };
        publish.properties.user_properties = self.properties(now, token);
        let correlation = Bytes::copy_from_slice(&self.next_request.to_be_bytes());
        publish.properties.correlation_data = Some(correlation.clone());
        let asked = Asked {
            what,
            publish: (*publish).clone(),
        };
        self.asked.insert(correlation, asked);
        self.client.request(machine, *publish);
    }

    fn properties(&self, now: Now, token: Option<Version>) -> UserProperties {
        let name = &self.client.name;
        let mut pairs = vec![("__ts", format!("{}:0:{name}", now.wall))];
        pairs.push(("__protVer", "1.0".to_owned()));
        pairs.extend(token.map(|(wall, counter)| ("__ft", format!("{wall}:{counter}:lock"))));
        let pairs = pairs.iter().map(|(name, value)| (*name, value.as_str()));
        UserProperties::from_pairs(pairs).expect("short properties")
    }

    /// Looks at a response; one that was seen before says the same again.
    pub(super) fn answered(
        &mut self,
        at: u64,
        response: &Publish,
        histories: &mut Histories,
    ) -> Result<(), String> {
        let correlation = response.properties.correlation_data.clone().unwrap_or_default();
        let Some(Asked { what, .. }) = self.asked.remove(&correlation) else {
            return Ok(());
        };
        if response.payload.starts_with(UNAVAILABLE) || response.payload.starts_with(AHEAD) {
            // It may have been executed, or be executed yet; by way of a node with another clock, too.
            return Ok(());
        }
        match what {
            What::Key { key, place } if response.payload.starts_with(QUOTA) => {
                histories.refused(&key, place);
            }
            What::Key { key, place } => histories.answered(at, &key, place, outcome(response)?),
            What::Page { page, since } => {
                let moments = (since, histories.moment(at));
                self.next_page = page.answered(moments, &response.payload, histories)?;
                self.pages += 1;
            }
        }
        Ok(())
    }
}

/// A key, and something to ask of it.
fn choose(random: &mut Random, name: &str, request: u64) -> (String, Call) {
    // One value is only set once, the other is that of a holder.
    let (own, holder) = (format!("{name}-{request}"), name.to_owned());
    let number = random.between(0, KEYS);
    let kind = random.between(0, 10);
    if kind == 0 {
        // A key that was never made before, and is made once, also if the request is sent again.
        return (format!("own-{own}"), set(own, Condition::Missing, None, None));
    }
    let (key, lives, token) = match kind {
        1..5 => (format!("key{number}"), None, None),
        5..8 => {
            let lives = random.between(1, LEASE_MAX) as u64;
            (format!("lease{number}"), Some(lives), None)
        }
        _ => {
            let token = random.between(0, TOKENS) as u64;
            (format!("fenced{number}"), None, (token > 0).then_some((token, 0)))
        }
    };
    let call = match random.between(0, 10) {
        0..2 => set(own, Condition::Always, lives, token),
        2 => set(holder, Condition::Always, lives, token),
        3 => set(own, Condition::Missing, lives, token),
        4 => set(holder, Condition::MissingOr(name.to_owned()), lives, token),
        5 => Call::Delete { only: None, token },
        6 => Call::Delete {
            only: Some(holder),
            token,
        },
        _ => Call::Get,
    };
    (key, call)
}

fn set(value: String, condition: Condition, lives: Option<u64>, token: Option<Version>) -> Call {
    Call::Set {
        value,
        condition,
        lives,
        token,
    }
}

fn arguments(key: &str, call: &Call) -> Vec<String> {
    let mut words = Vec::new();
    match call {
        Call::Get | Call::List => words.extend(["GET", key]),
        Call::Set { value, condition, .. } => {
            words.extend(["SET", key, value]);
            match condition {
                Condition::Always => {}
                Condition::Missing => words.push("NX"),
                Condition::MissingOr(_) => words.push("NEX"),
            }
        }
        Call::Delete { only: None, .. } => words.extend(["DEL", key]),
        Call::Delete {
            only: Some(value), ..
        } => words.extend(["VDEL", key, value]),
    }
    let mut words: Vec<String> = words.into_iter().map(str::to_owned).collect();
    if let Call::Set {
        lives: Some(lives), ..
    } = call
    {
        words.extend(["PX".to_owned(), lives.to_string()]);
    }
    words
}

fn outcome(response: &Publish) -> Result<Outcome, String> {
    let mut properties = response.properties.user_properties.iter();
    let version = properties
        .find(|(name, _)| *name == "__ts")
        .map(|(_, text)| version(text))
        .transpose()?;
    let text = String::from_utf8_lossy(&response.payload);
    Ok(match (text.as_ref(), version) {
        ("+OK\r\n", Some(version)) => Outcome::Stored(version),
        (":1\r\n", Some(version)) => Outcome::Deleted(version),
        (":-1\r\n", Some(version)) => Outcome::NotMet(version),
        (":0\r\n" | "$-1\r\n", None) => Outcome::Missing,
        (found, Some(version)) if found.starts_with('$') => {
            let value = found.split("\r\n").nth(1).unwrap_or_default();
            Outcome::Found(value.to_owned(), version)
        }
        (error, _) if FENCED.iter().any(|fenced| error.starts_with(fenced)) => Outcome::Fenced,
        (other, _) => return Err(format!("a request was answered {other}")),
    })
}

/// How the answer to a request begins that memory has no room for.
const QUOTA: &[u8] = b"-ERR the quota has been exceeded";

/// How the answer to a request begins whose client's clock is too far ahead of the server's.
const AHEAD: &[u8] = b"-ERR the request timestamp is too far in the future";

/// How the answer to a request begins that nobody could decide in time.
const UNAVAILABLE: &[u8] = b"-ERR the state store is unavailable";

/// How the answers to requests begin that a fencing token keeps away.
const FENCED: [&str; 2] = [
    "-ERR a fencing token is required",
    "-ERR the request fencing token is a lower version",
];

pub(super) fn version(text: &str) -> Result<Version, String> {
    let hlc = Hlc::parse(text).map_err(|error| format!("__ts {text}: {error}"))?;
    Ok((hlc.wall, hlc.counter))
}
