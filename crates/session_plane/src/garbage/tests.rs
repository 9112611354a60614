use cluster::session_plane::Hlc;
use cluster::{Incarnation, NodeId};
use proptest::prelude::*;

use super::*;
use crate::slot_entries::{Change, SlotEntries};
use crate::{Birth, Dot, Entry, EntryKind, Fact, Interval, Run};

const CLIENT: &[u8] = b"press";

/// What one of two nodes does, or both do.
#[derive(Debug, Clone, Copy)]
enum Action {
    /// CONNECT, with Clean Start or without.
    Connect {
        at: usize,
        is_clean: bool,
    },
    /// A message is queued, if there is a session.
    Publish {
        at: usize,
    },
    /// The first message of the queue gets a packet id.
    Deliver {
        at: usize,
    },
    /// The first message of the queue is acknowledged.
    Acknowledge {
        at: usize,
    },
    /// The session ends.
    End {
        at: usize,
    },
    /// Both copies merge, and each node tells what it knows.
    Exchange,
    Look {
        at: usize,
    },
    Take {
        at: usize,
    },
}

/// Entry of an event. Without a birth it is born with the event.
#[derive(Debug, Clone)]
struct Added {
    fact: Fact,
    birth: Option<Birth>,
    is_clean: bool,
}

impl Added {
    fn of(fact: Fact, birth: Birth) -> Added {
        let (birth, is_clean) = (Some(birth), false);
        Added {
            fact,
            birth,
            is_clean,
        }
    }

    fn entry(self, dot: Dot, clock: Hlc) -> Entry<u64> {
        let is_clean = self.is_clean;
        Entry {
            birth: self.birth.unwrap_or(Birth { dot, clock, is_clean }),
            clock,
            fact: self.fact,
            value: 0,
        }
    }
}

/// Copy of one client at one node.
#[derive(Debug, Clone, Default)]
struct Copy {
    covered: VersionVector,
    entries: SlotEntries<u64>,
    clock: u64,
    last: u64,
}

impl Copy {
    fn live(&self, kind: EntryKind) -> Vec<(Dot, Entry<u64>)> {
        let live = self.entries.live(&self.covered, CLIENT, kind);
        live.map(|(dot, entry)| (dot, entry.clone())).collect()
    }

    /// The session that counts and was written last.
    fn session(&self) -> Option<Entry<u64>> {
        let sessions = self.live(EntryKind::Session).into_iter();
        sessions
            .max_by_key(|(dot, entry)| (entry.clock, *dot))
            .map(|(_, entry)| entry)
    }

    fn seen(&self, is_seen: impl Fn(EntryKind, &Entry<u64>) -> bool) -> Vec<Dot> {
        let entries = self
            .entries
            .session(CLIENT)
            .into_iter()
            .flat_map(|session| session.iter());
        entries
            .filter(|(id, entry)| is_seen(id.kind, entry))
            .map(|(id, _)| id.dot)
            .collect()
    }

    /// Makes an event of this node.
    fn make(&mut self, node: usize, removes: Vec<Dot>, adds: Option<Added>) {
        self.last += 1;
        self.clock += 1;
        let run = Run {
            node: NodeId(node as u64 + 1),
            incarnation: Incarnation(1),
        };
        let dot = Dot {
            run,
            number: self.last,
        };
        let clock = Hlc::at(self.clock);
        let adds = adds.map(|added| added.entry(dot, clock));
        let client = ClientId::new(CLIENT).expect("it is short");
        let change = Change {
            dot,
            client,
            removes,
            adds,
        };
        self.entries.apply(&self.covered, change).expect("there is room");
        let event = Interval::one(dot).expect("it has a number");
        self.covered.insert(event).expect("there are two runs");
    }

    fn connect(&mut self, node: usize, is_clean: bool) {
        match self.session().filter(|_| !is_clean) {
            Some(session) => {
                let birth = session.birth;
                let removes = self.seen(|kind, entry| kind == EntryKind::Session && entry.birth == birth);
                self.make(
                    node,
                    removes,
                    Some(Added::of(Fact::Session { connected: None }, birth)),
                );
            }
            None => {
                // A clean start ends what it sees of the older session.
                self.end(node);
                let added = Added {
                    fact: Fact::Session { connected: None },
                    birth: None,
                    is_clean,
                };
                self.make(node, Vec::new(), Some(added));
            }
        }
    }

    fn publish(&mut self, node: usize) {
        if let Some(session) = self.session() {
            self.make(node, Vec::new(), Some(Added::of(Fact::Message, session.birth)));
        }
    }

    fn deliver(&mut self, node: usize) {
        if let Some((message, entry)) = self.live(EntryKind::Message).into_iter().next() {
            let added = Added::of(Fact::Delivery { message }, entry.birth);
            self.make(node, Vec::new(), Some(added));
        }
    }

    /// Removes the message alone: its packet id stays until PUBCOMP.
    fn acknowledge(&mut self, node: usize) {
        if let Some((message, _)) = self.live(EntryKind::Message).into_iter().next() {
            self.make(node, vec![message], None);
        }
    }

    fn end(&mut self, node: usize) {
        let Some(entries) = self.entries.session(CLIENT).filter(|_| self.session().is_some()) else {
            return;
        };
        let Some(ending) = entries.ending(&self.covered) else {
            return;
        };
        let removes = self.seen(|_, _| true);
        self.make(node, removes, Some(Added::of(ending.fact, ending.birth)));
    }

    fn garbage(&self) -> BTreeSet<EntryId> {
        self.entries.garbage(&self.covered, CLIENT)
    }
}

/// Two nodes that are all members, beside two that drop no garbage.
#[derive(Debug, Default)]
struct Cluster {
    copies: [Copy; 2],
    naive: [Copy; 2],
    garbage: [Garbage; 2],
    /// What each node was told last by the other one.
    told: [VersionVector; 2],
}

fn place() -> GarbagePlace {
    GarbagePlace {
        slot: Slot::of_client(CLIENT),
        client: ClientId::new(CLIENT).expect("it is short"),
    }
}

/// Merges two copies, and their clocks.
fn exchange([one, other]: &mut [Copy; 2]) {
    let mut both = one.covered.clone();
    both.unite(&other.covered).expect("there are two runs");
    one.entries
        .merge(&one.covered, other.entries.clone(), &other.covered, &both);
    one.clock = one.clock.max(other.clock);
    (other.entries, other.clock) = (one.entries.clone(), one.clock);
    (one.covered, other.covered) = (both.clone(), both);
}

impl Cluster {
    fn play(&mut self, action: Action) {
        for copies in [&mut self.copies, &mut self.naive] {
            match action {
                Action::Connect { at, is_clean } => copies[at].connect(at, is_clean),
                Action::Publish { at } => copies[at].publish(at),
                Action::Deliver { at } => copies[at].deliver(at),
                Action::Acknowledge { at } => copies[at].acknowledge(at),
                Action::End { at } => copies[at].end(at),
                Action::Exchange => exchange(copies),
                Action::Look { .. } | Action::Take { .. } => {}
            }
        }
        match action {
            Action::Exchange => self.told = [self.copies[1].covered.clone(), self.copies[0].covered.clone()],
            Action::Look { at } => self.look(at),
            Action::Take { at } => self.take(at),
            Action::Connect { .. }
            | Action::Publish { .. }
            | Action::Deliver { .. }
            | Action::Acknowledge { .. }
            | Action::End { .. } => {}
        }
    }

    fn look(&mut self, at: usize) {
        let copy = &self.copies[at];
        self.garbage[at].note(place());
        self.garbage[at].look(&copy.covered, Hlc::ZERO, |_| Some(copy.garbage()));
    }

    fn take(&mut self, at: usize) {
        let is_known = self.garbage[at]
            .awaited()
            .is_some_and(|(known, _)| known.is_within(&self.told[at]));
        if !is_known {
            return;
        }
        let copy = &self.copies[at];
        for garbage in self.garbage[at].take_known_to_all(|_| Some(copy.garbage())) {
            self.copies[at]
                .entries
                .drop_garbage(&garbage.place.client, &garbage.entries);
        }
    }

    /// Lets both nodes drop everything that is garbage.
    fn come_to_rest(&mut self) {
        for _ in 0..4 {
            for at in 0..2 {
                self.play(Action::Exchange);
                self.play(Action::Look { at });
                self.play(Action::Exchange);
                self.play(Action::Take { at });
            }
        }
    }
}

fn action() -> impl Strategy<Value = Action> {
    let at = || 0..2_usize;
    prop_oneof![
        3 => (at(), any::<bool>()).prop_map(|(at, is_clean)| Action::Connect { at, is_clean }),
        1 => at().prop_map(|at| Action::Publish { at }),
        1 => at().prop_map(|at| Action::Deliver { at }),
        1 => at().prop_map(|at| Action::Acknowledge { at }),
        2 => at().prop_map(|at| Action::End { at }),
        1 => Just(Action::Exchange),
        2 => at().prop_map(|at| Action::Look { at }),
        2 => at().prop_map(|at| Action::Take { at }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_048))]

    #[test]
    fn dropping_changes_nothing_that_counts_and_leaves_nothing(
        actions in proptest::collection::vec(action(), 0..40),
    ) {
        let mut cluster = Cluster::default();
        for action in actions {
            cluster.play(action);
        }
        cluster.come_to_rest();
        for (copy, naive) in cluster.copies.iter().zip(&cluster.naive) {
            prop_assert!(copy.garbage().is_empty());
            for kind in [EntryKind::Session, EntryKind::Message, EntryKind::Delivery] {
                prop_assert_eq!(copy.live(kind), naive.live(kind));
            }
        }
    }
}

fn ended() -> Copy {
    let mut copy = Copy::default();
    copy.connect(0, true);
    copy.end(0);
    copy
}

#[test]
fn garbage_that_has_changed_waits_anew() {
    let mut copy = ended();
    let mut garbage = Garbage::default();
    garbage.note(place());
    garbage.look(&copy.covered, Hlc::at(7), |_| Some(copy.garbage()));
    assert_eq!(garbage.awaited(), Some((&copy.covered, Hlc::at(7))));
    let awaited = garbage.awaited().map(|(known, _)| known.clone());
    copy.connect(0, true);
    copy.end(0);
    assert_eq!(garbage.take_known_to_all(|_| Some(copy.garbage())), []);
    garbage.look(&copy.covered, Hlc::ZERO, |_| Some(copy.garbage()));
    assert_ne!(
        garbage.awaited().map(|(known, _)| known.clone()),
        awaited,
        "it was noted again"
    );
}

#[test]
fn garbage_of_a_copy_that_answers_waits() {
    let copy = ended();
    let mut garbage = Garbage::default();
    garbage.note(place());
    garbage.look(&copy.covered, Hlc::ZERO, |_| None);
    assert_eq!(garbage.awaited(), None);
    garbage.look(&copy.covered, Hlc::ZERO, |_| Some(copy.garbage()));
    assert_eq!(garbage.take_known_to_all(|_| None), []);
    garbage.look(&copy.covered, Hlc::ZERO, |_| Some(copy.garbage()));
    assert_eq!(garbage.take_known_to_all(|_| Some(copy.garbage())).len(), 1);
}

#[test]
fn nothing_waits_after_a_handshake_or_without_a_copy() {
    let copy = ended();
    let mut garbage = Garbage::default();
    garbage.note(place());
    garbage.look(&copy.covered, Hlc::ZERO, |_| Some(copy.garbage()));
    garbage.begin_anew();
    assert_eq!(garbage.awaited(), None);
    garbage.look(&copy.covered, Hlc::ZERO, |_| Some(copy.garbage()));
    garbage.forget(place().slot);
    garbage.look(&copy.covered, Hlc::ZERO, |_| Some(copy.garbage()));
    assert_eq!(garbage.awaited(), None);
}
