//! Will as a copy has it: the entry that counts, and what stands beside it.
//!
//! A connection has one will while all nodes see each other. One that was armed again on two sides has
//! two entries for a while; the latest stands for them, and they are removed together.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use cluster::session_plane::Hlc;

use crate::publishing::{ContentId, NumberedWill, WillNumber};
use crate::{Birth, Dot, Entry, EntryId, EntryKind, Fact, Run, SessionEntries};

/// What the value of an entry says of a will.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WillPart {
    /// Value of an [`EntryKind::Will`].
    Text {
        /// Content of the message.
        content: ContentId,
        /// Delay, if no end of the connection says otherwise.
        delay: Duration,
    },
    /// Value of an [`EntryKind::ConnectionEnd`].
    End {
        /// Delay, as the end of the connection has decided it. None: the node that wrote the end does
        /// not know it, since the connection was one of another node.
        delay: Option<Duration>,
    },
    /// Value of an [`EntryKind::WillNumber`].
    Number(WillNumber),
}

/// Value of entries, as the node has chosen it.
pub trait WillValue {
    /// Part of a will. None in entries of other kinds, and in one that a peer has made wrong.
    fn will_part(&self) -> Option<WillPart>;
}

/// Entry that names a number of a will.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NumberEntry {
    /// Event that made the entry.
    pub dot: Dot,
    /// Clock of that event.
    pub clock: Hlc,
    /// Value of the entry.
    pub number: WillNumber,
}

/// Will of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownWill {
    /// Event of the will; of several the latest.
    pub will: Dot,
    /// Event of the connection.
    pub connection: Dot,
    /// Session of the connection.
    pub birth: Birth,
    /// Content of the message.
    pub content: ContentId,
    /// Time from the end of the connection until the will is published. Zero where the session has
    /// ended [MQTT-3.1.3-9].
    pub delay: Duration,
    /// An entry says that the connection has ended.
    pub is_ended: bool,
    /// The connection has an entry.
    pub has_connection: bool,
    /// Numbers of the will.
    pub numbers: Vec<NumberEntry>,
    /// Events of the will, of what stands beside it, and of other entries of the connection's will.
    pub entries: BTreeSet<Dot>,
}

impl NumberEntry {
    /// Clock of the message, whoever routes it and when.
    fn message_clock(&self) -> Hlc {
        self.number.message_clock.unwrap_or(self.clock)
    }
}

impl KnownWill {
    /// Numbers of the will, whoever names them.
    pub(super) fn number_set(&self) -> BTreeSet<Dot> {
        self.numbers.iter().map(|entry| entry.number.number).collect()
    }

    /// Number that counts (rule `one-number`): one that was routed before one that was not, then the
    /// later one. `run` is that of this node.
    pub fn counting(&self, run: Run, has_heard: impl Fn(Dot) -> bool) -> Option<NumberedWill> {
        let order = |entry: &&NumberEntry| (has_heard(entry.number.number), entry.clock, entry.dot);
        let number = self.numbers.iter().max_by_key(order)?.number.number;
        let of_number = self.numbers.iter().filter(|entry| entry.number.number == number);
        let clocks = of_number.clone().map(NumberEntry::message_clock);
        let own = of_number
            .map(|entry| entry.dot)
            .filter(|dot| dot.run == run)
            .max();
        Some(NumberedWill {
            number,
            clock: clocks.min()?,
            entry: own,
        })
    }
}

/// Wills of a client that count, of each connection the latest, in ascending order of connections.
///
/// `covers` is that of [`SessionEntries::live`].
pub fn known_wills<V: WillValue + Ord>(
    entries: &SessionEntries<V>,
    covers: impl Fn(Dot) -> bool + Copy,
) -> Vec<KnownWill> {
    let mut latest: BTreeMap<Dot, (Dot, &Entry<V>)> = BTreeMap::new();
    for (dot, entry) in entries.live(EntryKind::Will, covers) {
        let Fact::Will(terms) = &entry.fact else { continue };
        let before = latest.entry(terms.connection).or_insert((dot, entry));
        if (before.1.clock, before.0) < (entry.clock, dot) {
            *before = (dot, entry);
        }
    }
    let known = latest
        .into_iter()
        .map(|(connection, (dot, entry))| known_will(entries, covers, connection, dot, entry));
    known.flatten().collect()
}

fn known_will<V: WillValue + Ord>(
    entries: &SessionEntries<V>,
    covers: impl Fn(Dot) -> bool + Copy,
    connection: Dot,
    will: Dot,
    entry: &Entry<V>,
) -> Option<KnownWill> {
    let WillPart::Text { content, delay } = entry.value.will_part()? else {
        return None;
    };
    let birth = entry.birth;
    let ends = entries.of_kind(EntryKind::ConnectionEnd);
    let ends = ends.filter(|(_, end)| end.fact.named() == Some(connection));
    let decided: Vec<Option<Duration>> = ends.map(|(_, end)| end_delay(end)).collect();
    let mut sessions = entries.live(EntryKind::Session, covers);
    let has_session = !covers(birth.dot) || sessions.any(|(_, session)| session.birth.dot == birth.dot);
    let delay = decided.iter().copied().flatten().min().unwrap_or(delay);
    let kind = EntryKind::Connection;
    let id = EntryId {
        kind,
        dot: connection,
    };
    Some(KnownWill {
        will,
        connection,
        birth,
        content,
        delay: if has_session { delay } else { Duration::ZERO },
        is_ended: !decided.is_empty(),
        has_connection: entries.get(id).is_some(),
        numbers: numbers_of(entries, will),
        entries: entries.will_of_connection(connection),
    })
}

fn end_delay<V: WillValue>(end: &Entry<V>) -> Option<Duration> {
    match end.value.will_part()? {
        WillPart::End { delay } => delay,
        WillPart::Text { .. } | WillPart::Number(_) => None,
    }
}

/// Numbers of the will `will`. It counts, so they do.
fn numbers_of<V: WillValue + Ord>(entries: &SessionEntries<V>, will: Dot) -> Vec<NumberEntry> {
    let numbers = entries.of_kind(EntryKind::WillNumber);
    let of_will = numbers.filter(|(_, entry)| entry.fact.named() == Some(will));
    let known = of_will.filter_map(|(dot, entry)| match entry.value.will_part()? {
        WillPart::Number(number) => Some(NumberEntry {
            dot,
            clock: entry.clock,
            number,
        }),
        WillPart::Text { .. } | WillPart::End { .. } => None,
    });
    known.collect()
}
