//! What must hold whatever nodes write, whenever they hear of it, however often and in whichever order.

mod encodings;
mod kinds;
mod laws;
mod nodes;
mod published;
mod rings;
mod world;

use bytes::Bytes;

use super::queue::Queued;
use super::received::ReceivedId;
use super::record::Value;
use super::session::{Connection, Presence, SessionState};
use super::subscriptions::Subscription;
use super::will::{WillStage, WillState};
use super::*;
use crate::{Incarnation, NodeId};

fn actor(node: u64, incarnation: u32) -> Actor {
    Actor {
        node: NodeId(node),
        incarnation: Incarnation(incarnation),
    }
}

fn writer(node: u64) -> Writer {
    Writer::new(actor(node, 1))
}

fn connection(number: u64) -> Connection {
    Connection {
        front: actor(number % 3 + 1, 1),
        number,
    }
}

/// A value of its own for each number, so that it can be told from all others.
trait Numbered: Value + std::fmt::Debug {
    fn numbered(number: u64) -> Self;

    /// What the home does, of all that it can do, as `choice` says. `number` was never used before.
    fn act(
        record: &mut Record<Self>,
        writer: &mut Writer,
        wall: u64,
        choice: u8,
        number: u64,
    ) -> Option<Delta<Self>>;
}

impl Numbered for SessionState {
    fn numbered(number: u64) -> SessionState {
        let presence = match number % 2 {
            0 => Presence::Disconnected,
            _ => Presence::Connected(connection(number)),
        };
        SessionState {
            presence,
            expiry: 60,
            attributes: Bytes::copy_from_slice(&number.to_be_bytes()),
        }
    }

    fn act(
        record: &mut Record<Self>,
        writer: &mut Writer,
        wall: u64,
        choice: u8,
        number: u64,
    ) -> Option<Delta<Self>> {
        match choice % 4 {
            0 => end(record, writer, wall),
            _ => Some(record.replace(writer, wall, Self::numbered(number)).unwrap()),
        }
    }
}

impl Numbered for Subscription {
    fn numbered(number: u64) -> Subscription {
        Subscription {
            filter: Bytes::copy_from_slice(&[(number % 3) as u8]),
            options: Bytes::copy_from_slice(&number.to_be_bytes()),
        }
    }

    fn act(
        record: &mut Record<Self>,
        writer: &mut Writer,
        wall: u64,
        choice: u8,
        number: u64,
    ) -> Option<Delta<Self>> {
        match choice % 8 {
            0 => end(record, writer, wall),
            1 | 2 => {
                let filter = Self::numbered(number).filter;
                record.unsubscribe(writer, wall, &filter).unwrap()
            }
            _ => Some(record.subscribe(writer, wall, Self::numbered(number)).unwrap()),
        }
    }
}

impl Numbered for Queued {
    fn numbered(number: u64) -> Queued {
        Queued::Message(Bytes::copy_from_slice(&number.to_be_bytes()))
    }

    fn act(
        record: &mut Record<Self>,
        writer: &mut Writer,
        wall: u64,
        choice: u8,
        number: u64,
    ) -> Option<Delta<Self>> {
        let some = record
            .entries()
            .nth(usize::from(choice / 8))
            .map(|entry| entry.dot);
        match choice % 8 {
            0 => {
                let half = record.entries().step_by(2).map(|entry| entry.dot);
                let half: Vec<Dot> = half.collect();
                record.acknowledge(writer, wall, half).unwrap()
            }
            1 | 2 => record.acknowledge(writer, wall, some).unwrap(),
            3 => record.release(writer, wall, some?, number as u16).unwrap(),
            _ => {
                let messages = (0..u64::from(choice % 3) + 1).map(|nth| (number << 8) + nth);
                let messages = messages.map(|message| Bytes::copy_from_slice(&message.to_be_bytes()));
                Some(record.enqueue(writer, wall, messages).unwrap())
            }
        }
    }
}

impl Numbered for ReceivedId {
    fn numbered(number: u64) -> ReceivedId {
        ReceivedId(number as u16 % 4)
    }

    fn act(
        record: &mut Record<Self>,
        writer: &mut Writer,
        wall: u64,
        choice: u8,
        number: u64,
    ) -> Option<Delta<Self>> {
        let id = Self::numbered(number);
        match choice % 2 {
            0 => record.receive(writer, wall, id).unwrap(),
            _ => record.release_id(writer, wall, id).unwrap(),
        }
    }
}

impl Numbered for WillState {
    fn numbered(number: u64) -> WillState {
        WillState {
            connection: connection(number),
            stage: WillStage::Armed,
        }
    }

    fn act(
        record: &mut Record<Self>,
        writer: &mut Writer,
        wall: u64,
        choice: u8,
        number: u64,
    ) -> Option<Delta<Self>> {
        let stage = match choice % 8 {
            0 => return end(record, writer, wall),
            1 | 2 => WillStage::Firing,
            3 => WillStage::Cancelled,
            4 => WillStage::Fired,
            _ => return Some(record.arm(writer, wall, connection(number)).unwrap()),
        };
        let some = record
            .entries()
            .nth(usize::from(choice / 128))
            .map(|entry| entry.value.connection)?;
        record.go_on(writer, wall, some, stage).unwrap()
    }
}

/// Removes everything.
fn end<V: Value>(record: &mut Record<V>, writer: &mut Writer, wall: u64) -> Option<Delta<V>> {
    let dots = record.all_dots();
    (!dots.is_empty()).then(|| record.write(writer, wall, dots, Vec::new()).unwrap())
}

fn joined<V: Value>(one: &Record<V>, other: &Record<V>) -> Record<V> {
    let mut one = one.clone();
    one.merge(other).unwrap();
    one
}
