//! Records as bytes: as ever, and read from anything.

use std::fmt::Debug;
use std::fs;
use std::path::Path;

use proptest::prelude::*;

use super::world::{World, steps};
use super::*;
use crate::session_plane::encoding::{
    EncodingError, decode_clock, decode_delta, decode_outline, decode_record, decode_retained, encode_clock,
    encode_delta, encode_outline, encode_record, encode_retained,
};

fn compare(name: &str, bytes: &[u8]) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden/v1")
        .join(name);
    if std::env::var_os("UPDATE").is_some() {
        fs::write(&path, bytes).unwrap();
    }
    assert_eq!(fs::read(path).unwrap(), bytes, "{name}");
}

/// Written as ever, read again, and refused when something is missing, left over, or of another version.
fn check<T: PartialEq + Debug>(
    name: &str,
    value: &T,
    bytes: &[u8],
    decode: impl Fn(&[u8]) -> Result<T, EncodingError>,
) {
    compare(name, bytes);
    assert_eq!(decode(bytes).as_ref(), Ok(value));
    for length in 0..bytes.len() {
        assert_eq!(decode(&bytes[..length]), Err(EncodingError::Malformed));
    }
    assert_eq!(decode(&[bytes, &[0]].concat()), Err(EncodingError::Malformed));
    let unknown = [&[2], &bytes[1..]].concat();
    assert_eq!(decode(&unknown), Err(EncodingError::Version { found: 2 }));
}

fn check_record<V: Numbered>(name: &str, record: &Record<V>, delta: &Delta<V>) {
    check(
        &format!("plane-{name}.record"),
        record,
        &encode_record(record),
        decode_record,
    );
    check(
        &format!("plane-{name}.delta"),
        delta,
        &encode_delta(delta),
        decode_delta,
    );
}

#[test]
fn version_1_is_written_as_ever_and_read() {
    let (mut one, mut two) = (writer(0x0102_0304_0506_0708), Writer::new(actor(2, 0x0A0B_0C0D)));
    let mut session = Record::absent();
    session
        .replace(&mut one, 1_000, SessionState::numbered(2))
        .unwrap();
    let delta = session.replace(&mut two, 900, SessionState::numbered(1)).unwrap();
    check_record("session", &session, &delta);
    check(
        "plane.clock",
        session.clock(),
        &encode_clock(session.clock()),
        decode_clock,
    );
    let empty = VectorClock::new();
    check("plane-empty.clock", &empty, &encode_clock(&empty), decode_clock);

    let mut subscriptions = Record::absent();
    subscriptions
        .subscribe(&mut one, 1_000, Subscription::numbered(1))
        .unwrap();
    let delta = subscriptions
        .subscribe(&mut two, 1_001, Subscription::numbered(2))
        .unwrap();
    check_record("subscriptions", &subscriptions, &delta);

    let mut queue = Record::absent();
    let messages = ["a", "b", "c"].map(|text| Bytes::from_static(text.as_bytes()));
    queue.enqueue(&mut one, 1_000, messages).unwrap();
    let first = queue.all_dots()[0];
    let delta = queue.release(&mut two, 1_002, first, 7).unwrap().unwrap();
    check_record("queue", &queue, &delta);
    let outline = queue.outline();
    check(
        "plane-queue.outline",
        &outline,
        &encode_outline(&outline),
        decode_outline,
    );

    let mut received = Record::absent();
    let delta = received
        .receive(&mut one, 1_000, ReceivedId(515))
        .unwrap()
        .unwrap();
    check_record("received", &received, &delta);
    let delta = received
        .release_id(&mut one, 1_001, ReceivedId(515))
        .unwrap()
        .unwrap();
    check_record("tombstone", &received, &delta);

    let mut will = Record::absent();
    will.arm(&mut one, 1_000, connection(5)).unwrap();
    let fired = will.go_on(&mut two, 1_001, connection(5), WillStage::Fired);
    check_record("will", &will, &fired.unwrap().unwrap());

    let mut retained = Retained::new(&mut one, 1_000, Some(Bytes::from_static(b"on"))).unwrap();
    check(
        "plane-retained.record",
        &retained,
        &encode_retained(&retained),
        decode_retained,
    );
    retained.set(&mut two, 1_001, None).unwrap();
    check(
        "plane-retained-nothing.record",
        &retained,
        &encode_retained(&retained),
        decode_retained,
    );
}

/// What counts on something that is not so would panic later.
#[test]
fn what_breaks_a_rule_of_its_type_is_malformed() {
    let actor_bytes = |node: u64| [&node.to_be_bytes()[..], &1_u32.to_be_bytes()].concat();
    let run = |node: u64, first: u64, last: u64| {
        [
            actor_bytes(node),
            first.to_be_bytes().to_vec(),
            last.to_be_bytes().to_vec(),
        ]
        .concat()
    };
    let clock = |runs: &[Vec<u8>]| [vec![1, 0, runs.len() as u8], runs.concat()].concat();
    assert!(decode_clock(&clock(&[run(1, 1, 5), run(1, 7, 9), run(2, 1, 1)])).is_ok());
    for runs in [
        vec![run(0, 1, 5)],
        vec![run(1, 0, 5)],
        vec![run(1, 6, 5)],
        vec![run(2, 1, 1), run(1, 1, 1)],
        vec![run(1, 1, 1), run(1, 1, 1)],
        vec![run(1, 1, 5), run(1, 6, 9)],
        vec![run(1, 1, u64::MAX), run(1, 3, 4)],
    ] {
        assert_eq!(
            decode_clock(&clock(&runs)),
            Err(EncodingError::Malformed),
            "{runs:?}"
        );
    }
    let hlc = 1_u64.to_be_bytes();
    let record = |place: u16, counter: u64, count: u32| {
        let entry = [&place.to_be_bytes()[..], &counter.to_be_bytes(), &hlc, &[0, 7]].concat();
        let head = [&[1, 4, 0, 1][..], &run(1, 1, 5), &hlc, &count.to_be_bytes()].concat();
        decode_record::<ReceivedId>(&[head, entry].concat())
    };
    assert!(record(0, 5, 1).is_ok());
    for (place, counter, count) in [(1, 5, 1), (0, 6, 1), (0, 0, 1), (0, 5, 2), (0, 5, u32::MAX)] {
        assert!(record(place, counter, count).is_err());
    }
    let delta = |last: u64, added: u32| {
        let dot = [actor_bytes(1), last.to_be_bytes().to_vec()].concat();
        let head = [&[1, 4, 0, 0][..], &dot, &hlc, &[0; 4], &added.to_be_bytes()].concat();
        decode_delta::<ReceivedId>(&[head, [0, 7].repeat(added as usize), vec![0; 4]].concat())
    };
    assert!(delta(2, 2).is_ok());
    assert!(delta(1, 2).is_err());
    let mut record = Record::absent();
    record.apply(&delta(u64::MAX, 2).unwrap()).unwrap();
    assert_eq!(record.entries().len(), 2);
    assert!(record.receive(&mut writer(1), 0, ReceivedId(9)).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn copies_of_any_past_are_read_as_they_were_written(nodes in 1..4_usize, steps in steps(40)) {
        let mut world = World::<Queued>::new(nodes);
        world.play(&steps);
        for copy in world.reached() {
            if !copy.is_absent() {
                let bytes = encode_record(&copy);
                prop_assert_eq!(decode_record(&bytes), Ok(copy.clone()));
                prop_assert_eq!(decode_outline(&encode_outline(&copy.outline())), Ok(copy.outline()));
            }
        }
    }

    /// Bytes from anywhere, and bytes that nearly are something, are refused or are something that works.
    #[test]
    fn any_bytes_are_refused_or_work(
        bytes in prop::collection::vec(any::<u8>(), 0..80),
        at in any::<prop::sample::Index>(),
        to in any::<u8>(),
    ) {
        let mut queue = Record::absent();
        queue.enqueue(&mut writer(1), 5, [Bytes::from_static(b"a"), Bytes::from_static(b"b")]).unwrap();
        let delta = queue.enqueue(&mut writer(2), 6, [Bytes::from_static(b"c")]).unwrap();
        let mut damaged = [encode_record(&queue), encode_delta(&delta)];
        for bytes in &mut damaged {
            let at = at.index(bytes.len());
            bytes[at] = to;
        }
        for bytes in [bytes, damaged[0].clone(), damaged[1].clone()] {
            if let Ok(other) = decode_record::<Queued>(&bytes) {
                let mut copy = queue.clone();
                copy.merge(&other).ok();
                copy.enqueue(&mut writer(1), 7, [Bytes::new()]).ok();
                prop_assert!(copy.entries().all(|entry| copy.clock().contains(entry.dot)));
                let outline = other.outline();
                queue.clone().merge_outline(&outline, &[]).ok();
            }
            if let Ok(delta) = decode_delta::<Queued>(&bytes) {
                let mut copy = queue.clone();
                copy.apply(&delta).ok();
                Record::absent().apply(&delta).ok();
                prop_assert!(copy.entries().all(|entry| copy.clock().contains(entry.dot)));
            }
            decode_clock(&bytes).ok();
            decode_outline(&bytes).ok();
            decode_retained(&bytes).ok();
            decode_record::<SessionState>(&bytes).ok();
            decode_record::<WillState>(&bytes).ok();
        }
    }
}

/// What millions of sessions that nobody is connected to take.
#[test]
fn an_idle_session_takes_little_memory() {
    let mut one = writer(1);
    let mut session = Record::absent();
    session
        .replace(&mut one, 1_000, SessionState::numbered(2))
        .unwrap();
    let mut subscriptions = Record::absent();
    subscriptions
        .subscribe(&mut one, 1_000, Subscription::numbered(1))
        .unwrap();
    let mut queue = Record::absent();
    queue
        .enqueue(&mut one, 1_000, [Bytes::from_static(b"a")])
        .unwrap();
    let first = queue.all_dots();
    queue.acknowledge(&mut one, 1_001, first).unwrap();
    queue.shrink();
    let memory = [session.memory(), subscriptions.memory(), queue.memory()];
    let causal = [size_of::<Record<Queued>>(), size_of::<Entry<()>>()];
    assert_eq!((memory, causal), ([184, 176, 80], [80, 32]));
}
