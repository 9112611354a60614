//! Turns writes into one batch of the engine, in which every key stands once: the engine does not say which of two
//! operations on the same key in a batch wins.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use bytes::Bytes;
use cluster::replica::record;
use cluster::{Index, Keyspace, Write};
use fjall::OwnedWriteBatch;

use super::Engine;
use crate::{Fault, Storage as _};

/// Log entries are removed without being looked up when a range holds at most this many.
const LISTED_MAX: u64 = 1 << 16;

/// What happens to a key.
enum Operation {
    Put(Bytes),
    Remove,
    RemoveOnce,
}

type Operations = BTreeMap<(Keyspace, Bytes), Operation>;

/// The batch that has the effect of `writes`, in their order.
pub(super) fn collect(engine: &Engine, writes: &[Write]) -> Result<OwnedWriteBatch, Fault> {
    if let [Write::Put { keyspace, key, value }] = writes {
        let mut batch = OwnedWriteBatch::with_capacity(engine.database.clone(), 1);
        batch.insert(engine.keyspace(*keyspace), key.clone(), value.clone());
        return Ok(batch);
    }
    let mut operations = Operations::new();
    for write in writes {
        match write {
            Write::Put { keyspace, key, value } => {
                let before = operations.insert((*keyspace, key.clone()), Operation::Put(value.clone()));
                let reused = matches!(before, Some(Operation::RemoveOnce));
                assert!(
                    !reused,
                    "a key of {keyspace:?} was put again together with its RemoveOnce"
                );
            }
            Write::Remove { keyspace, key } => {
                operations.insert((*keyspace, key.clone()), Operation::Remove);
            }
            Write::RemoveOnce { keyspace, key } => remove_once(&mut operations, *keyspace, key.clone()),
            Write::RemoveRange { keyspace, from, to } => {
                remove_range(engine, &mut operations, (*keyspace, from, to), false)?;
            }
            Write::RemoveRangeOnce { keyspace, from, to } => {
                remove_range(engine, &mut operations, (*keyspace, from, to), true)?;
            }
        }
    }
    let mut batch = OwnedWriteBatch::with_capacity(engine.database.clone(), operations.len());
    for ((keyspace, key), operation) in operations {
        let keyspace = engine.keyspace(keyspace);
        match operation {
            Operation::Put(value) => batch.insert(keyspace, key, value),
            Operation::Remove => batch.remove(keyspace, key),
            Operation::RemoveOnce => batch.remove_weak(keyspace, key),
        }
    }
    Ok(batch)
}

/// A key that was put once, in this very batch, need not be written at all.
fn remove_once(operations: &mut Operations, keyspace: Keyspace, key: Bytes) {
    let place = (keyspace, key);
    match operations.get(&place) {
        Some(Operation::Put(_)) => {
            operations.remove(&place);
        }
        Some(Operation::Remove | Operation::RemoveOnce) => {}
        None => {
            operations.insert(place, Operation::RemoveOnce);
        }
    }
}

fn remove_range(
    engine: &Engine,
    operations: &mut Operations,
    (keyspace, from, to): (Keyspace, &Bytes, &Bytes),
    once: bool,
) -> Result<(), Fault> {
    if to <= from {
        return Ok(());
    }
    let in_batch: Vec<Bytes> = operations
        .range((keyspace, from.clone())..(keyspace, to.clone()))
        .map(|((_, key), _)| key.clone())
        .collect();
    let mut remove = |key: Bytes| {
        if once {
            remove_once(operations, keyspace, key);
        } else {
            operations.insert((keyspace, key), Operation::Remove);
        }
    };
    if let Some((group, from, to)) = log_range(keyspace, from, to) {
        (from.0..to.0).for_each(|index| remove(record::entry_key(group, Index(index))));
        return Ok(());
    }
    in_batch.into_iter().for_each(&mut remove);
    engine.scan_range(keyspace, from, Some(to), &mut |key, _| {
        remove(Bytes::copy_from_slice(key));
        ControlFlow::Continue(())
    })
}

/// The group and indexes of a short range of log entries.
fn log_range(keyspace: Keyspace, from: &[u8], to: &[u8]) -> Option<(cluster::GroupId, Index, Index)> {
    if keyspace != Keyspace::Log {
        return None;
    }
    let (group, from) = record::parse_entry_key(from).ok()?;
    let (same_group, to) = record::parse_entry_key(to).ok()?;
    (group == same_group && to.0 - from.0 <= LISTED_MAX).then_some((group, from, to))
}
