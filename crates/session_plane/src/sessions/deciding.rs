//! Deciding: what the primary owner of a slot looks at, when copies, the ring, or a client change.
//!
//! Wills and sessions that expire ask the same: which slots this node decides about. While it does not decide
//! about a slot that it is the primary owner of, they note that, and look again with the tick that finds it
//! deciding.

use super::acting::Queue;
use super::owner_view::{OwnerView, has_will};
use super::{Sessions, SessionsValue};
use crate::expiring::ExpiringEvent;
use crate::plane::{Matching, Now};
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
        let view = OwnerView::new(&self.plane);
        self.wills.step(now.monotonic, event, &view, &mut queue.wills);
        let undecided = view.into_undecided();
        self.will_slots.note_undecided(undecided);
    }

    /// Hands an event to the sessions that expire.
    pub(super) fn step_expiring(&mut self, now: Now, event: ExpiringEvent) {
        let view = OwnerView::new(&self.plane);
        self.expiring.step(now, event, &view);
        let undecided = view.into_undecided();
        self.expiry_slots.note_undecided(undecided);
    }

    /// Does what is due, and looks again at copies that have come to be whole, or are not any more.
    pub(super) fn tick_decided(&mut self, now: Now, queue: &mut Queue<V, M>) {
        let plane = &self.plane;
        let of_wills = self.will_slots.take_changed(|slot| plane.decides(slot));
        let of_expiring = self.expiry_slots.take_changed(|slot| plane.decides(slot));
        self.expiry_slots.forget_decided();
        for slot in of_wills {
            self.step_wills(now, WillsEvent::CopyChanged { slot }, queue);
        }
        for slot in of_expiring {
            self.step_expiring(now, ExpiringEvent::CopyChanged { slot });
        }
        let view = OwnerView::new(&self.plane);
        self.wills.tick(now.monotonic, &view, &mut queue.wills);
        let undecided = view.into_undecided();
        self.will_slots.note_undecided(undecided);
        let view = OwnerView::new(&self.plane);
        self.expiring.tick(now, &view, &mut queue.expiring);
        let undecided = view.into_undecided();
        self.expiry_slots.note_undecided(undecided);
    }

    /// A copy has merged: its wills and its sessions are looked at again.
    pub(super) fn look_at_slot(&mut self, now: Now, slot: Slot, queue: &mut Queue<V, M>) {
        let view = OwnerView::new(&self.plane);
        if WillState::clients_of(&view, slot).is_empty() {
            self.will_slots.forget(slot);
        } else {
            self.will_slots.watch(slot, self.plane.decides(slot));
        }
        self.step_wills(now, WillsEvent::CopyChanged { slot }, queue);
        self.step_expiring(now, ExpiringEvent::CopyChanged { slot });
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

    /// The ring or the members have changed: all wills and sessions are looked at again.
    pub(super) fn look_at_all(&mut self, now: Now, queue: &mut Queue<V, M>) {
        self.step_wills(now, WillsEvent::RingChanged, queue);
        self.step_expiring(now, ExpiringEvent::RingChanged);
    }
}
