//! What other nodes say about copies.

use bytes::Bytes;
use cluster::session_plane::lifecycle::NodeState;
use cluster::session_plane::{Actor, Causality, VectorClock};
use cluster::{Incarnation, NodeId};
use mqtt::ids::SessionNumber;
use mqtt::now::Now;
use protocol::Text;

use super::messages::{CopyAnswer, CopyMessage, Other, Part, Piece, Positions, What, decode};
use super::standing_by::Surroundings;
use super::{Copies, Held, Stage, StandingBy, floor_of};
use crate::invoking::drop_message;
use crate::node::{Action, Node};
use crate::waiting::Waiter;

impl Node {
    /// A node says something about copies.
    pub(crate) fn take_copies(&mut self, now: Now, from: NodeId, body: &Bytes, actions: &mut Vec<Action>) {
        let (incarnation, message) = match decode(body) {
            Ok(found) => found,
            Err(error) => {
                drop_message(from, error, actions);
                return self.take_unreadable(from, body);
            }
        };
        let from = Actor {
            node: from,
            incarnation: Incarnation(incarnation),
        };
        let Some(copies) = &mut self.copies else { return };
        match message {
            CopyMessage::Begin => copies.note_begin(from.node),
            CopyMessage::All => self.drop_unnamed(from.node),
            CopyMessage::Offer {
                number,
                client_id,
                clock,
                is_connected,
                origins,
            } => {
                copies.note_origins((from.node, number), &origins);
                let offered = Other {
                    clock,
                    holder: from.node,
                    is_connected,
                };
                self.take_offer(now, (from, number), (&client_id, &offered), actions);
            }
            CopyMessage::Changes(positions, pieces) => {
                self.take_positions(from.node, positions);
                for piece in pieces {
                    self.take_piece(now, from, piece, actions);
                }
            }
            CopyMessage::Whole(part) => self.take_part(now, from, *part, actions),
            CopyMessage::Answer(number, answer) => {
                self.take_copy_answer(now, from.node, (number, answer), actions);
            }
            CopyMessage::Drop(number) => self.drop_copy(from.node, number),
            CopyMessage::Ask(number) => {
                copies.asking.insert(from.node, number);
            }
            CopyMessage::Done(number) => copies.note_done(from.node, number),
            CopyMessage::Ended(ended) => self.take_ended(now, &ended, actions),
        }
    }

    /// A node holds a session, and this one is to have a copy.
    fn take_offer(
        &mut self,
        now: Now,
        (from, number): (Actor, SessionNumber),
        (client_id, offered): (&Text, &Other),
        actions: &mut Vec<Action>,
    ) {
        if self.refuse_ended(client_id, &offered.clock, from.node) {
            return;
        }
        self.keep_from_former_holder(now, (client_id, from.node), actions);
        if let Some(other) = self.prefer(now, client_id, offered, actions) {
            return self.answer_other(from.node, number, client_id, other);
        }
        let Some(copies) = &mut self.copies else { return };
        let copy = copies.standing_by.get(client_id);
        let is_same = |copy: &StandingBy| {
            // As its holder counts: one of both may have retired what was before (`retiring.rs`).
            let counted = (copy.clock.counter(from), offered.clock.counter(from));
            let is_of_holder = (copy.holder, copy.number_there) == (from, number);
            copy.clock == offered.clock || (is_of_holder && counted.0 > 0 && counted.0 == counted.1)
        };
        if copy.is_none_or(|copy| !copy.is_whole() || !is_same(copy)) {
            // What there is stays until the whole session comes: it is better than nothing.
            return self.answer_copy(from.node, number, CopyAnswer::Want);
        }
        let named = copies.begun_by(from.node);
        if let Some(copy) = copies.take_copy_out(client_id, Some((from.node, number))) {
            let copy = StandingBy {
                holder: from,
                number_there: number,
                named,
                clock: offered.clock.clone(),
                ..copy
            };
            self.commits.write(copy.put());
            copies.insert_copy(copy);
        }
        self.after_commit(now, Waiter::Copied { holder: from, number }, actions);
    }

    /// A node hears that another copy is kept. When that one is to be none any more, the node gets its turn: it would offer its own again only when nodes come or go.
    fn answer_other(&mut self, to: NodeId, number: SessionNumber, client_id: &Text, other: Other) {
        let copies = self.copies.as_mut();
        if let Some(copy) = copies.and_then(|copies| copies.standing_by.get_mut(client_id)) {
            copy.refused = Some(Box::new((to, number)));
        }
        self.answer_copy(to, number, CopyAnswer::Other(other));
    }

    /// Which copy is kept instead of one that a node offers; `None`: that one.
    fn prefer(
        &mut self,
        now: Now,
        client_id: &Text,
        offered: &Other,
        actions: &mut Vec<Action>,
    ) -> Option<Other> {
        let copies = self.copies.as_ref()?;
        let key = self.sessions.find(client_id);
        let entry = key.and_then(|key| self.sessions.get(key));
        if let Some(entry) = entry.filter(|entry| entry.session.is_durable()) {
            let number = entry.session.number;
            let own = Other {
                clock: copies.clock_of(number),
                holder: copies.own.node,
                is_connected: entry.session.is_connected(),
            };
            if self.yields(number, offered) {
                self.give_way(now, number, offered, actions);
                let copies = self.copies.as_ref()?;
                if !copies.held.contains_key(&number) {
                    return None;
                }
            }
            return Some(own);
        }
        let copy = copies.standing_by.get(client_id)?;
        let is_preferred = copy.holder.node != offered.holder
            && copy.is_whole()
            && !self.is_lost(copy.holder.node)
            && !offered.clock.covers(&copy.clock)
            && !self.gives_way(&copy.as_other(), offered, false);
        is_preferred.then(|| copy.as_other())
    }

    /// Whether a session of this node gives way to one that another node holds.
    pub(super) fn yields(&self, number: SessionNumber, other: &Other) -> bool {
        let copies = self.copies.as_ref();
        let Some(held) = copies.and_then(|copies| copies.held.get(&number)) else {
            return false;
        };
        let own = self.own_session(held, number);
        self.gives_way(&own, other, true)
    }

    /// A session of this node, as others are told of it.
    fn own_session(&self, held: &Held, number: SessionNumber) -> Other {
        let copies = self
            .copies
            .as_ref()
            .expect("it has sessions that others have copies of");
        // While this node does not know what has happened without it, what it did since it is back does not count: others have got the same messages.
        let recovered = held.recovered.as_deref().filter(|_| copies.is_back);
        let key = self.sessions.find(&held.client_id);
        let entry = key.and_then(|key| self.sessions.get(key));
        let entry = entry.filter(|entry| entry.session.number == number);
        Other {
            clock: recovered.unwrap_or(&held.clock).clone(),
            holder: copies.own.node,
            is_connected: entry.is_some_and(|entry| entry.session.is_connected()),
        }
    }

    /// Of two nodes that hold a session of the same client: whether the first one gives way. A node that is responsible never does to one that is not, which may have
    /// been away; that one does unless it has seen all that the other has. Else the one that has gone on from the other stays; and of two that have gone on apart, or that a client has
    /// begun at two places (`is_session`, not a copy), the one with the client, or that of the lower node.
    fn gives_way(&self, one: &Other, other: &Other, is_session: bool) -> bool {
        let is_running = |node| {
            let states = self.states.as_ref();
            states.is_some_and(|states| states.state_of(node) == NodeState::Running)
        };
        match (is_running(one.holder), is_running(other.holder)) {
            (true, false) => false,
            (false, true) => !one.clock.covers(&other.clock),
            _ => match other.clock.compare(&one.clock) {
                Causality::After => true,
                Causality::Equal | Causality::Before => false,
                Causality::Concurrent => {
                    let rank = |other: &Other| (other.is_connected, std::cmp::Reverse(other.holder));
                    (is_session || one.clock.has_common(&other.clock)) && rank(other) > rank(one)
                }
            },
        }
    }

    /// What a batch of a node has changed of one session.
    fn take_piece(&mut self, now: Now, from: Actor, piece: Piece, actions: &mut Vec<Action>) {
        let Piece { number, event, what } = piece;
        match what {
            What::HasEnded => self.drop_copy(from.node, number),
            What::Begins(client_id, changes) => {
                let part = Part {
                    number,
                    client_id,
                    clock: clock_of_first(from, event),
                    is_first: true,
                    is_last: true,
                    positions: Positions::new(),
                    changes,
                };
                self.take_first(now, from, part, actions);
            }
            What::GoesOn(changes) => {
                let Some(copies) = &mut self.copies else { return };
                let noted_ranges = copies.noted_ranges();
                let copy = copies.copy_of(from.node, number);
                let copy = copy.filter(|copy| {
                    let before = copy.clock.counter(from).max(floor_of(number));
                    let is_next = before.checked_add(1) == Some(event);
                    copy.holder == from && copy.is_whole() && is_next
                });
                let Some(copy) = copy else {
                    return self.answer_copy(from.node, number, CopyAnswer::Want);
                };
                let mut surroundings = Surroundings {
                    now,
                    messages: &self.memory.messages,
                    latest: self.latest_copied.take(),
                    noted_ranges,
                    writes: Vec::new(),
                };
                let taken = copy.take(changes, &mut surroundings);
                let is_counted = copy.clock.increment(from, floor_of(number)).is_ok();
                let fits = taken.is_ok() && is_counted;
                if !fits {
                    copy.clock = VectorClock::new();
                }
                surroundings.writes.push(copy.put());
                let Surroundings { writes, latest, .. } = surroundings;
                self.latest_copied = latest;
                writes.into_iter().for_each(|write| self.commits.write(write));
                if !fits {
                    self.answer_copy(from.node, number, CopyAnswer::Want);
                }
            }
        }
    }

    /// A session that has just begun.
    fn take_first(&mut self, now: Now, from: Actor, part: Part, actions: &mut Vec<Action>) {
        let number = part.number;
        // A client is there: with its CONNECT it begins.
        let offered = Other {
            is_connected: true,
            ..part.offered(from.node)
        };
        if let Some(other) = self.prefer(now, &part.client_id, &offered, actions) {
            return self.answer_other(from.node, number, &part.client_id, other);
        }
        if self.take_changes(now, from, part) != Some(true) {
            self.refuse_copy(from.node, number, actions);
        }
    }

    /// A part of a whole session.
    fn take_part(&mut self, now: Now, from: Actor, part: Part, actions: &mut Vec<Action>) {
        let (number, is_first, is_last) = (part.number, part.is_first, part.is_last);
        if is_first && let Some(other) = self.prefer(now, &part.client_id, &part.offered(from.node), actions)
        {
            return self.answer_other(from.node, number, &part.client_id, other);
        }
        self.take_positions(from.node, part.positions.clone());
        match self.take_changes(now, from, part) {
            Some(true) => {}
            Some(false) => return self.refuse_copy(from.node, number, actions),
            None => return,
        }
        let Some(copies) = &mut self.copies else { return };
        let is_whole = copies
            .copy_of(from.node, number)
            .is_some_and(|copy| copy.is_whole());
        if is_last && is_whole {
            self.after_commit(now, Waiter::Copied { holder: from, number }, actions);
        }
    }

    /// A copy is on disk: its holder is told. Or something came between, of which it hears when it sends the session once more.
    pub(crate) fn note_copied(&mut self, holder: Actor, number: SessionNumber) {
        let Some(copies) = &mut self.copies else { return };
        let copy = copies.copy_of(holder.node, number);
        let is_there = copy.is_some_and(|copy| copy.holder == holder && copy.is_whole());
        if is_there {
            copies.unreadable.end(holder.node, number);
        }
        let answer = if is_there {
            CopyAnswer::Have
        } else {
            CopyAnswer::Want
        };
        self.answer_copy(holder.node, number, answer);
    }

    /// Takes a session from its beginning, or goes on with it. False if it does not fit; `None`: something before it did not, or it was refused.
    fn take_changes(&mut self, now: Now, from: Actor, part: Part) -> Option<bool> {
        let copies = self.copies.as_mut()?;
        if part.is_first {
            let own_number = self.sessions.next_number();
            let limits = self.config.limits.of_session();
            let mut copy = StandingBy::new(own_number, part.client_id.clone(), limits, (from, part.number));
            copy.named = copies.begun_by(from.node);
            copy.held_since.1 = copies.orphans.losses();
            if let Some(before) = copies.insert_copy(copy) {
                before.remove().for_each(|write| self.commits.write(write));
            }
        }
        let noted_ranges = copies.noted_ranges();
        let copy = copies.copy_of(from.node, part.number)?;
        if copy.holder != from || !copy.clock.is_empty() {
            return None;
        }
        let mut surroundings = Surroundings {
            now,
            messages: &self.memory.messages,
            latest: self.latest_copied.take(),
            noted_ranges,
            writes: Vec::new(),
        };
        if part.is_first {
            // First that it stands by, then the session: a restart must not take it for one of this node's.
            surroundings.writes.push(copy.put());
        }
        let is_taken = copy.take(part.changes, &mut surroundings).is_ok();
        if is_taken && part.is_last {
            copy.clock = part.clock;
            surroundings.writes.push(copy.put());
        }
        let Surroundings { writes, latest, .. } = surroundings;
        self.latest_copied = latest;
        writes.into_iter().for_each(|write| self.commits.write(write));
        Some(is_taken)
    }

    /// An owner says what it has.
    fn take_copy_answer(
        &mut self,
        now: Now,
        from: NodeId,
        (number, answer): (SessionNumber, CopyAnswer),
        actions: &mut Vec<Action>,
    ) {
        let (Some(copies), Some(peers)) = (&mut self.copies, &mut self.peers) else {
            return;
        };
        match answer {
            CopyAnswer::Have => {
                if copies.stage_of(number, from) == Some(Stage::Offered) {
                    copies.set_stage(number, from, Stage::InStep);
                    copies.drop_former(number, peers);
                }
            }
            CopyAnswer::Want => {
                let stage = copies.stage_of(number, from);
                if matches!(stage, Some(Stage::Offered | Stage::InStep | Stage::Refused)) {
                    copies.set_stage(number, from, Stage::Wanted);
                    copies.wanted.push_back((from, number));
                }
            }
            CopyAnswer::Other(other) => {
                copies.set_stage(number, from, Stage::Refused);
                if self.yields(number, &other) {
                    self.give_way(now, number, &other, actions);
                } else {
                    self.claim(number, &other, from);
                }
            }
        }
        self.end_awaited();
    }

    /// Tells the holder of another session that it is to give way, if it need not know: because it has not heard of this one, or only before a
    /// client connected to it.
    fn claim(&mut self, number: SessionNumber, other: &Other, refused_by: NodeId) {
        let Some(copies) = &self.copies else { return };
        let Some(held) = copies.held.get(&number) else {
            return;
        };
        let own = self.own_session(held, number);
        let is_news = own.is_connected && !other.is_connected && self.gives_way(other, &own, true);
        let Some(copies) = &mut self.copies else { return };
        if other.holder != refused_by || is_news && copies.claims.insert((number, other.holder)) {
            copies.offer_soon(number, other.holder);
        }
    }

    /// The holder of a copy does not hold it any more, or this node is to have it no more.
    pub(super) fn drop_copy(&mut self, holder: NodeId, number: SessionNumber) {
        let Some(copies) = &mut self.copies else { return };
        let client_id = copies.by_holder.get(&(holder, number)).cloned();
        let copy = client_id.and_then(|client_id| copies.remove_copy(&client_id));
        for write in copy.iter().flat_map(StandingBy::remove) {
            self.commits.write(write);
        }
        if let Some((node, number)) = copy.and_then(|copy| copy.refused).as_deref() {
            self.answer_copy(*node, *number, CopyAnswer::Want);
        }
    }

    /// A client begins a session here: it is not a copy of another one any more.
    pub(crate) fn forget_copy(&mut self, client_id: &Text) {
        let copies = self.copies.as_mut();
        let copy = copies.and_then(|copies| copies.remove_copy(client_id));
        for write in copy.iter().flat_map(StandingBy::remove) {
            self.commits.write(write);
        }
    }

    /// A node has named everything that it holds: copies of anything else are left over.
    fn drop_unnamed(&mut self, holder: NodeId) {
        let Some(copies) = &mut self.copies else { return };
        let begun = copies.begun_by(holder);
        copies.earlier.remove(&holder);
        let of_holder = copies
            .standing_by
            .values()
            .filter(|copy| copy.holder.node == holder && copy.named < begun);
        let numbers: Vec<SessionNumber> = of_holder.map(|copy| copy.number_there).collect();
        for number in numbers {
            self.drop_copy(holder, number);
        }
    }

    pub(super) fn answer_copy(&mut self, to: NodeId, number: SessionNumber, answer: CopyAnswer) {
        self.tell_copies(to, &CopyMessage::Answer(number, answer));
    }

    /// Whether a node is gone: what it held others go on with.
    pub(super) fn is_lost(&self, node: NodeId) -> bool {
        let (Some(states), Some(peers)) = (&self.states, &self.peers) else {
            return false;
        };
        peers.has_lost(node) || (!states.is_there(node) && !peers.is_reached(node))
    }
}

impl Copies {
    pub(super) fn begun_by(&self, node: NodeId) -> u64 {
        self.begun.get(&node).copied().unwrap_or_default()
    }

    fn stage_of(&self, number: SessionNumber, node: NodeId) -> Option<Stage> {
        let owners = &self.held.get(&number)?.owners;
        owners
            .iter()
            .find(|owner| owner.node == node)
            .map(|owner| owner.stage)
    }

    pub(super) fn clock_of(&self, number: SessionNumber) -> VectorClock {
        let held = self.held.get(&number);
        held.map(|held| held.clock.clone()).unwrap_or_default()
    }
}

impl Part {
    /// As something that is offered.
    fn offered(&self, holder: NodeId) -> Other {
        Other {
            clock: self.clock.clone(),
            holder,
            is_connected: false,
        }
    }
}

fn clock_of_first(from: Actor, event: u64) -> VectorClock {
    let mut clock = VectorClock::new();
    if event > 0 {
        // One event fits in an empty clock.
        clock.increment(from, event - 1).ok();
    }
    clock
}
