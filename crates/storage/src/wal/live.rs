//! Which segment holds each entry of the replicated logs.
//!
//! An entry lies in the log only, so a segment cannot be given back before every entry in it was removed, or was written once
//! more to a later segment. Entries that follow each other in a segment are one run, so a log of any length takes little
//! more memory than a log of one segment.

use std::collections::BTreeMap;

use cluster::replica::record;
use cluster::{GroupId, Index, Keyspace, Write};

/// The entries that were not removed.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct LiveLog {
    /// Runs of each group by their first index. They do not overlap.
    runs: BTreeMap<GroupId, BTreeMap<Index, Run>>,
    /// Segments that hold entries.
    held: BTreeMap<u64, Held>,
}

/// Entries with indices in a row that lie in one segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Run {
    /// The index after the last one.
    end: Index,
    segment: u64,
}

/// What a segment holds.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Held {
    runs: usize,
    /// Bytes of all entries that were written to it. Those of removed ones count as long as others are there.
    bytes: u64,
}

impl LiveLog {
    /// Notes entries and removals of a batch in `segment`. None if an entry has a key that no entry has.
    pub(super) fn note(&mut self, segment: u64, writes: &[Write]) -> Option<()> {
        for write in writes {
            match write {
                Write::Put { keyspace, key, value } if *keyspace == Keyspace::Log => {
                    let (group, index) = record::parse_entry_key(key).ok()?;
                    self.put(group, index, segment);
                    self.held.entry(segment).or_default().bytes += (key.len() + value.len()) as u64;
                }
                Write::Remove { keyspace, key } | Write::RemoveOnce { keyspace, key }
                    if *keyspace == Keyspace::Log =>
                {
                    if let Ok((group, index)) = record::parse_entry_key(key) {
                        self.remove(group, index, index.next());
                    }
                }
                Write::RemoveRange { keyspace, from, to } | Write::RemoveRangeOnce { keyspace, from, to }
                    if *keyspace == Keyspace::Log =>
                {
                    // A range over several groups keeps segments for longer than they are needed; nobody writes one.
                    if let (Ok((group, from)), Ok((same_group, to))) =
                        (record::parse_entry_key(from), record::parse_entry_key(to))
                        && group == same_group
                    {
                        self.remove(group, from, to);
                    }
                }
                _ => {}
            }
        }
        Some(())
    }

    /// Whether the segment holds any entry.
    pub(super) fn is_in(&self, segment: u64) -> bool {
        self.held.contains_key(&segment)
    }

    /// Whether this write is an entry, and the segment is where it lies: it was not removed or replaced since.
    pub(super) fn is_of(&self, segment: u64, write: &Write) -> bool {
        let Write::Put { keyspace, key, .. } = write else {
            return false;
        };
        *keyspace == Keyspace::Log
            && record::parse_entry_key(key).is_ok_and(|(group, index)| {
                let run = self
                    .runs
                    .get(&group)
                    .and_then(|runs| run_before(runs, index.next()));
                run.is_some_and(|(_, run)| run.segment == segment && index < run.end)
            })
    }

    /// About as many bytes as entries take, and never less.
    pub(super) fn bytes(&self) -> u64 {
        self.held.values().map(|held| held.bytes).sum()
    }

    fn put(&mut self, group: GroupId, index: Index, segment: u64) {
        let runs = self.runs.entry(group).or_default();
        if let Some(mut last) = runs.last_entry()
            && last.get().segment == segment
            && last.get().end == index
        {
            last.get_mut().end = index.next();
            return;
        }
        cut(runs, &mut self.held, index, index.next());
        match runs.range_mut(..index).next_back() {
            Some((_, before)) if before.segment == segment && before.end == index => {
                before.end = index.next();
            }
            _ => insert(
                runs,
                &mut self.held,
                index,
                Run {
                    end: index.next(),
                    segment,
                },
            ),
        }
    }

    fn remove(&mut self, group: GroupId, from: Index, to: Index) {
        if let Some(runs) = self.runs.get_mut(&group) {
            cut(runs, &mut self.held, from, to);
        }
    }
}

/// Takes the indices from `from` to `to` (excluded) out of all runs.
fn cut(runs: &mut BTreeMap<Index, Run>, held: &mut BTreeMap<u64, Held>, from: Index, to: Index) {
    while let Some((first, run)) = run_before(runs, to)
        && run.end > from
        && from < to
    {
        runs.remove(&first);
        if first < from {
            insert(runs, held, first, Run { end: from, ..run });
        }
        if to < run.end {
            insert(runs, held, to, run);
        }
        // After what is left of it has come: the segment keeps its bytes.
        let in_segment = held.get_mut(&run.segment).expect("a run is counted");
        in_segment.runs -= 1;
        if in_segment.runs == 0 {
            held.remove(&run.segment);
        }
    }
}

fn insert(runs: &mut BTreeMap<Index, Run>, held: &mut BTreeMap<u64, Held>, first: Index, run: Run) {
    runs.insert(first, run);
    held.entry(run.segment).or_default().runs += 1;
}

/// The last run that begins before `index`.
fn run_before(runs: &BTreeMap<Index, Run>, index: Index) -> Option<(Index, Run)> {
    let (first, run) = runs.range(..index).next_back()?;
    Some((*first, *run))
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use cluster::replica::record::entry_key;
    use proptest::prelude::*;

    use super::*;

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
        let mut live = LiveLog::default();
        live.note(7, &[put(1, 5), put(1, 6), put(2, 1)]).unwrap();
        assert!(live.is_in(7));
        live.note(8, &[remove(1, 1, 7)]).unwrap();
        assert!(live.is_in(7), "group 2 is there");
        live.note(8, &[remove(2, 1, 2)]).unwrap();
        assert_eq!(live.held, BTreeMap::new());
    }

    #[test]
    fn an_entry_that_was_written_again_lies_where_it_was_written_last() {
        let mut live = LiveLog::default();
        live.note(1, &[put(1, 5), put(1, 6), put(1, 7)]).unwrap();
        live.note(2, &[put(1, 6)]).unwrap();
        assert!(live.is_of(1, &put(1, 5)) && live.is_of(2, &put(1, 6)) && live.is_of(1, &put(1, 7)));
        assert!(!live.is_of(1, &put(1, 6)));
        live.note(2, &[put(1, 5), put(1, 7)]).unwrap();
        assert!(!live.is_in(1));
    }

    /// What the segments of a naive map say.
    #[derive(Debug, Clone)]
    enum Step {
        Put(u64),
        Remove(u64, u64),
        NextSegment,
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            6 => (0..12_u64).prop_map(Step::Put),
            2 => (0..12_u64, 0..6_u64).prop_map(|(from, len)| Step::Remove(from, from + len)),
            1 => Just(Step::NextSegment),
        ];
        proptest::collection::vec(step, 0..60)
    }

    proptest! {
        #[test]
        fn it_is_what_a_map_of_each_entry_would_be(steps in steps()) {
            let mut live = LiveLog::default();
            let mut map = BTreeMap::new();
            let mut segment = 1;
            for step in steps {
                match step {
                    Step::Put(index) => {
                        live.note(segment, &[put(3, index)]).unwrap();
                        map.insert(index, segment);
                    }
                    Step::Remove(from, to) => {
                        live.note(segment, &[remove(3, from, to)]).unwrap();
                        map.retain(|index, _| !(from..to).contains(index));
                    }
                    Step::NextSegment => segment += 1,
                }
                for segment in 1..=segment {
                    prop_assert_eq!(live.is_in(segment), map.values().any(|of| *of == segment));
                    for index in 0..20 {
                        let is_there = map.get(&index) == Some(&segment);
                        prop_assert_eq!(live.is_of(segment, &put(3, index)), is_there);
                    }
                }
            }
        }
    }
}
