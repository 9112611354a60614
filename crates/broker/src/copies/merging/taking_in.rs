//! The side that keeps the session, and takes in what another one leaves.

use std::collections::BTreeSet;

use bytes::Bytes;
use cluster::NodeId;
use mqtt::ids::{SessionKey, SessionNumber};
use mqtt::now::Now;
use mqtt::records;
use protocol::topic::SubscriptionFilter;

use super::messages::{From, Joined, Leave, Leavings, MergeMessage, decode};
use crate::authenticating::is_same;
use crate::copies::Held;
use crate::invoking::drop_message;
use crate::node::{Action, Node};
use crate::sessions::Taken;
use crate::waiting::Waiter;

/// What is known of a session that gives way to one of this node.
#[derive(Debug)]
pub(in crate::copies) struct TakingIn {
    pub(super) from: NodeId,
    /// Its number there.
    pub(super) number: SessionNumber,
    pub(super) base: Option<From>,
    pub(super) had_client: bool,
    /// The client has begun it anew: what was here is over.
    pub(super) replaces: bool,
    /// The filters that were joined because of it.
    pub(super) joined: BTreeSet<SubscriptionFilter>,
    /// All filters that it has, as far as they have come.
    pub(super) filters: BTreeSet<Bytes>,
    /// Filters that it was subscribed to since they parted.
    pub(super) subscribed: Vec<Bytes>,
    /// Filters that it was unsubscribed from.
    pub(super) unsubscribed: Vec<Bytes>,
    /// By how much its sequences rise, from when on the first delivery has come.
    pub(super) shift: u64,
}

impl TakingIn {
    /// The other node, and its number of the session.
    pub(in crate::copies) fn place(&self) -> (NodeId, SessionNumber) {
        (self.from, self.number)
    }
}

impl Node {
    /// A node says something about merging.
    pub(crate) fn take_about_merging(
        &mut self,
        now: Now,
        from: NodeId,
        body: &Bytes,
        actions: &mut Vec<Action>,
    ) {
        let message = match decode(body) {
            Ok(message) => message,
            Err(error) => return drop_message(from, error, actions),
        };
        match message {
            MergeMessage::Leave(leave) => self.take_leave(now, from, *leave, actions),
            MergeMessage::Joined(number, joined) => self.note_joined(from, number, joined),
            MergeMessage::Fence(number, of) => self.note_fence(from, number, of),
            MergeMessage::Fenced(number, since) => self.note_fenced(from, number, since),
            MergeMessage::Sound(number) => self.note_sound(from, number),
            MergeMessage::Acknowledged(number, got) => self.take_got_there((from, number), &got),
            MergeMessage::Sounded(number) => self.note_sounded(from, number),
            MergeMessage::Leavings(leavings) => self.take_leavings(now, from, *leavings, actions),
            MergeMessage::Merged(number, is_there) => {
                self.note_merged(now, (from, number, is_there), actions);
            }
            MergeMessage::Crossed(number) => self.note_crossed(from, number),
        }
    }

    /// A session gives way to that of this node.
    fn take_leave(&mut self, now: Now, from: NodeId, leave: Leave, actions: &mut Vec<Action>) {
        let there = leave.number;
        let Some((key, number)) = self.keeper_of(&leave) else {
            self.tell_merging(from, &MergeMessage::Merged(there, false));
            return;
        };
        if self.gives_way_first(from, number) {
            self.tell_merging(from, &MergeMessage::Crossed(there));
            return;
        }
        if leave.is_first && !self.begin_taking_in(now, from, number, &leave) {
            return;
        }
        let is_last = leave.is_last;
        for (filter, value) in leave.subscriptions {
            self.take_subscription(key, (from, number), (filter, value));
        }
        if !is_last {
            return;
        }
        self.end_subscriptions_left(now, key, number, actions);
        let copies = self.copies.as_ref();
        let taking_in = copies.and_then(|copies| copies.held.get(&number)?.taking_in.as_deref());
        let Some(base) = taking_in
            .filter(|taking_in| taking_in.from == from)
            .map(|it| it.base)
        else {
            return;
        };
        let taken = self.sessions.get(key).and_then(|entry| entry.taken.as_deref());
        let taken = taken.map(Taken::at);
        let joined = Joined { base, taken };
        let waiter = Waiter::Merging {
            to: from,
            message: Box::new(MergeMessage::Joined(there, joined)),
        };
        let waiter = self.after_routes(now, waiter);
        self.after_own_writes(now, waiter, actions);
        self.pump(now, key, actions);
    }

    /// The session of this node to which another one of the same client gives way.
    fn keeper_of(&self, leave: &Leave) -> Option<(SessionKey, SessionNumber)> {
        let key = self.sessions.find(&leave.client_id)?;
        let entry = self
            .sessions
            .get(key)
            .filter(|entry| entry.session.is_durable())?;
        let number = entry.session.number;
        let is_held = self.copies.as_ref()?.held.contains_key(&number);
        is_held.then_some((key, number))
    }

    /// True if the session gives way to the one of `from` that gives way to it. Of two that give way to each other that of the lower node
    /// stays: nodes that have both started again each count less of their own session than the other node does.
    fn gives_way_first(&self, from: NodeId, number: SessionNumber) -> bool {
        let Some(copies) = &self.copies else { return false };
        let held = copies.held.get(&number);
        let giving = held.and_then(|held| held.giving.as_ref());
        giving.is_some_and(|giving| giving.to == from && from < copies.own.node)
    }

    /// False if it is another client's.
    fn begin_taking_in(&mut self, now: Now, from: NodeId, number: SessionNumber, leave: &Leave) -> bool {
        let decoded = records::session::decode(leave.client_id.as_bytes(), leave.record.clone());
        let Ok((_, record)) = decoded else { return false };
        let key = self.key_of(number);
        let entry = key.and_then(|key| self.sessions.get(key));
        let own = entry.and_then(|entry| entry.owner.as_deref());
        let own = own.and_then(|owner| owner.principal.as_ref());
        let theirs = record.owner.as_ref().and_then(|owner| owner.principal.as_ref());
        if !is_same(own, theirs) {
            // Nobody gets what is another one's. It ends there.
            self.tell_merging(from, &MergeMessage::Merged(leave.number, true));
            return false;
        }
        let held = self.copies.as_ref().and_then(|copies| copies.held.get(&number));
        let giving = held.and_then(|held| held.giving.as_ref());
        if giving.is_some_and(|giving| giving.to == from) {
            self.stop_giving(number);
        }
        let Some(copies) = &mut self.copies else {
            return false;
        };
        let own_node = copies.own.node;
        let Some(held) = copies.held.get_mut(&number) else {
            return false;
        };
        let taking_in = held.begin_taking_in((own_node, number), from, leave);
        if taking_in.is_none() {
            // The client has begun anew here: what it had there is over.
            self.tell_merging(from, &MergeMessage::Merged(leave.number, true));
            return false;
        }
        let before = std::mem::replace(&mut held.taking_in, taking_in.map(Box::new));
        if let Some(before) = before {
            copies.taking_in.remove(&before.place());
            copies.deferred.add(now, before.place(), number);
        }
        copies.deferred.remove((from, leave.number));
        let has_inherited = held.inherit_mark(own_node, leave);
        copies.taking_in.insert((from, leave.number), number);
        if has_inherited {
            self.commits.write(copies.record(number));
        }
        true
    }

    /// What another session leaves to that of this node.
    fn take_leavings(&mut self, now: Now, from: NodeId, leavings: Leavings, actions: &mut Vec<Action>) {
        let Some(copies) = &mut self.copies else { return };
        let Some(number) = copies.taking_in.get(&(from, leavings.number)).copied() else {
            if !copies.deferred.contains((from, leavings.number)) {
                self.tell_merging(from, &MergeMessage::Merged(leavings.number, false));
            }
            return;
        };
        let Some(key) = self.key_of(number) else { return };
        // While it is changed it is not the session's own any more.
        let taking_in = self
            .copies
            .as_mut()
            .and_then(|copies| copies.held.get_mut(&number)?.taking_in.take());
        let Some(mut taking_in) = taking_in else { return };
        if leavings.is_first {
            self.take_acknowledged(key, &taking_in, &leavings);
            self.take_received(key, &taking_in, &leavings);
        }
        for left in leavings.deliveries {
            self.take_left(now, key, &mut taking_in, (left, leavings.sent_below));
        }
        if let Some(copies) = &mut self.copies {
            copies.with_held(number, |held| held.taking_in = Some(taking_in));
        }
        if !leavings.is_last {
            return;
        }
        if let Some(copies) = &mut self.copies {
            copies.figures.merged += 1;
        }
        self.write_session(now, key);
        let waiter = Waiter::Merging {
            to: from,
            message: Box::new(MergeMessage::Merged(leavings.number, true)),
        };
        self.after_own_writes(now, waiter, actions);
        self.await_records(now, key, actions);
        self.pump(now, key, actions);
    }

    /// A node that has left a session here is told that everything is there, and may have a copy from now on.
    pub(crate) fn answer_merging(&mut self, to: NodeId, message: &MergeMessage) {
        if let MergeMessage::Merged(there, true) = message
            && let Some(copies) = &mut self.copies
            && let Some(number) = copies.taking_in.get(&(to, *there)).copied()
        {
            copies.forget_stage(number, to);
            self.end_deferral(number);
        }
        self.tell_merging(to, message);
    }
}

impl Held {
    /// `None`: the client has begun this one anew, and not the other.
    fn begin_taking_in(
        &self,
        (own, number): (NodeId, SessionNumber),
        from: NodeId,
        leave: &Leave,
    ) -> Option<TakingIn> {
        let marks = self.marks.as_deref();
        let base = self.base_of((own, number), from, leave);
        let is_related = base.is_some_and(|base| base.is_common) || self.clock.has_common(&leave.clock);
        let is_clean = marks.is_some_and(|marks| marks.is_clean);
        if is_clean && !is_related && !leave.is_clean {
            return None;
        }
        Some(TakingIn {
            from,
            number: leave.number,
            base,
            had_client: leave.had_client,
            replaces: leave.is_clean && !is_related && !is_clean,
            joined: BTreeSet::new(),
            filters: BTreeSet::new(),
            subscribed: leave.subscribed.clone(),
            // What was unsubscribed from there is only known to a side that has gone on with a copy.
            unsubscribed: leave.mark.map(|_| leave.unsubscribed.clone()).unwrap_or_default(),
            shift: 0,
        })
    }

    /// This session is from a copy of the other one, which is from a copy of a third one that may still be there: this one has parted from that at the same place.
    fn inherit_mark(&mut self, own: NodeId, leave: &Leave) -> bool {
        let base = self.taking_in.as_ref().and_then(|taking_in| taking_in.base);
        let base = base.filter(|base| base.is_common);
        let mark = leave
            .mark
            .filter(|mark| mark.node != own && mark.number.is_some());
        let mark = mark.filter(|mark| base.is_some_and(|base| mark.next_sequence <= base.sequence));
        mark.is_some_and(|mark| self.marks.get_or_insert_default().inherit(mark))
    }

    /// From where on this session lacks what the other one has.
    fn base_of(&self, own: (NodeId, SessionNumber), from: NodeId, leave: &Leave) -> Option<From> {
        let marks = self.marks.as_deref();
        // One of them is from a copy of the other.
        if let Some(mark) = leave
            .mark
            .filter(|mark| (mark.node, mark.number) == (own.0, Some(own.1)))
        {
            return Some(From::common(mark.next_sequence));
        }
        let here = marks.and_then(|marks| marks.of(from, leave.number));
        if let Some(mark) = here.filter(|mark| mark.number.is_some()) {
            return Some(From::common(mark.next_sequence));
        }
        if let Some(mark) = self.origin(from, leave.number) {
            return Some(From::common(mark.next_sequence));
        }
        // Both are from copies of a third one, which may have more than either had then; or has left it here.
        let third = leave.mark.filter(|_| self.clock.has_common(&leave.clock));
        if let Some(mark) = third {
            let here = mark.number.and_then(|number| marks?.of(mark.node, number));
            let of_copy = here.filter(|here| here.number.is_some());
            let sequence = of_copy.map_or(mark.next_sequence, |here| {
                here.next_sequence.min(mark.next_sequence)
            });
            return Some(From::new(sequence));
        }
        // This one is from a copy of a copy of the other.
        let lost_at = leave.lost_at.filter(|_| self.clock.has_common(&leave.clock));
        lost_at.map(From::new)
    }
}
