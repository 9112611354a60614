//! Golden files: bytes of contents and of each form of values. They are never edited.
//!
//! `UPDATE=1` writes the files of a new version.

use std::fs;
use std::path::Path;

use bytes::Bytes;
use session_plane::RecordValue;
use session_plane::transfer::TransferValue;
use session_values::{CONTENT_VERSION, Content, VALUE_VERSION, Value};

use super::samples::{contents, full, values};

#[test]
fn contents_are_written_as_ever_and_read() {
    for (name, content) in contents() {
        let golden = compare(name, content.encoded());
        assert_eq!(golden[0], CONTENT_VERSION, "{name}");
        assert_eq!(Content::decode(golden), Ok(content), "{name}");
    }
}

#[test]
fn values_are_written_as_ever_and_read() {
    let mut forms = Vec::new();
    for (name, value) in values() {
        let golden = compare(name, &value.encode());
        if !matches!(value, Value::Topic(_)) {
            assert_eq!(golden[0], VALUE_VERSION, "{name}");
            forms.push(golden[1]);
        }
        assert_eq!(Value::decode(golden), Ok(value), "{name}");
    }
    forms.dedup();
    assert_eq!(forms, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
}

#[test]
fn records_of_messages_are_written_as_ever_and_read() {
    let messages = values().into_iter();
    for (name, value) in messages.filter(|(_, value)| matches!(value, Value::Message(_))) {
        let golden = compare(&name.replace("value", "record"), &value.encode_record());
        assert_eq!(Value::decode_record(golden, value.content()), Ok(value), "{name}");
    }
}

/// Nodes with other digests send each other everything.
#[test]
fn digests_are_as_ever() {
    for (name, value) in values() {
        let mut digest = Vec::new();
        value.append_digest(&mut digest);
        compare(&name.replace("value", "digest"), &digest);
    }
}

/// A packet id that a client uses names its content by this.
#[test]
fn the_id_of_a_content_is_as_ever() {
    assert_eq!(full().id().0, ID, "{:x}", full().id().0);
}

fn compare(name: &str, bytes: &[u8]) -> Bytes {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/v1");
    let path = folder.join(name).with_extension("bin");
    if std::env::var_os("UPDATE").is_some() {
        fs::create_dir_all(&folder).expect("a golden file");
        fs::write(&path, bytes).expect("a golden file");
    }
    let golden = fs::read(path).expect("a golden file");
    assert_eq!(golden, bytes, "{name}");
    Bytes::from(golden)
}

const ID: u128 = 0xe273_e941_a18c_0acf_bc39_7bed_b8f5_7f10;
