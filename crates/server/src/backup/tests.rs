use broker::backups::{RetainedItem, SessionItem, SessionPart};
use bytes::{Bytes, BytesMut};
use proptest::prelude::*;
use protocol::{Hlc, Text};
use store::{KeyRecord, Version};

use super::*;

fn bytes(text: &'static str) -> Bytes {
    Bytes::from_static(text.as_bytes())
}

/// A record of each kind; together they have all that records may have.
fn samples() -> Vec<Record> {
    let floor = Version {
        wall: 1_700_000_000_000,
        counter: 7,
    };
    vec![
        Record::About(About {
            made_at: 1_700_000_000_123,
            cluster: "00000000000000c1".to_owned(),
            server_version: "0.1.0".to_owned(),
            nodes: 3,
            groups: 2,
        }),
        Record::Group(0, 1_700_000_000_100, floor),
        Record::Key(KeyRecord {
            key: bytes("door"),
            value: bytes("open"),
            version: floor,
            deadline: Some(1_700_000_010_000),
            fencing: Some(Hlc::parse("1700000000000:1:StateStore").expect("an HLC")),
        }),
        Record::Retained(RetainedItem {
            topic: bytes("plant/1"),
            value: bytes("a record"),
        }),
        Record::Session(SessionItem {
            client_id: Text::from_static("pump"),
            record: bytes("its record"),
            parts: vec![
                SessionPart::Subscription(bytes("plant/#"), bytes("how")),
                SessionPart::Received(bytes("\0\u{1}")),
                SessionPart::Delivery(bytes("12345678"), bytes("a message")),
            ],
        }),
    ]
}

fn encoded(records: &[Record]) -> Vec<u8> {
    let (mut encoder, head) = Encoder::begin();
    let mut out = BytesMut::from(&head[..]);
    for record in records {
        encoder.push(record, &mut out).expect("short");
    }
    let (_, end) = encoder.end();
    out.extend_from_slice(&end);
    out.to_vec()
}

fn decoded(bytes: &[u8], piece: usize) -> Result<(Vec<Record>, Counts), FormatError> {
    let mut decoder = Decoder::default();
    let mut records = Vec::new();
    for piece in bytes.chunks(piece) {
        decoder.push(piece);
        while let Some(record) = decoder.next()? {
            records.push(record);
        }
    }
    Ok((records, decoder.finish()?))
}

fn problem(bytes: &[u8]) -> Problem {
    decoded(bytes, 7).expect_err("damaged").problem
}

#[test]
fn what_is_written_is_read_in_pieces_of_any_size() {
    let records = samples();
    let bytes = encoded(&records);
    for piece in [1, 3, bytes.len()] {
        let (read, counts) = decoded(&bytes, piece).expect("right");
        assert_eq!(read, records);
        assert_eq!(
            counts.to_string(),
            "1 keys in 1 groups, 1 retained messages, 1 sessions"
        );
    }
}

/// A file as a released version wrote it. Another form needs another version.
#[test]
fn a_file_of_version_1_is_written_and_read() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/v1/backup");
    let bytes = encoded(&samples());
    if std::env::var_os("UPDATE").is_some() && !std::path::Path::new(path).exists() {
        std::fs::write(path, &bytes).expect("written");
    }
    let golden = std::fs::read(path).expect("the file is there");
    assert_eq!(golden, bytes);
    assert_eq!(decoded(&golden, 64).expect("right").0, samples());
}

#[test]
fn it_is_said_what_is_wrong_and_where() {
    let bytes = encoded(&samples());
    for length in 0..bytes.len() {
        let error = decoded(&bytes[..length], 64).expect_err("cut off");
        assert_eq!(error.problem, Problem::CutOff, "{length}");
        assert!(error.position <= length as u64);
    }
    assert_eq!(problem(&[&bytes[..], b"\0"].concat()), Problem::Longer);
    assert_eq!(problem(b"STHDSNAP and more"), Problem::Magic);
    let mut newer = bytes;
    newer[8] = 2;
    assert_eq!(problem(&newer), Problem::Version(2));
    // A record is missing, and another one is said twice.
    let (first, rest) = (encoded(&samples()[..1]), encoded(&samples()[1..]));
    let end = first.len() - 77;
    assert_eq!(problem(&[&first[..end], &rest[9..]].concat()), Problem::Checksum);
    let error = decoded(&[&first[..end], &rest[9..]].concat(), 64).expect_err("moved");
    assert_eq!((error.record, error.position), (1, end as u64));
}

/// The log would take it, and nobody could read the log any more.
#[test]
fn a_floor_that_no_version_can_be_is_refused() {
    for (wall, counter) in [(u64::MAX, 1), (1, 0), (1, u32::MAX)] {
        let group = Record::Group(0, 0, Version { wall, counter });
        assert_eq!(problem(&encoded(&[group])), Problem::Record, "{wall} {counter}");
    }
}

#[test]
fn a_file_has_its_name_when_it_is_whole_and_never_takes_that_of_another() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("backup");
    let mut file = BackupFile::create(&path).expect("made");
    for record in samples() {
        file.push(&record).expect("written");
    }
    assert!(!path.exists());
    let (counts, bytes) = file.finish().expect("finished");
    assert_eq!(bytes, std::fs::metadata(&path).expect("there").len());
    let mode =
        std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&path).expect("there").permissions());
    assert_eq!(mode & 0o777, 0o600);
    let mut reader = BackupReader::open(&path).expect("opened");
    let mut read = Vec::new();
    while let Some(record) = reader.next().expect("right") {
        read.push(record);
    }
    assert_eq!((read, reader.counts()), (samples(), counts));
    assert!(matches!(
        BackupFile::create(&path),
        Err(BackupFileError::Exists(_))
    ));
    let other = directory.path().join("other");
    drop(BackupFile::create(&other).expect("made"));
    let names: Vec<_> = std::fs::read_dir(directory.path()).expect("read").collect();
    assert_eq!(names.len(), 1, "{names:?}");
}

#[test]
fn a_part_that_failed_is_taken_out_again() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("backup");
    let mut file = BackupFile::create(&path).expect("made");
    let all = samples();
    let (kept, failed) = all.split_at(2);
    for record in kept {
        file.push(record).expect("written");
    }
    let mark = file.mark().expect("written");
    for _ in 0..2 {
        for record in failed {
            file.push(record).expect("written");
        }
        file.mark().expect("written");
        file.back_to(&mark).expect("cut");
    }
    let (counts, bytes) = file.finish().expect("finished");
    assert_eq!(bytes, std::fs::metadata(&path).expect("there").len());
    let (read, read_counts) = decoded(&std::fs::read(&path).expect("read"), 7).expect("whole");
    assert_eq!((&*read, read_counts), (kept, counts));
}

#[test]
fn what_somebody_has_put_in_its_way_is_neither_followed_nor_written() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("backup");
    let victim = directory.path().join("victim");
    std::fs::write(&victim, "precious").expect("written");
    for target in [victim.as_path(), std::path::Path::new("nowhere")] {
        for name in ["backup", "backup.unfinished"] {
            let planted = directory.path().join(name);
            std::os::unix::fs::symlink(target, &planted).expect("linked");
            let error = BackupFile::create(&path).expect_err("it is in the way");
            assert!(
                error.to_string().contains(&format!("{name} is there already")),
                "{error}"
            );
            assert!(planted.symlink_metadata().is_ok(), "it is not ours to take away");
            std::fs::remove_file(&planted).expect("removed");
        }
    }
    assert_eq!(std::fs::read(&victim).expect("there"), b"precious");
    assert!(!directory.path().join("nowhere").exists());
    // One that can be read by who has made it.
    std::fs::write(directory.path().join("backup.unfinished"), "").expect("written");
    assert!(matches!(
        BackupFile::create(&path),
        Err(BackupFileError::Unfinished(_))
    ));
}

proptest! {
    #[test]
    fn any_change_of_a_byte_is_found(at in 0_usize..1_000, bit in 0_u32..8) {
        let mut bytes = encoded(&samples());
        let at = at % bytes.len();
        bytes[at] ^= 1 << bit;
        prop_assert!(decoded(&bytes, 64).is_err());
    }

    #[test]
    fn garbage_is_refused_and_nothing_panics(garbage in prop::collection::vec(any::<u8>(), 0..200), body: Vec<u8>) {
        prop_assert!(decoded(&garbage, 7).is_err());
        let _ = Record::decode(body.into());
    }
}
