//! Members of a part, their presences, and how many messages each is given.

use std::collections::{BTreeMap, BTreeSet};

use cluster::session_plane::Hlc;

use super::Turn;
use super::action::SourceAction;
use super::event::GroupCopies;
use crate::Dot;
use crate::feed::QueueKey;

/// Members and presences of one part.
#[derive(Debug, Default)]
pub(super) struct Presences {
    members: BTreeMap<Dot, Member>,
    /// Begins of the memberships.
    begins: BTreeSet<QueueKey>,
    /// Member entries of each session, by its birth.
    sessions: BTreeMap<Dot, BTreeSet<Dot>>,
    known: BTreeMap<Dot, Presence>,
    /// Presences of each session, by its birth.
    of_session: BTreeMap<Dot, BTreeSet<Dot>>,
    /// Messages that each presence is given, whoever has assigned them.
    held: BTreeMap<Dot, BTreeSet<Dot>>,
    /// Presences that may be given messages, by what they have.
    ranks: BTreeSet<Rank>,
    /// Times that a presence was given a message.
    turns: u64,
    /// The same presences, by the points of their sessions.
    ring: BTreeSet<RingPlace>,
}

/// Places that a presence has on the ring: more of them share messages more evenly.
const PLACES_OF_A_PRESENCE: u64 = 32;

/// Place of a presence on the ring of points. Those of a session are the same for each of its connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct RingPlace {
    point: u64,
    presence: Dot,
}

#[derive(Debug, Clone, Copy)]
struct Member {
    birth: Dot,
    since: Hlc,
}

#[derive(Debug, Clone, Copy)]
struct Presence {
    birth: Dot,
    /// Its place among those that were given nothing: another one in each part.
    start: u64,
    /// When it was given a message last, by the part's count. 0 if it was given none.
    turn: u64,
    /// Its run is present.
    is_open: bool,
    /// An event that removes it was asked for.
    is_ending: bool,
}

/// Place of a presence among those that may be given a message; the first one gets the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    held: usize,
    turn: u64,
    start: u64,
    dot: Dot,
}

impl Presences {
    pub(super) fn add_member(&mut self, dot: Dot, birth: Dot, since: Hlc) {
        self.forget_member(dot);
        self.members.insert(dot, Member { birth, since });
        self.begins.insert(QueueKey { clock: since, dot });
        insert(&mut self.sessions, birth, dot);
        self.rank_session(birth);
    }

    pub(super) fn remove_member(&mut self, dot: Dot) {
        if let Some(birth) = self.forget_member(dot) {
            self.rank_session(birth);
        }
    }

    /// Begin of the earliest membership: messages that are not later are for nobody.
    pub(super) fn earliest(&self) -> Option<Hlc> {
        self.begins.first().map(|begin| begin.clock)
    }

    /// Forgets a member's entry. Gives the birth of its session.
    fn forget_member(&mut self, dot: Dot) -> Option<Dot> {
        let Member { birth, since } = self.members.remove(&dot)?;
        self.begins.remove(&QueueKey { clock: since, dot });
        remove(&mut self.sessions, birth, dot);
        Some(birth)
    }

    pub(super) fn add<V, C: GroupCopies<V>>(&mut self, dot: Dot, birth: Dot, turn: &mut Turn<'_, V, C>) {
        let presence = Presence {
            birth,
            start: mixed(hash_of(dot) ^ u64::from(turn.place.slot.number())),
            turn: 0,
            is_open: turn.present.contains(&dot.run),
            is_ending: false,
        };
        self.known.entry(dot).or_insert(presence);
        insert(&mut self.of_session, birth, dot);
        self.rank(dot);
        self.place(dot);
        self.end_if_gone(dot, turn);
    }

    /// True where there was such a presence, or a message is given to it.
    pub(super) fn remove(&mut self, dot: Dot) -> bool {
        self.unrank(dot);
        let known = self.known.remove(&dot);
        if let Some(presence) = known {
            remove(&mut self.of_session, presence.birth, dot);
            self.displace(dot, presence.birth);
        }
        known.is_some() || self.held.contains_key(&dot)
    }

    /// Other runs are present.
    pub(super) fn change_runs<V, C: GroupCopies<V>>(&mut self, turn: &mut Turn<'_, V, C>) {
        self.ranks.clear();
        for (dot, presence) in &mut self.known {
            presence.is_open = turn.present.contains(&dot.run);
        }
        let dots: Vec<Dot> = self.known.keys().copied().collect();
        for dot in dots {
            self.rank(dot);
            self.place(dot);
            self.end_if_gone(dot, turn);
        }
    }

    /// A message is given to a presence.
    pub(super) fn hold(&mut self, presence: Dot, message: Dot) {
        self.unrank(presence);
        insert(&mut self.held, presence, message);
        self.turns += 1;
        if let Some(known) = self.known.get_mut(&presence) {
            known.turn = self.turns;
        }
        self.rank(presence);
    }

    /// A message is not given to a presence any more.
    pub(super) fn release(&mut self, presence: Dot, message: Dot) {
        self.unrank(presence);
        remove(&mut self.held, presence, message);
        self.rank(presence);
    }

    /// Messages that a presence is given.
    pub(super) fn held_by(&self, presence: Dot) -> Vec<Dot> {
        let held = self.held.get(&presence).into_iter().flatten();
        held.copied().collect()
    }

    /// Presences that are given messages.
    pub(super) fn holders(&self) -> impl Iterator<Item = Dot> + '_ {
        self.held.keys().copied()
    }

    /// Presence that gets the next message: the one that its point names, however many that is given. Without a
    /// point it is the one with the fewest, of several the one that has waited longest, and none where none has
    /// room.
    pub(super) fn next(&self, window: usize, point: Option<u64>) -> Option<Dot> {
        let Some(point) = point else {
            let first = self.ranks.first().filter(|rank| rank.held < window);
            return first.map(|rank| rank.dot);
        };
        let from = RingPlace {
            point,
            presence: Dot::MIN,
        };
        let behind = self.ring.range(from..).next();
        behind.or(self.ring.first()).map(|place| place.presence)
    }

    /// The connection of a presence is open as far as this node knows. One whose event the copy lacks
    /// may still come.
    pub(super) fn is_there<V, C: GroupCopies<V>>(&self, dot: Dot, turn: &Turn<'_, V, C>) -> bool {
        match self.known.get(&dot) {
            Some(presence) => presence.is_open,
            None => turn.present.contains(&dot.run) && !turn.copies.covers(turn.place, dot),
        }
    }

    /// The connection of a presence has ended for certain.
    pub(super) fn is_gone<V, C: GroupCopies<V>>(&self, dot: Dot, turn: &Turn<'_, V, C>) -> bool {
        !self.known.contains_key(&dot) && turn.copies.covers(turn.place, dot)
            || turn.copies.has_ended(dot.run)
    }

    /// A session is a member, and was one before the clock of a message.
    pub(super) fn has_member_before(&self, clock: Hlc) -> bool {
        self.earliest().is_some_and(|earliest| earliest < clock)
    }

    /// Asks for the end of a presence whose run has ended.
    fn end_if_gone<V, C: GroupCopies<V>>(&mut self, dot: Dot, turn: &mut Turn<'_, V, C>) {
        let Some(presence) = self.known.get_mut(&dot) else {
            return;
        };
        if !presence.is_ending && turn.copies.has_ended(dot.run) {
            presence.is_ending = true;
            turn.actions.push(SourceAction::EndPresence {
                place: turn.place.clone(),
                presence: dot,
            });
        }
    }

    /// Ranks the presences of a session anew: it has become a member, or is one no more.
    fn rank_session(&mut self, birth: Dot) {
        let of_session = self.of_session.get(&birth).into_iter().flatten();
        for dot in of_session.copied().collect::<Vec<Dot>>() {
            self.unrank(dot);
            self.rank(dot);
            self.place(dot);
        }
    }

    /// Ranks a presence that may be given messages: it is open, and its session is a member.
    fn rank(&mut self, dot: Dot) {
        if let Some(presence) = self.eligible(dot) {
            self.ranks.insert(self.rank_of(dot, presence));
        }
    }

    /// Gives a presence that may be given messages its places on the ring, and takes those of another.
    fn place(&mut self, dot: Dot) {
        if let Some(presence) = self.eligible(dot) {
            let places = places_of(presence.birth).map(|point| RingPlace { point, presence: dot });
            self.ring.extend(places);
        } else if let Some(presence) = self.known.get(&dot) {
            self.displace(dot, presence.birth);
        }
    }

    fn displace(&mut self, dot: Dot, birth: Dot) {
        for point in places_of(birth) {
            self.ring.remove(&RingPlace { point, presence: dot });
        }
    }

    /// Presence that may be given messages: it is open, and its session is a member.
    fn eligible(&self, dot: Dot) -> Option<Presence> {
        let presence = self.known.get(&dot).copied();
        presence.filter(|presence| presence.is_open && self.sessions.contains_key(&presence.birth))
    }

    fn unrank(&mut self, dot: Dot) {
        if let Some(presence) = self.known.get(&dot) {
            let rank = self.rank_of(dot, *presence);
            self.ranks.remove(&rank);
        }
    }

    fn rank_of(&self, dot: Dot, presence: Presence) -> Rank {
        let held = self.held.get(&dot).map_or(0, BTreeSet::len);
        let Presence { start, turn, .. } = presence;
        Rank {
            held,
            turn,
            start,
            dot,
        }
    }
}

/// Points of a session on the ring: the same on every node.
fn places_of(birth: Dot) -> impl Iterator<Item = u64> {
    let session = hash_of(birth);
    (0..PLACES_OF_A_PRESENCE).map(move |place| mixed(session ^ place))
}

fn hash_of(dot: Dot) -> u64 {
    let parts = [dot.run.node.0, dot.run.incarnation.0.into(), dot.number];
    parts.into_iter().fold(0, |hash, part| mixed(hash ^ part))
}

/// Finalizer of SplitMix64 (Steele, Lea, Flood 2014).
fn mixed(number: u64) -> u64 {
    let number = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let number = (number ^ (number >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    number ^ (number >> 31)
}

fn insert(sets: &mut BTreeMap<Dot, BTreeSet<Dot>>, key: Dot, dot: Dot) {
    sets.entry(key).or_default().insert(dot);
}

/// Removes a dot from the set of `key`. No set is left empty.
fn remove(sets: &mut BTreeMap<Dot, BTreeSet<Dot>>, key: Dot, dot: Dot) {
    if let Some(set) = sets.get_mut(&key) {
        set.remove(&dot);
        if set.is_empty() {
            sets.remove(&key);
        }
    }
}
