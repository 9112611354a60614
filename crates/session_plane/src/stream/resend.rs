//! Resend: events that an owner of the new ring lacks.
//!
//! The stream has its order, and the events are older. So they go beside it, under their dots, and
//! are confirmed by the id of the resend. Most are events that too few owners have confirmed, which
//! the stream keeps. A late copy is one event that was durable before, and has it itself.

use std::collections::{BTreeMap, BTreeSet};

use cluster::NodeId;

use crate::stream::{ConfirmError, GivingId, NumberRange, StreamEvent};
use crate::{Slot, SlotSet};

/// Number of a resend among those of a run; from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ResendId(pub u64);

/// Own events for a new owner of slots.
///
/// The receiver takes all of `numbers` for all of `slots`, also where it gets no event, persists
/// them, and confirms `id`. What the sender knew at each event is a hole, as with any event: the
/// receiver may be no owner any more, and would claim without that.
#[derive(Debug)]
pub struct Resend<'a, P> {
    /// Names the resend in the confirmation.
    pub id: ResendId,
    /// Slots of the receiver.
    pub slots: &'a SlotSet,
    /// Numbers of the run of which the slots had too few copies.
    pub numbers: NumberRange,
    /// Events among `numbers` that are for one of `slots`, in ascending order.
    pub events: Vec<&'a StreamEvent<P>>,
}

/// Resend that its receiver has not confirmed.
#[derive(Debug)]
pub(crate) struct Outstanding {
    pub(crate) to: NodeId,
    pub(crate) slots: SlotSet,
    pub(crate) numbers: NumberRange,
    /// Was sent over any connection.
    was_sent: bool,
}

/// Late copy that its receiver has not confirmed.
#[derive(Debug)]
pub(crate) struct LateCopy<P> {
    to: NodeId,
    giving: GivingId,
    pub(crate) slots: SlotSet,
    pub(crate) event: StreamEvent<P>,
    /// Was sent over any connection.
    was_sent: bool,
}

/// Resends of a run that their receivers have not confirmed.
#[derive(Debug)]
pub(crate) struct Resends<P> {
    /// Highest id so far.
    last: u64,
    outstanding: BTreeMap<ResendId, Outstanding>,
    late: BTreeMap<ResendId, LateCopy<P>>,
    /// Those of `late` by their slots.
    late_of: BTreeSet<(Slot, ResendId)>,
    /// Those of `outstanding` that were not sent over the present connection, by receiver.
    unsent: BTreeSet<(NodeId, ResendId)>,
    /// Those of `late` that were not.
    unsent_late: BTreeSet<(NodeId, ResendId)>,
}

/// Resend that was confirmed.
#[derive(Debug)]
pub(crate) enum Confirmed {
    Resent(Outstanding),
    /// Late copy of the giving.
    Late(GivingId),
}

/// Resends to a peer that is given up.
#[derive(Debug)]
pub(crate) struct Dropped {
    pub(crate) resent: Vec<Outstanding>,
    /// Givings of the late copies.
    pub(crate) late: Vec<GivingId>,
}

impl<P> Default for Resends<P> {
    /// None.
    fn default() -> Resends<P> {
        Resends {
            last: 0,
            outstanding: BTreeMap::new(),
            late: BTreeMap::new(),
            late_of: BTreeSet::new(),
            unsent: BTreeSet::new(),
            unsent_late: BTreeSet::new(),
        }
    }
}

impl<P> Resends<P> {
    pub(crate) fn add(&mut self, to: NodeId, numbers: NumberRange, slots: SlotSet) {
        self.last += 1;
        let new = Outstanding {
            to,
            slots,
            numbers,
            was_sent: false,
        };
        self.unsent.insert((to, ResendId(self.last)));
        self.outstanding.insert(ResendId(self.last), new);
    }

    pub(crate) fn add_late(&mut self, to: NodeId, giving: GivingId, slots: SlotSet, event: StreamEvent<P>) {
        self.last += 1;
        let new = LateCopy {
            to,
            giving,
            slots,
            event,
            was_sent: false,
        };
        self.unsent_late.insert((to, ResendId(self.last)));
        let of_slots = new.slots.iter().map(|slot| (slot, ResendId(self.last)));
        self.late_of.extend(of_slots);
        self.late.insert(ResendId(self.last), new);
    }

    /// A resend to `peer` was not sent over the present connection; no late copy.
    pub(crate) fn has_unsent(&self, peer: NodeId) -> bool {
        next_of(&self.unsent, peer).is_some()
    }

    /// Next resend to `peer` over the present connection; no late copy.
    pub(crate) fn send(&mut self, peer: NodeId) -> Option<(ResendId, &Outstanding)> {
        let id = take_next(&mut self.unsent, peer)?;
        let resend = self.outstanding.get_mut(&id)?;
        resend.was_sent = true;
        Some((id, resend))
    }

    /// Next late copy to `peer` over the present connection.
    pub(crate) fn send_late(&mut self, peer: NodeId) -> Option<(ResendId, &LateCopy<P>)> {
        let id = take_next(&mut self.unsent_late, peer)?;
        let late = self.late.get_mut(&id)?;
        late.was_sent = true;
        Some((id, late))
    }

    /// Events of late copies for a slot, in the order in which they were given.
    pub(crate) fn late_events(&self, slot: Slot) -> impl Iterator<Item = &StreamEvent<P>> {
        let of_slot = self
            .late_of
            .range((slot, ResendId(0))..=(slot, ResendId(u64::MAX)));
        of_slot.filter_map(|(_, id)| self.late.get(id).map(|late| &late.event))
    }

    /// Begins a new connection to `peer`: what was not confirmed is sent again.
    pub(crate) fn restart(&mut self, peer: NodeId) {
        let resends = self.outstanding.iter().filter(|(_, resend)| resend.to == peer);
        self.unsent.extend(resends.map(|(id, _)| (peer, *id)));
        let late = self.late.iter().filter(|(_, late)| late.to == peer);
        self.unsent_late.extend(late.map(|(id, _)| (peer, *id)));
    }

    /// Takes the resend `id` away. None if it was confirmed already, as after a broken connection.
    pub(crate) fn confirm(&mut self, peer: NodeId, id: ResendId) -> Result<Option<Confirmed>, ConfirmError> {
        let resend = self.outstanding.get(&id);
        let is_of_peer = resend.map(|resend| resend.to == peer && resend.was_sent);
        let late = self.late.get(&id);
        let is_late_of_peer = late.map(|late| late.to == peer && late.was_sent);
        let is_known = is_of_peer
            .or(is_late_of_peer)
            .unwrap_or(1 <= id.0 && id.0 <= self.last);
        if !is_known {
            return Err(ConfirmError::UnknownResend { peer, id: id.0 });
        }
        // A connection that broke in between may have it to send again.
        self.unsent.remove(&(peer, id));
        self.unsent_late.remove(&(peer, id));
        let late = self.late.remove(&id);
        let slots = late.iter().flat_map(|late| late.slots.iter());
        for slot in slots {
            self.late_of.remove(&(slot, id));
        }
        let late = late.map(|late| Confirmed::Late(late.giving));
        Ok(late.or_else(|| self.outstanding.remove(&id).map(Confirmed::Resent)))
    }

    /// Takes away what was for a peer that is given up.
    pub(crate) fn drop_peer(&mut self, peer: NodeId) -> Dropped {
        let of_peer = |(node, _): &(NodeId, ResendId)| *node == peer;
        self.unsent.retain(|unsent| !of_peer(unsent));
        self.unsent_late.retain(|unsent| !of_peer(unsent));
        let resent = self.outstanding.extract_if(.., |_, resend| resend.to == peer);
        let late = self.late.extract_if(.., |_, late| late.to == peer);
        let dropped = Dropped {
            resent: resent.map(|(_, resend)| resend).collect(),
            late: late.map(|(_, late)| late.giving).collect(),
        };
        self.late_of.retain(|(_, id)| self.late.contains_key(id));
        dropped
    }

    /// Outstanding resends of numbers that begin in `numbers`, without late copies.
    pub(crate) fn within(&self, numbers: NumberRange) -> impl Iterator<Item = &Outstanding> {
        let all = self.outstanding.values();
        all.filter(move |resend| numbers.contains(resend.numbers.first))
    }
}

/// Takes the first resend to `peer` out of those that were not sent.
fn take_next(unsent: &mut BTreeSet<(NodeId, ResendId)>, peer: NodeId) -> Option<ResendId> {
    let id = next_of(unsent, peer)?;
    unsent.remove(&(peer, id));
    Some(id)
}

/// First resend to `peer` among those that were not sent.
fn next_of(unsent: &BTreeSet<(NodeId, ResendId)>, peer: NodeId) -> Option<ResendId> {
    let of_peer = (peer, ResendId(0))..=(peer, ResendId(u64::MAX));
    unsent.range(of_peer).next().map(|(_, id)| *id)
}
