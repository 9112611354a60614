//! Entries of connections: what a claim asks to write, as events of the plane.

use crate::connecting::{ConnectionEnd, ConnectionEvent, ConnectionId, SessionBirth, SessionStart, Write};
use crate::plane::{Matching, NewBirth, NewChange, NewEntry, Now, OwnEntry};
use crate::stream::StreamFull;
use crate::transfer::{TransferBytes, TransferValue};
use crate::{Birth, ClientId, Dot, Entry, Fact, MadeEvent, Slot, SlotSet};

use super::Sessions;
use super::acting::Queue;

/// Values of the entries that a CONNECT makes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectionValues<V> {
    /// Of the connection.
    pub connection: V,
    /// Of the session.
    pub session: V,
}

/// Entry that a claim asks to write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct EntryWrite {
    pub(super) connection: ConnectionId,
    pub(super) client: ClientId,
    pub(super) write: Write,
}

/// Connection of a client, by what is written for it.
#[derive(Debug)]
pub(super) struct ClientConnection<V> {
    client: ClientId,
    values: ConnectionValues<V>,
    /// Entry of the connection, once it is made.
    opened: Option<OwnEntry<V>>,
    /// Entry of the session, once it is made.
    pub(super) session: Option<WrittenSession<V>>,
    /// Own events that are not durable.
    pub(super) undurable: usize,
    /// The client has left, or was told to.
    pub(super) is_closing: bool,
}

/// Session's entry that a claim has written.
#[derive(Debug, Clone)]
pub(super) struct WrittenSession<V> {
    pub(super) entry: OwnEntry<V>,
    /// Ring by which it was sent to the owners.
    pub(super) ring: u64,
}

impl<V> ClientConnection<V> {
    pub(super) fn new(client: ClientId, values: ConnectionValues<V>) -> ClientConnection<V> {
        ClientConnection {
            client,
            values,
            opened: None,
            session: None,
            undurable: 0,
            is_closing: false,
        }
    }
}

impl<V: Clone> ClientConnection<V> {
    /// Entry of the connection, for owners that lack it.
    pub(super) fn opened(&self) -> Option<OwnEntry<V>> {
        self.opened.clone()
    }

    fn own(&self, dot: Dot, entry: Entry<V>) -> OwnEntry<V> {
        let client = self.client.clone();
        OwnEntry {
            slot: Slot::of_client(client.as_bytes()),
            client,
            dot,
            entry,
        }
    }
}

impl<V, M, R> Sessions<V, M, R>
where
    V: TransferValue + Ord + Clone,
    M: TransferBytes + Clone,
    R: Matching<V, M>,
{
    /// Makes what waits, as far as the stream has room.
    pub(super) fn write_stalled(&mut self, now: Now, queue: &mut Queue<V, M>) {
        while let Some(next) = self.stalled.pop_front() {
            if self.write_one(now, &next, queue).is_err() {
                self.stalled.push_front(next);
                return;
            }
        }
    }

    /// Makes the event of an entry.
    fn write_one(&mut self, now: Now, write: &EntryWrite, queue: &mut Queue<V, M>) -> Result<(), StreamFull> {
        if let Write::SessionStart(start) = &write.write {
            self.plane.see(start.after);
        }
        let (slots, change) = (slots_of(write), self.new_change(write));
        let made = self.plane.change(now, slots, change, &mut queue.plane)?;
        self.written(write, made, queue);
        Ok(())
    }

    /// Tells the claim what it waits for, and notes what it may be given again.
    fn written(&mut self, write: &EntryWrite, made: MadeEvent, queue: &mut Queue<V, M>) {
        let connection = write.connection;
        let MadeEvent { dot, clock } = made;
        let told = match &write.write {
            Write::Connection => {
                self.note_opened(connection, made);
                Some(ConnectionEvent::Written {
                    connection,
                    dot,
                    clock,
                })
            }
            Write::SessionStart(start) => {
                self.note_session(connection, start, made);
                Some(ConnectionEvent::SessionWritten { connection, dot })
            }
            Write::OlderEnded(_) | Write::SessionEnd(_) => None,
            Write::Closed { .. } => {
                self.clients.remove(&connection);
                queue.closed.push(connection);
                None
            }
        };
        self.note_event(connection, dot);
        if let Some(told) = told {
            self.step(told, queue);
        }
    }

    /// An event of a connection is made, which has not closed until it is durable.
    pub(super) fn note_event(&mut self, connection: ConnectionId, dot: Dot) {
        if let Some(client) = self.clients.get_mut(&connection) {
            client.undurable += 1;
            self.waits.add_event(dot, connection);
        }
    }

    fn note_opened(&mut self, connection: ConnectionId, made: MadeEvent) {
        let Some(client) = self.clients.get_mut(&connection) else {
            return;
        };
        let MadeEvent { dot, clock } = made;
        let entry = Entry {
            birth: Birth {
                dot,
                clock,
                is_clean: false,
            },
            clock,
            fact: Fact::Connection,
            value: client.values.connection.clone(),
        };
        client.opened = Some(client.own(dot, entry));
    }

    fn note_session(&mut self, connection: ConnectionId, start: &SessionStart, made: MadeEvent) {
        let Some(client) = self.clients.get_mut(&connection) else {
            return;
        };
        let MadeEvent { dot, clock } = made;
        let entry = Entry {
            birth: start.birth.at(dot),
            clock,
            fact: Fact::Session,
            value: client.values.session.clone(),
        };
        client.session = Some(WrittenSession {
            entry: client.own(dot, entry),
            ring: self.ring,
        });
    }

    fn new_change(&self, of: &EntryWrite) -> NewChange<V> {
        let values = self.clients.get(&of.connection).map(|client| &client.values);
        let (removes, adds) = match &of.write {
            Write::Connection => {
                let birth = NewBirth::Here {
                    is_clean: false,
                    clock: None,
                };
                let value = values.map(|values| values.connection.clone());
                let fact = Fact::Connection;
                (Vec::new(), value.map(|value| NewEntry { birth, fact, value }))
            }
            Write::OlderEnded(ConnectionEnd { connection, will }) => {
                let connection = *connection;
                let end = will.map(|birth| self.blank(birth, Fact::ConnectionEnd { connection }));
                (vec![connection], end)
            }
            Write::SessionEnd(end) => {
                let left = end.left.clone();
                let left = left.map(|ending| self.blank(ending.birth, ending.fact));
                (end.removes.iter().copied().collect(), left)
            }
            Write::SessionStart(start) => {
                let value = values.map(|values| values.session.clone());
                let (birth, fact) = (new_birth(start.birth), Fact::Session);
                let adds = value.map(|value| NewEntry { birth, fact, value });
                (start.removes.iter().copied().collect(), adds)
            }
            Write::Closed { dot } => (vec![*dot], None),
        };
        let client = of.client.clone();
        NewChange {
            client,
            removes,
            adds,
        }
    }

    /// Entry that says no more than its fact.
    fn blank(&self, birth: Birth, fact: Fact) -> NewEntry<V> {
        NewEntry {
            birth: NewBirth::Of(birth),
            fact,
            value: self.blank.clone(),
        }
    }
}

/// Slots that a write is for: sessions and their ends are in the routes, too.
fn slots_of(write: &EntryWrite) -> SlotSet {
    let is_routed = matches!(write.write, Write::SessionEnd(_) | Write::SessionStart(_));
    let routes = is_routed.then_some(Slot::ROUTES);
    let own = Slot::of_client(write.client.as_bytes());
    routes.into_iter().chain([own]).collect()
}

fn new_birth(birth: SessionBirth) -> NewBirth {
    match birth {
        SessionBirth::Resumed(birth) => NewBirth::Of(birth),
        SessionBirth::New { clock, is_clean } => NewBirth::Here {
            is_clean,
            clock: Some(clock),
        },
    }
}
