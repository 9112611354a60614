use super::*;

/// Saved by Redis 7.0.15, with something of every type that it has.
const GOLDEN: &[u8] = include_bytes!("../../../../tests/golden/import/redis-7.0.rdb");

fn read(file: &[u8]) -> Result<Vec<Record>, FileError> {
    read_up_to(file, 1 << 20)
}

fn read_up_to(file: &[u8], value_bytes_max: u64) -> Result<Vec<Record>, FileError> {
    let mut rdb = Rdb::open(file, value_bytes_max)?;
    let mut records = Vec::new();
    while let Some(record) = rdb.next()? {
        records.push(record);
    }
    Ok(records)
}

/// A file of this version with these contents, without a checksum.
fn file(version: u32, contents: &[&[u8]]) -> Vec<u8> {
    let mut file = format!("REDIS{version:04}").into_bytes();
    file.extend(contents.concat());
    file.push(code::END);
    if version >= 5 {
        file.extend([0; 8]);
    }
    file
}

/// A string of fewer than 64 bytes.
fn text(text: &str) -> Vec<u8> {
    let mut string = vec![u8::try_from(text.len()).expect("short")];
    string.extend(text.as_bytes());
    string
}

fn string(key: &str, value: &[u8]) -> (String, Content) {
    (key.to_owned(), Content::Text(Bounded::All(value.to_vec())))
}

fn named(record: Record) -> (String, Content) {
    let Bounded::All(key) = record.key else {
        panic!("a short key: {record:?}");
    };
    (String::from_utf8_lossy(&key).into_owned(), record.object)
}

#[test]
fn everything_that_a_real_server_has_saved_is_read() {
    let mut records = read(GOLDEN).expect("a whole file");
    let late: Vec<_> = records.iter().filter_map(|record| record.expires_at).collect();
    assert_eq!(late.iter().max(), Some(&4_102_444_800_123));
    assert_eq!(late.len(), 2);
    let other = records.pop().expect("one of another database");
    assert_eq!((other.db, named(other)), (3, string("other-database", b"value")));

    assert!(records.iter().all(|record| record.db == 0));
    let mut found: Vec<_> = records.into_iter().map(named).collect();
    found.sort_by(|left, right| left.0.cmp(&right.0));
    let other = |key: &str, kind| (key.to_owned(), Content::Other(kind));
    let mut expected = vec![
        string("binary \u{FFFD}", b"\x00\xff\r\n"),
        string("compressed", "abcabcabc".repeat(200).as_bytes()),
        string("empty", b""),
        string("expires-late", b"later"),
        string("gone", b"soon"),
        string("large-number", b"1234567890"),
        string("negative", b"-7"),
        string("not a 32-bit number", b"12345678901"),
        string("number", b"12345"),
        string("raw", b"a value with spaces"),
        other("hash", Kind::Hash),
        other("hash-table", Kind::Hash),
        other("intset", Kind::Set),
        other("list", Kind::List),
        other("quicklist", Kind::List),
        other("set", Kind::Set),
        other("stream", Kind::Stream),
        other("zset", Kind::SortedSet),
        other("zset-skiplist", Kind::SortedSet),
    ];
    expected.sort_by(|left, right| left.0.cmp(&right.0));
    assert_eq!(found, expected);

    let mut rdb = Rdb::open(GOLDEN, 0).expect("a whole file");
    while rdb.next().expect("a whole file").is_some() {}
    assert_eq!(rdb.libraries, 1);
}

#[test]
fn values_that_are_too_large_are_counted_and_what_follows_is_found() {
    let records = read_up_to(GOLDEN, 20).expect("a whole file");
    assert_eq!(records.len(), 20);
    let too_large = |record: &&Record| matches!(record.object, Content::Text(Bounded::TooMany { .. }));
    let too_large: Vec<_> = records.iter().filter(too_large).collect();
    assert_eq!(too_large.len(), 1);
    let Content::Text(Bounded::TooMany { bytes, .. }) = too_large[0].object else {
        panic!("it is one");
    };
    assert_eq!(bytes, 1_800);
}

#[test]
fn a_file_that_is_cut_off_anywhere_is_not_taken_for_a_whole_one() {
    for length in 0..GOLDEN.len() {
        let cut = read(&GOLDEN[..length]);
        let is_told = matches!(
            cut,
            Err(FileError::Ends { .. } | FileError::Foreign { .. } | FileError::Damaged { .. })
        );
        assert!(is_told, "{length}: {cut:?}");
    }
}

#[test]
fn a_bit_that_has_changed_anywhere_is_noticed() {
    for place in 0..GOLDEN.len() {
        for bit in [1, 0x80] {
            let mut file = GOLDEN.to_vec();
            file[place] ^= bit;
            assert!(read(&file).is_err(), "byte {place}");
        }
    }
}

#[test]
fn types_of_all_versions_are_passed_by() {
    let moment = [0_u8; 8];
    let id = [0_u8; 16];
    let (k, v) = (text("k"), text("v"));
    let old_scores = [text("m").as_slice(), &[253], &text("n"), &text("1.5")].concat();
    let group = |form: u8| {
        let mut group = text("group");
        group.extend(if form >= 2 { vec![1, 1, 1] } else { vec![1, 1] });
        group.extend([[1].as_slice(), &id, &moment, &[1]].concat());
        group.push(1);
        group.extend(text("consumer"));
        group.extend(moment);
        if form >= 3 {
            group.extend(moment);
        }
        group.extend([[1].as_slice(), &id].concat());
        group
    };
    let stream = |form: u8| {
        let mut stream = [[1].as_slice(), &k, &v, &[1, 1, 1]].concat();
        stream.extend(if form >= 2 { vec![0; 5] } else { Vec::new() });
        stream.push(1);
        stream.extend(group(form));
        stream
    };
    let module = [
        [0x81, 0, 0, 0, 0, 0, 0, 0, 9].as_slice(),
        &[1, 5, 2, 5, 3, 0, 0, 0, 0, 4],
        &moment,
        &[5],
        &v,
        &[0],
    ];
    let with_moment = |rest: &[u8]| [moment.as_slice(), rest].concat();
    for (kind, object, expected) in [
        (1, [[1].as_slice(), &v].concat(), Kind::List),
        (2, [[1].as_slice(), &v].concat(), Kind::Set),
        (3, [[2].as_slice(), &old_scores].concat(), Kind::SortedSet),
        (4, [[1].as_slice(), &k, &v].concat(), Kind::Hash),
        (5, [[1].as_slice(), &v, &moment].concat(), Kind::SortedSet),
        (7, module.concat(), Kind::Module),
        (9, v.clone(), Kind::Hash),
        (10, v.clone(), Kind::List),
        (11, v.clone(), Kind::Set),
        (12, v.clone(), Kind::SortedSet),
        (13, v.clone(), Kind::Hash),
        (14, [[1].as_slice(), &v].concat(), Kind::List),
        (15, stream(1), Kind::Stream),
        (16, v.clone(), Kind::Hash),
        (17, v.clone(), Kind::SortedSet),
        (18, [[1, 2].as_slice(), &v].concat(), Kind::List),
        (19, stream(2), Kind::Stream),
        (20, v.clone(), Kind::Set),
        (21, stream(3), Kind::Stream),
        (24, with_moment(&[[1, 0].as_slice(), &k, &v].concat()), Kind::Hash),
        (25, with_moment(&v), Kind::Hash),
    ] {
        let after = [[STRING].as_slice(), &text("after"), &v].concat();
        let file = file(12, &[&[kind], &k, &object, &after]);
        let found: Vec<_> = read(&file).expect("read").into_iter().map(named).collect();
        assert_eq!(
            found,
            [("k".to_owned(), Content::Other(expected)), string("after", b"v")],
            "type {kind}"
        );
    }
}

#[test]
fn what_stands_between_keys_is_passed_by() {
    let (k, v) = (text("k"), text("v"));
    let between = [
        [code::SLOT, 1, 1, 1].as_slice(),
        &[code::MODULE, 1, 2, 1, 0],
        &[code::SIZES, 1, 0],
        &[code::IDLE, 5],
        &[code::FREQUENCY, 5],
        &[code::EXPIRES_SECONDS, 1, 0, 0, 0],
        &[STRING],
    ];
    let found = read(&file(12, &[&between.concat(), &k, &v])).expect("read");
    assert_eq!(found[0].expires_at, Some(1_000));
    let before_1970 = [[code::EXPIRES_MILLISECONDS].as_slice(), &[0xFF; 8], &[STRING]];
    let found = read(&file(3, &[&before_1970.concat(), &k, &v])).expect("read");
    assert_eq!(found[0].expires_at, Some(0));
}

#[test]
fn what_cannot_be_read_is_told() {
    let error = |file: &[u8]| read(file).expect_err("not to be read").to_string();
    assert!(error(b"").contains("no RDB file"));
    assert!(error(b"SQLite format 3").contains("no RDB file"));
    assert!(error(&file(13, &[])).contains("version 13"));
    assert!(error(&file(9, &[&[99], &text("k")])).contains("unknown type"));
    assert!(error(&file(9, &[&[STRING], &text("k"), &[0xC4]])).contains("unknown encoding"));
    // An announced length of 2^63 bytes.
    let endless = [STRING, 1, b'k', 0x81, 0x80, 0, 0, 0, 0, 0, 0, 0];
    assert!(error(&file(9, &[&endless])).contains("cut off"));
    let mut longer = file(9, &[]);
    longer.push(0);
    assert!(error(&longer).contains("follows its end"));
}
