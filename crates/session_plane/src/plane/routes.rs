//! Routes: messages under QoS 2 numbers, which come outside of streams (rules 40 to 52).
//!
//! A number is taken for every slot that this node owns by the ring of the sender's marker. The
//! message is pending where it matches. The confirmation follows once that is on the disk.
//!
//! *Invariant*: a number is known to this node only when it was routed. So a number that was only
//! reserved is nobody's hole.

use cluster::NodeId;

use super::content::EventEffects;
use super::holdings::Arrival;
use super::numbers::use_entries;
use super::streams::{Receipt, ReceiptOf};
use super::{
    Effect, Matching, Now, Plane, PlaneAction, PlaneError, PlaneValue, SlotEffect, TransientMessage,
};
use crate::misplaced::check_slots;
use crate::publishing::{FilledMessage, Route, RoutedTo, UseEntry};
use crate::stream::NumberRange;
use crate::transfer::{Held, OwnEvent, TransferBytes};
use crate::{
    ClientId, Dot, EVENT_NUMBER_MAX, EntryKind, Interval, Pending, PendingMessage, Recipients, Run, Slot,
    SlotSet, VectorFull, VersionVector,
};

impl<V, M, R> Plane<V, M, R>
where
    V: PlaneValue<M>,
    M: TransferBytes + Clone,
    R: Matching<V, M>,
{
    /// Takes a number that the run `from` routes; this run, too. [`PlaneAction::RouteTaken`] tells when
    /// it is on the disk.
    ///
    /// # Errors
    ///
    /// [`PlaneError`] where the message is refused.
    pub fn take_route(
        &mut self,
        now: Now,
        from: Run,
        route: Route<M>,
        actions: &mut Vec<PlaneAction<V, M>>,
    ) -> Result<(), PlaneError> {
        // What waits at this node itself has room in the limits of the publishing.
        if from != self.run {
            self.streams.check_receipt_room()?;
        }
        let slots = self.slots_of_route(from, route.marker)?;
        let Route {
            number,
            marker,
            clock,
            known,
            message,
        } = route;
        let is_new = self.transient_numbers.insert(number, self.holdings.known());
        let (mut effects, mut transient) = (Vec::new(), None);
        if let Some(message) = message {
            let RoutedTo {
                slots: to,
                is_transient,
            } = message.to();
            check_slots(to, EntryKind::Message)?;
            let matched = to.intersection(&slots);
            let is_transient = *is_transient;
            let message = message.into_content();
            transient = (is_transient && is_new).then(|| message.clone());
            effects.extend(matched.iter().map(|slot| {
                let message = message.clone();
                let effect = Effect::Message(Pending { clock, message });
                SlotEffect { slot, effect }
            }));
        }
        self.clock.see(clock);
        let taken = self.take_number(number, effects, &slots);
        let needed = taken.and_then(|()| self.holdings.need_everywhere(&known));
        self.end_if_full(needed, actions);
        needed?;
        let (to, of) = (from.node, ReceiptOf::Route { number, marker });
        self.streams.add_receipt(Receipt { to, of });
        self.transfers.answers_are_due = true;
        actions.extend(transient.map(|content| {
            PlaneAction::Transient(TransientMessage {
                message: number,
                clock,
                content,
            })
        }));
        self.settle(now, actions);
        Ok(())
    }

    /// Events that a message which is routed now comes after. Those of this run's own stream go before
    /// it to each node that needs them.
    pub fn known_by_route(&self) -> VersionVector {
        let own = Interval::up_to(self.run, EVENT_NUMBER_MAX);
        self.holdings.known().minus(&VersionVector::of_apart(own))
    }

    /// Entries of a client's packet ids that count by themselves, in this node's copy.
    pub fn packet_uses(&self, client: &ClientId) -> Vec<UseEntry> {
        let copy = self.copy(Slot::of_client(client.as_bytes()));
        copy.map(|copy| use_entries(&copy, client)).unwrap_or_default()
    }

    /// Marker of the ring by which this run routes; 0 before the first.
    pub fn marker(&self) -> u64 {
        self.streams.outgoing.marker()
    }

    /// Own events up to `number` that `to` needs were sent over its present connection.
    pub fn has_sent(&self, to: NodeId, number: u64) -> bool {
        self.streams.outgoing.has_sent(to, number)
    }

    /// Number up to which all present nodes have confirmed this run's stream.
    pub fn stable(&self) -> u64 {
        self.streams.outgoing.stable()
    }

    /// Sets the numbers that no node closes: they wait to be routed here, or a node may lack them.
    pub fn reserve(&mut self, numbers: VersionVector) {
        self.numbers.reserved = numbers;
    }

    /// What finds the sessions that a message matches, to read.
    pub fn matching(&self) -> &R {
        self.holdings.matching()
    }

    /// What finds the sessions that a message matches, for changes of interests.
    pub fn matching_mut(&mut self) -> &mut R {
        self.holdings.matching_mut()
    }

    /// Recipients of a message: slots by this node's routes, and nodes by what they have told.
    pub fn recipients(&self, message: &M) -> Recipients {
        let matching = self.holdings.matching();
        let routes = self.copy(Slot::ROUTES);
        Recipients {
            slots: routes.map_or_else(SlotSet::default, |routes| matching.slots(&routes, message)),
            nodes: matching.nodes(message),
        }
    }

    fn slots_of_route(&self, from: Run, marker: u64) -> Result<SlotSet, PlaneError> {
        if from == self.run {
            return Ok(self.holdings.owned().clone());
        }
        let position = self.streams.position(from).unwrap_or(0);
        if marker > position {
            return Err(PlaneError::RouteAhead {
                run: from,
                marker,
                position,
            });
        }
        Ok(self.owned_at(from, marker + 1))
    }

    fn take_number(
        &mut self,
        number: Dot,
        effects: Vec<SlotEffect<V, M>>,
        slots: &SlotSet,
    ) -> Result<(), VectorFull> {
        let arrival = Arrival {
            run: number.run,
            numbers: NumberRange::one(number.number),
            effects: vec![EventEffects {
                number: number.number,
                effects,
            }],
        };
        // A copy that refuses it has a hole, and the receipt waits for that.
        self.holdings.take(arrival, slots).map(drop)
    }

    /// Fills holes of a copy from packet ids that count in copies of this node (rule
    /// `fill-from-received`).
    pub(super) fn fill_holes(&mut self, slot: Slot, actions: &mut Vec<PlaneAction<V, M>>) {
        let lacking = self.holes(slot).qos2_numbers();
        let (copies, asker) = (&self.holdings.copies, &self.transfers.asker);
        let filled = self.numbers.fill(copies, &lacking, |slot| asker.is_merged(slot));
        let slots: SlotSet = [slot].into_iter().collect();
        for message in filled {
            let Some(pending) = pending_of(&self.holdings.copies, &message) else {
                continue;
            };
            // No message is for a map of every node.
            let effect = Effect::Message(pending);
            let effect = (!slot.is_of_every_node()).then_some(SlotEffect { slot, effect });
            let effects = effect.into_iter().collect();
            let taken = self.take_number(message.message.number, effects, &slots);
            self.end_if_full(taken, actions);
        }
    }
}

/// Message that fills a hole, as a copy takes it.
fn pending_of<V: PlaneValue<M>, M>(
    copies: &super::Copies<V, M>,
    filled: &FilledMessage,
) -> Option<Pending<M>> {
    let entry = copies.entry(&filled.client, filled.entry)?;
    Some(Pending {
        clock: filled.clock,
        message: entry.value.body()?,
    })
}

/// Adds messages that fill holes of the asker to an answer.
pub(super) fn add_filled<V: PlaneValue<M>, M: Clone>(
    held: &mut Held<V, M>,
    slot: Slot,
    copies: &super::Copies<V, M>,
    filled: &[FilledMessage],
) {
    for filled in filled {
        let dot = filled.message.number;
        let Some(pending) = pending_of(copies, filled).filter(|_| !held.begin.covered.covers(dot)) else {
            continue;
        };
        let own = Interval::one(dot).map(|number| held.begin.own.insert(number));
        if own.is_some_and(|added| added.is_ok()) && !slot.is_of_every_node() {
            held.own.push(OwnEvent::Message(PendingMessage { dot, pending }));
        }
    }
}
