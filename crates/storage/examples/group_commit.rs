//! How long a durable group commit takes, and how many fit into a second.
//!
//! `cargo run --release -p storage --example group_commit -- DIRECTORY [seconds per case] [part of a case's name]`
//!
//! Runs against an engine in a new directory below DIRECTORY, and beside it against plain files, as a floor: what the disk
//! itself takes to append and sync the same bytes. While it runs the engine makes, fills and gives back segments, and with
//! small records moves them to tables.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use bytes::Bytes;
use cluster::replica::record;
use cluster::{GroupId, Index, Keyspace, Term, Write};
use hdrhistogram::Histogram;
use storage::{Encryption, Engine, EngineConfig, Storage as _, encryption};

/// Log entries are removed as after a snapshot, when this many are there.
const ENTRIES_KEPT: u64 = 8_000;

/// Entries removed with one commit, as the replica does it.
const REMOVED_PER_COMMIT: u64 = 512;

/// A segment of the plain log.
const SEGMENT_BYTES: u64 = 64 << 20;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let dir = PathBuf::from(args.next().ok_or("say in which directory to write")?);
    let seconds = args.next().map_or(Ok(5), |seconds| seconds.parse())?;
    let time = Duration::from_secs(seconds);

    let only = args.next().unwrap_or_default();
    let run =
        |name: String, records: u64, case: &dyn Fn() -> Measured| -> Result<(), Box<dyn std::error::Error>> {
            if name.contains(&only) {
                report(&name, records, case()?);
            }
            Ok(())
        };

    for (size, len) in [("1 KiB", 1 << 10), ("10 KiB", 10 << 10), ("64 KiB", 64 << 10)] {
        for is_encrypted in [false, true] {
            let engine = engine_name(is_encrypted);
            run(format!("{engine}, log entry of {size} per commit"), 1, &|| {
                log_entries(&dir, time, len, is_encrypted)
            })?;
        }
        run(
            format!("file,   log entry of {size}, allocated and zeroed"),
            1,
            &|| file(&dir, time, len, Fill::Zeroed),
        )?;
        run(format!("file,   log entry of {size}, growing"), 1, &|| {
            file(&dir, time, len, Fill::Growing)
        })?;
    }
    for records in [1, 64, 1024] {
        for is_encrypted in [false, true] {
            let engine = engine_name(is_encrypted);
            run(
                format!("{engine}, {records} records of 256 bytes per commit"),
                records,
                &|| small_records(&dir, time, records, is_encrypted),
            )?;
        }
    }
    Ok(())
}

fn engine_name(is_encrypted: bool) -> &'static str {
    if is_encrypted {
        "encrypted engine"
    } else {
        "engine"
    }
}

/// An engine, and the new directory that has it and its keys.
fn open(dir: &Path, is_encrypted: bool) -> Result<(Engine, PathBuf), Box<dyn std::error::Error>> {
    let dir = fresh(dir, "engine")?;
    let mut encryption = Encryption::none();
    if is_encrypted {
        fs::create_dir_all(&dir)?;
        let keys = dir.join("keys");
        encryption::add_key(&keys)?;
        encryption = Encryption::from_file(&keys)?;
    }
    let engine = Engine::open_with(&dir.join("data"), EngineConfig::default(), encryption)?;
    Ok((engine, dir))
}

/// Latencies in microseconds of commits that filled `time`.
fn measure(
    time: Duration,
    mut commit: impl FnMut(u64) -> Result<(), Box<dyn std::error::Error>>,
) -> Result<(Histogram<u64>, Duration), Box<dyn std::error::Error>> {
    let mut latencies = Histogram::new(3)?;
    let start = now();
    let mut count = 0;
    while start.elapsed() < time {
        let before = now();
        count += 1;
        commit(count)?;
        latencies.record(before.elapsed().as_micros() as u64)?;
    }
    Ok((latencies, start.elapsed()))
}

type Measured = Result<(Histogram<u64>, Duration), Box<dyn std::error::Error>>;

fn log_entries(dir: &Path, time: Duration, entry_len: usize, is_encrypted: bool) -> Measured {
    let (mut engine, dir) = open(dir, is_encrypted)?;
    let group = GroupId(1);
    let data = noise(entry_len);
    let mut first = 1;
    let measured = measure(time, |index| {
        let (value, _) = record::encode_entry(group, Index(index), Term(1), &data);
        let mut writes = vec![Write::Put {
            keyspace: Keyspace::Log,
            key: record::entry_key(group, Index(index)),
            value,
        }];
        if index >= first + ENTRIES_KEPT {
            let (from, to) = (Index(first), Index(first + REMOVED_PER_COMMIT));
            let (from, to) = (record::entry_key(group, from), record::entry_key(group, to));
            writes.push(Write::RemoveRangeOnce {
                keyspace: Keyspace::Log,
                from,
                to,
            });
            first += REMOVED_PER_COMMIT;
        }
        engine.write(&writes)?;
        Ok(engine.sync()?)
    });
    drop(engine);
    fs::remove_dir_all(dir)?;
    measured
}

fn small_records(dir: &Path, time: Duration, records: u64, is_encrypted: bool) -> Measured {
    let (mut engine, dir) = open(dir, is_encrypted)?;
    let value = noise(256);
    let measured = measure(time, |commit| {
        let writes: Vec<_> = (0..records)
            .map(|record| {
                let key = Bytes::copy_from_slice(&(commit * records + record).to_be_bytes());
                Write::Put {
                    keyspace: Keyspace::Queue,
                    key,
                    value: value.clone(),
                }
            })
            .collect();
        engine.write(&writes)?;
        Ok(engine.sync()?)
    });
    drop(engine);
    fs::remove_dir_all(dir)?;
    measured
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Fill {
    /// The file grows with each append.
    Growing,
    /// The file was written once before, with zeros, and is used again from the start when it is full.
    Zeroed,
}

fn file(dir: &Path, time: Duration, entry_len: usize, fill: Fill) -> Measured {
    use std::os::unix::fs::FileExt as _;

    let dir = fresh(dir, "file")?;
    fs::create_dir_all(&dir)?;
    let mut file = File::create(dir.join("segment"))?;
    if fill == Fill::Zeroed {
        for _ in 0..SEGMENT_BYTES >> 20 {
            file.write_all(&vec![0; 1 << 20])?;
        }
    }
    file.sync_all()?;
    let data = noise(entry_len);
    let mut position = 0;
    let measured = measure(time, |index| {
        let (record, _) = record::encode_entry(GroupId(1), Index(index), Term(1), &data);
        if fill == Fill::Zeroed && position + record.len() as u64 > SEGMENT_BYTES {
            position = 0;
        }
        file.write_all_at(&record, position)?;
        position += record.len() as u64;
        Ok(file.sync_data()?)
    });
    fs::remove_dir_all(dir)?;
    measured
}

fn report(name: &str, records: u64, (latencies, took): (Histogram<u64>, Duration)) {
    let commits = latencies.len() as f64 / took.as_secs_f64();
    let mut out = io::stdout().lock();
    let line = writeln!(
        out,
        "{name:<52} {commits:>7.0} commits/s {:>9.0} records/s  p50 {:>5} us  p99 {:>6} us  p99.9 {:>6} us  max {:>7} us",
        commits * records as f64,
        latencies.value_at_quantile(0.5),
        latencies.value_at_quantile(0.99),
        latencies.value_at_quantile(0.999),
        latencies.max(),
    );
    line.expect("standard output takes a line");
}

fn fresh(dir: &Path, name: &str) -> io::Result<PathBuf> {
    let dir = dir.join(format!("group-commit-{name}-{}", std::process::id()));
    if dir.exists() {
        fs::remove_dir_all(&dir)?;
    }
    Ok(dir)
}

/// Bytes that do not compress.
fn noise(len: usize) -> Bytes {
    let mut random = cluster::random::Random::new(1);
    (0..len).map(|_| random.next() as u8).collect()
}

#[expect(clippy::disallowed_methods, reason = "a measurement needs the clock")]
fn now() -> Instant {
    Instant::now()
}
