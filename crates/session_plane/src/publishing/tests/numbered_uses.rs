//! Filling of holes: against all entries in a list, and rule by rule.

use super::node::{content, number_of, use_of};
use super::*;

/// Change of the entries of one of two clients.
#[derive(Debug, Clone)]
enum UseChange {
    Insert(usize, UseEntry),
    Remove(usize, Dot),
    RemoveClient(usize),
}

fn entries() -> impl Strategy<Value = UseEntry> {
    let message = proptest::option::weighted(0.8, (1..3_u64, 1..6_u64));
    (1..3_u16, 1..4_u64, 1..9_u64, message).prop_map(|(id, connection, dot, message)| {
        let message = message.map(|(node, number)| NumberedMessage {
            number: number_of(run_of(node, 1), number),
            content: content(7),
        });
        let mut entry = use_of(connection, dot, message);
        // A dot has one clock, which need not go with its number.
        entry.clock = Hlc::at(dot * 5 % 7);
        entry.packet_use.packet_id = packet_id(id);
        entry
    })
}

fn changes() -> impl Strategy<Value = Vec<UseChange>> {
    let client = || 0..2_usize;
    let change = prop_oneof![
        6 => (client(), entries()).prop_map(|(client, entry)| UseChange::Insert(client, entry)),
        3 => (client(), entries()).prop_map(|(client, entry)| UseChange::Remove(client, entry.dot)),
        1 => client().prop_map(UseChange::RemoveClient),
    ];
    proptest::collection::vec(change, 0..24)
}

type Naive = BTreeMap<usize, BTreeMap<Dot, UseEntry>>;

fn apply(uses: &mut NumberedUses, naive: &mut Naive, change: &UseChange) {
    match change {
        UseChange::Insert(client, entry) => {
            uses.insert(&client_id(*client), *entry);
            naive.entry(*client).or_default().insert(entry.dot, *entry);
        }
        UseChange::Remove(client, dot) => {
            uses.remove(&client_id(*client), *dot);
            naive.entry(*client).or_default().remove(dot);
        }
        UseChange::RemoveClient(client) => {
            uses.remove_client(&client_id(*client));
            naive.remove(client);
        }
    }
}

/// Numbers of this node's runs 1 and 2, from `first` on.
fn lacking(first: u64) -> VersionVector {
    let mut lacking = VersionVector::default();
    for node in 1..3 {
        let run = run_of(node, 1);
        let (first, last) = (number_of(run, first).number, number_of(run, 5).number);
        for interval in [Interval::new(run, 1, 9), Interval::new(run, first, last)] {
            lacking.insert(interval.expect("ascending")).expect("few");
        }
    }
    lacking
}

proptest! {
    #[test]
    fn holes_are_filled_from_what_counts(changes in changes(), first in 1..6_u64, merged in 0..3_usize) {
        let (mut uses, mut naive) = (NumberedUses::default(), Naive::new());
        for change in &changes {
            apply(&mut uses, &mut naive, change);
        }
        let (lacking, is_merged) = (lacking(first), |client: usize| client <= merged && merged < 2);
        let is_merged_id = |id: &ClientId| (0..2).any(|client| client_id(client) == *id && is_merged(client));
        let filled = uses.fill(&lacking, is_merged_id, 99);
        let mut expected: BTreeSet<Dot> = BTreeSet::new();
        for (_, entries) in naive.iter().filter(|(client, _)| is_merged(**client)) {
            let counting = counting_uses(entries.values().copied()).into_values();
            let messages = counting.filter_map(|entry| entry.packet_use.message);
            expected.extend(messages.map(|message| message.number));
        }
        expected.retain(|number| lacking.covers(*number));
        let numbers: Vec<Dot> = filled.iter().map(|filled| filled.message.number).collect();
        prop_assert_eq!(&numbers, &expected.iter().copied().collect::<Vec<Dot>>());
        let all = naive.values().flat_map(|entries| entries.values());
        let messages = all.filter_map(|entry| entry.packet_use.message);
        let named: BTreeSet<Dot> = messages.map(|message| message.number).collect();
        let (nothing, mut vector, mut beyond) = <(VersionVector, VersionVector, VersionVector)>::default();
        uses.numbers().add_beyond(&nothing, &mut vector).expect("few");
        uses.numbers().add_beyond(&lacking, &mut beyond).expect("few");
        let clients = |with: &dyn Fn(Dot) -> bool| -> BTreeSet<ClientId> {
            let of_client = naive.iter().filter(|(_, entries)| {
                let messages = entries.values().filter_map(|entry| entry.packet_use.message);
                messages.map(|message| message.number).any(with)
            });
            of_client.map(|(client, _)| client_id(*client)).collect()
        };
        prop_assert_eq!(uses.numbers().clients_beyond(&nothing), clients(&|_| true));
        prop_assert_eq!(uses.numbers().clients_beyond(&lacking), clients(&|number| !lacking.covers(number)));
        prop_assert_eq!(uses.numbers().clients_within(&lacking), clients(&|number| lacking.covers(number)));
        for node in 1..3 {
            for number in 1..7 {
                let number = number_of(run_of(node, 1), number);
                prop_assert_eq!(vector.covers(number), named.contains(&number));
                let is_beyond = named.contains(&number) && !lacking.covers(number);
                prop_assert_eq!(beyond.covers(number), is_beyond);
            }
        }
        let all = uses.fill(&lacking, |_| true, 99);
        prop_assert!(uses.fill(&lacking, |_| true, 1).iter().eq(all.first()));
    }
}

#[test]
fn a_message_is_filled_with_the_clock_of_its_first_entry() {
    let number = number_of(run_of(1, 1), 3);
    let content = content(7);
    let message = NumberedMessage { number, content };
    let mut entry = use_of(50, 60, Some(message));
    let mut uses = NumberedUses::default();
    let fill = |uses: &NumberedUses| uses.fill(&lacking(1), |_| true, 9);
    uses.insert(&client_id(0), entry);
    let filled = |clock| FilledMessage {
        message,
        clock,
        client: client_id(0),
        entry: crate::EntryId {
            kind: crate::EntryKind::Received,
            dot: entry.dot,
        },
    };
    assert_eq!(fill(&uses), [filled(Hlc::at(60))]);
    let clock = Hlc::at(40);
    entry.packet_use.message_clock = Some(clock);
    uses.insert(&client_id(0), entry);
    assert_eq!(fill(&uses), [filled(clock)]);
    uses.insert(&client_id(0), use_of(51, 61, None));
    assert_eq!(fill(&uses), [], "a later connection has freed the packet id");
}
