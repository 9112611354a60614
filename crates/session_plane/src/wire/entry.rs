//! Entries, and what is around them: changes, pending messages, single dots.
//!
//! ```text
//! entry | kind of the fact | birth: dot, clock, is_clean | clock | what the fact names | value
//! ```
//!
//! The fields of a fact follow from its kind, so another fact with fields is one arm more.

use cluster::session_plane::Hlc;

use super::content::put_change;
use super::field::Field;
use super::reader::Reader;
use super::writer::Writer;
use super::{Fault, WireError, WireValue};
use crate::plane::SessionChange;
use crate::transfer::{EntryCheck, KeptEntry, ListedEntry, OwnEvent};
use crate::{
    AssignedMessage, Birth, Change, ClientDot, ClientId, ConnectionOrder, Dot, Ended, Entry, EntryId,
    EntryKind, Fact, MemberTerms, Pending, PendingMessage, Run, WillTerms,
};

/// One byte, the number of the kind.
impl Field for EntryKind {
    const BYTES_MIN: usize = 1;

    fn put(&self, writer: &mut Writer) {
        writer.put_byte(self.number());
    }

    fn take(reader: &mut Reader) -> Result<EntryKind, WireError> {
        let found = reader.byte()?;
        EntryKind::of_number(found).ok_or(reader.error(Fault::UnknownForm { found }))
    }
}

impl Field for EntryId {
    const BYTES_MIN: usize = EntryKind::BYTES_MIN + Dot::BYTES_MIN;

    fn put(&self, writer: &mut Writer) {
        writer.put(&self.kind);
        writer.put(&self.dot);
    }

    fn take(reader: &mut Reader) -> Result<EntryId, WireError> {
        Ok(EntryId {
            kind: reader.take("kind of an entry")?,
            dot: reader.take("dot of an entry")?,
        })
    }
}

impl Field for Birth {
    const BYTES_MIN: usize = Dot::BYTES_MIN + Hlc::BYTES_MIN + bool::BYTES_MIN;

    fn put(&self, writer: &mut Writer) {
        writer.put(&self.dot);
        writer.put(&self.clock);
        writer.put(&self.is_clean);
    }

    fn take(reader: &mut Reader) -> Result<Birth, WireError> {
        Ok(Birth {
            dot: reader.take("dot of a birth")?,
            clock: reader.take("clock of a birth")?,
            is_clean: reader.take("clean start of a birth")?,
        })
    }
}

impl Field for ConnectionOrder {
    const BYTES_MIN: usize = Hlc::BYTES_MIN + Run::BYTES_MIN;

    fn put(&self, writer: &mut Writer) {
        writer.put(&self.clock);
        writer.put(&self.run);
    }

    fn take(reader: &mut Reader) -> Result<ConnectionOrder, WireError> {
        Ok(ConnectionOrder {
            clock: reader.take("clock of a connection")?,
            run: reader.take("run of a connection")?,
        })
    }
}

impl<V: WireValue> Field for Entry<V> {
    const BYTES_MIN: usize = EntryKind::BYTES_MIN + Birth::BYTES_MIN + Hlc::BYTES_MIN + 1;

    fn put(&self, writer: &mut Writer) {
        writer.put(&self.fact.kind());
        writer.put(&self.birth);
        writer.put(&self.clock);
        put_fact(writer, &self.fact);
        writer.put_value(&self.value);
    }

    fn take(reader: &mut Reader) -> Result<Entry<V>, WireError> {
        let kind = reader.take("kind of an entry")?;
        Ok(Entry {
            birth: reader.take("birth")?,
            clock: reader.take("clock of an entry")?,
            fact: take_fact(reader, kind)?,
            value: reader.value("value of an entry")?,
        })
    }
}

/// Appends what a fact says beyond its kind.
fn put_fact(writer: &mut Writer, fact: &Fact) {
    match fact {
        Fact::Will(terms) => {
            writer.put(&terms.connection);
            writer.put(&terms.delayed_since);
        }
        Fact::Session { connected } => writer.put(connected),
        Fact::Expiry { connected } => writer.put(connected),
        Fact::ConnectionEnd { connection } => writer.put(connection),
        Fact::WillNumber { will } => writer.put(will),
        Fact::Delivery { message } => writer.put(message),
        Fact::End(ended) => {
            writer.put(ended.seen());
            writer.put(&ended.resumed());
        }
        Fact::Member(terms) => {
            writer.put(&terms.client);
            writer.put(&terms.since);
        }
        Fact::Assignment(assigned) => {
            writer.put(&assigned.message);
            writer.put(&assigned.presence);
        }
        Fact::Connection
        | Fact::Subscription
        | Fact::Message
        | Fact::Received
        | Fact::Presence
        | Fact::Retained
        | Fact::Cleared => {}
    }
}

fn take_fact(reader: &mut Reader, kind: EntryKind) -> Result<Fact, WireError> {
    Ok(match kind {
        EntryKind::Session => Fact::Session {
            connected: reader.take("connection of a session")?,
        },
        EntryKind::Connection => Fact::Connection,
        EntryKind::Will => Fact::Will(Box::new(WillTerms {
            connection: reader.take("connection of a will")?,
            delayed_since: reader.take("delay of a will")?,
        })),
        EntryKind::ConnectionEnd => Fact::ConnectionEnd {
            connection: reader.take("connection that has ended")?,
        },
        EntryKind::WillNumber => Fact::WillNumber {
            will: reader.take("will of a number")?,
        },
        EntryKind::Subscription => Fact::Subscription,
        EntryKind::Message => Fact::Message,
        EntryKind::Delivery => Fact::Delivery {
            message: reader.take("message of a delivery")?,
        },
        EntryKind::Received => Fact::Received,
        EntryKind::Expiry => Fact::Expiry {
            connected: reader.take("connection of an expiry")?,
        },
        EntryKind::End => Fact::End(Box::new(take_ended(reader)?)),
        EntryKind::Member => Fact::Member(Box::new(MemberTerms {
            client: reader.take("client of a member")?,
            since: reader.take("begin of a membership")?,
        })),
        EntryKind::Presence => Fact::Presence,
        EntryKind::Assignment => Fact::Assignment(Box::new(AssignedMessage {
            message: reader.take("message of an assignment")?,
            presence: reader.take("presence of an assignment")?,
        })),
        EntryKind::Retained => Fact::Retained,
        EntryKind::Cleared => Fact::Cleared,
    })
}

fn take_ended(reader: &mut Reader) -> Result<Ended, WireError> {
    let seen = reader.take("events that an end has seen")?;
    let resumed = reader.take("CONNECT that an end has seen")?;
    Ended::new(seen, resumed).map_err(|error| reader.error(error))
}

/// Appends the entry of an event, as a [`ListedEntry`] is.
pub(super) fn put_listed<V: WireValue>(writer: &mut Writer, dot: Dot, entry: &Entry<V>) {
    writer.put(&dot);
    writer.put(entry);
}

impl<V: WireValue> Field for ListedEntry<V> {
    const BYTES_MIN: usize = Dot::BYTES_MIN + Entry::<V>::BYTES_MIN;

    fn put(&self, writer: &mut Writer) {
        put_listed(writer, self.dot, &self.entry);
    }

    fn take(reader: &mut Reader) -> Result<ListedEntry<V>, WireError> {
        Ok(ListedEntry {
            dot: reader.take("dot of an entry")?,
            entry: reader.take("entry")?,
        })
    }
}

impl Field for KeptEntry {
    const BYTES_MIN: usize = EntryId::BYTES_MIN + 4;

    fn put(&self, writer: &mut Writer) {
        writer.put(&self.id);
        writer.put(&self.check);
    }

    fn take(reader: &mut Reader) -> Result<KeptEntry, WireError> {
        Ok(KeptEntry {
            id: reader.take("kept entry")?,
            check: reader.take("check of an entry")?,
        })
    }
}

impl Field for EntryCheck {
    const BYTES_MIN: usize = 4;

    fn put(&self, writer: &mut Writer) {
        writer.put_fixed(&self.0.to_be_bytes());
    }

    fn take(reader: &mut Reader) -> Result<EntryCheck, WireError> {
        Ok(EntryCheck(u32::from_be_bytes(reader.fixed()?)))
    }
}

impl<V: WireValue> Field for Change<V> {
    const BYTES_MIN: usize = Dot::BYTES_MIN + SessionChange::<V>::BYTES_MIN;

    fn put(&self, writer: &mut Writer) {
        writer.put(&self.dot);
        put_change(writer, &self.client, &self.removes, self.adds.as_ref());
    }

    fn take(reader: &mut Reader) -> Result<Change<V>, WireError> {
        let dot = reader.take("dot of a change")?;
        let SessionChange {
            client,
            removes,
            adds,
        } = SessionChange::take(reader)?;
        Ok(Change {
            dot,
            client,
            removes,
            adds,
        })
    }
}

impl<M: WireValue> Field for PendingMessage<M> {
    const BYTES_MIN: usize = Dot::BYTES_MIN + Hlc::BYTES_MIN + 1;

    fn put(&self, writer: &mut Writer) {
        writer.put(&self.dot);
        writer.put(&self.pending.clock);
        writer.put_value(&self.pending.message);
    }

    fn take(reader: &mut Reader) -> Result<PendingMessage<M>, WireError> {
        Ok(PendingMessage {
            dot: reader.take("dot of a pending message")?,
            pending: Pending {
                clock: reader.take("clock of a pending message")?,
                message: reader.value("content of a pending message")?,
            },
        })
    }
}

impl Field for ClientDot {
    const BYTES_MIN: usize = ClientId::BYTES_MIN + Dot::BYTES_MIN;

    fn put(&self, writer: &mut Writer) {
        writer.put(&self.client);
        writer.put(&self.dot);
    }

    fn take(reader: &mut Reader) -> Result<ClientDot, WireError> {
        Ok(ClientDot {
            client: reader.take("client of a single dot")?,
            dot: reader.take("single dot")?,
        })
    }
}

impl<V: WireValue, M: WireValue> Field for OwnEvent<V, M> {
    const BYTES_MIN: usize = 1 + Change::<V>::BYTES_MIN;

    fn put(&self, writer: &mut Writer) {
        match self {
            OwnEvent::Change(change) => {
                writer.put_byte(0);
                writer.put(change);
            }
            OwnEvent::Message(message) => {
                writer.put_byte(1);
                writer.put(message);
            }
        }
    }

    fn take(reader: &mut Reader) -> Result<OwnEvent<V, M>, WireError> {
        Ok(match reader.byte()? {
            0 => OwnEvent::Change(reader.take("change")?),
            1 => OwnEvent::Message(reader.take("pending message")?),
            found => return Err(reader.error(Fault::UnknownForm { found })),
        })
    }
}
