//! All sockets by connection id.

use std::rc::Rc;

use mqtt::ids::ConnectionId;

use crate::socket::Socket;

/// A connection id is a slot and how often any slot was given out, so that none is ever used twice.
#[derive(Debug, Default)]
pub(crate) struct Sockets {
    slots: Vec<Option<Rc<Socket>>>,
    free: Vec<u32>,
    generation: u32,
}

impl Sockets {
    /// A new id, whose slot stays taken until [`Sockets::remove`].
    pub(crate) fn reserve(&mut self) -> ConnectionId {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            u32::try_from(self.slots.len() - 1).expect("fewer than 2^32 sockets")
        });
        self.generation = self.generation.wrapping_add(1);
        ConnectionId::new(self.generation, slot)
    }

    pub(crate) fn insert(&mut self, socket: Rc<Socket>) {
        let slot = socket.id.slot();
        self.slots[slot] = Some(socket);
    }

    pub(crate) fn get(&self, id: ConnectionId) -> Option<&Rc<Socket>> {
        self.slots
            .get(id.slot())?
            .as_ref()
            .filter(|socket| socket.id == id)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Rc<Socket>> {
        self.slots.iter().flatten()
    }

    pub(crate) fn remove(&mut self, id: ConnectionId) {
        if self.get(id).is_some() {
            self.slots[id.slot()] = None;
            self.free
                .push(u32::try_from(id.slot()).expect("fewer than 2^32 sockets"));
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }
}
