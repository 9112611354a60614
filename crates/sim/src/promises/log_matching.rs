//! Log matching: if two logs of a group have an entry with the same index and term, they are the same up to it. (Ongaro 2014, section 3.5)
//!
//! Looked at where nodes write their logs to disk: the digest of a log up to an entry is that of the log before it and of the entry, and all
//! nodes that write an entry of one index and term must have the same one. Where a log begins after a snapshot, nothing is known of what
//! was before, and the digest is taken from who wrote that entry first.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};

use bytes::Bytes;
use cluster::replica::record;
use cluster::{GroupId, Index, Term, Write};

/// The logs of all nodes, as digests.
#[derive(Debug, Default)]
pub(crate) struct Logs {
    /// Of the log up to an entry, and who wrote it first.
    known: BTreeMap<(GroupId, Index, Term), (u64, usize)>,
    /// What each node has.
    logs: BTreeMap<(usize, GroupId), BTreeMap<Index, u64>>,
    written: u64,
}

impl Logs {
    /// A node writes to its log.
    pub(crate) fn wrote(&mut self, node: usize, writes: &[Write]) -> Result<(), String> {
        for write in writes {
            match write {
                Write::Put { key, value, .. } => self.put(node, key, value)?,
                Write::Remove { key, .. } | Write::RemoveOnce { key, .. } => {
                    if let Ok((group, index)) = record::parse_entry_key(key) {
                        self.log(node, group).remove(&index);
                    }
                }
                Write::RemoveRange { from, to, .. } | Write::RemoveRangeOnce { from, to, .. } => {
                    let range = record::parse_entry_key(from).and_then(|from| {
                        let (_, to) = record::parse_entry_key(to)?;
                        Ok((from, to))
                    });
                    if let Ok(((group, from), to)) = range {
                        self.log(node, group)
                            .retain(|index, _| *index < from || to <= *index);
                    }
                }
            }
        }
        Ok(())
    }

    /// A node has lost what was not synced, and begins with this log.
    pub(crate) fn restarted(
        &mut self,
        node: usize,
        entries: impl Iterator<Item = (Bytes, Bytes)>,
    ) -> Result<(), String> {
        self.logs.retain(|(of, _), _| *of != node);
        for (key, value) in entries {
            self.put(node, &key, &value)?;
        }
        Ok(())
    }

    /// How many entries were written, on all nodes.
    pub(crate) fn written(&self) -> u64 {
        self.written
    }

    fn put(&mut self, node: usize, key: &[u8], value: &Bytes) -> Result<(), String> {
        // What cannot be read is no entry of a log.
        let Ok((group, entry)) = record::decode_entry(key, value) else {
            return Ok(());
        };
        self.written += 1;
        let (index, term) = (entry.index, entry.term);
        let before = index.0.checked_sub(1).map(Index);
        let log = self.logs.entry((node, group)).or_default();
        let before = match before {
            Some(Index::ZERO) | None => Some(0),
            Some(before) => log.get(&before).copied(),
        };
        let known = self.known.get(&(group, index, term)).copied();
        let digest = match (before, known) {
            (Some(before), _) => {
                BuildHasherDefault::<DefaultHasher>::default().hash_one((before, term.0, &entry.data[..]))
            }
            (None, Some((known, _))) => known,
            (None, None) => return Ok(()),
        };
        log.insert(index, digest);
        let (first, writer) = *self.known.entry((group, index, term)).or_insert((digest, node));
        if first == digest {
            Ok(())
        } else {
            let (writer, node) = (writer + 1, node + 1);
            Err(format!(
                "log matching: {writer} and {node} have different logs of group {group} up to entry {index} of term {term}"
            ))
        }
    }

    fn log(&mut self, node: usize, group: GroupId) -> &mut BTreeMap<Index, u64> {
        self.logs.entry((node, group)).or_default()
    }
}

#[cfg(test)]
mod tests {
    use cluster::Keyspace;

    use super::*;

    const GROUP: GroupId = GroupId(0);

    fn entry(index: u64, term: u64, data: &str) -> Write {
        let (index, term) = (Index(index), Term(term));
        let (value, _) = record::encode_entry(GROUP, index, term, data.as_bytes());
        Write::Put {
            keyspace: Keyspace::Log,
            key: record::entry_key(GROUP, index),
            value,
        }
    }

    #[test]
    fn logs_that_differ_are_found() {
        let mut logs = Logs::default();
        logs.wrote(0, &[entry(1, 1, "a"), entry(2, 1, "b")]).unwrap();
        logs.wrote(1, &[entry(1, 1, "a")]).unwrap();
        assert!(logs.wrote(1, &[entry(2, 1, "c")]).is_err());
    }

    #[test]
    fn logs_that_differ_before_an_entry_are_found() {
        let mut logs = Logs::default();
        logs.wrote(0, &[entry(1, 1, "a"), entry(2, 2, "b")]).unwrap();
        // Another leader's entry is replaced, or it is not.
        logs.wrote(1, &[entry(1, 3, "x")]).unwrap();
        assert!(logs.wrote(1, &[entry(2, 2, "b")]).is_err());
        logs.wrote(1, &[entry(1, 1, "a"), entry(2, 2, "b")]).unwrap();
    }

    #[test]
    fn a_log_that_begins_after_a_snapshot_is_that_of_who_wrote_it_first() {
        let mut logs = Logs::default();
        logs.wrote(0, &[entry(1, 1, "a"), entry(2, 1, "b"), entry(3, 1, "c")])
            .unwrap();
        logs.wrote(1, &[entry(2, 1, "b"), entry(3, 1, "c")]).unwrap();
        assert!(logs.wrote(2, &[entry(2, 1, "b"), entry(3, 1, "d")]).is_err());
    }
}
