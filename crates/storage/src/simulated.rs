//! [`Storage`] in memory that fails as it is told, for tests and the simulator.
//!
//! What was written is visible at once. A crash loses what was not synced: all of it, or everything after some batch, as the
//! seed decides. A sync can be made to fail, after which nothing works any more until the crash.

use std::collections::BTreeMap;
use std::io;
use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;
use cluster::random::Random;
use cluster::{Keyspace, Write};

use crate::fault::{Doing, Fault};
use crate::{Storage, Visit};

type Content = BTreeMap<Keyspace, BTreeMap<Bytes, Bytes>>;

/// A disk in memory.
#[derive(Debug, Clone)]
pub struct SimulatedDisk {
    visible: Content,
    durable: Content,
    /// Batches written since the last sync.
    unsynced: Vec<Vec<Write>>,
    random: Random,
    syncs_until_failure: Option<u64>,
    bytes_until_full: Option<u64>,
    fault: Option<Fault>,
    syncs: u64,
}

impl SimulatedDisk {
    /// An empty disk. The seed decides how much a crash loses.
    pub fn new(seed: u64) -> SimulatedDisk {
        SimulatedDisk {
            visible: Content::new(),
            durable: Content::new(),
            unsynced: Vec::new(),
            random: Random::new(seed),
            syncs_until_failure: None,
            bytes_until_full: None,
            fault: None,
            syncs: 0,
        }
    }

    /// The power fails and comes back. Of the batches that were not synced, those before some point survive.
    pub fn crash(&mut self) {
        let surviving = self.random.between(0, self.unsynced.len() + 1);
        self.crash_keeping(surviving);
    }

    /// The power fails; of what was not synced, everything is lost.
    pub fn crash_losing_all(&mut self) {
        self.crash_keeping(0);
    }

    /// The sync after the next `syncs` ones fails. It is not known whether what it covered is durable.
    pub fn fail_sync_after(&mut self, syncs: u64) {
        self.syncs_until_failure = Some(syncs);
    }

    /// The disk is full after that many more bytes of keys and values.
    pub fn full_after(&mut self, bytes: u64) {
        self.bytes_until_full = Some(bytes);
    }

    /// Flips one bit of a durable value, as a failing medium would. Says whether there is such a byte.
    pub fn damage(&mut self, keyspace: Keyspace, key: &[u8], position: usize) -> bool {
        for content in [&mut self.visible, &mut self.durable] {
            let Some(value) = content.get_mut(&keyspace).and_then(|keys| keys.get_mut(key)) else {
                return false;
            };
            let mut damaged = value.to_vec();
            let Some(byte) = damaged.get_mut(position) else {
                return false;
            };
            *byte ^= 0x01;
            *value = damaged.into();
        }
        true
    }

    /// How many syncs have succeeded.
    pub fn syncs(&self) -> u64 {
        self.syncs
    }

    fn crash_keeping(&mut self, batches: usize) {
        for batch in self.unsynced.drain(..).take(batches) {
            apply(&mut self.durable, &batch);
        }
        self.visible = self.durable.clone();
        self.fault = None;
        self.syncs_until_failure = None;
    }

    fn check(&self) -> Result<(), Fault> {
        self.fault.clone().map_or(Ok(()), Err)
    }

    fn fail(&mut self, fault: Fault) -> Fault {
        self.fault = Some(fault.clone());
        fault
    }
}

impl Storage for SimulatedDisk {
    fn write(&mut self, writes: &[Write]) -> Result<(), Fault> {
        self.check()?;
        if let Some(left) = self.bytes_until_full {
            let Some(left) = left.checked_sub(bytes(writes)) else {
                return Err(self.fail(Fault::DiskFull {
                    doing: Doing::Writing,
                }));
            };
            self.bytes_until_full = Some(left);
        }
        apply(&mut self.visible, writes);
        self.unsynced.push(writes.to_vec());
        Ok(())
    }

    /// The disk knows crashes of the machine only, and those take what was flushed as well.
    fn flush(&mut self) -> Result<(), Fault> {
        self.check()
    }

    fn sync(&mut self) -> Result<(), Fault> {
        self.check()?;
        match self.syncs_until_failure {
            Some(0) => {
                let source = Arc::new(io::Error::other("simulated"));
                return Err(self.fail(Fault::Io {
                    doing: Doing::Syncing,
                    source,
                }));
            }
            Some(left) => self.syncs_until_failure = Some(left - 1),
            None => {}
        }
        for batch in self.unsynced.drain(..) {
            apply(&mut self.durable, &batch);
        }
        self.syncs += 1;
        Ok(())
    }

    fn get(&self, keyspace: Keyspace, key: &[u8]) -> Result<Option<Bytes>, Fault> {
        Ok(self
            .visible
            .get(&keyspace)
            .and_then(|keys| keys.get(key))
            .cloned())
    }

    fn scan_range(
        &self,
        keyspace: Keyspace,
        from: &[u8],
        to: Option<&[u8]>,
        visit: &mut Visit<'_>,
    ) -> Result<(), Fault> {
        let Some(keys) = self.visible.get(&keyspace) else {
            return Ok(());
        };
        if to.is_some_and(|to| to <= from) {
            return Ok(());
        }
        let to = to.map_or(Bound::Unbounded, Bound::Excluded);
        for (key, value) in keys.range::<[u8], _>((Bound::Included(from), to)) {
            if visit(key, value.clone()).is_break() {
                break;
            }
        }
        Ok(())
    }
}

fn apply(content: &mut Content, writes: &[Write]) {
    for write in writes {
        match write {
            Write::Put { keyspace, key, value } => {
                content
                    .entry(*keyspace)
                    .or_default()
                    .insert(key.clone(), value.clone());
            }
            Write::Remove { keyspace, key } | Write::RemoveOnce { keyspace, key } => {
                content.entry(*keyspace).or_default().remove(key);
            }
            Write::RemoveRange { keyspace, from, to } | Write::RemoveRangeOnce { keyspace, from, to } => {
                let records = content.entry(*keyspace).or_default();
                let removed = records
                    .range(from.clone()..to.clone())
                    .map(|(key, _)| key.clone());
                for key in removed.collect::<Vec<_>>() {
                    records.remove(&key);
                }
            }
        }
    }
}

fn bytes(writes: &[Write]) -> u64 {
    let bytes = writes.iter().map(|write| match write {
        Write::Put { key, value, .. } => key.len() + value.len(),
        Write::Remove { key, .. } | Write::RemoveOnce { key, .. } => key.len(),
        Write::RemoveRange { from, to, .. } | Write::RemoveRangeOnce { from, to, .. } => {
            from.len() + to.len()
        }
    });
    bytes.sum::<usize>() as u64
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use cluster::{Keyspace, Write};

    use super::SimulatedDisk;
    use crate::{Fault, Storage as _};

    fn put(key: u8) -> [Write; 1] {
        let (key, value) = (Bytes::copy_from_slice(&[key]), Bytes::from_static(b"value"));
        [Write::Put {
            keyspace: Keyspace::Queue,
            key,
            value,
        }]
    }

    fn has(disk: &SimulatedDisk, key: u8) -> bool {
        disk.get(Keyspace::Queue, &[key]).unwrap().is_some()
    }

    #[test]
    fn a_crash_keeps_what_was_synced_and_some_of_the_rest_in_order() {
        let mut kept = [0; 4];
        for seed in 0..100 {
            let mut disk = SimulatedDisk::new(seed);
            disk.write(&put(0)).unwrap();
            disk.sync().unwrap();
            (1..=3).for_each(|key| disk.write(&put(key)).unwrap());
            disk.crash();
            let survivors: Vec<_> = (0..=3).map(|key| has(&disk, key)).collect();
            assert!(survivors[0]);
            assert!(
                survivors.is_sorted_by(|before, after| before >= after),
                "{survivors:?}"
            );
            kept[survivors.iter().filter(|survives| **survives).count() - 1] += 1;
        }
        assert!(
            kept.iter().all(|count| *count > 0),
            "all outcomes occur: {kept:?}"
        );
    }

    #[test]
    fn after_a_failed_sync_nothing_is_written_until_the_next_start() {
        let mut disk = SimulatedDisk::new(1);
        disk.fail_sync_after(1);
        disk.write(&put(0)).unwrap();
        disk.sync().unwrap();
        disk.write(&put(1)).unwrap();
        assert!(matches!(disk.sync(), Err(Fault::Io { .. })));
        assert!(matches!(disk.sync(), Err(Fault::Io { .. })));
        assert!(matches!(disk.write(&put(2)), Err(Fault::Io { .. })));
        disk.crash_losing_all();
        assert!(has(&disk, 0));
        assert!(!has(&disk, 1));
        disk.write(&put(3)).unwrap();
        disk.sync().unwrap();
    }

    #[test]
    fn a_full_disk_says_so() {
        let mut disk = SimulatedDisk::new(1);
        disk.full_after(10);
        disk.write(&put(0)).unwrap();
        let error = disk.write(&put(1)).unwrap_err();
        assert!(error.to_string().starts_with("the disk is full"), "{error}");
    }
}
