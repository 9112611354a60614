//! Own changes: each gets its dot, goes to its owners, and shows in this node's own copies at once.

use cluster::session_plane::Hlc;

use super::content::effects_of;
use super::{EventContent, Matching, MessageMove, NewChange, Now, Plane, PlaneAction, PlaneValue};
use crate::stream::StreamFull;
use crate::transfer::TransferBytes;
use crate::wire::EventPayload;
use crate::{Dot, MadeEvent, Recipients, SlotSet};

impl<V, M, R> Plane<V, M, R>
where
    V: PlaneValue<M>,
    M: TransferBytes + Clone,
    R: Matching<V, M>,
{
    /// Changes a session in `slots`: that of the client, and the map of routes where they change.
    ///
    /// The dot is reported by [`PlaneAction::Durable`] once all present owners have the change on
    /// their disks, and enough of them.
    ///
    /// # Errors
    ///
    /// [`StreamFull`] where too much is not durable: the client waits.
    ///
    /// # Panics
    ///
    /// If one of the slots does not have such entries ([`MisplacedEntry`](crate::MisplacedEntry)).
    pub fn change(
        &mut self,
        now: Now,
        slots: SlotSet,
        change: NewChange<V>,
        actions: &mut Vec<PlaneAction<V, M>>,
    ) -> Result<MadeEvent, StreamFull> {
        let made = MadeEvent {
            dot: self.next_dot(),
            clock: self.clock.tick(now.wall),
        };
        let content = EventContent::Change(change.made_by(made));
        self.emit(now, slots.into(), content, actions)?;
        Ok(made)
    }

    /// Moves a message of a shared group into the queue of a member's session (rule 86). It is
    /// reported as a change is. From then on the event of the move is that of the message.
    ///
    /// # Errors
    ///
    /// [`StreamFull`] where too much is not durable: the message waits.
    pub fn move_message(
        &mut self,
        now: Now,
        moved: MessageMove<V>,
        actions: &mut Vec<PlaneAction<V, M>>,
    ) -> Result<MadeEvent, StreamFull> {
        let made = MadeEvent {
            dot: self.next_dot(),
            clock: self.clock.tick(now.wall),
        };
        let slots = moved.slots();
        self.emit(now, slots.into(), EventContent::Move(moved), actions)?;
        Ok(made)
    }

    /// Sees a moment: later events of this node have later clocks.
    pub fn see(&mut self, moment: Hlc) {
        self.clock.see(moment);
    }

    /// Publishes a message. It is reported as a change is. [`PlaneAction::Transient`] says that it is for
    /// this node, too.
    ///
    /// # Errors
    ///
    /// [`StreamFull`] where too much is not durable: the publisher waits.
    ///
    /// # Panics
    ///
    /// If one of the slots is that of retained messages.
    pub fn publish(
        &mut self,
        now: Now,
        to: Recipients,
        content: M,
        actions: &mut Vec<PlaneAction<V, M>>,
    ) -> Result<Dot, StreamFull> {
        self.clock.tick(now.wall);
        let nodes = to.nodes.clone();
        self.emit(now, to, EventContent::Message { content, nodes }, actions)
    }

    /// Dot of the next event.
    fn next_dot(&self) -> Dot {
        let last = self.streams.outgoing.last();
        let number = last.number + 1;
        Dot { number, ..last }
    }

    /// Makes an event with the latest clock.
    fn emit(
        &mut self,
        now: Now,
        to: Recipients,
        content: EventContent<V, M>,
        actions: &mut Vec<PlaneAction<V, M>>,
    ) -> Result<Dot, StreamFull> {
        let checked = content.check_slots(&to.slots);
        assert_eq!(checked, Ok(()), "a node knows the kinds that slots have");
        let bytes = content.bytes();
        let payload = self.payload(content);
        let effects = effects_of(self.next_dot(), &payload, &to.slots, self.holdings.owned());
        let transient = self.transient_message(self.next_dot(), &payload);
        let mut durable = Vec::new();
        let outgoing = &mut self.streams.outgoing;
        let dot = outgoing.push(to, payload, bytes, &mut durable)?;
        let taken = self.take_own(dot.number, effects, actions);
        self.end_if_full(taken, actions);
        actions.extend(durable.into_iter().map(PlaneAction::Durable));
        self.settle(now, actions);
        actions.extend(transient);
        Ok(dot)
    }

    /// What goes with an event that is made now, behind the tick of the clock.
    pub(super) fn payload(&self, content: EventContent<V, M>) -> EventPayload<EventContent<V, M>> {
        EventPayload {
            clock: self.clock.latest(),
            known: self.holdings.known().clone(),
            content,
        }
    }
}
