//! A segment or a snapshot of another server in the data directory: the server does not start, and says what to do.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::configured::Configured;

const SETTINGS: &str = "[[listeners]]\naddress = \"127.0.0.1:0\"\n[snapshot]\nlog_bytes_min = \"4 KiB\"\n";

/// Files of a data directory that end so, in order.
fn files(data: &Path, below: &str, extension: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(data.join(below)).expect("a directory");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let mut found: Vec<_> = paths
        .filter(|path| path.extension() == Some(OsStr::new(extension)))
        .collect();
    found.sort();
    found
}

/// The directory of a killed server that has taken a snapshot, with its newest value.
fn filled(owner: &str) -> (TempDir, String) {
    let server = Configured::start(SETTINGS);
    let mut number = 0;
    while files(&server.data_directory(), "snapshots", "snapshot").is_empty() {
        number += 1;
        let value = format!("{owner}-{number}-{}", "x".repeat(3_000));
        server.run("mqtt", &["set", owner, &value]).expect(0);
    }
    let value = format!("{owner} in the end");
    server.run("mqtt", &["set", owner, &value]).expect(0);
    (server.kill(), value)
}

/// Puts the file in the place of the one with its name, or beside the others, and starts the server; the path.
fn refuse(directory: &TempDir, below: &str, foreign: &Path) -> PathBuf {
    let place = directory
        .path()
        .join("data")
        .join(below)
        .join(foreign.file_name().expect("a name"));
    fs::copy(foreign, &place).expect("copied");
    let ran = Configured::refused_in(directory, SETTINGS);
    assert_eq!(ran.code, Some(5), "{ran:?}");
    let said = format!("{} belongs to another server's data directory", place.display());
    for part in [
        said.as_str(),
        "put this server's own file back",
        "restore the data directory from a copy or a backup, or replace the node of a cluster",
    ] {
        assert!(ran.stderr.contains(part), "{part}: {ran:?}");
    }
    place
}

#[test]
fn a_file_of_another_server_is_refused_and_the_own_one_starts_again() {
    let (ours, value) = filled("ours");
    let (theirs, _) = filled("theirs");
    let their_data = theirs.path().join("data");
    let segment = files(&their_data, "wal", "segment").remove(0);
    let name = segment.file_name().expect("a name");
    let own = fs::read(ours.path().join("data/wal").join(name)).expect("there is one with this name");
    let place = refuse(&ours, "wal", &segment);
    fs::write(&place, own).expect("put back");

    let snapshot = files(&their_data, "snapshots", "snapshot").remove(0);
    let place = ours
        .path()
        .join("data/snapshots")
        .join(snapshot.file_name().expect("a name"));
    let own = fs::read(place).ok();
    let place = refuse(&ours, "snapshots", &snapshot);
    match own {
        Some(own) => fs::write(&place, own).expect("put back"),
        None => fs::remove_file(&place).expect("removed"),
    }

    let server = Configured::start_in(ours, SETTINGS);
    let found = server.run("mqtt", &["get", "ours"]).expect(0);
    assert_eq!(found.stdout, value.as_bytes());
}
