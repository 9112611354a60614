//! Log entries: one batch of commands, as it lies in the log and goes to other replicas.
//!
//! Versions 3 and 4, with the numbers and byte strings of `codec.rs`:
//!
//! ```text
//! entry    = version  clock time (8 bytes each, big endian: stamp.rs)  command*
//!            in versions 1 and 2: one clock, which is the time as well; a retry has the time until which it is remembered
//! version  = 0x03, or 0x04: every replica that takes the entry has it on disk before it says so, whatever its durability
//! command  = kind  node incarnation request (numbers: the origin)  fields
//! kind 1   SET               flags key value [condition value] [expires in] timestamp [fencing] [retry]
//!                            flags: bits 0-1 condition (none, NX, NEX, NEX value), 2 expires, 3 fencing, 4 retry
//! kind 2   DELETE            flags key [only if] [timestamp] [fencing] [retry]
//!                            flags: bit 0 only if, 1 timestamp, 2 fencing, 3 retry
//! kind 3   WATCH             flags key watcher dialect [retry]      flags: bit 0 retry
//! kind 4   UNWATCH           flags key watcher [retry]              flags: bit 0 retry
//! kind 5   END WATCHES       watcher
//! kind 6   END INCARNATIONS  node below
//! kind 7   EXPIRE            count key*
//! kind 8   CONFIGURE         keys_max bytes_max
//! kind 9   REINSTATE         a key as snapshots have it (snapshot.rs)
//! kind 10  RAISE FLOOR       version
//! watcher  = node incarnation connection
//! retry    = hash (16 bytes) remembered
//! ```
//!
//! Checksums are the business of the log that holds the entry. A command has one encoding, and what decodes is
//! within the bounds that the store relies on.

use bytes::{BufMut, Bytes, BytesMut};
use protocol::state_store::Condition;

use crate::codec::{self, Damaged, Source};
use crate::command::{Command, CommandAction, Origin};
use crate::key_record::KeyRecord;
use crate::stamp::Stamp;
use crate::version::WALL_MAX;

/// Collects the commands of one log entry.
#[derive(Debug)]
pub struct EntryBuilder {
    bytes: BytesMut,
}

/// A decoded log entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The leader's clocks when it proposed the entry.
    pub stamp: Stamp,
    /// The commands, in order. Keys and values share the entry's memory. A value of a mebibyte or more has its own, unless it is
    /// nearly all of the entry.
    pub commands: Vec<Command>,
}

/// Why bytes are no log entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum EntryError {
    /// Written by a version of this program that is not known here.
    #[error("the log entry has the unknown format version {version}")]
    UnknownVersion {
        /// Its first byte.
        version: u8,
    },
    /// Cut off, or not what was ever written.
    #[error("the log entry is damaged")]
    Damaged,
}

impl EntryBuilder {
    /// An entry without commands.
    pub fn new() -> Self {
        let mut bytes = BytesMut::with_capacity(CAPACITY);
        bytes.put_u8(VERSION);
        bytes.put_bytes(0, HEADER_LENGTH - 1);
        Self { bytes }
    }

    /// Adds a command.
    pub fn push(&mut self, command: &Command) {
        put_command(&mut self.bytes, command);
    }

    /// A command asks for the disk: that of every replica that takes the entry.
    pub fn ask_for_disk(&mut self) {
        self.bytes[0] = VERSION_FOR_DISK;
    }

    /// How long the entry is so far.
    pub fn len_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// True if no command was added.
    pub fn is_empty(&self) -> bool {
        self.bytes.len() == HEADER_LENGTH
    }

    /// The entry's bytes, proposed at this moment (each clock at most [`WALL_MAX`]). It holds for all commands: none of them
    /// came later.
    pub fn finish(mut self, stamp: Stamp) -> Bytes {
        assert!(
            stamp.clock.max(stamp.time) <= WALL_MAX,
            "a clock that far ahead cannot be decoded again"
        );
        self.bytes[1..9].copy_from_slice(&stamp.clock.to_be_bytes());
        self.bytes[9..HEADER_LENGTH].copy_from_slice(&stamp.time.to_be_bytes());
        self.bytes.freeze()
    }
}

impl Default for EntryBuilder {
    fn default() -> Self {
        Self::new()
    }
}

/// Decodes a log entry.
pub fn decode_entry(entry: Bytes) -> Result<Entry, EntryError> {
    let length = entry.len();
    let mut source = entry;
    let decoded = match source.byte() {
        Ok(VERSION | VERSION_FOR_DISK) => decode_fields(&mut source),
        Ok(VERSION_OF_ONE_CLOCK | VERSION_OF_ONE_CLOCK_FOR_DISK) => decode_of_one_clock(&mut source),
        Ok(version) => return Err(EntryError::UnknownVersion { version }),
        Err(Damaged) => Err(Damaged),
    };
    let mut entry = decoded.map_err(|Damaged| EntryError::Damaged)?;
    detach(&mut entry.commands, length);
    Ok(entry)
}

/// Whether who takes an entry has to have it on disk.
pub fn asks_for_disk(entry: &[u8]) -> bool {
    matches!(
        entry.first(),
        Some(&(VERSION_FOR_DISK | VERSION_OF_ONE_CLOCK_FOR_DISK))
    )
}

fn decode_fields(source: &mut Bytes) -> Result<Entry, Damaged> {
    let stamp = Stamp {
        clock: clock(source)?,
        time: clock(source)?,
    };
    let commands = commands(source)?;
    Ok(Entry { stamp, commands })
}

/// Gives large values memory of their own, unless they are nearly all of an entry of so many bytes. The store keeps them where
/// they are, and what else is there would be held uncounted.
fn detach(commands: &mut [Command], length: usize) {
    for command in commands {
        if let CommandAction::Set { value, .. } = &mut command.action
            && value.len() >= KEPT_MIN
            && length - value.len() > value.len() / UNCOUNTED_PART
        {
            *value = Bytes::copy_from_slice(value);
        }
    }
}

/// What was written before deadlines had a clock of their own.
fn decode_of_one_clock(source: &mut Bytes) -> Result<Entry, Damaged> {
    let clock = clock(source)?;
    let mut commands = commands(source)?;
    for retry in commands
        .iter_mut()
        .filter_map(|command| command.action.retry_mut())
    {
        retry.remembered = retry.remembered.saturating_sub(clock);
    }
    let stamp = Stamp::first(clock);
    Ok(Entry { stamp, commands })
}

fn commands(source: &mut Bytes) -> Result<Vec<Command>, Damaged> {
    let mut commands = Vec::new();
    while !source.is_empty() {
        commands.push(command(source)?);
    }
    Ok(commands)
}

fn clock(source: &mut Bytes) -> Result<u64, Damaged> {
    let bytes = source.take(8)?;
    let clock = u64::from_be_bytes(bytes.as_ref().try_into().map_err(|_| Damaged)?);
    if clock <= WALL_MAX {
        Ok(clock)
    } else {
        Err(Damaged)
    }
}

fn put_command(out: &mut BytesMut, command: &Command) {
    out.put_u8(match &command.action {
        CommandAction::Set { .. } => 1,
        CommandAction::Delete { .. } => 2,
        CommandAction::Watch { .. } => 3,
        CommandAction::Unwatch { .. } => 4,
        CommandAction::EndWatches { .. } => 5,
        CommandAction::EndIncarnations { .. } => 6,
        CommandAction::Expire { .. } => 7,
        CommandAction::Configure { .. } => 8,
        CommandAction::Reinstate { .. } => 9,
        CommandAction::RaiseFloor { .. } => 10,
    });
    codec::put_number(out, command.origin.node);
    codec::put_number(out, u64::from(command.origin.incarnation));
    codec::put_number(out, command.origin.request);
    match &command.action {
        CommandAction::Set { .. } => put_set(out, &command.action),
        CommandAction::Delete {
            key,
            only_if,
            timestamp,
            fencing,
            retry,
        } => {
            let present = [
                only_if.is_some(),
                timestamp.is_some(),
                fencing.is_some(),
                retry.is_some(),
            ];
            out.put_u8(flags(present));
            codec::put_bytes(out, key);
            put_optional(out, only_if.as_deref(), codec::put_bytes);
            put_optional(out, timestamp.as_ref(), codec::put_hlc);
            put_optional(out, fencing.as_ref(), codec::put_hlc);
            put_optional(out, retry.as_ref(), codec::put_retry);
        }
        CommandAction::Watch {
            key,
            watcher,
            dialect,
            retry,
        } => {
            out.put_u8(flags([retry.is_some()]));
            codec::put_bytes(out, key);
            codec::put_watcher(out, *watcher);
            codec::put_dialect(out, *dialect);
            put_optional(out, retry.as_ref(), codec::put_retry);
        }
        CommandAction::Unwatch { key, watcher, retry } => {
            out.put_u8(flags([retry.is_some()]));
            codec::put_bytes(out, key);
            codec::put_watcher(out, *watcher);
            put_optional(out, retry.as_ref(), codec::put_retry);
        }
        CommandAction::EndWatches { watcher } => codec::put_watcher(out, *watcher),
        CommandAction::EndIncarnations { node, below } => {
            codec::put_number(out, *node);
            codec::put_number(out, u64::from(*below));
        }
        CommandAction::Expire { keys } => {
            codec::put_number(out, keys.len() as u64);
            for key in keys {
                codec::put_bytes(out, key);
            }
        }
        CommandAction::Configure { quota } => codec::put_quota(out, *quota),
        CommandAction::Reinstate { record } => record.put(out),
        CommandAction::RaiseFloor { floor } => codec::put_version(out, *floor),
    }
}

fn put_set(out: &mut BytesMut, action: &CommandAction) {
    let CommandAction::Set {
        key,
        value,
        condition,
        expires_in,
        timestamp,
        fencing,
        retry,
    } = action
    else {
        return;
    };
    let condition_bits = match condition {
        Condition::None => 0,
        Condition::NotExists => 1,
        Condition::NotExistsOrEqual => 2,
        Condition::NotExistsOrEqualTo(_) => CONDITION_EQUAL_TO,
    };
    let present = [expires_in.is_some(), fencing.is_some(), retry.is_some()];
    // At once: what follows a large value would double its memory, and copy it.
    out.reserve(key.len() + value.len() + SET_REST);
    out.put_u8(condition_bits | flags(present) << 2);
    codec::put_bytes(out, key);
    codec::put_bytes(out, value);
    if let Condition::NotExistsOrEqualTo(value) = condition {
        codec::put_bytes(out, value);
    }
    put_optional(out, *expires_in, codec::put_number);
    codec::put_hlc(out, timestamp);
    put_optional(out, fencing.as_ref(), codec::put_hlc);
    put_optional(out, retry.as_ref(), codec::put_retry);
}

fn command(source: &mut Bytes) -> Result<Command, Damaged> {
    let kind = source.byte()?;
    let origin = Origin {
        node: codec::number(source)?,
        incarnation: codec::small_number(source)?,
        request: codec::number(source)?,
    };
    let action = match kind {
        1 => set(source)?,
        2 => delete(source)?,
        3 => {
            let [has_retry] = present(source.byte()?)?;
            CommandAction::Watch {
                key: codec::key(source)?,
                watcher: codec::watcher(source)?,
                dialect: codec::dialect(source)?,
                retry: optional(source, has_retry, codec::retry)?,
            }
        }
        4 => {
            let [has_retry] = present(source.byte()?)?;
            CommandAction::Unwatch {
                key: codec::key(source)?,
                watcher: codec::watcher(source)?,
                retry: optional(source, has_retry, codec::retry)?,
            }
        }
        5 => CommandAction::EndWatches {
            watcher: codec::watcher(source)?,
        },
        6 => CommandAction::EndIncarnations {
            node: codec::number(source)?,
            below: codec::small_number(source)?,
        },
        7 => {
            let count = codec::number(source)?;
            let mut keys = Vec::new();
            for _ in 0..count {
                keys.push(codec::key(source)?);
            }
            CommandAction::Expire { keys }
        }
        8 => CommandAction::Configure {
            quota: codec::quota(source)?,
        },
        9 => CommandAction::Reinstate {
            record: KeyRecord::read(source)?,
        },
        10 => CommandAction::RaiseFloor {
            floor: codec::version(source)?,
        },
        _ => return Err(Damaged),
    };
    Ok(Command { origin, action })
}

fn set(source: &mut Bytes) -> Result<CommandAction, Damaged> {
    let flags = source.byte()?;
    let [has_expiry, has_fencing, has_retry] = present(flags >> 2)?;
    let key = codec::key(source)?;
    let value = codec::bytes(source)?;
    let condition = match flags & CONDITION_BITS {
        0 => Condition::None,
        1 => Condition::NotExists,
        2 => Condition::NotExistsOrEqual,
        _ => Condition::NotExistsOrEqualTo(codec::bytes(source)?),
    };
    Ok(CommandAction::Set {
        key,
        value,
        condition,
        expires_in: optional(source, has_expiry, codec::number)?,
        timestamp: codec::hlc(source)?,
        fencing: optional(source, has_fencing, codec::hlc)?,
        retry: optional(source, has_retry, codec::retry)?,
    })
}

fn delete(source: &mut Bytes) -> Result<CommandAction, Damaged> {
    let [has_only_if, has_timestamp, has_fencing, has_retry] = present(source.byte()?)?;
    Ok(CommandAction::Delete {
        key: codec::key(source)?,
        only_if: optional(source, has_only_if, codec::bytes)?,
        timestamp: optional(source, has_timestamp, codec::hlc)?,
        fencing: optional(source, has_fencing, codec::hlc)?,
        retry: optional(source, has_retry, codec::retry)?,
    })
}

/// One bit for each field that may be there, the first in the lowest.
fn flags<const COUNT: usize>(present: [bool; COUNT]) -> u8 {
    present
        .iter()
        .rev()
        .fold(0, |flags, is_present| flags << 1 | u8::from(*is_present))
}

fn present<const COUNT: usize>(flags: u8) -> Result<[bool; COUNT], Damaged> {
    if flags >> COUNT != 0 {
        return Err(Damaged);
    }
    Ok(std::array::from_fn(|bit| flags >> bit & 1 == 1))
}

fn put_optional<T>(out: &mut BytesMut, field: Option<T>, put: impl FnOnce(&mut BytesMut, T)) {
    if let Some(field) = field {
        put(out, field);
    }
}

fn optional<T>(
    source: &mut Bytes,
    is_present: bool,
    read: impl FnOnce(&mut Bytes) -> Result<T, Damaged>,
) -> Result<Option<T>, Damaged> {
    if is_present {
        read(source).map(Some)
    } else {
        Ok(None)
    }
}

/// The format that is written.
const VERSION: u8 = 3;

/// The same, of an entry that asks for the disk.
const VERSION_FOR_DISK: u8 = 4;

/// Those that were written before.
const VERSION_OF_ONE_CLOCK: u8 = 1;
const VERSION_OF_ONE_CLOCK_FOR_DISK: u8 = 2;

/// Version and stamp.
const HEADER_LENGTH: usize = 1 + 8 + 8;

/// Room for the commands that usually travel together.
const CAPACITY: usize = 4 * 1_024;

/// Room for what a SET has beside key and value, unless a condition names another value.
const SET_REST: usize = 256;

/// Values from this size on are kept in the memory of their entry: copying one would take longer than everything else that is
/// done with it.
pub(crate) const KEPT_MIN: usize = 1 << 20;

/// Of a value that is kept in its entry, one part in so many may be there beside it.
const UNCOUNTED_PART: usize = 16;

const CONDITION_BITS: u8 = 0b11;
const CONDITION_EQUAL_TO: u8 = 3;

#[cfg(test)]
mod tests;
