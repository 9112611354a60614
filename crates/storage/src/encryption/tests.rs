use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use tempfile::TempDir;

use super::{Encryption, EncryptionError, KeyFileError, KeyId, Stamp, add_key};

fn key_file(text: &str) -> (TempDir, std::path::PathBuf) {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("keys");
    fs::write(&file, text).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    (dir, file)
}

const KEY: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";

#[test]
fn a_key_is_added_as_the_newest_and_the_others_stay() {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("keys");
    assert_eq!(add_key(&file).unwrap(), KeyId(1));
    let first = fs::read_to_string(&file).unwrap();
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(Encryption::from_file(&file).unwrap().key(), Some(KeyId(1)));
    assert_eq!(add_key(&file).unwrap(), KeyId(2));
    assert!(fs::read_to_string(&file).unwrap().starts_with(&first));
    let both = Encryption::from_file(&file).unwrap();
    assert_eq!(both.key(), Some(KeyId(2)));
    assert_eq!(both.reading_only().key(), None);
}

#[test]
fn a_file_to_which_a_key_is_added_stays_whose_it_was_and_where() {
    let (dir, file) = key_file(&format!("1 {KEY}\n"));
    let link = dir.path().join("link");
    std::os::unix::fs::symlink(&file, &link).unwrap();
    for (mode, id) in [(0o640, 2), (0o400, 3)] {
        fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
        assert_eq!(add_key(&link).unwrap(), KeyId(id));
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, mode);
    }
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(Encryption::from_file(&file).unwrap().key(), Some(KeyId(3)));
}

#[test]
fn a_key_that_the_file_has_no_room_for_is_not_added() {
    let text = format!("1 {KEY}\n#{}\n", "x".repeat(65_470));
    let (_dir, file) = key_file(&text);
    let error = add_key(&file).unwrap_err();
    assert!(matches!(error, KeyFileError::TooLong { .. }), "{error}");
    assert_eq!(fs::read_to_string(&file).unwrap(), text);
    assert_eq!(Encryption::from_file(&file).unwrap().key(), Some(KeyId(1)));
}

#[test]
fn a_line_that_is_not_understood_is_named_and_not_shown() {
    let lines = [
        "1".to_owned(),
        format!("0 {KEY}"),
        format!("x {KEY}"),
        format!("1 {}", &KEY[4..]),
        format!("1 AAAA{KEY}"),
        format!("1 {KEY} more"),
        format!("1  {KEY}"),
    ];
    for line in lines {
        let (_dir, file) = key_file(&format!("# keys\n{line}\n"));
        let error = Encryption::from_file(&file).unwrap_err();
        assert!(
            matches!(error, KeyFileError::Line { line: 2, .. }),
            "{line}: {error}"
        );
        assert!(!format!("{error} {error:?}").contains(&KEY[4..]), "{error}");
    }
}

#[test]
fn keys_are_in_order_and_there_is_one_at_least() {
    let (_dir, file) = key_file(&format!("2 {KEY}\n2 {KEY}\n"));
    let error = Encryption::from_file(&file).unwrap_err();
    assert!(
        matches!(
            error,
            KeyFileError::Order {
                line: 2,
                key: KeyId(2),
                ..
            }
        ),
        "{error}"
    );
    let (_dir, file) = key_file("# none\n\n");
    let error = Encryption::from_file(&file).unwrap_err();
    assert!(matches!(error, KeyFileError::Empty { .. }), "{error}");
    let (_dir, file) = key_file(&"#".repeat(70_000));
    let error = Encryption::from_file(&file).unwrap_err();
    assert!(matches!(error, KeyFileError::TooLong { .. }), "{error}");
}

#[test]
fn a_key_file_that_others_can_read_is_refused() {
    let (_dir, file) = key_file(&format!("1 {KEY}\n"));
    for (mode, is_fine) in [
        (0o400, true),
        (0o640, true),
        (0o660, false),
        (0o604, false),
        (0o644, false),
    ] {
        fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
        assert_eq!(Encryption::from_file(&file).is_ok(), is_fine, "{mode:o}");
    }
}

#[test]
fn no_key_is_shown() {
    let (_dir, file) = key_file(&format!("7 {KEY}\n"));
    let encryption = Encryption::from_file(&file).unwrap();
    let (_, keys) = encryption.new_file().unwrap();
    let shown = format!("{encryption:?} {keys:?} {:?}", keys.cipher("test", &[]));
    assert_eq!(
        shown,
        "Encryption { keys: Some([KeyId(7)]), writes_with: Some(KeyId(7)), .. } FileKeys FileCipher"
    );
}

#[test]
fn a_stamp_tells_a_missing_key_from_a_wrong_one() {
    let (_dir, file) = key_file(&format!("1 {KEY}\n"));
    let (_other_dir, other) = key_file("1 AQECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n");
    let (_later_dir, later) = key_file(&format!("2 {KEY}\n"));
    let encryption = Encryption::from_file(&file).unwrap();
    let (stamp, _) = encryption.new_file().unwrap();
    assert_eq!(Stamp::decode(&stamp.encode()), stamp);
    let open = |encryption: &Encryption| encryption.open_file(Path::new("data"), Some(stamp));
    assert!(open(&encryption).unwrap().is_some());
    assert!(open(&encryption.clone().reading_only()).unwrap().is_some());
    let wrong = open(&Encryption::from_file(&other).unwrap()).unwrap_err();
    assert!(matches!(wrong, EncryptionError::KeyWrong { .. }), "{wrong}");
    assert!(wrong.to_string().contains(other.to_str().unwrap()), "{wrong}");
    let missing = open(&Encryption::from_file(&later).unwrap()).unwrap_err();
    assert!(
        matches!(missing, EncryptionError::KeyMissing { key: KeyId(1), .. }),
        "{missing}"
    );
    let none = open(&Encryption::none()).unwrap_err();
    assert!(matches!(none, EncryptionError::NoKeyFile { .. }), "{none}");
    let plain = encryption
        .strict()
        .open_file(Path::new("data"), None)
        .unwrap_err();
    assert!(matches!(plain, EncryptionError::NotEncrypted { .. }), "{plain}");
}

#[test]
fn what_was_moved_or_changed_is_not_opened() {
    let (_dir, file) = key_file(&format!("1 {KEY}\n"));
    let encryption = Encryption::from_file(&file).unwrap();
    let ((_, keys), (_, others)) = (encryption.new_file().unwrap(), encryption.new_file().unwrap());
    let cipher = keys.cipher("one", b"part");
    let mut sealed = b"content".to_vec();
    let tag = cipher.seal(5, b"place", &mut sealed);
    sealed.extend_from_slice(&tag);
    let open = |cipher: &super::FileCipher, number, associated: &[u8], data: &[u8]| {
        let mut data = data.to_vec();
        cipher
            .open(number, associated, &mut data)
            .map(|data| data.to_vec())
    };
    assert_eq!(open(&cipher, 5, b"place", &sealed).unwrap(), b"content");
    assert_eq!(open(&cipher, 6, b"place", &sealed), None);
    assert_eq!(open(&cipher, 5, b"other", &sealed), None);
    assert_eq!(open(&keys.cipher("two", b"part"), 5, b"place", &sealed), None);
    assert_eq!(open(&keys.cipher("one", b"trap"), 5, b"place", &sealed), None);
    assert_eq!(open(&others.cipher("one", b"part"), 5, b"place", &sealed), None);
    for position in 0..sealed.len() {
        let mut changed = sealed.clone();
        changed[position] ^= 1;
        assert_eq!(open(&cipher, 5, b"place", &changed), None);
        assert_eq!(open(&cipher, 5, b"place", &sealed[..position]), None);
    }
}
