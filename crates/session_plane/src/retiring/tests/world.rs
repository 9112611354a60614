//! Members that restart, are replaced and retire runs, with the exact sets of their copies beside.

use std::collections::{BTreeMap, BTreeSet};

use cluster::session_plane::Hlc;
use cluster::{Incarnation, NodeId};
use proptest::prelude::*;

use crate::{
    Birth, Change, ClientId, CopySets, Dot, Entry, Fact, Retiring, Run, Settled, SlotCopy, VersionVector,
};

pub(super) const MEMBERS: usize = 3;
pub(super) const COPIES: usize = 2;

#[derive(Debug, Clone, Copy)]
pub(super) enum Action {
    /// A member makes an event that reaches the members whose bits are set.
    Make {
        at: usize,
        reaches: u8,
    },
    /// Claims in every copy of a member that is whole.
    Claim {
        at: usize,
    },
    /// A copy merges that of another member.
    Merge {
        at: usize,
        from: usize,
        copy: usize,
    },
    Restart {
        at: usize,
    },
    /// The disk is lost, and another node comes in its place. The others have not noticed yet.
    Replace {
        at: usize,
    },
    /// A member has exactly the members for present from here on.
    Notice {
        at: usize,
    },
    /// A copy merges what the node that was lost last has sent, if the member has that for present still.
    MergeLost {
        at: usize,
        copy: usize,
    },
    /// The member owns the slot of a copy anew.
    NewCopy {
        at: usize,
        copy: usize,
    },
    /// Tells what is known and settled. It reaches the members whose bits are set.
    Tell {
        at: usize,
        reaches: u8,
    },
    /// Retires what is agreed, and claims.
    Retire {
        at: usize,
    },
    /// All members claim, tell and retire.
    Agree,
    /// All members merge, close what nobody has, and agree.
    Settle,
}

/// Copy, with the exact sets of its events beside it.
#[derive(Debug)]
struct Pair {
    copy: SlotCopy<u64, ()>,
    covered: BTreeSet<Dot>,
    taken: BTreeSet<Dot>,
    entries: BTreeSet<Dot>,
}

#[derive(Debug)]
struct Member {
    run: Run,
    /// Nodes that it has for present.
    present: BTreeSet<NodeId>,
    last: u64,
    copies: Vec<Pair>,
    retiring: Retiring,
}

#[derive(Debug)]
pub(super) struct World {
    members: Vec<Member>,
    /// Member whose disk was lost last.
    lost: Option<Member>,
    /// Nodes that there ever were.
    nodes: u64,
}

impl Pair {
    fn new(known: VersionVector) -> Pair {
        Pair {
            copy: SlotCopy::new(known),
            covered: BTreeSet::new(),
            taken: BTreeSet::new(),
            entries: BTreeSet::new(),
        }
    }

    fn take(&mut self, dot: Dot) {
        let clock = Hlc::at(1);
        let birth = Birth {
            dot,
            clock,
            is_clean: false,
        };
        let change = Change {
            dot,
            client: ClientId::new(b"press").expect("it is short"),
            removes: Vec::new(),
            adds: Some(Entry {
                birth,
                clock,
                fact: Fact::Connection,
                value: 0,
            }),
        };
        self.copy.apply(change).expect("there is room");
        self.taken.insert(dot);
        self.entries.insert(dot);
    }

    fn claim(&mut self) {
        if self.copy.claim(|_, _, _| Vec::new()).is_ok() {
            self.covered.append(&mut self.taken);
        }
    }

    fn merge(&mut self, other: &Pair) {
        self.copy.merge(other.copy.clone()).expect("there is room");
        let kept = |mine: &Pair, theirs: &Pair| -> BTreeSet<Dot> {
            let is_kept = |dot: &&Dot| theirs.entries.contains(dot) || !theirs.covered.contains(dot);
            mine.entries.iter().filter(is_kept).copied().collect()
        };
        self.entries = &kept(self, other) | &kept(other, self);
        self.covered.extend(&other.covered);
        self.taken.extend(&other.taken);
        self.taken = &self.taken - &self.covered;
    }

    fn check(&self, held: &BTreeSet<Dot>) -> Result<(), TestCaseError> {
        let CopySets { covered, taken, .. } = self.copy.sets();
        for dot in held {
            prop_assert_eq!(covered.covers(*dot), self.covered.contains(dot), "{:?}", dot);
            prop_assert_eq!(taken.covers(*dot), self.taken.contains(dot), "{:?}", dot);
        }
        let entries = self.copy.entries().sessions();
        let entries = entries.flat_map(|(_, entries)| entries.iter().map(|(id, _)| id.dot));
        prop_assert_eq!(&entries.collect::<BTreeSet<Dot>>(), &self.entries);
        Ok(())
    }

    fn known(&self) -> VersionVector {
        let sets = self.copy.sets();
        sets.covered.united(sets.taken).united(sets.holes)
    }
}

impl Member {
    fn new(node: u64) -> Member {
        let (node, incarnation) = (NodeId(node), Incarnation(1));
        Member {
            run: Run { node, incarnation },
            present: BTreeSet::from([node]),
            last: 0,
            copies: (0..COPIES).map(|_| Pair::new(VersionVector::default())).collect(),
            retiring: Retiring::new(node),
        }
    }

    fn settled(&self, ended: &BTreeMap<NodeId, Incarnation>) -> Settled {
        let copies = self.copies.iter().map(|pair| pair.copy.sets());
        Settled::of_copies(copies, &VersionVector::default(), ended)
    }

    fn known(&self) -> VersionVector {
        let known = self.copies.iter().map(Pair::known);
        known.fold(VersionVector::default(), |all, known| all.united(&known))
    }
}

impl World {
    pub(super) fn new() -> World {
        let mut world = World {
            members: (1..=MEMBERS as u64).map(Member::new).collect(),
            lost: None,
            nodes: MEMBERS as u64,
        };
        (0..MEMBERS).for_each(|at| world.notice(at));
        world
    }

    pub(super) fn play(&mut self, action: Action) {
        match action {
            Action::Make { at, reaches } => self.make(at, reaches),
            Action::Claim { at } => self.members[at].copies.iter_mut().for_each(Pair::claim),
            Action::Merge { at, from, copy } if at != from && self.has(at, from) => {
                let other = self.members[from].copies.swap_remove(copy);
                self.members[at].copies[copy].merge(&other);
                self.members[from].copies.push(other);
                // The last copy has come to the place of the other one.
                self.members[from].copies.swap(copy, COPIES - 1);
            }
            Action::Merge { .. } => {}
            Action::Restart { at } => self.restart(at),
            Action::Replace { at } => self.replace(at),
            Action::Notice { at } => self.notice(at),
            Action::MergeLost { at, copy } => self.merge_lost(at, copy),
            Action::NewCopy { at, copy } => {
                let known = self.members[at].known();
                self.members[at].copies[copy] = Pair::new(known);
            }
            Action::Tell { at, reaches } => self.tell(at, reaches),
            Action::Retire { at } => self.retire(at),
            Action::Agree => self.agree(),
            Action::Settle => self.settle(),
        }
    }

    fn make(&mut self, at: usize, reaches: u8) {
        let maker = &mut self.members[at];
        maker.last += 1;
        let (run, number) = (maker.run, maker.last);
        for (index, member) in self.members.iter_mut().enumerate() {
            if index == at || reaches >> index & 1 == 1 && member.present.contains(&run.node) {
                member
                    .copies
                    .iter_mut()
                    .for_each(|pair| pair.take(Dot { run, number }));
            }
        }
    }

    fn restart(&mut self, at: usize) {
        let member = &mut self.members[at];
        member.run.incarnation.0 += 1;
        member.last = 0;
        let node = member.run.node;
        member.retiring = Retiring::new(node);
        for member in &mut self.members {
            member.retiring.forget(node);
        }
    }

    fn replace(&mut self, at: usize) {
        self.nodes += 1;
        let new = Member::new(self.nodes);
        self.lost = Some(std::mem::replace(&mut self.members[at], new));
    }

    fn nodes_of_members(&self) -> BTreeSet<NodeId> {
        self.members.iter().map(|member| member.run.node).collect()
    }

    fn notice(&mut self, at: usize) {
        let members = self.nodes_of_members();
        let member = &mut self.members[at];
        for node in member.present.difference(&members) {
            member.retiring.forget(*node);
        }
        member.present = members;
    }

    /// Runs that a member has for present. The others notice a restart at once.
    fn present_runs(&self, at: usize) -> BTreeSet<Run> {
        let run_of = |node: &NodeId| {
            let mut runs = self.members.iter().map(|member| member.run);
            let gone = Run {
                node: *node,
                incarnation: Incarnation(1),
            };
            runs.find(|run| run.node == *node).unwrap_or(gone)
        };
        self.members[at].present.iter().map(run_of).collect()
    }

    /// `at` takes messages of `from`.
    fn has(&self, at: usize, from: usize) -> bool {
        self.members[at].present.contains(&self.members[from].run.node)
    }

    fn merge_lost(&mut self, at: usize, copy: usize) {
        let member = &mut self.members[at];
        let lost = self.lost.as_ref();
        if let Some(lost) = lost.filter(|lost| member.present.contains(&lost.run.node)) {
            member.copies[copy].merge(&lost.copies[copy]);
        }
    }

    /// Of the present nodes the run before, of others the last possible one.
    fn ended(&self) -> BTreeMap<NodeId, Incarnation> {
        let gone = (1..=self.nodes).map(|node| (NodeId(node), Incarnation(u32::MAX)));
        let mut ended: BTreeMap<NodeId, Incarnation> = gone.collect();
        for member in &self.members {
            ended.insert(member.run.node, Incarnation(member.run.incarnation.0 - 1));
        }
        ended
    }

    fn tell(&mut self, at: usize, reaches: u8) {
        let settled = self.members[at].settled(&self.ended());
        let known = self.members[at].known();
        let (node, among) = (self.members[at].run.node, self.present_runs(at));
        self.members[at].retiring.tell(settled.clone());
        for (index, member) in self.members.iter_mut().enumerate() {
            let is_reached = reaches >> index & 1 == 1 && member.present.contains(&node);
            if index != at && is_reached {
                member.retiring.record(node, settled.clone(), among.clone());
            }
            if index == at || is_reached {
                for pair in &mut member.copies {
                    pair.copy.need(&known).expect("there is room");
                }
            }
        }
    }

    fn retire(&mut self, at: usize) {
        let settled = self.members[at].settled(&self.ended());
        let (members, present) = (self.nodes_of_members(), self.present_runs(at));
        let member = &mut self.members[at];
        for retired in member.retiring.agreed(&settled, &present, &members, |_, _| true) {
            for pair in &mut member.copies {
                pair.copy.retire(&retired).expect("there is room");
            }
        }
    }

    fn settle(&mut self) {
        (0..MEMBERS).for_each(|at| self.notice(at));
        for (at, from) in (0..2 * MEMBERS).flat_map(|at| (0..MEMBERS).map(move |from| (at % MEMBERS, from))) {
            for copy in 0..COPIES {
                self.play(Action::Merge { at, from, copy });
            }
        }
        self.close();
        self.agree();
    }

    fn agree(&mut self) {
        for _ in 0..3 {
            for at in 0..MEMBERS {
                self.play(Action::Claim { at });
                self.tell(at, u8::MAX);
            }
            for at in 0..MEMBERS {
                self.play(Action::Retire { at });
                self.tell(at, u8::MAX);
            }
        }
    }

    /// Closes what is still a hole, since all copies have merged: nobody has it.
    fn close(&mut self) {
        for pair in self.members.iter_mut().flat_map(|member| &mut member.copies) {
            let holes = pair.copy.holes().clone();
            pair.copy.close(&holes).expect("there is room");
        }
    }

    fn copies(&self) -> impl Iterator<Item = &Pair> {
        self.members.iter().flat_map(|member| &member.copies)
    }

    /// Each copy covers exactly what it has decided upon of the events that any copy of its slot has.
    pub(super) fn check(&self) -> Result<(), TestCaseError> {
        for copy in 0..COPIES {
            let copies: Vec<&Pair> = self.members.iter().map(|member| &member.copies[copy]).collect();
            let held = copies
                .iter()
                .flat_map(|pair| pair.covered.iter().chain(&pair.taken));
            let held: BTreeSet<Dot> = held.copied().collect();
            for pair in copies {
                pair.check(&held)?;
            }
        }
        Ok(())
    }

    /// Intervals of the longest vector.
    pub(super) fn intervals(&self) -> usize {
        let lengths = self.copies().map(|pair| pair.copy.covered().intervals().len());
        lengths.max().unwrap_or(0)
    }

    /// Intervals of the longest record of what a member has told.
    pub(super) fn told(&self) -> usize {
        let told = self.members.iter().flat_map(|member| {
            let peers = member.retiring.peers.values().map(|peer| &peer.told);
            peers.chain([&member.retiring.own])
        });
        told.map(|told| told.events().intervals().len())
            .max()
            .unwrap_or(0)
    }

    /// Nodes that there ever were.
    pub(super) fn nodes(&self) -> usize {
        self.nodes as usize
    }

    /// Floor of a node in a copy of a member.
    pub(super) fn floor(&self, at: usize, node: u64) -> Option<Incarnation> {
        self.members[at].copies[0].copy.covered().floor(NodeId(node))
    }
}
