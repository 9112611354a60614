//! Gives connections what they are to send: queued message by message, and written once for a whole turn.

use std::rc::Rc;

use cluster::peers::Frame;
use cluster::{NodeId, Outbound};

use super::Shared;
use super::outgoing::Outgoing;
use crate::socket::Written;

impl Shared {
    pub(super) fn send(&self, to: NodeId, message: Outbound) {
        let outgoing = self.outgoing.borrow();
        let Some(outgoing) = outgoing.get(&to) else {
            return self.count_dropped("not_connected", 1);
        };
        let dropped = outgoing.push(message);
        if dropped > 0 {
            self.count_dropped("queue_full", dropped);
        }
        self.mark_dirty(outgoing);
    }

    /// Says something to a node at once, if there is a connection.
    pub(super) fn say(&self, to: NodeId, frame: &Frame) {
        let outgoing = self.outgoing.borrow().get(&to).cloned();
        if let Some(outgoing) = outgoing {
            outgoing.say(frame);
            self.write(&outgoing);
        }
    }

    fn mark_dirty(&self, outgoing: &Rc<Outgoing>) {
        if !outgoing.is_dirty.replace(true) {
            self.dirty.borrow_mut().push(Rc::clone(outgoing));
        }
    }

    pub(super) fn flush(&self) {
        if self.dirty.borrow().is_empty() {
            return;
        }
        let mut dirty = self.dirty.take();
        for outgoing in dirty.drain(..) {
            outgoing.is_dirty.set(false);
            self.write(&outgoing);
        }
        self.dirty.replace(dirty);
    }

    /// Gives a connection what it takes; its task does the rest.
    pub(super) fn write(&self, outgoing: &Outgoing) {
        let mut counts = self.counts.borrow_mut();
        match outgoing.write(&mut self.spare.borrow_mut(), &mut counts.sent) {
            Written::All => {}
            Written::Blocked => outgoing.changed.notify_one(),
            Written::Failed => outgoing.close(),
        }
    }

    fn count_dropped(&self, cause: &'static str, count: u64) {
        *self.counts.borrow_mut().dropped.entry(cause).or_default() += count;
    }
}
