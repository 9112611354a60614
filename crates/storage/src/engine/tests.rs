//! Crashes, played on the files: what was not synced reaches the disk in part, sector by sector in any order, or not at
//! all. After each the engine must have everything that was synced, and of the rest whole batches without a gap.

#[path = "../../tests/it/killed.rs"]
mod killed;

use std::collections::BTreeMap;
use std::fs;
use std::ops::{ControlFlow, Range};
use std::path::Path;

use bytes::Bytes;
use cluster::random::Random;
use cluster::replica::record::entry_key;
use cluster::{GroupId, Index, Keyspace, Write};
use tempfile::TempDir;

use self::killed::after_kill;
use super::{Engine, EngineConfig};
use crate::{Encryption, SimulatedDisk, Storage};

const CONFIG: EngineConfig = EngineConfig {
    segment_bytes: 16 << 10,
    first_segment_bytes: 4 << 10,
    changes_bytes_max: 8 << 10,
};

/// What the disk writes whole or not at all.
const SECTOR: usize = 512;

const GROUP: GroupId = GroupId(1);

/// Batches as a node writes them, each with the record that holds it.
#[derive(Default)]
struct Written {
    batches: Vec<(u64, Vec<Write>)>,
    log_begin: u64,
    log_end: u64,
    queued: Vec<Bytes>,
    count: u64,
}

impl Written {
    fn next_batch(&mut self, random: &mut Random) -> Vec<Write> {
        let writes = 1 + random.between(0, 4);
        (0..writes).map(|_| self.next_write(random)).collect()
    }

    fn next_write(&mut self, random: &mut Random) -> Write {
        self.count += 1;
        let value = Bytes::from(vec![self.count as u8; random.between(0, 600)]);
        let key = Bytes::from(random.between(0, 30).to_string());
        match random.between(0, 12) {
            0..4 => {
                self.log_end += 1;
                Write::Put {
                    keyspace: Keyspace::Log,
                    key: entry_key(GROUP, Index(self.log_end)),
                    value,
                }
            }
            4 => {
                let from = self.log_begin + 1;
                self.log_begin = self.log_end - (self.log_end - self.log_begin) / 4;
                Write::RemoveRangeOnce {
                    keyspace: Keyspace::Log,
                    from: entry_key(GROUP, Index(from)),
                    to: entry_key(GROUP, Index(self.log_begin + 1)),
                }
            }
            5..8 => {
                let key = Bytes::from(format!("q{:08}", self.count));
                self.queued.push(key.clone());
                Write::Put {
                    keyspace: Keyspace::Queue,
                    key,
                    value,
                }
            }
            8 if !self.queued.is_empty() => {
                let position = random.between(0, self.queued.len());
                Write::RemoveOnce {
                    keyspace: Keyspace::Queue,
                    key: self.queued.swap_remove(position),
                }
            }
            9 => Write::RemoveRange {
                keyspace: Keyspace::Sessions,
                from: key,
                to: Bytes::from(random.between(0, 30).to_string()),
            },
            10 => Write::Remove {
                keyspace: Keyspace::Sessions,
                key,
            },
            _ => Write::Put {
                keyspace: Keyspace::Sessions,
                key,
                value,
            },
        }
    }

    /// What is on the disk when the first batches are.
    fn content(&self, batches: usize) -> Vec<Vec<(Bytes, Bytes)>> {
        let mut disk = SimulatedDisk::new(1);
        for (_, writes) in &self.batches[..batches] {
            disk.write(writes).unwrap();
        }
        content(&disk)
    }

    /// Forgets what a crash has taken, and what would be done on top of it.
    fn cut(&mut self, batches: usize) {
        self.batches.truncate(batches);
        let mut entries = Vec::new();
        let mut queued = Vec::new();
        for (key, _) in &self.content(batches)[1] {
            entries.push(u64::from_be_bytes(key[4..].try_into().unwrap()));
        }
        for (key, _) in &self.content(batches)[4] {
            queued.push(key.clone());
        }
        self.log_end = entries.last().copied().unwrap_or(self.log_begin);
        self.log_begin = entries.first().map_or(self.log_end, |first| first - 1);
        self.queued = queued;
    }
}

fn content(storage: &impl Storage) -> Vec<Vec<(Bytes, Bytes)>> {
    let scan = |keyspace| {
        let mut found = Vec::new();
        let mut visit = |key: &[u8], value: Bytes| {
            found.push((Bytes::copy_from_slice(key), value));
            ControlFlow::Continue(())
        };
        storage.scan(keyspace, &[], &mut visit).unwrap();
        found
    };
    Keyspace::ALL.into_iter().map(scan).collect()
}

fn segments(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let files = fs::read_dir(dir.join("wal")).unwrap().map(Result::unwrap);
    let segments = files.filter(|file| file.path().extension().is_some_and(|name| name == "segment"));
    segments
        .map(|file| {
            let name = file.file_name().into_string().unwrap();
            (name, fs::read(file.path()).unwrap())
        })
        .collect()
}

/// Takes back some sectors that were written after `synced`, and fills some of the bytes in others with noise.
fn tear(dir: &Path, synced: &BTreeMap<String, Vec<u8>>, random: &mut Random) {
    for (name, mut bytes) in segments(dir) {
        let before = synced.get(&name).cloned().unwrap_or_default();
        for (number, sector) in bytes.chunks_mut(SECTOR).enumerate() {
            let old = |position: usize| before.get(number * SECTOR + position).copied().unwrap_or(0);
            let fate = random.between(0, 3);
            for (position, byte) in sector.iter_mut().enumerate() {
                if *byte != old(position) {
                    match fate {
                        0 => *byte = old(position),
                        1 => *byte = random.next() as u8,
                        _ => {}
                    }
                }
            }
        }
        fs::write(dir.join("wal").join(name), bytes).unwrap();
    }
}

/// Writes, syncs and crashes; returns the directory after the crash and how many batches it must hold at least.
fn run_until_crash(mut engine: Engine, written: &mut Written, random: &mut Random) -> (TempDir, usize) {
    let dir = engine.dir().path().to_owned();
    for _ in 0..random.between(1, 120) {
        let batch = written.next_batch(random);
        engine.write(&batch).unwrap();
        written.batches.push((engine.wal.last(), batch));
        match random.between(0, 40) {
            0..8 => engine.sync().unwrap(),
            8..10 => engine.flush().unwrap(),
            10 => engine.checkpoint().unwrap(),
            _ => {}
        }
    }
    engine.sync().unwrap();
    engine.wait_for_checkpoint().unwrap();
    engine.wal.sync().unwrap();
    let synced = segments(after_kill(&dir).path());
    let durable = engine.wal.last();
    for _ in 0..random.between(0, 12) {
        let batch = written.next_batch(random);
        engine.write(&batch).unwrap();
        written.batches.push((engine.wal.last(), batch));
        engine.wal.hand_over().unwrap();
    }
    let killed = after_kill(&dir);
    drop(engine);
    if random.between(0, 3) > 0 {
        tear(killed.path(), &synced, random);
    }
    let safe = written
        .batches
        .iter()
        .filter(|(sequence, _)| *sequence <= durable);
    (killed, safe.count())
}

#[test]
fn what_was_synced_survives_any_crash() {
    check_crashes(0..25, 100, |_| Encryption::none());
}

#[test]
fn what_was_encrypted_and_synced_survives_any_crash() {
    check_crashes(100..108, 20, |_| Encryption::with_keys(&[1]));
}

#[test]
fn encryption_can_change_at_any_start_after_any_crash() {
    check_crashes(200..206, 10, |start| match start % 5 {
        0 => Encryption::none(),
        1 => Encryption::with_keys(&[1]),
        2 => Encryption::with_keys(&[1, 2]),
        3 => Encryption::with_keys(&[2]),
        _ => Encryption::with_keys(&[2, 3]).reading_only(),
    });
}

/// Crashes again and again; `encryption` says how the directory is opened at each start.
fn check_crashes(seeds: Range<u64>, cut_min: usize, encryption: impl Fn(u64) -> Encryption) {
    let mut cut = 0;
    for seed in seeds {
        let mut random = Random::new(seed);
        let mut dir = TempDir::new().unwrap();
        let mut written = Written::default();
        for crash in 0..6 {
            let open = |dir: &Path| Engine::open_with(dir, CONFIG, encryption(crash));
            let engine = open(dir.path()).unwrap();
            let (killed, safe) = run_until_crash(engine, &mut written, &mut random);
            let engine =
                open(killed.path()).unwrap_or_else(|error| panic!("seed {seed}, crash {crash}: {error}"));
            let found = content(&engine);
            let kept = (safe..=written.batches.len())
                .rev()
                .find(|batches| written.content(*batches) == found);
            let kept =
                kept.unwrap_or_else(|| panic!("seed {seed}, crash {crash}: no state that was ever there"));
            cut += written.batches.len() - kept;
            written.cut(kept);
            drop(engine);
            dir = killed;
        }
    }
    assert!(cut > cut_min, "crashes take something: {cut} batches");
}
