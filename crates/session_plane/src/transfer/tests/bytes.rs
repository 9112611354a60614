//! Bytes of a transfer against those of the entries that differ.

use cluster::session_plane::Hlc;

use super::*;
use crate::copy::tests::history::dot;
use crate::queue_limits::QueueValue;
use crate::{Birth, ClientEntry, ClientId, CopyParts, Dot, Entry, Fact, Interval, SlotCopy, VersionVector};

/// Reference to the content of a message, with the options of its subscription.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Reference(u64);

const REFERENCE_BYTES: usize = 64;

impl TransferBytes for Reference {
    fn bytes(&self) -> usize {
        REFERENCE_BYTES
    }
}

impl TransferValue for Reference {
    fn append_digest(&self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(&self.0.to_be_bytes());
    }
}

impl QueueValue for Reference {
    fn queue_bytes(&self) -> u64 {
        0
    }

    fn expires_at(&self) -> Option<u64> {
        None
    }
}

type Copy = SlotCopy<Reference, ()>;

/// Clients with a queue that changes, and as many whose queue does not.
const CLIENTS: u64 = 2_000;
const QUEUED: u64 = 100;
const ACKNOWLEDGED: u64 = 25;
const PUBLISHED: u64 = 50;
const PART_BYTES_MAX: usize = 256 * 1_024;

fn entry(client: u64, dot: Dot) -> ClientEntry<Reference> {
    let birth = Birth {
        dot,
        clock: Hlc::ZERO,
        is_clean: false,
    };
    let value = Reference(dot.number);
    let clock = Hlc::ZERO;
    ClientEntry {
        client: ClientId::new(format!("panel-{client:06}").as_bytes()).expect("a short id"),
        dot,
        entry: Entry {
            birth,
            clock,
            fact: Fact::Message,
            value,
        },
    }
}

/// Copy that covers the first `last` events.
fn copy_of(entries: Vec<ClientEntry<Reference>>, last: u64) -> Copy {
    let mut covered = VersionVector::default();
    covered
        .insert(Interval::up_to(dot(0, 1).run, last).expect("numbers"))
        .expect("one interval");
    let parts = CopyParts {
        covered,
        taken: VersionVector::default(),
        holes: VersionVector::default(),
        pending: Vec::new(),
        single: Vec::new(),
        entries,
    };
    SlotCopy::from_parts(parts).expect("a copy")
}

/// Queued message `at` of a client: publishers reach all clients in turn.
fn queued(client: u64, at: u64) -> ClientEntry<Reference> {
    entry(client, dot(0, 1 + at * 2 * CLIENTS + client))
}

/// Copy with the messages `first` to `end` of the clients that change, and the first ones of all
/// others.
fn queues(first: u64, end: u64) -> Copy {
    let changing = (0..CLIENTS).flat_map(|client| (first..end).map(move |at| queued(2 * client, at)));
    let others = (0..CLIENTS).flat_map(|client| (0..QUEUED / 10).map(move |at| queued(2 * client + 1, at)));
    copy_of(changing.chain(others).collect(), end * 2 * CLIENTS)
}

/// Bytes of a transfer in both directions. The answers of `holders` are under way at once.
fn transferred(asker: &mut Copy, holders: &[&Copy]) -> usize {
    let mut asking = Asker::new(asker_limits(PART_BYTES_MAX));
    let mut holding = Holder::new(HolderLimits {
        answers_max: holders.len(),
        ..holder_limits(PART_BYTES_MAX)
    });
    let nodes: BTreeSet<NodeId> = (0..holders.len() as u64).map(node).collect();
    asking.begin(slot(SLOT), &nodes);
    let mut messages = Vec::new();
    asking.ask(|_| Some(Vec::new()), |_| Some(asker.covered()), &mut messages);
    let mut bytes = 0;
    while !messages.is_empty() {
        let action = messages.remove(0);
        bytes += action.message.bytes();
        let holder = holders[action.to.0 as usize];
        match action.message {
            TransferMessage::AskSlots(ask) => {
                for ask in ask.each() {
                    holding.receive_question(action.to, ask).expect("room");
                }
                holding.begin_ready(|_| None, |_| Held::of_copy(holder), &mut messages);
            }
            TransferMessage::AskPart(ask) => holding
                .receive_ask_part(action.to, &ask, Some(holder.entries()), &mut messages)
                .expect("the next part"),
            TransferMessage::SlotPart(part) => {
                assert!(part.bytes() <= PART_BYTES_MAX * 9 / 8, "{} bytes", part.bytes());
                asking
                    .receive_part(action.to, part, asker, &mut messages)
                    .map(drop)
                    .expect("the next part");
            }
            TransferMessage::SlotsMerged(_) => {}
            TransferMessage::SlotDigests(_)
            | TransferMessage::DropQuestion(_)
            | TransferMessage::Offer { .. } => unreachable!("nothing ends"),
        }
    }
    assert!(asking.is_merged(slot(SLOT)));
    bytes
}

fn entry_bytes(entries: u64) -> usize {
    let listed = entry(0, dot(0, 1));
    let (dot, entry) = (listed.dot, listed.entry);
    entries as usize * size::of_entry(&ListedEntry { dot, entry })
}

/// 100,000 messages were published and 50,000 acknowledged while the asker was away.
#[test]
fn the_bytes_of_a_transfer_are_within_1_3_of_what_differs() {
    let mut asker = queues(0, QUEUED);
    let holder = queues(ACKNOWLEDGED, QUEUED + PUBLISHED);
    let differing = entry_bytes(CLIENTS * PUBLISHED);
    let bytes = transferred(&mut asker, &[&holder, &holder]);
    assert_eq!(asker.entries(), holder.entries());
    assert!(
        10 * bytes <= 13 * differing,
        "{bytes} bytes for {differing} that differ"
    );
}

/// Also where each client has one new entry, among few that both have.
#[test]
fn the_bytes_of_short_sessions_are_within_1_3_of_what_is_new() {
    let clients = 10_000;
    let at = |client: u64, at: u64| entry(client, dot(0, 1 + at * clients + client));
    let queues = |end: u64| {
        let entries = (0..clients).flat_map(|client| (0..end).map(move |number| at(client, number)));
        copy_of(entries.collect(), end * clients)
    };
    let mut asker = queues(3);
    let holder = queues(4);
    let bytes = transferred(&mut asker, &[&holder, &holder]);
    assert_eq!(asker, holder);
    let differing = entry_bytes(clients);
    assert!(
        10 * bytes <= 13 * differing,
        "{bytes} bytes for {differing} that are new"
    );
}

/// The ids of the entries beside it are sent, too.
#[test]
fn the_bytes_of_a_replaced_entry_are_within_twice_and_a_half() {
    let clients = 10_000;
    let at = |client: u64, at: u64| entry(client, dot(0, 1 + at * clients + client));
    let sessions = |numbers: [u64; 3]| {
        let entries = (0..clients).flat_map(|client| numbers.map(|number| at(client, number)));
        copy_of(entries.collect(), (numbers[2] + 1) * clients)
    };
    let mut asker = sessions([0, 1, 2]);
    let holder = sessions([0, 1, 3]);
    let bytes = transferred(&mut asker, &[&holder]);
    assert_eq!(asker, holder);
    let differing = entry_bytes(clients);
    assert!(
        10 * bytes <= 25 * differing,
        "{bytes} bytes for {differing} that are new"
    );
}

/// Digests of 16 clients and a range are all that equal copies send.
#[test]
fn equal_copies_send_digests_only() {
    let mut asker = queues(0, QUEUED / 10);
    let holder = queues(0, QUEUED / 10);
    let bytes = transferred(&mut asker, &[&holder]);
    assert_eq!(asker, holder);
    assert!(bytes <= 3 * 2 * CLIENTS as usize, "{bytes} bytes for nothing");
}
