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
const ITEMS: u8 = 33;
const ABOUT_RETAINED: u8 = 9;
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
        (Some(Defect::NoComparisons), Some(ITEMS)) => with_items(&message, &[COMPARE, DIFFERS]),
        (Some(Defect::NoConfirmations), Some(ITEMS)) => with_items(&message, &[CONFIRMED]),
        _ => message,
    }
}

/// What is said of these kinds about retained messages is not understood. (broker/src/routes/messages.rs, broker/src/retained_copies/messages.rs)
fn with_items(message: &Bytes, kinds: &[u8]) -> Bytes {
    const FIRST: usize = KIND + 1 + 4 + 8 + 8;
    const BEFORE_LENGTH: usize = 8;
    let mut changed = message.to_vec();
    let mut at = FIRST;
    while let Some(length) = changed.get(at + BEFORE_LENGTH..at + BEFORE_LENGTH + 4) {
        let length = u32::from_be_bytes([length[0], length[1], length[2], length[3]]) as usize;
        let item = at + BEFORE_LENGTH + 4;
        if changed.get(item) == Some(&ABOUT_RETAINED) && kinds.contains(&changed[item + 2]) {
            changed[item + 2] = u8::MAX;
        }
        at = item + length;
    }
    changed.into()
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
