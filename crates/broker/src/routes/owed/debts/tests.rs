use cluster::write::Keyspace;

use super::*;
use crate::cluster_records::owed::OwedRecord;
use crate::epoch;

const NODES: [NodeId; 3] = [NodeId(7), NodeId(8), NodeId(9)];

fn now() -> Now {
    Now {
        instant: epoch(),
        wall: 1_700_000_000_000,
        system_wall: 1_700_000_000_000,
    }
}

/// Nobody wants anything.
fn table() -> RouteTable {
    RouteTable::new(1, 1 << 20)
}

/// Of three other nodes two are lost.
fn owed() -> Owed {
    let mut owed = Owed::recovered(now(), 3, RecoveredOwed::default());
    owed.set_nodes(&NODES.into_iter().zip(0..).collect(), &mut table());
    owed.add(0b11, &table());
    owed
}

fn config(messages_max: usize, bytes_max: u64) -> RoutesConfig {
    RoutesConfig {
        messages_max,
        bytes_max,
        ..RoutesConfig::default()
    }
}

fn push(owed: &mut Owed, messages_max: usize, bytes: &'static [u8]) -> u64 {
    let config = config(messages_max, 3 * DEBT);
    let mut figures = RouteFigures::default();
    let made = (Some(now().instant), Bytes::from_static(bytes));
    let ways = (Arc::from([NODES[2]]), vec![(NODES[0], 5)]);
    owed.push(now(), made, ways, (&config, &mut figures));
    figures.dropped_unreachable
}

fn numbers(owed: &Owed) -> Vec<u64> {
    owed.items.iter().map(|debt| debt.number - (3 << 32)).collect()
}

/// What is on a disk after these writes.
fn apply(disk: &mut BTreeMap<Bytes, Bytes>, writes: Vec<Write>) {
    for write in writes {
        match write {
            Write::Put {
                keyspace: Keyspace::Queue,
                key,
                value,
            } => {
                disk.insert(key, value);
            }
            Write::Remove {
                keyspace: Keyspace::Queue,
                key,
            }
            | Write::RemoveOnce {
                keyspace: Keyspace::Queue,
                key,
            } => {
                disk.remove(&key).expect("what is removed was written");
            }
            // What lost nodes want, which is nothing.
            Write::Put {
                keyspace: Keyspace::Subscriptions,
                ..
            }
            | Write::RemoveRange { .. } => {}
            other => panic!("{other:?}"),
        }
    }
}

/// What a restart finds: messages are not decoded here.
fn restart(disk: &BTreeMap<Bytes, Bytes>) -> Owed {
    let mut found = RecoveredOwed::default();
    for (key, value) in disk {
        let record = if key.len() == 16 {
            let number = u64::from_be_bytes(*key.last_chunk().expect("two numbers"));
            (number, OwedRecord::Message(value.slice(9..)))
        } else {
            owed::decode(key, value.clone(), now()).expect("this was written")
        };
        found.record(record.0, record.1);
    }
    let mut owed = Owed::recovered(now(), 4, found);
    owed.set_nodes(&NODES.into_iter().rev().zip(0..).collect(), &mut table());
    owed
}

#[test]
fn of_more_than_the_limit_the_oldest_are_dropped_and_counted_and_what_is_confirmed_by_all_is_gone() {
    let (mut owed, mut disk) = (owed(), BTreeMap::new());
    let dropped: Vec<u64> = [&b"one"[..], b"two", b"three"]
        .into_iter()
        .map(|bytes| push(&mut owed, 2, bytes))
        .collect();
    assert_eq!((numbers(&owed), dropped), (vec![2, 3], vec![0, 0, 1]));
    owed.settle(0);
    assert_eq!(numbers(&owed), [2, 3], "another node has not confirmed it");
    owed.forget(1);
    assert_eq!((owed.items.len(), owed.bytes()), (0, 0));
    owed.add(0b1, &table());
    assert_eq!(
        push(&mut owed, 2, &[0; 3 * DEBT as usize]),
        1,
        "more bytes than there may be"
    );
    assert_eq!(owed.items.len(), 0);
    apply(&mut disk, owed.take_writes());
    assert_eq!(disk.len(), 0, "nothing is left");
}

#[test]
fn a_restart_finds_what_was_owed_to_whom() {
    let (mut owed, mut disk) = (owed(), BTreeMap::new());
    push(&mut owed, 9, b"one");
    owed.settle(0);
    push(&mut owed, 9, b"two");
    owed.came_by_as_well(owed.latest(), NODES[2], [(NODES[1], 6)].into_iter());
    apply(&mut disk, owed.take_writes());
    let mut again = restart(&disk);
    assert_eq!(numbers(&again), [1, 2]);
    assert_eq!(again.bytes(), owed.bytes());
    assert_eq!(again.items[0].pending, 0b10, "the places are others now");
    assert_eq!(again.items[1].pending, 0b110);
    assert_eq!(again.items[1].came_by, [(NODES[0], 5), (NODES[1], 6)]);
    assert!(again.items[1].side.is_empty());
    again.add(0b1, &table());
    push(&mut again, 9, b"three");
    assert_eq!(
        again.latest(),
        (4 << 32) + 1,
        "numbers of a later run are greater"
    );
    again.settle(1);
    again.settle(2);
    apply(&mut disk, again.take_writes());
    assert_eq!(disk.len(), 2, "only the last one is still owed");
}

#[test]
fn what_is_owed_to_nodes_that_are_gone_meanwhile_is_owed_no_more() {
    let (mut owed, mut disk) = (owed(), BTreeMap::new());
    push(&mut owed, 9, b"one");
    apply(&mut disk, owed.take_writes());
    let mut again = restart(&disk);
    again.set_nodes(&BTreeMap::from([(NODES[2], 0)]), &mut table());
    assert_eq!(numbers(&again), [1], "these are told as they go");
    let mut found = RecoveredOwed::default();
    let head = OwedHead {
        pending: vec![NODES[0]],
        ..OwedHead::default()
    };
    found.record(1, OwedRecord::Message(Bytes::from_static(b"one")));
    found.record(1, OwedRecord::Head(head));
    found.record(
        2,
        OwedRecord::Message(Bytes::from_static(b"its other half is missing")),
    );
    let mut again = Owed::recovered(now(), 4, found);
    again.set_nodes(&BTreeMap::from([(NODES[2], 0)]), &mut table());
    assert!(again.items.is_empty());
    assert_eq!(again.take_writes().len(), 4);
}

#[test]
fn what_a_lost_node_has_not_confirmed_is_owed_to_those_who_go_on_with_its_sessions() {
    let mut owed = owed();
    push(&mut owed, 10, b"one");
    owed.settle(1);
    push(&mut owed, 10, b"two");
    let config = config(10, 1 << 20);
    let mut figures = RouteFigures::default();
    // The second has confirmed one of the two.
    let before = owed.pass_on(now(), (1, NODES[1]), 0b100, (&config, &mut figures));
    assert_eq!((before, numbers(&owed)), ((3 << 32) + 2, vec![1, 2, 3]));
    let passed = owed.items.back().expect("it is there");
    assert_eq!((&passed.body[..], passed.pending), (&b"two"[..], 0b100));
    assert_eq!(passed.came_by, [(NODES[1], OF_HEIRS), (NODES[0], 5)]);
    assert!(passed.is_of_heirs());
    // Nobody goes on with anything.
    owed.pass_on(now(), (0, NODES[0]), 0, (&config, &mut figures));
    assert_eq!(numbers(&owed), [1, 2, 3]);
    // They have it.
    owed.settle(2);
    assert_eq!(numbers(&owed), [1, 2]);
    assert_eq!(figures.dropped_unreachable, 0);
}

#[test]
fn what_is_owed_to_a_lost_node_makes_no_room_for_what_is_passed_on() {
    let mut owed = owed();
    push(&mut owed, 10, b"one");
    push(&mut owed, 10, b"two");
    let config = config(3, 1 << 20);
    let mut figures = RouteFigures::default();
    owed.pass_on(now(), (1, NODES[1]), 0b100, (&config, &mut figures));
    let of_heirs: Vec<bool> = owed.items.iter().map(Debt::is_of_heirs).collect();
    assert_eq!(
        (numbers(&owed), of_heirs),
        (vec![1, 2, 3], vec![false, false, true])
    );
    assert_eq!(figures.dropped_unreachable, 1, "the second one");
}
