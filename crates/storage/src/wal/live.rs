//! Which segments still hold entries of a replicated log.
//!
//! Entries are removed from a log's beginning, so it is enough to know where each group's log begins, and the highest index
//! of each group in each segment. Removals elsewhere (of entries that a leader replaced) are not noted: they keep a segment
//! for longer than it is needed, until the log's beginning has passed them.

use std::collections::BTreeMap;

use cluster::replica::record;
use cluster::{GroupId, Index, Keyspace, Write};

/// The highest index of each group in a segment.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct LogEnds(BTreeMap<GroupId, Index>);

/// Where each group's log begins.
#[derive(Debug, Default)]
pub(super) struct LogBegins(BTreeMap<GroupId, Index>);

impl LogEnds {
    /// Notes the entries of a batch. None if one has a key that no entry has.
    pub(super) fn note(&mut self, writes: &[Write]) -> Option<()> {
        for write in writes {
            if let Write::Put {
                keyspace: Keyspace::Log,
                key,
                ..
            } = write
            {
                let (group, index) = record::parse_entry_key(key).ok()?;
                let end = self.0.entry(group).or_insert(index);
                *end = index.max(*end);
            }
        }
        Some(())
    }

    /// Whether all of it was removed.
    pub(super) fn are_before(&self, begins: &LogBegins) -> bool {
        self.0
            .iter()
            .all(|(group, end)| begins.0.get(group).is_some_and(|begin| end < begin))
    }
}

impl LogBegins {
    /// Notes entries and removals of a batch.
    pub(super) fn note(&mut self, writes: &[Write]) {
        for write in writes {
            match write {
                Write::Put {
                    keyspace: Keyspace::Log,
                    key,
                    ..
                } => self.put(key),
                Write::Remove {
                    keyspace: Keyspace::Log,
                    key,
                }
                | Write::RemoveOnce {
                    keyspace: Keyspace::Log,
                    key,
                } => {
                    if let Ok((group, index)) = record::parse_entry_key(key) {
                        self.remove(group, index, index.next());
                    }
                }
                Write::RemoveRange {
                    keyspace: Keyspace::Log,
                    from,
                    to,
                }
                | Write::RemoveRangeOnce {
                    keyspace: Keyspace::Log,
                    from,
                    to,
                } => self.remove_range(from, to),
                _ => {}
            }
        }
    }

    fn put(&mut self, key: &[u8]) {
        if let Ok((group, index)) = record::parse_entry_key(key) {
            let begin = self.0.entry(group).or_insert(index);
            *begin = index.min(*begin);
        }
    }

    fn remove_range(&mut self, from: &[u8], to: &[u8]) {
        if let (Ok((group, from)), Ok((same_group, to))) =
            (record::parse_entry_key(from), record::parse_entry_key(to))
            && group == same_group
        {
            self.remove(group, from, to);
        }
    }

    fn remove(&mut self, group: GroupId, from: Index, to: Index) {
        if let Some(begin) = self.0.get_mut(&group)
            && from <= *begin
        {
            *begin = to.max(*begin);
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use cluster::replica::record::entry_key;
    use cluster::{GroupId, Index, Keyspace, Write};

    use super::{LogBegins, LogEnds};

    fn put(group: u32, index: u64) -> Write {
        Write::Put {
            keyspace: Keyspace::Log,
            key: entry_key(GroupId(group), Index(index)),
            value: Bytes::new(),
        }
    }

    fn remove(group: u32, from: u64, to: u64) -> Write {
        Write::RemoveRangeOnce {
            keyspace: Keyspace::Log,
            from: entry_key(GroupId(group), Index(from)),
            to: entry_key(GroupId(group), Index(to)),
        }
    }

    #[test]
    fn a_segment_is_live_until_the_last_entry_of_each_group_is_removed() {
        let mut ends = LogEnds::default();
        let mut begins = LogBegins::default();
        let batch = [put(1, 5), put(1, 6), put(2, 1)];
        ends.note(&batch).unwrap();
        begins.note(&batch);
        assert!(!ends.are_before(&begins));
        begins.note(&[remove(1, 1, 7)]);
        assert!(!ends.are_before(&begins), "group 2 is there");
        begins.note(&[remove(2, 1, 2)]);
        assert!(ends.are_before(&begins));
    }

    #[test]
    fn a_removal_behind_the_beginning_removes_nothing_before_it() {
        let mut ends = LogEnds::default();
        let mut begins = LogBegins::default();
        let batch = [put(1, 5), put(1, 6), put(1, 7)];
        ends.note(&batch).unwrap();
        begins.note(&batch);
        begins.note(&[remove(1, 6, 8)]);
        assert!(!ends.are_before(&begins), "5 is there");
        begins.note(&[put(1, 6), remove(1, 5, 7)]);
        assert!(!ends.are_before(&begins), "whether 7 is there is not known");
        begins.note(&[remove(1, 7, 8)]);
        assert!(ends.are_before(&begins));
    }
}
