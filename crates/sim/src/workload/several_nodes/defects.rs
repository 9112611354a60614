//! Defects that are put into messages between nodes, to see that they are found.
//!
//! (state_service/src/service/peers.rs, cluster/src/replica/message.rs)

use bytes::{BufMut, Bytes, BytesMut};
use cluster::NodeId;
use mqtt::retained::Edition;
use protocol::{Hlc, Text, TopicName};
use store::{Command, CommandAction, EntryBuilder};

use super::super::Defect;
use crate::machine::Machine;

const KIND: usize = 5;
const RAFT: u8 = 1;
const COMMANDS: u8 = 2;
const READ_AT: u8 = 4;
const ITEMS: u8 = 33;
const ABOUT_RETAINED: u8 = 9;
const SET: u8 = 1;
const COMPARE: u8 = 2;
const DIFFERS: u8 = 4;
const CONFIRMED: u8 = 11;

/// The message as a node with the defect would have sent it, or understood it. `number`: of the message.
pub(super) fn changed(defect: Option<Defect>, message: Bytes, number: u64) -> Bytes {
    let kind = message.get(KIND).copied();
    match (defect, kind) {
        (Some(Defect::StaleReads), Some(READ_AT)) => without_index(&message),
        (Some(Defect::ForgottenOutcomes), Some(COMMANDS)) => with_commands(&message, forget_outcome),
        (Some(Defect::NoFencing), Some(COMMANDS)) => with_commands(&message, fence_nothing),
        (Some(Defect::ChangedEntries), Some(RAFT)) if number.is_multiple_of(20) => with_other_entry(&message),
        (Some(Defect::NoComparisons), Some(ITEMS)) => with_items(&message, without(&[COMPARE, DIFFERS])),
        (Some(Defect::NoConfirmations), Some(ITEMS)) => with_items(&message, without(&[CONFIRMED])),
        _ => message,
    }
}

/// The message as a node has to understand it that merges by a rule of the published handler (docs/replication.md): copies of a retained message of which it has another
/// one. Retained messages have no vector clocks, so all of them are taken for concurrent.
pub(super) fn heard(defect: Option<Defect>, message: Bytes, by: (NodeId, &Machine)) -> Bytes {
    if message.get(KIND) != Some(&ITEMS) {
        return message;
    }
    match defect {
        Some(Defect::CountedMerges) => with_items(&message, |item| count_merge(item, by)),
        Some(Defect::LocalTies) => with_items(&message, |item| keep_local(item, by)),
        _ => message,
    }
}

/// Who merges counts that as an event of its own: the copy becomes a write of this node, after the one that came.
fn count_merge(item: &mut [u8], (node, machine): (NodeId, &Machine)) {
    let Some((topic, edition)) = edition_in(item) else {
        return;
    };
    let (at, by) = item[edition..].split_at_mut(8);
    let (mut wall, mut writer) = ([0; 8], [0; 8]);
    wall.copy_from_slice(at);
    writer.copy_from_slice(&by[..8]);
    let came = (u64::from_be_bytes(wall), u64::from_be_bytes(writer));
    let is_other = copy_of(machine, &topic)
        .is_some_and(|(edition, _)| (edition.at.to_bits(), edition.by.node.0) != came);
    if is_other {
        at.copy_from_slice(&(came.0 + 1).to_be_bytes());
        by[..8].copy_from_slice(&node.0.to_be_bytes());
    }
}

/// Of two that are both messages, each node keeps its own.
fn keep_local(item: &mut [u8], (_, machine): (NodeId, &Machine)) {
    const HAS_MESSAGE: usize = 8 + 8 + 4;
    let is_tie = edition_in(item).is_some_and(|(topic, edition)| {
        let is_message = item.get(edition + HAS_MESSAGE) == Some(&1);
        is_message && copy_of(machine, &topic).is_some_and(|(_, is_message)| is_message)
    });
    if is_tie {
        item[2] = u8::MAX;
    }
}

/// The topic of a `set` of a retained message, and where its edition begins.
fn edition_in(item: &[u8]) -> Option<(TopicName, usize)> {
    const TOPIC_LENGTH: usize = 4;
    const TOPIC: usize = TOPIC_LENGTH + 2;
    if item.get(..3)? != [ABOUT_RETAINED, 1, SET] {
        return None;
    }
    let length = item.get(TOPIC_LENGTH..TOPIC)?;
    let length = usize::from(u16::from_be_bytes([length[0], length[1]]));
    let topic = Bytes::copy_from_slice(item.get(TOPIC..TOPIC + length)?);
    let topic = TopicName::parse(Text::from_bytes(topic).ok()?).ok()?;
    // Behind the record's version.
    Some((topic, TOPIC + length + 1))
}

/// What a node has of a topic, and whether that is a message.
fn copy_of(machine: &Machine, topic: &TopicName) -> Option<(Edition, bool)> {
    let all = machine.node().retained_editions();
    let (edition, message) = all.get(topic)?;
    Some((*edition, message.is_some()))
}

/// What is said of these kinds about retained messages is not understood.
fn without(kinds: &[u8]) -> impl Fn(&mut [u8]) {
    move |item| {
        if item.first() == Some(&ABOUT_RETAINED) && kinds.contains(&item[2]) {
            item[2] = u8::MAX;
        }
    }
}

/// With other items. (broker/src/routes/messages.rs, broker/src/retained_copies/messages.rs)
fn with_items(message: &Bytes, change: impl Fn(&mut [u8])) -> Bytes {
    const FIRST: usize = KIND + 1 + 4 + 8 + 8;
    const BEFORE_LENGTH: usize = 8;
    let mut changed = message.to_vec();
    let mut at = FIRST;
    while let Some(length) = changed.get(at + BEFORE_LENGTH..at + BEFORE_LENGTH + 4) {
        let length = u32::from_be_bytes([length[0], length[1], length[2], length[3]]) as usize;
        let item = at + BEFORE_LENGTH + 4;
        if let Some(item) = changed.get_mut(item..item + length) {
            change(item);
        }
        at = item + length;
    }
    changed.into()
}

/// "From this index on a read sees everything" becomes "from the first one on".
fn without_index(message: &Bytes) -> Bytes {
    const INDEX: usize = KIND + 1 + 8;
    let mut changed = message.to_vec();
    changed[INDEX..INDEX + 8].fill(0);
    changed.into()
}

fn with_commands(message: &Bytes, change: impl Fn(&mut Command)) -> Bytes {
    let (head, entry) = (&message[..KIND + 2], message.slice(KIND + 2..));
    let Ok(entry) = store::decode_entry(entry) else {
        return message.clone();
    };
    let mut builder = EntryBuilder::new();
    for mut command in entry.commands {
        change(&mut command);
        builder.push(&command);
    }
    let mut changed = BytesMut::from(head);
    changed.put(builder.finish(entry.stamp));
    changed.freeze()
}

fn forget_outcome(command: &mut Command) {
    if let CommandAction::Set { retry, .. } | CommandAction::Delete { retry, .. } = &mut command.action {
        *retry = None;
    }
}

/// Above all tokens of a run.
fn fence_nothing(command: &mut Command) {
    if let CommandAction::Set { fencing, .. } | CommandAction::Delete { fencing, .. } = &mut command.action {
        *fencing = Hlc::parse("1000:0:lock").ok();
    }
}

/// The memory of an outcome, with which a command ends, lasts longer or shorter.
fn with_other_entry(message: &Bytes) -> Bytes {
    const APPEND: u8 = 1;
    const WITHOUT_ENTRIES: usize = KIND + 1 + 3 + 4 + 9 * 8 + 1;
    if message.get(KIND + 2) != Some(&APPEND) || message.len() <= WITHOUT_ENTRIES + 60 {
        return message.clone();
    }
    let mut changed = message.to_vec();
    if let Some(last) = changed.last_mut() {
        *last ^= 1;
    }
    changed.into()
}
