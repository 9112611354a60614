//! What is put back from a backup.
//!
//! An input is a byte of settings, and then a list of items, each begun by a byte: 0 a retained message, its topic and its record; 1 a session, its client id and its
//! record; 2 to 4 a subscription, a received packet identifier and a delivery of the session before it; 5 a key; 6 a floor, as the version of
//! such a key; 7 puts back what there is so far. Names have a length of one byte, records one of two. Each item is told once what has
//! become of it, no limit is passed but those of a single session, clients get their sessions, and the server finds its way back from its disk.

use std::time::{Duration, Instant};

use broker::backups::{Item, RetainedItem, SessionItem, SessionPart, Tally};
use bytes::Bytes;
use protocol::Text;
use store::KeyRecord;

use super::config;
use super::conversation::{check_limits_of_all, play_machine};
use super::cursor::Cursor;
use super::records::{CLIENTS_MAX, serve};
use crate::machine::Machine;

/// Plays an input. `origin` is any instant; only differences matter. What has become of all items.
pub fn restored(input: &[u8], origin: Instant) -> Tally {
    let mut input = Cursor::new(input);
    let mut machine = Machine::new(config(input.byte()), origin);
    let (mut total, mut client_ids) = (Tally::default(), Vec::new());
    for _ in 0..BATCHES_MAX {
        if input.is_empty() {
            break;
        }
        let items = batch(&mut input);
        client_ids.extend(items.iter().filter_map(client_id));
        add(&mut total, put_back(&mut machine, items));
    }
    client_ids.truncate(CLIENTS_MAX);
    for _ in 0..2 {
        check_limits_of_all(&machine);
        for client_id in &client_ids {
            serve(&mut machine, client_id);
        }
        machine.advance(Duration::from_secs(100_000));
        machine.write_all();
        machine = machine.crash();
    }
    total
}

/// The input that puts back what a server has after this conversation.
pub fn restored_after(conversation: &[u8], origin: Instant) -> Vec<u8> {
    let machine = play_machine(conversation, origin);
    let (node, now) = (machine.node(), machine.now());
    let mut input = vec![0];
    let mut say = |kind: u8, name: &[u8], record: Option<&[u8]>| {
        input.extend([kind, u8::try_from(name.len()).expect("a short name")]);
        input.extend_from_slice(name);
        if let Some(record) = record {
            let length = u16::try_from(record.len()).expect("a short record");
            input.extend(length.to_be_bytes());
            input.extend_from_slice(record);
        }
    };
    for item in node.retained_for_backup(now, &[]).found {
        say(RETAINED, &item.topic, Some(&item.value));
    }
    input
}

/// Items up to the end of a batch.
fn batch(input: &mut Cursor<'_>) -> Vec<Item> {
    let mut items = Vec::new();
    while !input.is_empty() && items.len() < ITEMS_MAX {
        match input.byte() % KINDS {
            RETAINED => items.push(Item::Retained(RetainedItem {
                topic: name(input),
                value: record(input),
            })),
            SESSION => {
                // As the reader of a file: a session of nobody is none.
                let client_id = Text::from_bytes(name(input)).ok();
                let record = record(input);
                if let Some(client_id) = client_id.filter(|client_id| !client_id.is_empty()) {
                    items.push(Item::Session(SessionItem {
                        client_id,
                        record,
                        parts: Vec::new(),
                    }));
                }
            }
            SUBSCRIPTION => add_part(&mut items, SessionPart::Subscription(name(input), record(input))),
            RECEIVED => add_part(&mut items, SessionPart::Received(name(input))),
            DELIVERY => add_part(&mut items, SessionPart::Delivery(name(input), record(input))),
            KEY => items.extend(KeyRecord::decode(record(input)).ok().map(Item::Key)),
            FLOOR => {
                let key = KeyRecord::decode(record(input)).ok();
                items.extend(key.map(|key| Item::Floor(key.version)));
            }
            _ => break,
        }
    }
    items
}

fn add_part(items: &mut [Item], part: SessionPart) {
    if let Some(Item::Session(session)) = items.last_mut() {
        session.parts.push(part);
    }
}

fn put_back(machine: &mut Machine, items: Vec<Item>) -> Tally {
    let groups = u64::from(machine.node().contents().groups);
    let decided = items.iter().map(|item| match item {
        Item::Floor(_) => groups,
        _ => 1,
    });
    let decided: u64 = decided.sum();
    machine.put_back(items);
    machine.write_all();
    let mut told = machine.take_restored();
    let tally = told.pop().expect("it is answered");
    assert!(told.is_empty(), "it is answered once");
    assert_eq!(sum(tally), decided, "{tally:?}");
    tally
}

fn client_id(item: &Item) -> Option<Text> {
    match item {
        Item::Session(session) => Some(session.client_id.clone()),
        _ => None,
    }
}

fn sum(tally: Tally) -> u64 {
    let Tally {
        restored,
        there,
        over,
        refused,
        unreadable,
        in_doubt,
    } = tally;
    restored + there + over + refused + unreadable + in_doubt
}

fn add(total: &mut Tally, tally: Tally) {
    total.restored += tally.restored;
    total.there += tally.there;
    total.over += tally.over;
    total.refused += tally.refused;
    total.unreadable += tally.unreadable;
    total.in_doubt += tally.in_doubt;
}

fn name(input: &mut Cursor<'_>) -> Bytes {
    Bytes::copy_from_slice(input.chunk())
}

fn record(input: &mut Cursor<'_>) -> Bytes {
    Bytes::copy_from_slice(input.long_chunk())
}

const RETAINED: u8 = 0;
const SESSION: u8 = 1;
const SUBSCRIPTION: u8 = 2;
const RECEIVED: u8 = 3;
const DELIVERY: u8 = 4;
const KEY: u8 = 5;
const FLOOR: u8 = 6;
const KINDS: u8 = 8;

const BATCHES_MAX: usize = 4;
const ITEMS_MAX: usize = 64;
