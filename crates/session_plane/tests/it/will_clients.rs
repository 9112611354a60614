//! Clients with wills: left when their connection ends, dropped by DISCONNECT 0, and published by the
//! primary owner.
//!
//! In a storm a will may be published on each side of a split. So what is promised of it then is that
//! nothing of it is left at rest. In a cluster that is whole it comes once, or not at all.

use std::collections::BTreeMap;
use std::time::Duration;

use session_plane::sessions::NewWill;
use session_plane::wills::WillEnd;
use session_plane::{EntryKind, Fact, SessionExpiry};

use super::clients::slot;
use super::connections::{CONNECTING, Socket};
use super::machine::{Body, Value};
use super::world::World;

/// Milliseconds of a delay.
const DELAY: u64 = 1_500;

/// Will of a connection.
#[derive(Debug, Clone, Copy)]
struct Will {
    body: u32,
    delay: u64,
}

/// Wills of the connections that nodes have.
#[derive(Debug, Default)]
pub(super) struct WillClients {
    wills: BTreeMap<Socket, Will>,
}

impl World {
    /// Will of a CONNECT, now and then.
    pub(super) fn new_will(&mut self) -> Option<NewWill<Value>> {
        if self.random.once_in(3) {
            return None;
        }
        let delay = if self.random.once_in(2) { DELAY } else { 0 };
        let body = Body(self.publish_will());
        Some(NewWill {
            value: Value::Will(body, delay),
            is_delayed: delay > 0,
        })
    }

    /// The connection of a CONNECT with a will.
    pub(super) fn note_will(&mut self, socket: Socket, will: Option<&NewWill<Value>>) {
        if let Some(Value::Will(Body(body), delay)) = will.map(|will| will.value) {
            self.will_clients.wills.insert(socket, Will { body, delay });
        }
    }

    /// End of a connection by which its will is left.
    pub(super) fn left(&self, socket: Socket) -> WillEnd {
        let will = self.will_clients.wills.get(&socket);
        let is_last = self.expiry_of(socket) == SessionExpiry::WITH_CONNECTION;
        let delay = will.filter(|_| !is_last).map_or(0, |will| will.delay);
        let delay = Duration::from_millis(delay);
        WillEnd::Left { delay }
    }

    /// The client leaves, with DISCONNECT 0 or without.
    pub(super) fn leave(&mut self, socket: Socket) {
        let is_dropped = self.random.once_in(2);
        self.disconnect(socket, is_dropped);
    }

    /// The client leaves, with DISCONNECT 0 if its will is dropped.
    fn disconnect(&mut self, socket: Socket, is_dropped: bool) {
        let will = if is_dropped {
            self.disconnect_with_expiry(socket);
            WillEnd::Dropped
        } else {
            self.left(socket)
        };
        self.close(socket, self.rest_of(socket, will));
    }

    pub(super) fn drop_wills_of(&mut self, id: u64) {
        self.will_clients.wills.retain(|socket, _| socket.node != id);
    }

    /// All connections end in a cluster that is whole: each will comes once, or is dropped.
    pub(super) fn leave_all(&mut self) {
        for number in CONNECTING {
            let Some(socket) = self.live_socket(number) else {
                continue;
            };
            let is_dropped = self.random.once_in(3);
            if let Some(Will { body, .. }) = self.will_clients.wills.get(&socket).copied() {
                self.promise_will(body, socket.node, is_dropped);
            }
            self.disconnect(socket, is_dropped);
        }
    }

    /// At rest wills are those of connections that are open.
    pub(super) fn are_wills_at_rest(&self) -> Result<(), String> {
        for (id, machine) in &self.machines {
            let sessions = machine.sessions.as_ref().ok_or("it is down")?;
            let wills = sessions.wills();
            let (firing, waiting, leaving) = (wills.firing(), wills.waiting(), wills.leaving());
            if firing + waiting + leaving > 0 {
                return Err(format!(
                    "{id}: {firing} wills on their way, {waiting} wait, {leaving} leave"
                ));
            }
            for number in CONNECTING {
                self.are_wills_open(*id, number)?;
            }
        }
        Ok(())
    }

    fn are_wills_open(&self, id: u64, number: u8) -> Result<(), String> {
        let copy = self.machines[&id]
            .plane()
            .and_then(|plane| plane.copy(slot(number)));
        let client = super::clients::client(number);
        let session = copy.and_then(|copy| copy.entries.session(client.as_bytes()));
        let entries = || session.into_iter().flat_map(|session| session.iter());
        for (will, entry) in entries() {
            match &entry.fact {
                Fact::Will(terms) => {
                    let is_open = |(id, _): (session_plane::EntryId, _)| {
                        id.kind == EntryKind::Connection && id.dot == terms.connection
                    };
                    if !entries().any(is_open) {
                        return Err(format!("{id} keeps the will {will:?} of {number}"));
                    }
                }
                Fact::ConnectionEnd { .. } | Fact::WillNumber { .. } => {
                    return Err(format!("{id} keeps {will:?} of {number}"));
                }
                _ => {}
            }
        }
        Ok(())
    }
}
