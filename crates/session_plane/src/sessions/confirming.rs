//! Waits for all present nodes: events of this run that everybody is to know before something is told.
//!
//! The owners have an event when it is durable. The others have confirmed the stream up to it.

use super::acting::Queue;
use super::waits::{AllNodesWait, GroupWait};
use super::{Sessions, SessionsValue};
use crate::Dot;
use crate::groups::{SinkEvent, SourceEvent};
use crate::plane::Matching;
use crate::transfer::TransferBytes;

impl<V, M, R> Sessions<V, M, R>
where
    V: SessionsValue<M>,
    M: TransferBytes + Clone,
    R: Matching<V, M>,
{
    /// Waits until an event of this run is durable, and every present node has confirmed it.
    pub(super) fn await_all_nodes(&mut self, event: Dot, wait: AllNodesWait, queue: &mut Queue<V, M>) {
        if self.waits.has_event(event) {
            self.waits.add_group(event, GroupWait::AllNodes(wait));
        } else if self.plane.stable() >= event.number {
            self.end_all_nodes_wait(event, wait, queue);
        } else {
            self.waits.add_unconfirmed(event, wait);
        }
    }

    /// Ends the waits for nodes that have confirmed the stream further.
    pub(super) fn end_confirmed(&mut self, queue: &mut Queue<V, M>) {
        let run = self.plane.run();
        for (number, wait) in self.waits.take_confirmed(self.plane.stable()) {
            self.end_all_nodes_wait(Dot { run, number }, wait, queue);
        }
    }

    fn end_all_nodes_wait(&mut self, event: Dot, wait: AllNodesWait, queue: &mut Queue<V, M>) {
        match wait {
            AllNodesWait::Number(wait) => self.tell_stored(wait, queue),
            AllNodesWait::Assignment { place, message } => {
                let slot = place.slot;
                let known = SourceEvent::Known {
                    place,
                    message,
                    assignment: event,
                };
                self.tell_part(slot, known, queue);
            }
            AllNodesWait::Acknowledgement {
                connection,
                group,
                message,
            } => {
                let known = SinkEvent::AcknowledgementKnown {
                    connection,
                    group,
                    message,
                };
                self.step_members(known, queue);
            }
            AllNodesWait::Move(wait) => self.end_move(event, wait, queue),
        }
    }
}
