//! Deciding: what the primary owner of a slot looks at, when copies, the ring, or a client change.
//!
//! Wills, sessions that expire and limits of queues ask the same: which slots this node decides about. While it
//! does not decide about a slot that it is the primary owner of, they note that, and look again with the tick
//! that finds it deciding.

use super::acting::Queue;
use super::owner_view::{OwnerView, has_will};
use super::watched_slots::WatchedSlots;
use super::{Sessions, SessionsValue};
use crate::expiring::ExpiringEvent;
use crate::plane::{Matching, Now, Plane};
use crate::queue_limits::{QueueEvent, QueuePlace};
use crate::transfer::TransferBytes;
use crate::wills::{WillState, WillsEvent};
use crate::{ClientId, Slot};

impl<V, M, R> Sessions<V, M, R>
where
    V: SessionsValue<M>,
    M: TransferBytes + Clone,
    R: Matching<V, M>,
{
    /// Hands an event to the wills.
    pub(super) fn step_wills(&mut self, now: Now, event: WillsEvent, queue: &mut Queue<V, M>) {
        with_view(&self.plane, &mut self.will_slots, |view| {
            self.wills.step(now.monotonic, event, view, &mut queue.wills);
        });
    }

    /// Hands an event to the sessions that expire.
    pub(super) fn step_expiring(&mut self, now: Now, event: ExpiringEvent) {
        with_view(&self.plane, &mut self.expiry_slots, |view| {
            self.expiring.step(now, event, view);
        });
    }

    /// Hands an event to the limits of queues.
    pub(super) fn step_limiting(&mut self, now: Now, event: QueueEvent) {
        with_view(&self.plane, &mut self.queue_slots, |view| {
            self.limiting.step(now.monotonic, event, view);
        });
    }

    /// Does what is due, and looks again at copies that have come to be whole, or are not any more.
    pub(super) fn tick_decided(&mut self, now: Now, queue: &mut Queue<V, M>) {
        let plane = &self.plane;
        let of_wills = self.will_slots.take_changed(|slots| plane.decided_of(slots));
        let of_expiring = self.expiry_slots.take_changed(|slots| plane.decided_of(slots));
        let of_queues = self.queue_slots.take_changed(|slots| plane.decided_of(slots));
        self.expiry_slots.forget_decided();
        self.queue_slots.forget_decided();
        for slot in of_wills.iter() {
            self.step_wills(now, WillsEvent::CopyChanged { slot }, queue);
        }
        for slot in of_expiring.iter() {
            self.step_expiring(now, ExpiringEvent::CopyChanged { slot });
        }
        for slot in of_queues.iter() {
            self.step_limiting(now, QueueEvent::CopyChanged { slot });
        }
        with_view(&self.plane, &mut self.will_slots, |view| {
            self.wills.tick(now.monotonic, view, &mut queue.wills);
        });
        with_view(&self.plane, &mut self.expiry_slots, |view| {
            self.expiring.tick(now, view, &mut queue.expiring);
        });
        with_view(&self.plane, &mut self.queue_slots, |view| {
            self.limiting.tick(now.monotonic, view, &mut queue.beyond);
        });
    }

    /// A copy has merged: its wills, sessions and queues are looked at again.
    pub(super) fn look_at_slot(&mut self, now: Now, slot: Slot, queue: &mut Queue<V, M>) {
        let view = OwnerView::new(&self.plane);
        if WillState::clients_of(&view, slot).is_empty() {
            self.will_slots.forget(slot);
        } else {
            self.will_slots.watch(slot, self.plane.decides(slot));
        }
        self.step_wills(now, WillsEvent::CopyChanged { slot }, queue);
        self.step_expiring(now, ExpiringEvent::CopyChanged { slot });
        self.step_limiting(now, QueueEvent::CopyChanged { slot });
    }

    /// The queue of a client, or of a shared group, has changed: it may exceed a limit.
    pub(super) fn look_at_queue(&mut self, now: Now, slot: Slot, client: ClientId) {
        if !slot.is_of_every_node() {
            self.step_limiting(now, QueueEvent::Changed(QueuePlace { slot, client }));
        }
    }

    /// An event has changed entries of a client: its wills and its session are looked at again.
    pub(super) fn look_at_client(&mut self, now: Now, slot: Slot, client: ClientId, queue: &mut Queue<V, M>) {
        if slot.is_of_every_node() {
            return;
        }
        let session = self.plane.copy(slot);
        let session = session.and_then(|copy| copy.entries.session(client.as_bytes()));
        if session.is_some_and(has_will) {
            let plane = &self.plane;
            self.will_slots.watch_new(slot, || plane.decides(slot));
        }
        let changed = WillsEvent::Changed {
            client: client.clone(),
        };
        self.step_wills(now, changed, queue);
        self.step_expiring(now, ExpiringEvent::Changed { client });
    }

    /// Queues of which something was passed on that waits again: they may exceed a limit.
    pub(super) fn look_at_ended(&mut self, now: Now) {
        for client in self.feeds.take_ended() {
            self.look_at_queue(now, Slot::of_client(client.as_bytes()), client);
        }
    }

    /// The ring or the members have changed: all wills, sessions and queues are looked at again.
    pub(super) fn look_at_all(&mut self, now: Now, queue: &mut Queue<V, M>) {
        self.step_wills(now, WillsEvent::RingChanged, queue);
        self.step_expiring(now, ExpiringEvent::RingChanged);
        self.step_limiting(now, QueueEvent::RingChanged);
    }
}

/// Lets something look at the node. `watched` notes the slots of which it asked too early.
fn with_view<V, M, R>(
    plane: &Plane<V, M, R>,
    watched: &mut WatchedSlots,
    look: impl FnOnce(&OwnerView<'_, V, M, R>),
) {
    let view = OwnerView::new(plane);
    look(&view);
    watched.note_undecided(view.into_undecided());
}
