//! Messages for one session alone, as a node enqueues retained messages on SUBSCRIBE. They are promised to that
//! client as published ones are.

use std::collections::BTreeSet;

use super::clients::Waiting;
use super::connections::CONNECTING;
use super::machine::{Body, Value};
use super::world::World;

impl World {
    pub(super) fn act_as_enqueueing(&mut self) {
        let number = CONNECTING.start + u8::try_from(self.random.below(3)).expect("few");
        if self.random.once_in(16) {
            self.enqueue(number);
        }
    }

    /// Enqueues a message for each client that is connected.
    pub(super) fn enqueue_everywhere(&mut self) {
        CONNECTING.for_each(|number| self.enqueue(number));
    }

    fn enqueue(&mut self, number: u8) {
        let Some(socket) = self.live_socket(number) else {
            return;
        };
        if !self.machines[&socket.node].is_up(self.now) {
            return;
        }
        let value = Value::Message(Body(self.next_body()));
        let is_promised = !self.may_expire(number);
        let mut made = None;
        self.with_sessions(socket.node, |sessions, at, actions| {
            made = sessions.enqueue(at, socket.connection, value, actions).ok();
        });
        if let Some(made) = made.flatten() {
            let clients = BTreeSet::from_iter(is_promised.then_some(number));
            self.wait_for(made.dot, Waiting::Publish { clients });
        }
    }
}
