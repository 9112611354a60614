//! What comes from one node: each item is taken once and in order, and confirmed when what it did is durable.

use std::collections::VecDeque;

use mqtt::origin::Position;
use protocol::topic::SubscriptionFilter;

use super::messages::{self, Answer};

/// Bytes of what an answer says about shares, unless one item has more.
const DECLINES_BYTES: usize = 64 << 10;

/// Times that the sender has given something up which are remembered.
const MISSED_MAX: usize = 64;

/// What a decline has besides the text of its share.
const DECLINE: usize = 16;

/// Items of one other node.
#[derive(Debug, Default)]
pub(super) struct Inbox {
    /// The latest that was taken.
    pub(super) taken: Position,
    /// The latest that a restart has found.
    recovered: u64,
    /// Everything up to here is on disk.
    on_disk: u64,
    /// Everything up to here is durable: on disk, and at all nodes that have copies of what it changed.
    durable: u64,
    /// Items that were taken and wait for that, each with the latest of its frame.
    under_way: VecDeque<(u64, Stage)>,
    /// Shares of which nobody was here, until the sender says that it knows.
    declined: Vec<(u64, SubscriptionFilter)>,
    /// What the sender has given up, lately: between these.
    missed: VecDeque<(u64, u64)>,
    probe: u64,
    has_gap: bool,
    /// The sender is to be told.
    is_answer_due: bool,
}

impl Inbox {
    /// As a restart finds it: what is on this disk may have reached nobody who has copies.
    pub(super) fn recovered(taken: Position) -> Self {
        let number = taken.number;
        Self {
            taken,
            on_disk: number,
            recovered: number,
            under_way: (number > 0)
                .then_some((number, Stage::OnDisk))
                .into_iter()
                .collect(),
            ..Self::default()
        }
    }

    /// All who are to have copies have what a restart has found.
    pub(super) fn note_recovered_durable(&mut self) {
        self.written(Position {
            number: self.recovered,
            ..self.taken
        });
    }

    /// The sender has started anew: its items begin at 1.
    pub(super) fn begin(&mut self, incarnation: u32) {
        *self = Self::recovered(Position {
            incarnation,
            number: 0,
        });
    }

    pub(super) fn probe(&mut self, number: u64) {
        self.probe = self.probe.max(number);
        self.is_answer_due = true;
    }

    /// A frame came, whose first item comes after this one. False if something is missing.
    pub(super) fn has_all_before(&mut self, after: u64, settled: u64) -> bool {
        self.is_answer_due = true;
        self.declined.retain(|(number, _)| *number > settled);
        self.has_gap = after > self.taken.number;
        !self.has_gap
    }

    /// Takes an item; false if it was taken before.
    pub(super) fn take(&mut self, number: u64) -> bool {
        let is_new = number > self.taken.number;
        if is_new {
            if number > self.taken.number + 1 {
                self.note_missed(number);
            }
            self.taken.number = number;
        }
        is_new
    }

    fn note_missed(&mut self, number: u64) {
        if self.missed.len() == MISSED_MAX {
            self.missed.pop_front();
        }
        self.missed.push_back((self.taken.number, number));
    }

    /// Whether an item has come here.
    pub(super) fn has_taken(&self, number: u64) -> bool {
        let is_missed = |(after, before): &(u64, u64)| *after < number && number < *before;
        number <= self.taken.number && !self.missed.iter().any(is_missed)
    }

    /// Nobody here shares this any more.
    pub(super) fn decline(&mut self, number: u64, share: SubscriptionFilter) {
        self.declined.push((number, share));
    }

    /// What was taken up to here waits for the disk.
    pub(super) fn begin_writing(&mut self) {
        self.under_way.push_back((self.taken.number, Stage::Taken));
    }

    /// What was taken up to here is on disk: copies are confirmed then. Those who sent them wait for that alone, and two nodes that have copies of
    /// each other's sessions never for each other.
    pub(super) fn on_disk(&mut self, position: Position) {
        if self.note(position, Stage::OnDisk) {
            self.look_what_is_on_disk();
        }
    }

    fn look_what_is_on_disk(&mut self) {
        let is_on_disk = |(_, stage): &&(u64, Stage)| *stage >= Stage::OnDisk;
        let first = self
            .under_way
            .partition_point(|(number, _)| *number <= self.on_disk);
        let further = self.under_way.range(first..).take_while(is_on_disk).last();
        if let Some((number, _)) = further {
            self.is_answer_due = true;
            self.on_disk = *number;
        }
    }

    /// What was taken up to here is durable.
    pub(super) fn written(&mut self, position: Position) {
        if !self.note(position, Stage::Durable) {
            return;
        }
        let is_durable = |(_, stage): &mut (u64, Stage)| *stage == Stage::Durable;
        while let Some((number, _)) = self.under_way.pop_front_if(is_durable) {
            self.durable = number;
            self.on_disk = self.on_disk.max(number);
            self.is_answer_due = true;
        }
        // What has written nothing is durable before what came before it.
        self.look_what_is_on_disk();
    }

    fn note(&mut self, position: Position, stage: Stage) -> bool {
        if position.incarnation != self.taken.incarnation {
            return false;
        }
        let place = self
            .under_way
            .binary_search_by_key(&position.number, |(number, _)| *number);
        if let Ok(place) = place {
            let reached = &mut self.under_way[place].1;
            *reached = stage.max(*reached);
        }
        place.is_ok()
    }

    /// What the sender is to be told, if it is.
    pub(super) fn take_answer(&mut self) -> Option<Answer> {
        if !std::mem::take(&mut self.is_answer_due) {
            return None;
        }
        let (durable, declined) = self.declines();
        Some(Answer {
            incarnation: self.taken.incarnation,
            probe: self.probe,
            taken: self.taken.number,
            on_disk: self.on_disk,
            durable,
            has_gap: std::mem::take(&mut self.has_gap),
            declined,
        })
    }

    /// Up to where the sender can be told that all is durable, and what of it was for nobody. Of one item it is told all or nothing: it
    /// gives the item to others once.
    fn declines(&self) -> (u64, Vec<(u64, SubscriptionFilter)>) {
        let (mut told, mut bytes) = (Vec::new(), 0);
        for of_item in self.declined.chunk_by(|(one, _), (other, _)| one == other) {
            let number = of_item[0].0;
            if number > self.durable {
                break;
            }
            if bytes > DECLINES_BYTES {
                return (number - 1, told);
            }
            told.extend_from_slice(of_item);
            bytes += of_item
                .iter()
                .map(|(_, share)| DECLINE + messages::length_of(share))
                .sum::<usize>();
        }
        (self.durable, told)
    }
}

/// How far items are that were taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Taken,
    OnDisk,
    Durable,
}

#[cfg(test)]
mod tests {
    use protocol::Text;

    use super::*;

    fn share(name: &str) -> SubscriptionFilter {
        let text = Text::new(format!("$share/{name}/a")).expect("short");
        SubscriptionFilter::parse(text).expect("a share")
    }

    #[test]
    fn an_answer_is_bounded_and_says_all_or_nothing_of_an_item() {
        let mut inbox = Inbox::default();
        let long = "x".repeat(30_000);
        for number in 1..=5 {
            assert!(inbox.take(number));
            inbox.decline(number, share(&long));
            inbox.decline(number, share("short"));
        }
        inbox.begin_writing();
        inbox.written(inbox.taken);
        let mut answer = |settled| {
            assert!(inbox.has_all_before(0, settled));
            let answer = inbox.take_answer().expect("it is due");
            let numbers: Vec<_> = answer.declined.iter().map(|(number, _)| *number).collect();
            (answer.durable, numbers)
        };
        assert_eq!(answer(0), (3, vec![1, 1, 2, 2, 3, 3]));
        assert_eq!(answer(3), (5, vec![4, 4, 5, 5]), "the sender knows of the others");
        assert_eq!(answer(5), (5, vec![]));
    }

    #[test]
    fn what_has_written_nothing_is_on_disk_as_soon_as_what_came_before_it() {
        let mut inbox = Inbox::default();
        let mut on_disk = |change: &mut dyn FnMut(&mut Inbox)| {
            change(&mut inbox);
            assert!(inbox.has_all_before(0, 0));
            let answer = inbox.take_answer().expect("it is due");
            (answer.on_disk, answer.durable)
        };
        let position = |number| Position {
            number,
            ..Position::default()
        };
        for number in 1..=3 {
            on_disk(&mut |inbox| {
                assert!(inbox.take(number));
                inbox.begin_writing();
            });
        }
        assert_eq!(on_disk(&mut |inbox| inbox.on_disk(position(1))), (1, 0));
        assert_eq!(on_disk(&mut |inbox| inbox.written(position(2))), (2, 0));
        // Once more: it stays durable.
        assert_eq!(on_disk(&mut |inbox| inbox.on_disk(position(2))), (2, 0));
        assert_eq!(on_disk(&mut |inbox| inbox.written(position(1))), (2, 2));
        assert_eq!(on_disk(&mut |inbox| inbox.on_disk(position(3))), (3, 2));
    }

    #[test]
    fn what_the_sender_has_given_up_did_not_come() {
        let mut inbox = Inbox::default();
        for number in [1, 2, 5, 6] {
            assert!(inbox.take(number));
        }
        let came = (0..8).filter(|number| inbox.has_taken(*number));
        assert_eq!(came.collect::<Vec<_>>(), [0, 1, 2, 5, 6]);
    }
}
