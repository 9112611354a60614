//! Answers whose holder drops, by a merge, what beats other entries. All members know it, and one of them has
//! dropped it as garbage.

use cluster::session_plane::Hlc;

use super::*;
use crate::copy::tests::entries_of;
use crate::copy::tests::history::{client, dot};
use crate::copy::tests::vector_of;
use crate::transfer::answer_entries::KeptEntries;
use crate::{
    Birth, ClientDot, ClientEntry, ClientId, CopyParts, Dot, Ended, Entry, EntryId, Fact, Slot, SlotCopy,
    SlotEntries, VersionVector,
};

const BYTES_MAX: usize = 1_000;
const ASKER: u64 = 1;
const HOLDER: u64 = 2;

/// Session without a connection.
const SESSION: Fact = Fact::Session { connected: None };

/// Event of the entry that beats.
fn beater() -> Dot {
    dot(0, 1)
}

/// Event of the entry that is beaten.
fn beaten() -> Dot {
    dot(1, 1)
}

fn vector(dots: &[Dot]) -> VersionVector {
    vector_of(&dots.iter().copied().collect())
}

fn entry(of: Dot, clock: u64, fact: Fact) -> ClientEntry<Value> {
    let clock = Hlc::at(clock);
    let is_clean = of == beater();
    let dot = of;
    let birth = Birth { dot, clock, is_clean };
    ClientEntry {
        client: client(0),
        dot,
        entry: Entry {
            birth,
            clock,
            fact,
            value: 0,
        },
    }
}

/// Entry that beats, and one that it beats.
#[derive(Debug, Clone)]
struct Case {
    slot: Slot,
    beats: ClientEntry<Value>,
    is_beaten: ClientEntry<Value>,
}

fn cases() -> Vec<Case> {
    let end = Ended::new(vector(&[beaten()]), None).expect("a prefix");
    let case = |slot, beats: Fact, is_beaten: Fact| Case {
        slot,
        beats: entry(beater(), 10, beats),
        is_beaten: entry(beaten(), 5, is_beaten),
    };
    vec![
        case(Slot::RETAINED, Fact::Cleared, Fact::Retained),
        case(slot(SLOT), SESSION, SESSION),
        case(slot(SLOT), Fact::End(Box::new(end)), SESSION),
    ]
}

/// Copy that has decided upon `covered`, and lacks the events of `holes`.
fn copy(covered: &[Dot], holes: &[Dot], entries: Vec<ClientEntry<Value>>) -> Sample {
    let parts = CopyParts {
        covered: vector(covered),
        taken: VersionVector::default(),
        holes: vector(holes),
        pending: Vec::new(),
        single: Vec::new(),
        entries,
    };
    SlotCopy::from_parts(parts).expect("a copy")
}

fn ids(copy: &Sample) -> Vec<EntryId> {
    let entries = entries_of(copy).into_iter();
    let ids = entries.map(|entry| EntryId {
        kind: entry.kind,
        dot: entry.dot,
    });
    ids.collect()
}

/// Transfer from a holder to an asker.
struct Transfer {
    slot: Slot,
    asker: Asker<Value, ()>,
    holder: Holder<Value, ()>,
    under_way: VecDeque<Action>,
}

impl Transfer {
    /// The answer begins, without a digest.
    fn begin(slot: Slot, theirs: &Sample) -> Transfer {
        let mut asker = Asker::new(asker_limits(BYTES_MAX));
        let mut holder = Holder::new(holder_limits(BYTES_MAX));
        asker.begin(slot, &BTreeSet::from([node(HOLDER)]));
        let mut actions = Vec::new();
        asker.ask(|_| Some(Vec::new()), |_| None, &mut actions);
        let Some(Message::AskSlots(ask)) = actions.pop().map(|action| action.message) else {
            panic!("the holder is asked");
        };
        for ask in ask.each() {
            holder.receive_question(node(ASKER), ask).expect("room");
        }
        holder.begin_ready(|_| None, |_| Held::of_copy(theirs), &mut actions);
        Transfer {
            slot,
            asker,
            holder,
            under_way: actions.into(),
        }
    }

    /// Gives the rest of the answer, and merges it. Gives what the merge has removed.
    fn finish(&mut self, theirs: &Sample, mine: &mut Sample) -> Vec<ClientEntry<Value>> {
        let mut gone = Vec::new();
        while let Some(action) = self.under_way.pop_front() {
            let mut actions = Vec::new();
            match action.message {
                Message::AskPart(ask) => {
                    let entries = Some(theirs.entries());
                    let asked = self
                        .holder
                        .receive_ask_part(node(ASKER), &ask, entries, &mut actions);
                    asked.expect("the next part");
                }
                Message::SlotPart(part) => {
                    let received = self.asker.receive_part(node(HOLDER), part, mine, &mut actions);
                    if let PartReceived::Merged { removed } = received.expect("the next part") {
                        gone = removed;
                    }
                }
                Message::SlotsMerged(_) => {}
                other => panic!("{other:?} has no place in a transfer"),
            }
            self.under_way.extend(actions);
        }
        assert!(self.asker.is_merged(self.slot));
        gone
    }
}

/// Transfers a copy that does not change.
fn transfer(slot: Slot, theirs: &Sample, mine: &mut Sample) -> Vec<ClientEntry<Value>> {
    Transfer::begin(slot, theirs).finish(theirs, mine)
}

#[test]
fn an_answer_keeps_what_beats_others_where_a_merge_drops_it() {
    for case in cases() {
        let Case { slot, beats, .. } = case.clone();
        let both = [beater(), beaten()];
        let dropped = copy(&both, &[], Vec::new());
        let full = copy(&both, &[], vec![beats.clone(), case.is_beaten]);
        let lacking = copy(&[beater()], &[beaten()], vec![beats.clone()]);

        // The answer begins before its holder merges what has dropped both.
        let (mut holding, mut asking) = (lacking.clone(), lacking);
        let mut answer = Transfer::begin(slot, &holding);
        let removed = transfer(slot, &dropped, &mut holding);
        assert_eq!(removed, std::slice::from_ref(&beats));
        assert_eq!(ids(&holding), []);
        answer.holder.keep(slot, &removed);
        assert_eq!(answer.finish(&holding, &mut asking), []);
        assert_eq!(
            ids(&asking),
            [beats.entry.id(beats.dot)],
            "{:?}",
            beats.entry.fact
        );

        // What is beaten comes from a holder that has both: it does not count, as there.
        assert_eq!(transfer(slot, &full, &mut asking), []);
        assert_eq!(entries_of(&asking), entries_of(&full), "{:?}", beats.entry.fact);

        // A copy that has merged with both has what has dropped both.
        assert!(transfer(slot, &dropped, &mut asking).contains(&beats));
        assert_eq!(ids(&asking), []);
    }
}

/// Entries of an answer are as of its begin or later: what came later and is gone again is not kept.
#[test]
fn an_answer_keeps_nothing_that_is_later_than_its_begin() {
    let Case { slot, beats, .. } = cases().remove(0);
    let mut answer = Transfer::begin(slot, &copy(&[], &[beater()], Vec::new()));
    answer.holder.keep(slot, &[beats]);
    let holding = copy(&[beater()], &[], Vec::new());
    let mut asking = copy(&[], &[beater()], Vec::new());
    answer.finish(&holding, &mut asking);
    assert_eq!(ids(&asking), []);
}

proptest! {
    /// The entries of an answer are those of its copy and those that it keeps, in each range of clients.
    #[test]
    fn an_answer_has_the_entries_of_its_copy_and_what_it_keeps(
        now in proptest::collection::btree_set((0..6_u8, 1..4_u64), 0..8),
        kept in proptest::collection::btree_set((0..6_u8, 1..4_u64), 0..4),
        after in proptest::option::of(0..6_u8),
        up_to in proptest::option::of(0..6_u8),
    ) {
        let named = |(of, number): &(u8, u64)| ClientEntry {
            client: client(*of),
            ..entry(dot(0, *number), 1, Fact::Cleared)
        };
        let entries: Vec<ClientEntry<Value>> = now.iter().map(named).collect();
        let slot_entries = SlotEntries::of_parts(entries, Vec::<ClientDot>::new());
        let mut keeps = KeptEntries::default();
        keeps.extend(kept.iter().map(named));
        let with_kept = keeps.with(&slot_entries);
        let (after, up_to) = (after.map(client), up_to.map(client));
        let found = with_kept.sessions_between(after.as_ref(), up_to.as_ref());
        let found: Vec<(ClientId, u64)> = found
            .flat_map(|(of, session)| {
                let numbers = session.iter().map(|(id, _)| (of.clone(), id.dot.number));
                numbers.collect::<Vec<_>>()
            })
            .collect();
        let all = now.union(&kept).map(|(of, number)| (client(*of), *number));
        let is_in = |of: &ClientId| {
            after.as_ref().is_none_or(|after| of > after) && up_to.as_ref().is_none_or(|up_to| of <= up_to)
        };
        prop_assert_eq!(found, all.filter(|(of, _)| is_in(of)).collect::<Vec<_>>());
    }
}
