//! Defects that are put into messages between nodes, to see that they are found.
//!
//! (state_service/src/service/peers.rs, cluster/src/replica/message.rs, session_plane/src/wire.rs)

use bytes::{BufMut, Bytes, BytesMut};
use cluster::{GroupId, peer_header};
use protocol::Hlc;
use session_plane::plane::{EventContent, SessionChange};
use session_plane::wire::{Message, ReplicationMessage};
use session_plane::{Fact, VersionVector};
use store::{Command, CommandAction, EntryBuilder};

use super::super::Defect;

const KIND: usize = 5;
const RAFT: u8 = 1;
const COMMANDS: u8 = 2;
const READ_AT: u8 = 4;
/// (broker/src/replication/frames.rs)
const REPLICATION: GroupId = GroupId(u32::MAX - 4);

/// The message as a node with the defect would have sent it, or understood it. `number`: of the message.
pub(super) fn changed(defect: Option<Defect>, message: Bytes, number: u64) -> Bytes {
    if peer_header::group_of(&message) == Ok(REPLICATION) {
        return changed_in_plane(defect, message);
    }
    let kind = message.get(KIND).copied();
    match (defect, kind) {
        (Some(Defect::StaleReads), Some(READ_AT)) => without_index(&message),
        (Some(Defect::ForgottenOutcomes), Some(COMMANDS)) => with_commands(&message, forget_outcome),
        (Some(Defect::NoFencing), Some(COMMANDS)) => with_commands(&message, fence_nothing),
        (Some(Defect::ChangedEntries), Some(RAFT)) if number.is_multiple_of(20) => with_other_entry(&message),
        _ => message,
    }
}

fn changed_in_plane(defect: Option<Defect>, frame: Bytes) -> Bytes {
    match defect {
        Some(Defect::LostClears) => with_plane_message(&frame, lose_clear),
        Some(Defect::LostEntries) => with_plane_message(&frame, lose_entry),
        Some(Defect::LaterEntries) => with_plane_message(&frame, delay_entry),
        Some(Defect::UntoldKnowledge) => with_plane_message(&frame, say_nothing),
        _ => frame,
    }
}

/// Message of the session plane, with values as bytes.
type PlaneMessage = Message<Bytes, Bytes, EventContent<Bytes, Bytes>>;

/// With another message of the session plane, as a node with the defect would have sent it. (broker/src/replication/channel.rs)
fn with_plane_message(frame: &Bytes, change: impl FnOnce(&mut PlaneMessage)) -> Bytes {
    const CHANNEL: usize = 2 * (4 + 8) + 8;
    let (head, body) = frame.split_at((KIND + 1 + CHANNEL).min(frame.len()));
    let Ok(mut message) = PlaneMessage::decode(Bytes::copy_from_slice(body)) else {
        return frame.clone();
    };
    change(&mut message);
    [head, &message.encode()].concat().into()
}

/// An event arrives with nothing that it adds.
fn lose_entry(message: &mut PlaneMessage) {
    if let Message::Replication(ReplicationMessage::Event(next)) = message
        && let EventContent::Change(change) = &mut next.event.payload.content
    {
        change.adds = None;
    }
}

/// The clear of a topic arrives with nothing that it adds or removes.
fn lose_clear(message: &mut PlaneMessage) {
    if let Message::Replication(ReplicationMessage::Event(next)) = message
        && let EventContent::Change(change) = &mut next.event.payload.content
        && change.adds.take_if(|entry| entry.fact == Fact::Cleared).is_some()
    {
        change.removes.clear();
    }
}

/// An entry arrives with a later clock than it was made with.
fn delay_entry(message: &mut PlaneMessage) {
    if let Message::Replication(ReplicationMessage::Event(next)) = message
        && let EventContent::Change(SessionChange {
            adds: Some(entry), ..
        }) = &mut next.event.payload.content
    {
        entry.clock = entry.clock.next();
        next.event.payload.clock = next.event.payload.clock.next();
        entry.birth.clock = entry.clock;
    }
}

/// A node never says what it knows.
fn say_nothing(message: &mut PlaneMessage) {
    if let Message::Replication(ReplicationMessage::Heartbeat(heartbeat)) = message {
        heartbeat.known = VersionVector::default();
    }
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
