//! Digests of entries: equal digests mean equal entries.
//!
//! A digest is BLAKE3, cut to 128 bits. Clients choose ids, topics and payloads, so a hash without
//! collision resistance would let a client make two copies differ for ever. Only entries of shared
//! events are digested: events that the vectors of both copies cover. Each copy had such an entry,
//! or decided that there is none. So two copies without a removal between them have equal digests,
//! whatever either of them has received since.

use cluster::session_plane::Hlc;

use super::message::{QuestionId, SlotDigest};
use crate::queue_limits::QueueValue;
use crate::{ClientId, Dot, Entry, Fact, Slot, SlotEntries, VersionVector};

/// Bytes that a value takes in a message.
pub trait TransferBytes {
    /// Bytes, for the limits of parts.
    fn bytes(&self) -> usize;
}

/// Value of an entry that is transferred between nodes.
pub trait TransferValue: TransferBytes {
    /// Appends bytes that are equal on every node, and in every version, where the values are.
    fn append_digest(&self, bytes: &mut Vec<u8>);
}

/// Digest of entries: the first 128 bits of BLAKE3.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digest(pub [u8; Digest::BYTES]);

impl Digest {
    /// Bytes of a digest.
    pub const BYTES: usize = 16;
}

/// Check of one entry: 32 bits of its digest, salted by the question.
///
/// The salt makes two entries with one check differ in the next transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EntryCheck(pub u32);

impl EntryCheck {
    /// Check of an entry in the answer to `question`.
    pub(super) fn new<V: TransferValue>(question: QuestionId, dot: Dot, entry: &Entry<V>) -> EntryCheck {
        let mut digest = DigestBuilder::default();
        digest.hasher.update(&question.0.to_be_bytes());
        digest.add_entry(dot, entry);
        let Digest([first, second, third, fourth, ..]) = digest.finish();
        EntryCheck(u32::from_be_bytes([first, second, third, fourth]))
    }
}

/// Entries of a copy, as a number and a digest.
pub(crate) fn digest_of<V: TransferValue + QueueValue + Ord>(
    slot: Slot,
    entries: &SlotEntries<V>,
) -> SlotDigest {
    let mut digest = DigestBuilder::default();
    for (client, session) in entries.sessions_between(None, None) {
        digest.add_client(client);
        for (id, entry) in session.iter() {
            digest.add_entry(id.dot, entry);
        }
    }
    SlotDigest {
        slot,
        entries: entries_len(entries),
        digest: digest.finish(),
    }
}

/// Number of entries of a copy: a step for each client.
pub(crate) fn entries_len<V: Ord + QueueValue>(entries: &SlotEntries<V>) -> u64 {
    entries.sessions().map(|(_, session)| session.len() as u64).sum()
}

/// Digest that is being made.
#[derive(Debug, Default)]
pub(super) struct DigestBuilder {
    hasher: blake3::Hasher,
    bytes: Vec<u8>,
}

impl DigestBuilder {
    /// Begins the entries of a client.
    pub(super) fn add_client(&mut self, client: &ClientId) {
        let bytes = client.as_bytes();
        self.hasher.update(&[CLIENT]);
        self.add_length(bytes.len());
        self.hasher.update(bytes);
    }

    /// Adds an entry. Entries are added in ascending order of their ids.
    pub(super) fn add_entry<V: TransferValue>(&mut self, dot: Dot, entry: &Entry<V>) {
        let mut bytes = std::mem::take(&mut self.bytes);
        bytes.clear();
        bytes.extend_from_slice(&[ENTRY, entry.fact.kind().number()]);
        append_dot(&mut bytes, dot);
        append_dot(&mut bytes, entry.birth.dot);
        bytes.extend_from_slice(&entry.birth.clock.to_bits().to_be_bytes());
        bytes.push(u8::from(entry.birth.is_clean));
        bytes.extend_from_slice(&entry.clock.to_bits().to_be_bytes());
        append_fact(&mut bytes, &entry.fact);
        let fixed = bytes.len();
        entry.value.append_digest(&mut bytes);
        self.hasher.update(&bytes);
        self.add_length(bytes.len() - fixed);
        self.bytes = bytes;
    }

    /// Digest of what was added.
    pub(super) fn finish(self) -> Digest {
        let mut digest = [0; Digest::BYTES];
        let hash = self.hasher.finalize();
        for (byte, of_hash) in digest.iter_mut().zip(hash.as_bytes()) {
            *byte = *of_hash;
        }
        Digest(digest)
    }

    fn add_length(&mut self, length: usize) {
        self.hasher.update(&(length as u64).to_be_bytes());
    }
}

fn append_dot(bytes: &mut Vec<u8>, dot: Dot) {
    bytes.extend_from_slice(&dot.run.node.0.to_be_bytes());
    bytes.extend_from_slice(&dot.run.incarnation.0.to_be_bytes());
    bytes.extend_from_slice(&dot.number.to_be_bytes());
}

/// Appends what a fact says beyond its kind, which decides how long it is.
fn append_fact(bytes: &mut Vec<u8>, fact: &Fact) {
    if let Some(dot) = fact.named() {
        append_dot(bytes, dot);
    }
    match fact {
        Fact::Session { connected } => append_clock(bytes, *connected),
        Fact::Expiry { connected } => {
            append_clock(bytes, connected.map(|connection| connection.clock));
            let run = connected.map(|connection| connection.run);
            bytes.extend_from_slice(&run.map_or(0, |run| run.node.0).to_be_bytes());
            bytes.extend_from_slice(&run.map_or(0, |run| run.incarnation.0).to_be_bytes());
        }
        Fact::Will(terms) => append_clock(bytes, terms.delayed_since),
        Fact::End(ended) => {
            append_clock(bytes, ended.resumed());
            append_vector(bytes, ended.seen());
        }
        Fact::Member(terms) => {
            append_clock(bytes, terms.since);
            let client = terms.client.as_bytes();
            bytes.extend_from_slice(&(client.len() as u64).to_be_bytes());
            bytes.extend_from_slice(client);
        }
        Fact::Assignment(assigned) => append_dot(bytes, assigned.presence),
        _ => {}
    }
}

fn append_clock(bytes: &mut Vec<u8>, clock: Option<Hlc>) {
    bytes.push(u8::from(clock.is_some()));
    let clock = clock.unwrap_or(Hlc::ZERO);
    bytes.extend_from_slice(&clock.to_bits().to_be_bytes());
}

fn append_vector(bytes: &mut Vec<u8>, vector: &VersionVector) {
    let intervals = vector.intervals();
    bytes.extend_from_slice(&(intervals.len() as u64).to_be_bytes());
    for interval in intervals {
        append_dot(bytes, interval.first());
        append_dot(bytes, interval.last());
    }
}

/// First byte of a client in a digest.
const CLIENT: u8 = 1;
/// First byte of an entry in a digest.
const ENTRY: u8 = 2;

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::copy::tests::history::{client, dot};
    use crate::{AssignedMessage, Birth, ConnectionOrder, Ended, Interval, MemberTerms, WillTerms};

    fn entry(value: u64) -> Entry<u64> {
        let birth = Birth {
            dot: dot(0, 1),
            clock: Hlc::at(3),
            is_clean: false,
        };
        let clock = Hlc::at(4);
        Entry {
            birth,
            clock,
            fact: Fact::Message,
            value,
        }
    }

    fn digest(dot: Dot, entry: &Entry<u64>) -> Digest {
        let mut digest = DigestBuilder::default();
        digest.add_client(&client(7));
        digest.add_entry(dot, entry);
        digest.finish()
    }

    /// Never to be edited: nodes with other digests send everything.
    #[test]
    fn digests_are_golden() {
        let Digest(bytes) = digest(dot(1, 1), &entry(5));
        assert_eq!(u128::from_be_bytes(bytes), GOLDEN);
    }

    #[test]
    fn each_part_of_an_entry_is_in_its_digest() {
        let same = digest(dot(1, 1), &entry(5));
        let mut others = vec![digest(dot(1, 2), &entry(5)), digest(dot(1, 1), &entry(6))];
        let changes: [fn(&mut Entry<u64>); 5] = [
            |entry| entry.birth.dot = dot(0, 2),
            |entry| entry.birth.clock = Hlc::at(2),
            |entry| entry.birth.is_clean = true,
            |entry| entry.clock = Hlc::at(5),
            |entry| entry.fact = Fact::Received,
        ];
        for change in changes {
            let mut changed = entry(5);
            change(&mut changed);
            others.push(digest(dot(1, 1), &changed));
        }
        assert!(others.iter().all(|other| *other != same));
        assert_eq!(digest(dot(1, 1), &entry(5)), same);
    }

    #[test]
    fn each_part_of_a_fact_is_in_its_digest() {
        let will = |connection, delayed_since| {
            Fact::Will(Box::new(WillTerms {
                connection,
                delayed_since,
            }))
        };
        let end = |seen: Option<Interval>, resumed| {
            let mut vector = VersionVector::default();
            if let Some(interval) = seen {
                vector.insert(interval).expect("it is one");
            }
            Fact::End(Box::new(Ended::new(vector, resumed).expect("a prefix")))
        };
        let member = |client: &str, since| {
            let client = ClientId::new(client.as_bytes()).expect("short");
            Fact::Member(Box::new(MemberTerms { client, since }))
        };
        let assignment =
            |message, presence| Fact::Assignment(Box::new(AssignedMessage { message, presence }));
        let facts = [
            Fact::Presence,
            Fact::Expiry { connected: None },
            Fact::Retained,
            Fact::Cleared,
            member("press", None),
            member("press", Some(Hlc::at(1))),
            member("press", Some(Hlc::at(2))),
            member("panel", Some(Hlc::at(2))),
            assignment(dot(0, 1), dot(0, 1)),
            assignment(dot(0, 2), dot(0, 1)),
            assignment(dot(0, 1), dot(0, 2)),
            will(dot(0, 1), None),
            will(dot(0, 2), None),
            will(dot(0, 1), Some(Hlc::ZERO)),
            will(dot(0, 1), Some(Hlc::at(1))),
            Fact::ConnectionEnd {
                connection: dot(0, 1),
            },
            Fact::ConnectionEnd {
                connection: dot(0, 2),
            },
            Fact::WillNumber { will: dot(0, 1) },
            Fact::WillNumber { will: dot(0, 2) },
            Fact::Delivery { message: dot(0, 1) },
            Fact::Delivery { message: dot(0, 2) },
            end(Interval::up_to(dot(0, 1).run, 1), None),
            end(Interval::up_to(dot(0, 1).run, 2), None),
            end(Interval::up_to(dot(1, 1).run, 1), None),
            end(Interval::up_to(dot(0, 1).run, 1), Some(Hlc::ZERO)),
            end(Interval::up_to(dot(0, 1).run, 1), Some(Hlc::at(1))),
            end(None, None),
        ];
        assert_different(&facts);
    }

    #[test]
    fn the_connection_that_a_fact_names_is_in_its_digest() {
        let session = |clock: Option<u64>| Fact::Session {
            connected: clock.map(Hlc::at),
        };
        let expiry = |of, clock| Fact::Expiry {
            connected: Some(ConnectionOrder::of_connection(dot(of, 1), Hlc::at(clock))),
        };
        assert_different(&[
            session(None),
            session(Some(0)),
            session(Some(1)),
            Fact::Expiry { connected: None },
            expiry(0, 1),
            expiry(0, 2),
            expiry(1, 2),
        ]);
    }

    fn assert_different(facts: &[Fact]) {
        let entry_of = |fact: &Fact| Entry {
            fact: fact.clone(),
            ..entry(5)
        };
        let digests = facts.iter().map(|fact| digest(dot(1, 1), &entry_of(fact)));
        assert_eq!(digests.collect::<BTreeSet<Digest>>().len(), facts.len());
    }

    #[test]
    fn a_check_depends_on_its_question() {
        let check = |question| EntryCheck::new(QuestionId(question), dot(1, 1), &entry(5));
        assert_ne!(check(1), check(2));
        assert_eq!(check(1), check(1));
    }

    const GOLDEN: u128 = 0x5825_90FA_7160_B53A_FC74_5A7D_F118_7711;
}
