//! Source: who is given what, when it is told, and what is taken back.

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::AssignedMessage;
use crate::MadeEvent;

mod rivals;

/// Copy of one part. This node is 1; presences are of nodes 2 and 3.
#[derive(Default)]
struct Copies {
    entries: BTreeMap<Dot, GroupEntry>,
    ended: Option<Run>,
}

impl GroupCopies<u64> for Copies {
    fn read(&self, _: &GroupPlace) -> Option<Vec<ReadEntry>> {
        let entries = self.entries.iter();
        Some(
            entries
                .map(|(dot, entry)| ReadEntry {
                    dot: *dot,
                    entry: *entry,
                })
                .collect(),
        )
    }

    fn value(&self, _: &GroupPlace, message: Dot) -> Option<u64> {
        self.entries.contains_key(&message).then_some(message.number)
    }

    fn point(&self, _: &GroupPlace, _: Dot) -> Option<u64> {
        None
    }

    fn covers(&self, _: &GroupPlace, _: Dot) -> bool {
        true
    }

    fn has_ended(&self, run: Run) -> bool {
        self.ended == Some(run)
    }
}

/// Primary owner of the part.
struct Owner {
    source: GroupSource,
    copies: Copies,
    events: u64,
}

fn place() -> GroupPlace {
    let group = group();
    let slot = group.slot(b"plant/1/cmd");
    GroupPlace { slot, group }
}

fn member(of: u64) -> GroupEntry {
    let (birth, since) = (birth(of).dot, Hlc::at(1));
    GroupEntry::Member { birth, since }
}

fn presence(of: u64) -> GroupEntry {
    GroupEntry::Presence { birth: birth(of).dot }
}

/// Message, presence and event of each assignment that the actions ask for or tell.
#[derive(Debug, PartialEq, Eq)]
enum Did {
    Assigned(u64, Dot),
    Gave(u64, Dot),
    Ended(Dot),
}

impl Owner {
    /// Owner with two members, each with a presence: 2:1 and 3:1.
    fn new(given_max: usize, window: usize) -> Owner {
        let mut owner = Owner {
            source: GroupSource::new(run(1), SourceLimits { given_max, window }),
            copies: Copies::default(),
            events: 0,
        };
        owner.step(SourceEvent::RunsChanged([1, 2, 3].map(run).into()));
        owner.step(SourceEvent::PartReady(place()));
        for (dot, entry) in [
            (dot(2, 9), member(2)),
            (dot(3, 9), member(3)),
            (dot(2, 1), presence(2)),
            (dot(3, 1), presence(3)),
        ] {
            owner.add(dot, entry);
        }
        owner
    }

    fn step(&mut self, event: SourceEvent) -> Vec<SourceAction<u64>> {
        let mut actions = Vec::new();
        self.source.step(event, &self.copies, &mut actions);
        actions
    }

    fn add(&mut self, dot: Dot, entry: GroupEntry) -> Vec<SourceAction<u64>> {
        self.copies.entries.insert(dot, entry);
        let place = place();
        self.step(SourceEvent::Added { place, dot, entry })
    }

    fn remove(&mut self, dot: Dot) -> Vec<SourceAction<u64>> {
        self.copies.entries.remove(&dot);
        self.step(SourceEvent::Removed { place: place(), dot })
    }

    fn publish(&mut self, number: u64) -> Vec<SourceAction<u64>> {
        let clock = Hlc::at(100 + number);
        self.add(dot(9, number), GroupEntry::Message { clock })
    }

    /// Makes the event of an assignment; gives its dot.
    fn make(&mut self, message: u64, presence: Dot) -> Dot {
        self.events += 1;
        let (dot_made, clock) = (dot(1, self.events), Hlc::at(1_000 + self.events));
        let message = dot(9, message);
        let assigned = AssignedMessage { message, presence };
        let entry = GroupEntry::Assignment { assigned, clock };
        self.copies.entries.insert(dot_made, entry);
        let place = place();
        let made = MadeEvent { dot: dot_made, clock };
        let actions = self.step(SourceEvent::Assigned {
            place,
            assigned,
            made,
        });
        assert_eq!(gave(&actions), [], "not every node knows it");
        dot_made
    }

    fn know(&mut self, message: u64, assignment: Dot) -> Vec<Did> {
        let (place, message) = (place(), dot(9, message));
        let actions = self.step(SourceEvent::Known {
            place,
            message,
            assignment,
        });
        did(&actions)
    }
}

fn did(actions: &[SourceAction<u64>]) -> Vec<Did> {
    let did = actions.iter().filter_map(|action| match action {
        SourceAction::Assign { assigned, .. } => {
            Some(Did::Assigned(assigned.message.number, assigned.presence))
        }
        SourceAction::Give { to, give } => {
            assert_eq!(*to, give.presence.run.node);
            assert_eq!(give.value, give.message.number);
            Some(Did::Gave(give.value, give.presence))
        }
        SourceAction::EndPresence { presence, .. } => Some(Did::Ended(*presence)),
        SourceAction::AwaitKnown { .. } => None,
    });
    did.collect()
}

fn gave(actions: &[SourceAction<u64>]) -> Vec<Did> {
    let mut did = did(actions);
    did.retain(|did| matches!(did, Did::Gave(..)));
    did
}

const A: fn() -> Dot = || dot(2, 1);
const B: fn() -> Dot = || dot(3, 1);

#[test]
fn the_presence_with_the_fewest_messages_gets_the_next_and_of_several_the_earliest() {
    let mut owner = Owner::new(10, 10);
    assert_eq!(did(&owner.publish(1)), [Did::Assigned(1, A())]);
    assert_eq!(did(&owner.publish(2)), [Did::Assigned(2, B())]);
    assert_eq!(did(&owner.publish(3)), [Did::Assigned(3, A())]);
    assert_eq!(owner.source.given(), 3);
    owner.remove(dot(9, 1));
    owner.remove(dot(9, 3));
    assert_eq!(did(&owner.publish(4)), [Did::Assigned(4, A())]);
    assert_eq!(owner.source.given(), 2);
}

#[test]
fn a_connection_is_told_when_every_node_knows_once() {
    let mut owner = Owner::new(10, 10);
    owner.publish(1);
    let made = owner.make(1, A());
    assert_eq!(owner.know(1, dot(1, 77)), [], "another assignment");
    assert_eq!(owner.know(1, made), [Did::Gave(1, A())]);
    assert_eq!(owner.know(1, made), []);
    let again = owner.step(SourceEvent::LinkRenewed(NodeId(2)));
    assert_eq!(did(&again), [Did::Gave(1, A())]);
    assert_eq!(did(&owner.step(SourceEvent::LinkRenewed(NodeId(3)))), []);
}

#[test]
fn a_message_is_taken_back_when_its_presence_has_ended_or_its_node_is_given_up() {
    let mut owner = Owner::new(10, 10);
    owner.publish(1);
    let made = owner.make(1, A());
    owner.know(1, made);
    assert_eq!(did(&owner.remove(A())), [Did::Assigned(1, B())]);
    let made = owner.make(1, B());
    let given_up = owner.step(SourceEvent::RunsChanged([run(1)].into()));
    assert_eq!(did(&given_up), []);
    assert_eq!((owner.source.given(), owner.source.waiting()), (0, 1));
    assert_eq!(owner.know(1, made), [], "it was taken back");
}

#[test]
fn a_part_that_is_lost_or_read_anew_is_assigned_again_to_the_same_presences() {
    let mut owner = Owner::new(10, 10);
    owner.publish(1);
    owner.publish(2);
    let made = owner.make(2, B());
    owner.step(SourceEvent::PartLost(place()));
    assert_eq!(owner.source.given(), 0);
    assert_eq!(owner.know(2, made), [], "this node does not decide");
    let read = owner.step(SourceEvent::PartReady(place()));
    assert_eq!(did(&read), [Did::Assigned(2, B()), Did::Assigned(1, A())]);
}

#[test]
fn who_leaves_keeps_what_it_was_given_and_gets_nothing_new() {
    let mut owner = Owner::new(10, 10);
    owner.publish(1);
    let made = owner.make(1, A());
    owner.remove(dot(2, 9));
    assert_eq!(owner.know(1, made), [Did::Gave(1, A())]);
    assert_eq!(did(&owner.publish(2)), [Did::Assigned(2, B())]);
    assert_eq!(did(&owner.publish(3)), [Did::Assigned(3, B())]);
    owner.remove(dot(3, 9));
    assert_eq!(did(&owner.publish(4)), [], "the group has no member");
}

#[test]
fn a_membership_that_is_written_anew_changes_nothing() {
    let mut owner = Owner::new(10, 10);
    owner.publish(1);
    let made = owner.make(1, A());
    assert_eq!(owner.add(dot(2, 10), member(2)), []);
    assert_eq!(owner.remove(dot(2, 9)), []);
    assert_eq!(owner.know(1, made), [Did::Gave(1, A())]);
}

#[test]
fn windows_and_the_limit_of_all_hold_messages_back() {
    let mut owner = Owner::new(10, 1);
    owner.publish(1);
    owner.publish(2);
    assert_eq!(did(&owner.publish(3)), []);
    assert_eq!(owner.source.waiting(), 1);
    assert_eq!(did(&owner.remove(dot(9, 2))), [Did::Assigned(3, B())]);
    let mut owner = Owner::new(1, 10);
    owner.publish(1);
    assert_eq!(did(&owner.publish(3)), []);
    assert_eq!(did(&owner.publish(2)), []);
    assert_eq!(
        did(&owner.remove(dot(9, 1))),
        [Did::Assigned(2, B())],
        "by clocks, and in turn"
    );
}

#[test]
fn a_presence_of_a_run_that_has_ended_is_removed_once() {
    let mut owner = Owner::new(10, 10);
    owner.copies.ended = Some(run(3));
    let present: BTreeSet<Run> = [run(1), run(2)].into();
    let ended = owner.step(SourceEvent::RunsChanged(present.clone()));
    assert_eq!(did(&ended), [Did::Ended(B())]);
    assert_eq!(did(&owner.step(SourceEvent::RunsChanged(present))), []);
}
