//! All sessions of the node, connected or not.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cluster::NodeId;
use cluster::session_plane::Actor;
use cluster::session_plane::announcement::Word;
use mqtt::client_ids::ClientIds;
use mqtt::ids::{ConnectionId, SessionKey, SessionNumber};
use mqtt::memory::footprint::{block, places};
use mqtt::origin::Position;
use mqtt::ownership::Owner;
use mqtt::records::session::{Presence, SessionRecord};
use mqtt::session::Session;
use mqtt::subscriptions::Standing;
use mqtt::will;
use protocol::Text;
use protocol::packet::Will;
use slab::Slab;

use crate::retained_delivery::AllDue;
use crate::routes::Telling;

/// A session and what of it belongs to the node.
#[derive(Debug)]
pub(crate) struct SessionEntry {
    pub(crate) session: Session,
    pub(crate) connection: Option<ConnectionId>,
    /// Seconds after the end of the connection; 0: it ends with it; `u32::MAX`: never.
    pub(crate) expiry: u32,
    /// When its connection ended, Unix milliseconds.
    pub(crate) disconnected_at: Option<u64>,
    /// The will of the present connection.
    pub(crate) will: Option<Box<Will>>,
    /// Whom it belongs to.
    pub(crate) owner: Option<Box<Owner>>,
    /// Retained messages for new subscriptions, as far as they were not delivered.
    pub(crate) due: AllDue,
    pub(crate) forced_ends: ForcedEnds,
    /// Another node held it before.
    pub(crate) taken: Option<Box<Taken>>,
    /// The place of this session in the route being worked out, if `mark` is the route's.
    pub(crate) route_place: u32,
    pub(crate) route_mark: u64,
    /// By how much its subscriptions have raised [what a message may cost](mqtt::limits::Limits::matching_steps_max).
    pub(crate) matching_steps: u32,
    /// As the shares know it that the session is in; not kept up to date while it is in none.
    pub(crate) standing: Standing,
    /// What the totals have of it.
    pub(crate) counted: Counted,
}

impl SessionEntry {
    /// Of a session that has no connection.
    pub(crate) fn new(session: Session, expiry: u32) -> Self {
        Self {
            session,
            connection: None,
            expiry,
            disconnected_at: None,
            will: None,
            owner: None,
            due: AllDue::default(),
            forced_ends: ForcedEnds::default(),
            taken: None,
            route_place: 0,
            route_mark: 0,
            matching_steps: 0,
            standing: Standing::Away,
            counted: Counted::default(),
        }
    }

    /// The same, as its record has it.
    pub(crate) fn recovered(session: Session, record: SessionRecord) -> Self {
        let disconnected_at = match record.presence {
            Presence::Connected { .. } => None,
            Presence::Disconnected { since } => Some(since),
        };
        Self {
            disconnected_at,
            will: record.will.map(Box::new),
            owner: record.owner.map(Box::new),
            ..Self::new(session, record.expiry)
        }
    }
}

/// A session that was taken over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Taken {
    /// Who held it.
    pub(crate) from: Actor,
    /// At which loss of that one. `None`: this node has started since.
    pub(crate) at: Option<Word>,
    /// Who had held it before that one, and was lost just before it.
    pub(crate) through: Box<[NodeId]>,
    /// Up to where its holder had taken what others sent, as of its copy. `None`: as it is known here of that node.
    pub(crate) had: Option<Arc<BTreeMap<NodeId, Position>>>,
}

impl Taken {
    /// As a restart finds it.
    pub(crate) fn recovered(from: Actor) -> Self {
        Self {
            from,
            at: None,
            through: Box::default(),
            had: None,
        }
    }

    /// Who held it, and at which loss of that one it was taken over: at the latest one of that run for all that a restart knows.
    pub(crate) fn at(&self) -> (NodeId, Word) {
        let latest = Word {
            run: self.from.incarnation,
            number: u64::MAX,
        };
        (self.from.node, self.at.unwrap_or(latest))
    }

    /// Whether it was taken over at this loss or a later one. One that a restart has found was if its holder was lost in the same run.
    pub(crate) fn is_taken_since(&self, loss: Word) -> bool {
        self.at.map_or(loss.run == self.from.incarnation, |at| loss <= at)
    }

    /// Whether what a node gives to others with a loss may be for it: that one had not told of the loss at which it was taken over.
    pub(crate) fn is_told_by(&self, telling: Telling) -> bool {
        match self.at {
            Some(at) => telling.before.is_none_or(|before| before < at),
            None => telling.before.is_none() && telling.after.run == self.from.incarnation,
        }
    }
}

/// How often the server has ended the session's connections lately.
///
/// Some clients come back at once and for ever, whatever they were told: two that share a client id, or one that repeats
/// what it was disconnected for. From the fourth time on their CONNACK waits, longer each time. Nearly always nothing, so it is
/// small.
#[derive(Debug, Default)]
pub(crate) struct ForcedEnds(Option<Box<Recent>>);

#[derive(Debug, Clone, Copy)]
struct Recent {
    count: u32,
    latest: Instant,
}

/// Without a forced end for so long, all are forgotten.
const FORCED_ENDS_FORGOTTEN_AFTER: Duration = Duration::from_secs(30);

/// So many in a row are nothing to worry about.
const FORCED_ENDS_FREE: u32 = 3;

/// What each further one costs, and what it costs at most.
const PAUSE_STEP: Duration = Duration::from_millis(500);
const PAUSE_MAX: Duration = Duration::from_secs(5);

impl ForcedEnds {
    /// The server ends a connection.
    pub(crate) fn count(&mut self, now: Instant) {
        let before = self.recent(now).map_or(0, |recent| recent.count);
        self.0 = Some(Box::new(Recent {
            count: before.saturating_add(1),
            latest: now,
        }));
    }

    /// How long the next CONNACK waits.
    pub(crate) fn pause(&self, now: Instant) -> Duration {
        let count = self.recent(now).map_or(0, |recent| recent.count);
        PAUSE_STEP
            .saturating_mul(count.saturating_sub(FORCED_ENDS_FREE))
            .min(PAUSE_MAX)
    }

    fn recent(&self, now: Instant) -> Option<Recent> {
        let recent = self.0.as_deref().copied();
        recent.filter(|recent| now < recent.latest + FORCED_ENDS_FORGOTTEN_AFTER)
    }
}

/// Sessions by key and by client id.
#[derive(Debug)]
pub(crate) struct Sessions {
    /// `None`: it has ended, and some of its subscriptions are still there.
    slab: Slab<Option<Box<SessionEntry>>>,
    by_client_id: ClientIds,
    next_number: u64,
    /// Kept up to date: walking through a million sessions would stop everybody for a while.
    totals: Totals,
}

/// Bits of a session number that count within one run of the node.
const NUMBERS_PER_INCARNATION_BITS: u32 = 32;

impl Sessions {
    /// `incarnation` makes the numbers of this run different from those of all runs before.
    pub(crate) fn new(seed: u64, incarnation: u32) -> Self {
        Self {
            slab: Slab::new(),
            by_client_id: ClientIds::new(seed),
            next_number: u64::from(incarnation) << NUMBERS_PER_INCARNATION_BITS,
            totals: Totals::default(),
        }
    }

    pub(crate) fn next_number(&mut self) -> SessionNumber {
        self.next_number += 1;
        SessionNumber(self.next_number)
    }

    pub(crate) fn insert(&mut self, client_id: &Text, mut entry: SessionEntry) -> SessionKey {
        entry.counted = Counted::of(&entry);
        self.totals.replace(Counted::default(), entry.counted);
        let key = SessionKey(
            u32::try_from(self.slab.insert(Some(Box::new(entry)))).expect("fewer than 2^32 sessions"),
        );
        let replaced = self.by_client_id.insert(client_id.clone(), key);
        assert!(replaced.is_none(), "a client id has one session");
        key
    }

    /// Ends a session. Its key is not given to another one before [`Sessions::release`].
    pub(crate) fn retire(&mut self, key: SessionKey) -> Option<SessionEntry> {
        let entry = self.slab.get_mut(key.0 as usize)?.take()?;
        self.by_client_id.remove(&entry.session.client_id);
        self.totals.replace(entry.counted, Counted::default());
        Some(*entry)
    }

    /// Nothing refers to the key of a retired session any more.
    pub(crate) fn release(&mut self, key: SessionKey) {
        let retired = self.slab.try_remove(key.0 as usize);
        assert!(
            matches!(retired, Some(None)),
            "only a retired session is released"
        );
    }

    pub(crate) fn find(&self, client_id: &str) -> Option<SessionKey> {
        self.by_client_id.get(client_id)
    }

    pub(crate) fn get(&self, key: SessionKey) -> Option<&SessionEntry> {
        self.slab.get(key.0 as usize)?.as_deref()
    }

    pub(crate) fn get_mut(&mut self, key: SessionKey) -> Option<&mut SessionEntry> {
        self.slab.get_mut(key.0 as usize)?.as_deref_mut()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (SessionKey, &SessionEntry)> {
        self.slab.iter().filter_map(|(key, entry)| {
            let key = u32::try_from(key).expect("fewer than 2^32 sessions");
            Some((SessionKey(key), entry.as_deref()?))
        })
    }

    /// All keys are below it.
    pub(crate) fn places(&self) -> u32 {
        u32::try_from(self.slab.capacity()).expect("fewer than 2^32 sessions")
    }

    pub(crate) fn len(&self) -> usize {
        self.by_client_id.count()
    }

    /// Sums over all sessions.
    pub(crate) fn totals(&self) -> Totals {
        self.totals
    }

    /// Counts a session anew, after it may have changed.
    pub(crate) fn recount(&mut self, key: SessionKey) {
        if let Some(entry) = self.get_mut(key) {
            let counted = Counted::of(entry);
            let before = std::mem::replace(&mut entry.counted, counted);
            self.totals.replace(before, counted);
        }
    }
}

/// Memory of a session's struct, its place among the others, and its place by client id.
const SESSION: u64 =
    block(size_of::<SessionEntry>()) + places::<Box<SessionEntry>>(2) + places::<(Text, SessionKey)>(2);

/// Sums over all sessions.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Totals {
    pub(crate) connected: usize,
    pub(crate) queued_messages: usize,
    pub(crate) queued_bytes: u64,
    pub(crate) inflight: usize,
    /// Memory of sessions with their subscriptions and queues, without that of messages.
    pub(crate) memory: u64,
}

/// What the totals have of one session.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Counted {
    memory: u64,
    queued_bytes: u64,
    queued_messages: u32,
    inflight: u16,
    is_connected: bool,
}

impl Counted {
    fn of(entry: &SessionEntry) -> Self {
        Self {
            memory: SESSION
                + entry.session.memory()
                + entry.due.memory()
                + entry.owner.as_deref().map_or(0, Owner::memory)
                + entry.will.as_deref().map_or(0, will::memory),
            queued_bytes: entry.session.queue_bytes(),
            queued_messages: u32::try_from(entry.session.queue_len()).expect("fewer than 2^32 messages"),
            inflight: u16::try_from(entry.session.inflight_len()).unwrap_or(u16::MAX),
            is_connected: entry.connection.is_some(),
        }
    }
}

impl Totals {
    /// Takes out what one session had, and puts in what it has.
    fn replace(&mut self, before: Counted, now: Counted) {
        self.connected = self.connected - usize::from(before.is_connected) + usize::from(now.is_connected);
        self.queued_messages =
            self.queued_messages - before.queued_messages as usize + now.queued_messages as usize;
        self.queued_bytes = self.queued_bytes - before.queued_bytes + now.queued_bytes;
        self.inflight = self.inflight - usize::from(before.inflight) + usize::from(now.inflight);
        self.memory = self.memory - before.memory + now.memory;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mqtt::connection::Connection;
    use mqtt::policies::ConnectionAccess;

    /// There may be a million sessions and a hundred thousand connections: what grows them has to be worth it for each.
    #[test]
    fn sessions_and_connections_stay_small() {
        let (session, connection) = (size_of::<SessionEntry>(), size_of::<Connection>());
        assert!(session <= 448, "{session} bytes");
        assert!(connection <= 184, "{connection} bytes");
        let granted = size_of::<ConnectionAccess>();
        assert!(granted <= 176, "{granted} bytes");
    }
}
