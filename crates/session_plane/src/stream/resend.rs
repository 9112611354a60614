//! Resend: events that too few owners have confirmed, for an owner of the new ring.
//!
//! The stream has its order, and the events are older. So they go beside it, under their dots, and
//! are confirmed by the id of the resend.

use std::collections::BTreeMap;

use cluster::NodeId;

use crate::SlotSet;
use crate::stream::{ConfirmError, NumberRange, StreamEvent};

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
    /// Was sent over the present connection.
    is_in_flight: bool,
    /// Was sent over any connection.
    was_sent: bool,
}

/// Resends of a run that their receivers have not confirmed.
#[derive(Debug, Default)]
pub(crate) struct Resends {
    /// Highest id so far.
    last: u64,
    outstanding: BTreeMap<ResendId, Outstanding>,
}

impl Resends {
    pub(crate) fn add(&mut self, to: NodeId, numbers: NumberRange, slots: SlotSet) {
        self.last += 1;
        let new = Outstanding {
            to,
            slots,
            numbers,
            is_in_flight: false,
            was_sent: false,
        };
        self.outstanding.insert(ResendId(self.last), new);
    }

    /// Next resend to `peer` over the present connection.
    pub(crate) fn send(&mut self, peer: NodeId) -> Option<(ResendId, &Outstanding)> {
        let mut outstanding = self.outstanding.iter_mut();
        let (id, resend) = outstanding.find(|(_, resend)| resend.to == peer && !resend.is_in_flight)?;
        resend.is_in_flight = true;
        resend.was_sent = true;
        Some((*id, resend))
    }

    /// Begins a new connection to `peer`: what was not confirmed is sent again.
    pub(crate) fn restart(&mut self, peer: NodeId) {
        for resend in self.outstanding.values_mut().filter(|resend| resend.to == peer) {
            resend.is_in_flight = false;
        }
    }

    /// Takes the resend `id` away. None if it was confirmed already, as after a broken connection.
    pub(crate) fn confirm(
        &mut self,
        peer: NodeId,
        id: ResendId,
    ) -> Result<Option<Outstanding>, ConfirmError> {
        let is_known = match self.outstanding.get(&id) {
            Some(resend) => resend.to == peer && resend.was_sent,
            None => 1 <= id.0 && id.0 <= self.last,
        };
        if !is_known {
            return Err(ConfirmError::UnknownResend { peer, id: id.0 });
        }
        Ok(self.outstanding.remove(&id))
    }

    /// Takes away what was for a peer that is given up.
    pub(crate) fn drop_peer(&mut self, peer: NodeId) -> Vec<Outstanding> {
        let all = std::mem::take(&mut self.outstanding);
        let (dropped, left): (BTreeMap<_, _>, BTreeMap<_, _>) =
            all.into_iter().partition(|(_, resend)| resend.to == peer);
        self.outstanding = left;
        dropped.into_values().collect()
    }

    /// Outstanding resends of numbers that begin in `numbers`.
    pub(crate) fn within(&self, numbers: NumberRange) -> impl Iterator<Item = &Outstanding> {
        let all = self.outstanding.values();
        all.filter(move |resend| numbers.contains(resend.numbers.first))
    }
}
