//! Pauses of clients that publish faster than they may (`mqtt/src/pacing.rs`).

use mqtt::ids::ConnectionId;
use mqtt::now::Now;

use crate::node::{Action, Node, TimerKey};

impl Node {
    /// Takes note of a PUBLISH of so many bytes, and stops reading from a client that is too fast.
    pub(crate) fn pace(&mut self, now: Now, id: ConnectionId, bytes: usize) {
        let Some(connection) = self.connections.get_mut(id) else {
            return;
        };
        let Some(pace) = &mut connection.pace else { return };
        if let Some(until) = pace.take(now.instant, bytes) {
            if !std::mem::replace(&mut pace.is_paused, true) {
                self.counters.paced += 1;
            }
            self.timers.schedule(TimerKey::Pace(id), until);
        }
    }

    /// The client has waited long enough.
    pub(crate) fn end_pause(&mut self, now: Now, id: ConnectionId, actions: &mut Vec<Action>) {
        let Some(connection) = self.connections.get_mut(id) else {
            return;
        };
        if let Some(pace) = &mut connection.pace {
            pace.is_paused = false;
            // It could not be heard; its silence begins now.
            connection.last_received = now.instant;
            actions.push(Action::Resume { connection: id });
        }
    }
}
