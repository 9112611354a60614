use std::io::Write;

use super::*;

/// Saved by etcdctl of a server 3.4.23: 40 keys of one transaction, and one of each kind of history.
const GOLDEN: &[u8] = include_bytes!("../../../../tests/golden/import/etcd-3.4.snapshot");

fn open(bytes: &[u8]) -> anyhow::Result<Snapshot> {
    let mut file = tempfile::NamedTempFile::new()?;
    file.write_all(bytes)?;
    Snapshot::open(file.path())
}

/// Reads everything, without a checksum that would tell of any damage.
fn read_unchecked(bytes: &[u8]) -> Result<usize, FileError> {
    let file = tempfile::tempfile().map_err(FileError::Io)?;
    (&file).write_all(bytes).map_err(FileError::Io)?;
    let snapshot = Snapshot::read(&file, bytes.len() as u64, false)?;
    Ok(entries(&snapshot)?.len())
}

fn entries(snapshot: &Snapshot) -> Result<Vec<KeyValue>, FileError> {
    let mut entries = snapshot.entries()?;
    let mut found = Vec::new();
    while let Some(entry) = entries.next()? {
        found.push(entry);
    }
    Ok(found)
}

fn pages() -> &'static [u8] {
    &GOLDEN[..GOLDEN.len() - 32]
}

#[test]
fn what_keys_have_now_is_read() {
    let snapshot = open(GOLDEN).expect("a whole file");
    assert!(snapshot.is_checked);
    let found = entries(&snapshot).expect("read");
    assert_eq!(found.len() as u64, snapshot.len());
    let value = |key: &[u8]| {
        let mut with_key = found.iter().filter(|entry| entry.key == key);
        let value = with_key.next().map(|entry| entry.value.clone());
        assert!(with_key.next().is_none(), "twice: {}", key.escape_ascii());
        value
    };
    let many = (1..=40).map(|n| (format!("many/{n:03}"), format!("value-{n}-").repeat(8)));
    for (key, expected) in many {
        assert_eq!(value(key.as_bytes()), Some(expected.into_bytes()), "{key}");
    }
    assert_eq!(value(b"overwritten").as_deref(), Some(&b"second"[..]));
    assert_eq!(value(b"again").as_deref(), Some(&b"back"[..]));
    assert_eq!(value(b"deleted"), None);
    assert_eq!(value(b"large"), Some(vec![b'L'; 5_000]));
    assert_eq!(value(b"empty"), Some(Vec::new()));
    assert_eq!(value(b"binary \xff").as_deref(), Some(&b"\x00\xff\r\n"[..]));
    assert_eq!(found.len(), 40 + 7);
}

#[test]
fn leases_are_found_with_their_time() {
    let snapshot = open(GOLDEN).expect("a whole file");
    let found = entries(&snapshot).expect("read");
    let leased: Vec<_> = found.iter().filter(|entry| entry.lease != 0).collect();
    assert_eq!(leased.len(), 2);
    for entry in leased {
        assert_eq!(entry.key.split_at(7).0, b"leased/");
        let lease = snapshot.lease(entry.lease).expect("it is in the file");
        assert_eq!(lease.left_ms(), 86_400_000);
    }
}

#[test]
fn the_file_of_a_member_has_no_checksum() {
    let snapshot = open(pages()).expect("a whole file");
    assert!(!snapshot.is_checked);
    assert_eq!(snapshot.len(), 47);
}

#[test]
fn damage_is_noticed_by_the_checksum_and_by_the_length() {
    for place in (0..GOLDEN.len()).step_by(997) {
        let mut bytes = GOLDEN.to_vec();
        bytes[place] ^= 1;
        let error = open(&bytes).map(|_| ()).expect_err("damaged");
        assert!(format!("{error:#}").contains("checksum"), "{place}: {error:#}");
    }
    for length in [GOLDEN.len() - 1, 1_000, 33] {
        let error = open(&GOLDEN[..length]).map(|_| ()).expect_err("cut off");
        assert!(format!("{error:#}").contains("cut off"), "{length}: {error:#}");
    }
    assert!(open(b"").is_err());
    assert!(open(&[7; 4_096]).is_err());
    // Pages that are missing, behind which no checksum is expected.
    assert!(open(&GOLDEN[..8 * 4_096]).is_err());
}

#[test]
fn pages_are_not_believed() {
    // Each number of the heads of pages and of their first elements, set to what it should not be.
    for page in 0..pages().len() / 4_096 {
        for place in (0..80).step_by(2) {
            for number in [[0, 0], [1, 0], [0xFF, 0xFF], [0, 0x80]] {
                let mut bytes = pages().to_vec();
                bytes[page * 4_096 + place..][..2].copy_from_slice(&number);
                // It ends, and nothing comes twice: with what was overwritten and deleted there are 51 entries.
                if let Ok(count) = read_unchecked(&bytes) {
                    assert!(count <= 51, "page {page}, byte {place}: {count}");
                }
            }
        }
    }
}

#[test]
fn a_tree_that_comes_back_to_itself_ends() {
    // Every page that is a branch leads to itself.
    let mut bytes = pages().to_vec();
    let mut branches = 0;
    for page in 0..bytes.len() / 4_096 {
        let at = page * 4_096;
        if bytes[at + 8] == 1 {
            bytes[at + 16 + 8..][..8].copy_from_slice(&(page as u64).to_le_bytes());
            branches += 1;
        }
    }
    assert!(branches > 0, "the sample has a tree that is higher than one page");
    let error = read_unchecked(&bytes).expect_err("a circle");
    assert!(error.to_string().contains("twice"), "{error}");
}
