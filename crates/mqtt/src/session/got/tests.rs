use std::collections::BTreeSet;
use std::num::NonZeroU64;

use proptest::prelude::*;

use super::*;

const MANY: usize = 1_000;

fn id(node: u64, run: u32, number: u64) -> MessageId {
    MessageId {
        node: NodeId(node),
        run,
        number: NonZeroU64::new(number).expect("above 0"),
    }
}

fn got_of(ids: impl IntoIterator<Item = MessageId>) -> Got {
    let mut got = Got::default();
    ids.into_iter().for_each(|id| got.insert(id, MANY));
    got
}

fn ranges(got: &Got) -> Vec<(u64, u64)> {
    got.runs.iter().flat_map(|run| run.ranges.clone()).collect()
}

fn encoded(got: &Got) -> Bytes {
    let mut bytes = Vec::new();
    got.put(&mut bytes);
    bytes.into()
}

fn read(bytes: &[u8]) -> Option<Got> {
    let mut bytes = Bytes::copy_from_slice(bytes);
    let got = Got::read(&mut bytes)?;
    bytes.is_empty().then_some(got)
}

#[test]
fn numbers_in_a_row_are_one_range() {
    let got = got_of([3, 1, 2, 7, 5, 6].map(|number| id(1, 1, number)));
    assert_eq!(ranges(&got), [(1, 3), (5, 7)]);
    let mut got = got;
    got.insert(id(1, 1, 4), MANY);
    assert_eq!(ranges(&got), [(1, 7)]);
    got.remove(id(1, 1, 7));
    got.remove(id(1, 1, 1));
    got.remove(id(1, 1, 4));
    assert_eq!(ranges(&got), [(2, 3), (5, 6)]);
}

#[test]
fn the_same_number_of_another_node_or_run_is_another_message() {
    let got = got_of([id(1, 1, 5), id(2, 1, 6)]);
    assert!(got.contains(id(1, 1, 5)));
    for other in [id(2, 1, 5), id(1, 2, 5), id(1, 1, 6)] {
        assert!(!got.contains(other), "{other:?}");
    }
}

#[test]
fn numbers_have_no_end_that_overflows() {
    let mut got = got_of([u64::MAX, u64::MAX - 1, 1].map(|number| id(1, 1, number)));
    assert_eq!(ranges(&got), [(1, 1), (u64::MAX - 1, u64::MAX)]);
    got.remove(id(1, 1, u64::MAX));
    assert_eq!(ranges(&got), [(1, 1), (u64::MAX - 1, u64::MAX - 1)]);
    assert_eq!(read(&encoded(&got)), Some(got));
}

#[test]
fn the_earliest_of_the_node_with_the_most_are_forgotten() {
    let mut got = got_of([id(1, 1, 1), id(2, 1, 1), id(2, 1, 3)]);
    got.insert(id(2, 1, 5), 3);
    assert_eq!(ranges(&got), [(1, 1), (3, 3), (5, 5)]);
    got.insert(id(3, 1, 1), 1);
    assert_eq!(ranges(&got), [(1, 1)]);
    assert!(got.contains(id(3, 1, 1)), "{got:?}");
    got.extend(&got_of((1..=MANY as u64).map(|number| id(4, 1, 2 * number))), 8);
    assert_eq!(ranges(&got).len(), 8);
}

#[test]
fn its_bytes_are_as_ever() {
    let got = got_of([id(1, 2, 3), id(1, 2, 4), id(1, 2, 9), id(5, 6, 7)]);
    let bytes: &[u8] = b"\0\x02\
        \0\0\0\0\0\0\0\x01\0\0\0\x02\0\x02\0\0\0\0\0\0\0\x03\0\0\0\0\0\0\0\x04\0\0\0\0\0\0\0\x09\0\0\0\0\0\0\0\x09\
        \0\0\0\0\0\0\0\x05\0\0\0\x06\0\x01\0\0\0\0\0\0\0\x07\0\0\0\0\0\0\0\x07";
    assert_eq!(encoded(&got), bytes);
    assert_eq!(read(bytes), Some(got));
    for length in 0..bytes.len() {
        assert_eq!(read(&bytes[..length]), None, "{length}");
    }
}

#[test]
fn bytes_that_it_does_not_write_are_refused() {
    let range = |first: u64, last: u64| [first.to_be_bytes(), last.to_be_bytes()].concat();
    let run = |node: u8, ranges: &[Vec<u8>]| {
        let count = u16::try_from(ranges.len()).expect("few");
        [
            &[0, 0, 0, 0, 0, 0, 0, node, 0, 0, 0, 1][..],
            &count.to_be_bytes(),
            &ranges.concat(),
        ]
        .concat()
    };
    let of = |runs: &[Vec<u8>]| {
        let count = u16::try_from(runs.len()).expect("few");
        [&count.to_be_bytes()[..], &runs.concat()].concat()
    };
    assert!(read(&of(&[run(1, &[range(1, 2), range(4, 4)])])).is_some());
    for (what, bytes) in [
        ("number 0", of(&[run(1, &[range(0, 2)])])),
        ("backwards", of(&[run(1, &[range(2, 1)])])),
        ("touching", of(&[run(1, &[range(1, 2), range(3, 4)])])),
        ("one twice", of(&[run(1, &[range(1, 2), range(2, 4)])])),
        ("no ranges", of(&[run(1, &[])])),
        (
            "a node twice",
            of(&[run(1, &[range(1, 2)]), run(1, &[range(4, 4)])]),
        ),
        (
            "in another order",
            of(&[run(2, &[range(1, 2)]), run(1, &[range(1, 2)])]),
        ),
        (
            "too many",
            of(&[run(
                1,
                &(0..=RANGES_MAX as u64)
                    .map(|n| range(2 * n + 1, 2 * n + 1))
                    .collect::<Vec<_>>(),
            )]),
        ),
    ] {
        assert_eq!(read(&bytes), None, "{what}");
    }
}

#[derive(Debug, Clone)]
enum Step {
    Insert(MessageId),
    Remove(MessageId),
    Extend(Vec<MessageId>),
}

fn ids() -> impl Strategy<Value = MessageId> {
    (1..3_u64, 1..3_u32, 1..40_u64).prop_map(|(node, run, number)| id(node, run, number))
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        3 => ids().prop_map(Step::Insert),
        2 => ids().prop_map(Step::Remove),
        1 => prop::collection::vec(ids(), 0..8).prop_map(Step::Extend),
    ];
    prop::collection::vec(step, 0..60)
}

proptest! {
    #[test]
    fn it_has_what_a_set_has(steps in steps()) {
        let (mut got, mut set) = (Got::default(), BTreeSet::new());
        for step in steps {
            match step {
                Step::Insert(id) => {
                    got.insert(id, MANY);
                    set.insert(id);
                }
                Step::Remove(id) => {
                    got.remove(id);
                    set.remove(&id);
                }
                Step::Extend(ids) => {
                    got.extend(&got_of(ids.iter().copied()), MANY);
                    set.extend(ids);
                }
            }
            for (node, run, number) in (1..3).flat_map(|node| (1..3).flat_map(move |run| (1..41).map(move |number| (node, run, number)))) {
                let id = id(node, run, number);
                prop_assert_eq!(got.contains(id), set.contains(&id), "{:?}", id);
            }
            // As few ranges as there can be.
            prop_assert_eq!(&got, &got_of(set.iter().copied()));
            prop_assert_eq!(read(&encoded(&got)), Some(got.clone()));
        }
    }

    #[test]
    fn what_is_limited_has_nothing_that_it_did_not_get(numbers in prop::collection::vec(ids(), 0..200), ranges_max in 1..20_usize) {
        let mut got = Got::default();
        for id in &numbers {
            got.insert(*id, ranges_max);
            prop_assert!(ranges(&got).len() <= ranges_max);
        }
        for (node, run, number) in (1..3).flat_map(|node| (1..3).flat_map(move |run| (1..41).map(move |number| (node, run, number)))) {
            let id = id(node, run, number);
            prop_assert!(!got.contains(id) || numbers.contains(&id));
        }
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        if let Some(got) = read(&bytes) {
            prop_assert_eq!(encoded(&got), bytes);
        }
    }
}
