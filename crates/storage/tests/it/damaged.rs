//! Every file of a data directory, zeroed, cut, missing and another server's: it is refused by its name, or everything is there.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use cluster::replica::record::{self, LogPoint};
use cluster::{GroupId, Index, Keyspace, Term, Write};
use storage::{Encryption, Engine, EngineConfig, OpenError, Storage, encryption, open_group};
use tempfile::TempDir;

use crate::killed::after_kill;

/// Several segments, and tables of each keyspace.
pub(crate) const CONFIG: EngineConfig = EngineConfig {
    segment_bytes: 16 << 10,
    first_segment_bytes: 8 << 10,
    changes_bytes_max: 12 << 10,
};

const GROUP: GroupId = GroupId(1);
const LOG_START: LogPoint = LogPoint {
    index: Index(20),
    term: Term(1),
};

/// What may happen to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Damage {
    Zeroed,
    Cut,
    Missing,
    /// That of another server is in its place.
    Another,
}

const DAMAGES: [Damage; 4] = [Damage::Zeroed, Damage::Cut, Damage::Missing, Damage::Another];

/// How the process ended that wrote the directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    InOrder,
    Killed,
}

/// Everything that can be read.
pub(crate) type Content = BTreeMap<(&'static str, Bytes), Bytes>;

/// A directory of two runs, and what was synced there.
pub(crate) fn filled(encryption: &Encryption, owner: &str, ended: Ended) -> (TempDir, Content) {
    let dir = TempDir::new().unwrap();
    let mut engine = Engine::open_with(dir.path(), CONFIG, encryption.clone()).unwrap();
    fill(&mut engine, owner, 0..60);
    let mut snapshot = engine.snapshot_files().unwrap().writer(GROUP, LOG_START).unwrap();
    for chunk in ["a", "b", "c"] {
        snapshot.chunk(format!("{chunk} of {owner}").as_bytes()).unwrap();
    }
    snapshot.finish().unwrap();
    drop(engine);
    let mut engine = Engine::open_with(dir.path(), CONFIG, encryption.clone()).unwrap();
    fill(&mut engine, owner, 60..75);
    let content = content(&engine).unwrap();
    if ended == Ended::Killed {
        return (after_kill(dir.path()), content);
    }
    drop(engine);
    (dir, content)
}

fn fill(engine: &mut Engine, owner: &str, numbers: std::ops::Range<u64>) {
    let with_tables = Keyspace::ALL
        .into_iter()
        .filter(|keyspace| *keyspace != Keyspace::Log);
    let with_tables: Vec<_> = with_tables.collect();
    for number in numbers {
        let put = |keyspace: &Keyspace| Write::Put {
            keyspace: *keyspace,
            key: format!("key-of-a-session-{number}").into(),
            value: format!("{owner} {number}").into(),
        };
        let (value, _) = record::encode_entry(GROUP, Index(number + 1), Term(1), owner.as_bytes());
        let mut batch: Vec<_> = with_tables.iter().map(put).collect();
        batch.push(Write::Put {
            keyspace: Keyspace::Log,
            key: record::entry_key(GROUP, Index(number + 1)),
            value,
        });
        engine.write(&batch).unwrap();
        engine.sync().unwrap();
    }
}

/// Reads everything; or says why not.
pub(crate) fn content(engine: &Engine) -> Result<Content, String> {
    let mut found = Content::new();
    for keyspace in Keyspace::ALL {
        let mut visit = |key: &[u8], value: Bytes| {
            found.insert((keyspace.name(), Bytes::copy_from_slice(key)), value);
            ControlFlow::Continue(())
        };
        let read = engine.scan(keyspace, &[], &mut visit);
        read.map_err(|error| error.to_string())?;
    }
    let snapshots = engine.snapshot_files().map_err(|error| error.to_string())?;
    let (reader, _) = open_group(engine, &snapshots, GROUP).map_err(|error| error.to_string())?;
    let reader = reader.ok_or_else(|| "snapshots: a file of group-00000001 is missing".to_owned())?;
    for (number, chunk) in reader.enumerate() {
        let chunk = chunk.map_err(|error| error.to_string())?;
        found.insert(("snapshot", number.to_string().into()), chunk);
    }
    Ok(found)
}

pub(crate) fn files(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut directories = vec![directory.to_owned()];
    while let Some(next) = directories.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                directories.push(path);
            } else {
                found.push(path.strip_prefix(directory).unwrap().to_owned());
            }
        }
    }
    found.sort();
    found
}

/// False if it changes nothing.
fn damage(file: &Path, damage: Damage, another: &Path) -> bool {
    let before = fs::read(file).unwrap();
    match damage {
        Damage::Zeroed => fs::write(file, vec![0; before.len()]).unwrap(),
        Damage::Cut => {
            let opened = File::options().write(true).open(file).unwrap();
            opened.set_len(before.len() as u64 / 2).unwrap();
        }
        Damage::Missing => fs::remove_file(file).unwrap(),
        Damage::Another if !another.exists() => return false,
        Damage::Another => {
            fs::copy(another, file).unwrap();
        }
    }
    damage == Damage::Missing || fs::read(file).unwrap() != before
}

fn check(encryption: &Encryption, ended: Ended) {
    let (dir, expected) = filled(encryption, "ours", ended);
    let (another, _) = filled(encryption, "theirs", ended);
    let mut wrong = Vec::new();
    let mut refused = 0;
    let mut foreign = Vec::new();
    for file in files(dir.path()) {
        for kind in DAMAGES {
            let case = after_kill(dir.path());
            if !damage(&case.path().join(&file), kind, &another.path().join(&file)) {
                continue;
            }
            let opened = Engine::open_with(case.path(), CONFIG, encryption.clone());
            let read = opened.map_err(|error| error.to_string());
            let read = read.and_then(|engine| content(&engine));
            let name = file.file_name().unwrap().to_str().unwrap();
            // The name of a snapshot that is missing is not known any more.
            let name = name.split_at_checked(14).filter(|_| name.ends_with(".snapshot"));
            let name = name.map_or(file.file_name().unwrap().to_str().unwrap(), |(group, _)| group);
            match read {
                Err(error) if error.contains("belongs to another server's data directory") => {
                    let is_named = error.contains(&format!("{} belongs", file.display()));
                    if kind == Damage::Another && is_named {
                        foreign.push(file.clone());
                    } else {
                        wrong.push(format!("{} {kind:?}: {error}", file.display()));
                    }
                }
                Err(error) if kind == Damage::Another && carries_id(&file) => {
                    wrong.push(format!("{} {kind:?}: {error}", file.display()));
                }
                Err(error) if error.contains(name) => refused += 1,
                // Which segments there were is not known any more: the place is named where one is missed, or the entry.
                Err(error)
                    if file.starts_with("wal")
                        && (error.contains("log entry") || error.contains("write-ahead log")) =>
                {
                    refused += 1;
                }
                Err(error) => wrong.push(format!("{} {kind:?}: {error}", file.display())),
                Ok(found) if found == expected => {}
                Ok(found) => {
                    let lost = expected
                        .iter()
                        .filter(|(key, value)| found.get(*key) != Some(value))
                        .count();
                    let (of, is) = (expected.len(), found.len());
                    wrong.push(format!(
                        "{} {kind:?}: {lost} of {of} are lost, there are {is}",
                        file.display()
                    ));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{ended:?}\n{}", wrong.join("\n"));
    assert!(refused > 40, "{refused}");
    let count = |end: &str| {
        let named = foreign
            .iter()
            .filter(|file| file.to_str().unwrap().ends_with(end));
        named.count()
    };
    // Segments that were not begun hold nothing, and may be anybody's.
    assert!(count(".segment") > 1, "{foreign:?}");
    let others = [
        count(".snapshot"),
        count("LAST"),
        count("engine/DIRECTORY_ID"),
        count("DIRECTORY_ID"),
    ];
    assert_eq!(others, [1, 1, 1, 2], "{foreign:?}");
}

/// Whether a file carries the id of its data directory.
fn carries_id(file: &Path) -> bool {
    let name = file.file_name().unwrap().to_str().unwrap();
    name.ends_with(".segment") || name.ends_with(".snapshot") || name == "LAST" || name == "DIRECTORY_ID"
}

#[test]
fn an_engine_of_another_server_is_refused() {
    let none = Encryption::none();
    let (dir, _) = filled(&none, "ours", Ended::InOrder);
    let (another, _) = filled(&none, "theirs", Ended::InOrder);
    fs::remove_dir_all(dir.path().join("engine")).unwrap();
    fs::rename(another.path().join("engine"), dir.path().join("engine")).unwrap();
    let error = Engine::open_with(dir.path(), CONFIG, none).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("engine/DIRECTORY_ID belongs to another"),
        "{error}"
    );
}

#[test]
fn a_refused_directory_is_as_it_was_and_starts_with_its_own_file() {
    let none = Encryption::none();
    let (dir, expected) = filled(&none, "ours", Ended::Killed);
    let (another, _) = filled(&none, "theirs", Ended::Killed);
    let bytes = |dir: &Path| -> Vec<_> {
        let files = files(dir);
        files
            .into_iter()
            .map(|file| (fs::read(dir.join(&file)).unwrap(), file))
            .collect()
    };
    let snapshot = files(dir.path())
        .into_iter()
        .find(|file| file.starts_with("snapshots"))
        .unwrap();
    let own = fs::read(dir.path().join(&snapshot)).unwrap();
    fs::copy(another.path().join(&snapshot), dir.path().join(&snapshot)).unwrap();
    let before = bytes(dir.path());
    let error = Engine::open_with(dir.path(), CONFIG, none.clone()).unwrap_err();
    assert!(
        matches!(error, OpenError::Foreign(_)) && error.is_damage(),
        "{error}"
    );
    assert!(bytes(dir.path()) == before, "a file was changed");
    fs::write(dir.path().join(&snapshot), own).unwrap();
    let engine = Engine::open_with(dir.path(), CONFIG, none).unwrap();
    assert_eq!(content(&engine).unwrap(), expected);
}

fn key_file() -> (TempDir, Encryption) {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("keys");
    encryption::add_key(&file).unwrap();
    let encryption = Encryption::from_file(&file).unwrap();
    (dir, encryption)
}

#[test]
fn a_damaged_file_is_refused_after_a_stop_in_order() {
    check(&Encryption::none(), Ended::InOrder);
}

#[test]
fn a_damaged_file_is_refused_after_a_kill() {
    check(&Encryption::none(), Ended::Killed);
}

#[test]
fn a_damaged_file_is_refused_where_everything_is_encrypted() {
    let (_keys, encryption) = key_file();
    check(&encryption, Ended::Killed);
}
