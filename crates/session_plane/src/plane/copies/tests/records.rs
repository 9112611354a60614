//! What is written to the disk is what a restart reads, whenever it is written.

use bytes::Bytes;

use super::*;
use crate::queue_limits::QueueValue;
use crate::{Entry, RecordBatch, RecordError, RecordValue, RecordWrite, RecordsReader};

type Disk = BTreeMap<Bytes, Bytes>;

impl RecordValue for Value {
    fn content(&self) -> Option<Bytes> {
        None
    }

    fn to_record(&self) -> Bytes {
        Bytes::copy_from_slice(&self.to_be_bytes())
    }

    fn from_record(record: Bytes, content: Option<Bytes>) -> Option<Value> {
        assert_eq!(content, None);
        Some(Value::from_be_bytes(record.first_chunk().copied()?))
    }
}

impl RecordValue for () {
    fn content(&self) -> Option<Bytes> {
        None
    }

    fn to_record(&self) -> Bytes {
        Bytes::new()
    }

    fn from_record(_: Bytes, _: Option<Bytes>) -> Option<()> {
        Some(())
    }
}

/// Writes what differs. Gives the number of writes.
fn write<V: Ord + QueueValue + RecordValue, M: RecordValue>(
    copies: &mut Copies<V, M>,
    disk: &mut Disk,
) -> usize {
    let mut batch = RecordBatch::default();
    copies.write_records(&mut batch);
    let writes = batch.into_writes();
    let count = writes.len();
    for write in writes {
        match write {
            RecordWrite::Put { key, value } => {
                disk.insert(key, value);
            }
            RecordWrite::Remove { key } => {
                assert!(disk.remove(&key).is_some(), "only what is there is removed");
            }
            RecordWrite::RemoveRange { from, to } => disk.retain(|key, _| *key < from || *key >= to),
        }
    }
    count
}

fn read<V: Ord + QueueValue + RecordValue, M: RecordValue>(disk: &Disk) -> Result<Copies<V, M>, RecordError> {
    let mut records = RecordsReader::default();
    for (key, value) in disk {
        records.read(key.clone(), value)?;
    }
    Copies::of_records(records.finish())
}

proptest! {
    #[test]
    fn a_restart_reads_what_was_written(
        history in histories(),
        steps in steps(),
        every in 1..8_usize,
        with_restart in any::<bool>(),
    ) {
        let (mut copies, mut naive) = all_whole();
        let mut disk = Disk::new();
        for steps in steps.chunks(every) {
            for each in steps {
                step(&mut copies, &mut naive, &history, each);
            }
            write(&mut copies, &mut disk);
            let restarted = read(&disk).expect("the records of copies");
            assert_same(&restarted, &naive);
            prop_assert_eq!(cohorts(&restarted), cohorts(&copies));
            prop_assert_eq!(write(&mut copies, &mut disk), 0);
            if with_restart {
                copies = restarted;
            }
        }
    }
}

/// Copies of messages that have contents.
type Queues = Copies<Bytes, Bytes>;

impl RecordValue for Bytes {
    fn content(&self) -> Option<Bytes> {
        (self.len() > 1).then(|| self.clone())
    }

    fn to_record(&self) -> Bytes {
        if self.len() > 1 {
            Bytes::new()
        } else {
            self.clone()
        }
    }

    fn from_record(record: Bytes, content: Option<Bytes>) -> Option<Bytes> {
        Some(content.unwrap_or(record))
    }
}

fn birth() -> Birth {
    Birth {
        dot: dot(1, 1),
        clock: Hlc::ZERO,
        is_clean: false,
    }
}

/// Takes a change or a message for all slots.
fn take_all(copies: &mut Queues, number: u64, effect: &Effect<Bytes, Bytes>) {
    let slots = set(7);
    let taken = TakenNumbers {
        numbers: Interval::new(run(0), number, number).expect("one number"),
        slots: &slots,
        effects: effects(&slots, effect),
    };
    assert_eq!(copies.take(taken), Ok(SlotSet::default()));
}

fn message(content: &'static [u8]) -> Effect<Bytes, Bytes> {
    Effect::Message(Pending {
        clock: Hlc::ZERO,
        message: Bytes::from_static(content),
    })
}

fn removal(number: u64, of: u64) -> Effect<Bytes, Bytes> {
    Effect::Change(Change {
        dot: dot(0, number),
        client: client(1),
        removes: vec![dot(0, of)],
        adds: None,
    })
}

/// Claims for one client of each slot.
fn claim_for_one(copies: &mut Queues) {
    copies.claim(&set(7), |_, _, pending| {
        vec![Matched {
            client: client(1),
            birth: birth(),
            value: pending.message.clone(),
        }]
    });
}

fn queues() -> Queues {
    let mut copies = Queues::default();
    copies.make(&set(7), VersionVector::default());
    copies
}

/// Contents on a disk.
fn contents(disk: &Disk) -> Vec<&[u8]> {
    let records = disk.iter().filter(|(key, _)| key.first() == Some(&3));
    records.map(|(_, value)| &value[1..]).collect()
}

#[test]
fn a_content_is_on_the_disk_once_while_a_queue_has_it() {
    let (mut copies, mut disk) = (queues(), Disk::new());
    take_all(&mut copies, 1, &message(b"content"));
    write(&mut copies, &mut disk);
    assert_eq!(contents(&disk), [b"content"]);
    let before = disk.len();
    claim_for_one(&mut copies);
    write(&mut copies, &mut disk);
    assert_eq!(contents(&disk), [b"content"]);
    assert_eq!(disk.len(), before, "each pending message became an entry");

    let mut copies: Queues = read(&disk).expect("the records of queues");
    copies.remove(slot(0));
    write(&mut copies, &mut disk);
    assert_eq!(contents(&disk), [b"content"], "two queues have it");
    take_all(&mut copies, 2, &removal(2, 1));
    write(&mut copies, &mut disk);
    assert_eq!(contents(&disk), [] as [&[u8]; 0]);
    let entries = read::<Bytes, Bytes>(&disk).expect("the records of queues");
    assert!(
        entries
            .get(slot(1))
            .is_some_and(|copy| copy.entries.sessions().next().is_none())
    );
}

#[test]
fn what_comes_and_goes_between_two_batches_is_never_written() {
    let (mut copies, mut disk) = (queues(), Disk::new());
    write(&mut copies, &mut disk);
    take_all(&mut copies, 1, &message(b"content"));
    claim_for_one(&mut copies);
    take_all(&mut copies, 2, &removal(2, 1));
    assert_eq!(write(&mut copies, &mut disk), 1, "the sets of events alone");
}

#[test]
fn a_copy_that_is_deleted_takes_its_contents_from_the_disk() {
    for is_written in [true, false] {
        let (mut copies, mut disk) = (queues(), Disk::new());
        take_all(&mut copies, 1, &message(b"content"));
        if is_written {
            write(&mut copies, &mut disk);
        }
        claim_for_one(&mut copies);
        take_all(&mut copies, 2, &message(b"other"));
        (0..SLOTS).for_each(|number| copies.remove(slot(number)));
        copies.make(&set(0b010), VersionVector::default());
        write(&mut copies, &mut disk);
        assert_eq!(contents(&disk), [] as [&[u8]; 0]);
        let restarted: Queues = read(&disk).expect("the records of queues");
        assert_eq!(restarted.slots(), set(0b010));
        assert!(!restarted.has_unwritten());
    }
}

#[test]
fn an_entry_of_an_event_without_a_content_leaves_others_alone() {
    let (mut copies, mut disk) = (queues(), Disk::new());
    let adds = Entry {
        birth: birth(),
        clock: Hlc::ZERO,
        fact: Fact::Subscription,
        value: Bytes::from_static(b"s"),
    };
    let change = Change {
        dot: dot(0, 1),
        client: client(1),
        removes: Vec::new(),
        adds: Some(adds),
    };
    take_all(&mut copies, 1, &Effect::Change(change));
    take_all(&mut copies, 2, &message(b"content"));
    claim_for_one(&mut copies);
    write(&mut copies, &mut disk);
    take_all(&mut copies, 3, &removal(3, 1));
    write(&mut copies, &mut disk);
    assert_eq!(contents(&disk), [b"content"]);
    assert!(read::<Bytes, Bytes>(&disk).is_ok());
}

fn bytes_of_hex(text: &str) -> Bytes {
    let byte = |at| u8::from_str_radix(&text[at..at + 2], 16).expect("two digits");
    (0..text.len()).step_by(2).map(byte).collect()
}

/// Records of a disk that was written before there were cohorts: one copy has shared sets of events, and one its own.
fn older_disk() -> Disk {
    let lines = include_str!("../../../../tests/golden/records-1-shared.hex").lines();
    let record = |line: &'static str| {
        let (key, value) = line.split_once(' ').expect("a key and a value");
        (bytes_of_hex(key), bytes_of_hex(value))
    };
    lines.map(record).collect()
}

#[test]
fn records_from_before_there_were_cohorts_are_read_and_written_anew() {
    let mut disk = older_disk();
    let mut copies: Queues = read(&disk).expect("older records");
    let holes = |copies: &Queues, number| copies.get(slot(number)).map(|copy| copy.holes.intervals().len());
    assert_eq!((holes(&copies, 7), holes(&copies, 8)), (Some(0), Some(1)));
    assert!(copies.has_unwritten());
    write(&mut copies, &mut disk);
    assert!(!disk.contains_key(&[2_u8][..]), "no shared sets");
    assert_eq!(disk.keys().filter(|key| key[0] == 9).count(), 2, "two cohorts");
    let restarted: Queues = read(&disk).expect("new records");
    for number in [7, 8] {
        let (before, after) = (copies.get(slot(number)), restarted.get(slot(number)));
        assert_eq!(format!("{before:?}"), format!("{after:?}"));
    }
    assert_eq!(write(&mut copies, &mut disk), 0);
}
