//! Giving: entries that new owners are to have before they have merged.

use cluster::NodeId;

use super::{EventContent, Matching, Now, Plane, PlaneAction, PlaneValue, SessionChange};
use crate::stream::{EventKind, GivingId, StreamEvent};
use crate::transfer::TransferBytes;
use crate::{ClientId, Dot, Entry, Slot, SlotSet};

/// Entry that this run has made, with its identity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnEntry<V> {
    /// Slot of the client.
    pub slot: Slot,
    /// Client whose entry it is.
    pub client: ClientId,
    /// Event that made the entry.
    pub dot: Dot,
    /// The entry.
    pub entry: Entry<V>,
}

impl<V, M, R> Plane<V, M, R>
where
    V: PlaneValue<M>,
    M: TransferBytes + Clone,
    R: Matching<V, M>,
{
    /// Sends an entry of this run again, under its dot, to nodes that have become owners of its slot
    /// (rules `connection-to-new-owners` and `received-to-new-owners`).
    ///
    /// [`PlaneAction::Given`] reports it once all nodes that it was given to have the entry on
    /// their disks, or were given up. Nodes that are not present get nothing. A removal that overtakes the
    /// entry stays: the receiver keeps the dot.
    pub fn give(
        &mut self,
        now: Now,
        own: OwnEntry<V>,
        to: &[NodeId],
        actions: &mut Vec<PlaneAction<V, M>>,
    ) -> GivingId {
        let slots = SlotSet::from_iter([own.slot]);
        let change = SessionChange {
            client: own.client,
            removes: Vec::new(),
            adds: Some(own.entry),
        };
        let event = StreamEvent {
            dot: own.dot,
            kind: EventKind::Change(slots.clone()),
            payload: self.payload(EventContent::Change(change)),
        };
        let giving = self.streams.outgoing.give(&event, &slots, to);
        let taken = self.take_own_resends(actions);
        self.end_if_full(taken, actions);
        self.settle(now, actions);
        giving
    }
    /// Reports givings that have ended.
    pub(super) fn report_given(&mut self, actions: &mut Vec<PlaneAction<V, M>>) {
        let given = self.streams.outgoing.take_given();
        actions.extend(given.into_iter().map(PlaneAction::Given));
    }
}
