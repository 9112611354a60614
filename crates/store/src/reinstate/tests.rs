use protocol::Hlc;
use protocol::state_store::Condition;

use super::*;
use crate::command::{Command, CommandAction, Origin, Quota};
use crate::stamp::Stamp;
use crate::version::Version;

const ORIGIN: Origin = Origin {
    node: 1,
    incarnation: 1,
    request: 1,
};

fn apply(store: &mut Store, action: CommandAction) -> Outcome {
    let origin = ORIGIN;
    store.apply(Command { origin, action }, &mut Vec::new())
}

fn hlc(text: &str) -> Hlc {
    Hlc::parse(text).expect("an HLC")
}

fn set(key: &'static str, expires_in: Option<u64>, fencing: Option<&str>) -> CommandAction {
    CommandAction::Set {
        key: Bytes::from_static(key.as_bytes()),
        value: Bytes::from_static(b"value"),
        condition: Condition::None,
        expires_in,
        timestamp: hlc("0:0:client"),
        fencing: fencing.map(hlc),
        retry: None,
    }
}

fn delete(key: &'static str) -> CommandAction {
    CommandAction::Delete {
        key: Bytes::from_static(key.as_bytes()),
        only_if: None,
        timestamp: None,
        fencing: None,
        retry: None,
    }
}

fn version(wall: u64, counter: u32) -> Version {
    Version { wall, counter }
}

fn store_at(clock: u64) -> Store {
    let mut store = Store::new();
    store.begin(Stamp::first(clock));
    let quota = Quota {
        keys_max: 10,
        bytes_max: 1_000,
    };
    apply(&mut store, CommandAction::Configure { quota });
    store
}

/// Everything of a store put back into another one, as a backup does it.
fn put_back(from: &Store, into: &mut Store) -> Vec<Outcome> {
    let image = from.image();
    let floor = image.floor();
    apply(into, CommandAction::RaiseFloor { floor });
    let (mut outcomes, mut after) = (Vec::new(), None::<Bytes>);
    loop {
        let records = image.keys_after(after.as_deref(), 1);
        let Some(last) = records.last() else {
            return outcomes;
        };
        after = Some(last.key.clone());
        for record in records {
            let read = KeyRecord::decode(record.encode());
            assert_eq!(read.as_ref(), Ok(&record));
            outcomes.push(apply(into, CommandAction::Reinstate { record }));
        }
    }
}

#[test]
fn a_store_that_is_put_back_has_the_same_keys_with_the_same_versions() {
    let mut from = store_at(1_000);
    for action in [
        set("a", None, None),
        set("b", Some(500), Some("7:0:holder")),
        set("c", None, None),
    ] {
        apply(&mut from, action);
    }
    let mut into = store_at(900);
    assert_eq!(put_back(&from, &mut into).len(), 3);
    assert_eq!(into.keys, from.keys);
    assert_eq!((into.bytes, into.digests), (from.bytes, from.digests));
    assert_eq!(into.next_expiry(), from.next_expiry());
    // Again: nothing changes, and everybody is told so.
    let before = into.clone();
    for outcome in put_back(&from, &mut into) {
        assert!(matches!(outcome, Outcome::ConditionFailed { .. }), "{outcome:?}");
    }
    assert_eq!(into, before);
}

/// The new store's clock is a minute behind the old one's.
#[test]
fn versions_never_go_back_also_of_keys_that_were_gone_and_with_a_clock_that_is_behind() {
    let mut from = store_at(60_000);
    let Outcome::Stored { version: gone } = apply(&mut from, set("gone", None, None)) else {
        panic!("not stored")
    };
    apply(&mut from, delete("gone"));
    apply(&mut from, set("kept", None, None));
    // Its tombstone is forgotten: the clock has passed it.
    from.begin(Stamp::first(60_001));
    assert_eq!(from.usage().tombstones, 0);
    let mut ahead = set("ahead", None, None);
    if let CommandAction::Set { timestamp, .. } = &mut ahead {
        *timestamp = hlc("90000:5:client");
    }
    apply(&mut from, ahead);
    apply(&mut from, delete("ahead"));

    let mut into = store_at(1_000);
    put_back(&from, &mut into);
    for (key, last) in [
        ("gone", gone),
        ("ahead", version(90_000, 7)),
        ("kept", version(60_000, 1)),
        ("never", version(60_001, 1)),
    ] {
        let Outcome::Stored { version } = apply(&mut into, set(key, None, None)) else {
            panic!("{key} is not stored")
        };
        assert!(version > last, "{key}: {version} after {last}");
    }
}

#[test]
fn a_fenced_key_is_as_fenced_as_before_and_never_less() {
    let mut from = store_at(1_000);
    apply(&mut from, set("lock", None, Some("500:0:holder")));
    let mut into = store_at(900);
    apply(&mut into, set("lock", None, Some("700:0:later")));
    put_back(&from, &mut into);
    assert_eq!(
        apply(&mut into, set("lock", None, Some("600:0:old"))),
        Outcome::Refused(Refusal::FencingTokenLower)
    );
    let mut fresh = store_at(900);
    put_back(&from, &mut fresh);
    assert_eq!(
        apply(&mut fresh, set("lock", None, Some("499:0:old"))),
        Outcome::Refused(Refusal::FencingTokenLower)
    );
    assert_eq!(
        apply(&mut fresh, set("lock", None, None)),
        Outcome::Refused(Refusal::FencingTokenRequired)
    );
}

#[test]
fn what_is_newer_stays_and_what_is_over_does_not_come_back() {
    let mut from = store_at(1_000);
    for key in ["newer", "deleted", "over"] {
        apply(&mut from, set(key, (key == "over").then_some(100), None));
    }
    let mut into = store_at(2_000);
    apply(&mut into, set("newer", None, None));
    apply(&mut into, set("deleted", None, None));
    apply(&mut into, delete("deleted"));
    put_back(&from, &mut into);
    assert_eq!(
        into.get(b"newer", 0).map(|found| found.version),
        Some(version(2_000, 1))
    );
    assert_eq!(into.get(b"deleted", 0), None);
    assert_eq!(into.get(b"over", 0), None);
    assert_eq!(into.next_expiry(), None);
}

#[test]
fn the_quota_holds_and_a_copy_of_the_store_is_the_same() {
    let mut from = store_at(1_000);
    for key in ["a", "b", "c"] {
        apply(&mut from, set(key, None, None));
    }
    let mut into = store_at(1_000);
    let quota = Quota {
        keys_max: 2,
        bytes_max: 1_000,
    };
    apply(&mut into, CommandAction::Configure { quota });
    let outcomes = put_back(&from, &mut into);
    assert_eq!(outcomes[2], Outcome::Refused(Refusal::QuotaExceeded));
    assert_eq!(into.usage().keys, 2);
    assert_eq!(Store::restore(into.image().into_chunks()), Ok(into));
}

#[test]
fn bytes_that_are_no_record_are_refused() {
    let record = KeyRecord {
        key: Bytes::from_static(b"k"),
        value: Bytes::from_static(b"v"),
        version: version(5, 1),
        deadline: Some(9),
        fencing: Some(hlc("1:2:n")),
    };
    let bytes = record.encode();
    assert_eq!(&bytes[..], b"\x03\x01k\x01v\x05\x01\x09\x01\x02\x01n");
    for length in 0..bytes.len() {
        assert!(KeyRecord::decode(bytes.slice(..length)).is_err(), "{length}");
    }
    let longer = [&bytes[..], b"\0"].concat();
    assert!(KeyRecord::decode(longer.into()).is_err());
    assert!(KeyRecord::decode(Bytes::from_static(b"\x04\x01k\x01v\x05\x01")).is_err());
}
