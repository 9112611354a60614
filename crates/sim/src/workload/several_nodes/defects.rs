//! Defects that are put into messages between nodes, to see that they are found.
//!
//! (broker/src/state_store_service/peers.rs, cluster/src/replica/message.rs)

use bytes::{BufMut, Bytes, BytesMut};
use protocol::Hlc;
use store::{Command, CommandAction, EntryBuilder};

use super::super::Defect;

const KIND: usize = 5;
const RAFT: u8 = 1;
const COMMANDS: u8 = 2;
const READ_AT: u8 = 4;

/// The message as a node with the defect would have sent it, or understood it. `number`: of the message.
pub(super) fn changed(defect: Option<Defect>, message: Bytes, number: u64) -> Bytes {
    let kind = message.get(KIND).copied();
    match (defect, kind) {
        (Some(Defect::StaleReads), Some(READ_AT)) => without_index(&message),
        (Some(Defect::ForgottenOutcomes), Some(COMMANDS)) => with_commands(&message, forget_outcome),
        (Some(Defect::NoFencing), Some(COMMANDS)) => with_commands(&message, fence_nothing),
        (Some(Defect::ChangedEntries), Some(RAFT)) if number.is_multiple_of(20) => with_other_entry(&message),
        _ => message,
    }
}

/// "From this index on a read sees everything" becomes "from the first one on".
fn without_index(message: &Bytes) -> Bytes {
    const INDEX_LENGTH: usize = 8;
    let mut changed = message.to_vec();
    let end = changed.len();
    changed[end - INDEX_LENGTH..].fill(0);
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
    changed.put(builder.finish(entry.clock));
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
