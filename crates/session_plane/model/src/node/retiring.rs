//! Retiring: a version vector forgets the runs that have ended (section 7 of the specification).
//!
//! A node starts often in its life, and each start is an actor of its own. When all members have told that their copies have
//! decided upon the same events of an ended run, nobody can have another. From then on everything of that run is covered, which
//! a vector stores as one number for each node.
//!
//! What a member told counts only if it had exactly the members for present, each in its present run. From then on only these
//! give it anything, the ended run does not, and each keeps what it gives away. So of the members the first to get an event of the
//! run after it told has it from nobody. An entry that names a QoS 2 number gives that number away, and may be all that tells of it.
//! A node that deletes a copy with such an entry makes a ring marker: what counts was told with knowledge of it, by owners that have
//! merged the copy.
//!
//! The node that sees this first tells it with its knowledge. Another takes its word if both had told the same before, and for the
//! copies that have that: a node that came later, or a copy that was made later, has to merge.

use std::rc::Rc;

use super::{Node, Observation, Step};
use crate::copy::Content;
use crate::ids::{EventSet, NodeId, Numbers, RUNS, Run};
use crate::rules::Rule;

/// For each run the events that all copies of a node have decided upon, if they are the same and no copy knows of others.
pub type Settled = [Option<Numbers>; RUNS];

impl Node {
    /// What this node tells of each run.
    pub(super) fn tell_settled(&mut self) -> Rc<Settled> {
        let settled = Rc::new(self.settled());
        for (told, now) in self.told_settled.iter_mut().zip(settled.iter()) {
            *told = now.filter(|now| !now.is_retired()).or(*told);
        }
        settled
    }

    fn settled(&self) -> Settled {
        let named = self.named_numbers();
        std::array::from_fn(|index| {
            let run = Run(index as u8);
            self.settled_of(run)
                .filter(|numbers| named.of(run).minus(*numbers).is_empty())
        })
    }

    fn settled_of(&self, run: Run) -> Option<Numbers> {
        let contents = || self.copies.iter().flatten().map(|copy| &copy.content);
        let first = contents().next()?.covered.of(run);
        let is_settled = |content: &Content| {
            let others = content.needed.of(run).union(content.taken.of(run));
            content.covered.of(run) == first && others.minus(first).is_empty()
        };
        contents().all(is_settled).then_some(first)
    }

    /// QoS 2 numbers that entries stand for: they may be routed yet.
    fn named_numbers(&self) -> EventSet {
        let mut named = EventSet::default();
        let entries = self
            .copies
            .iter()
            .flatten()
            .flat_map(|copy| &copy.content.entries);
        for numbered in entries.filter_map(|entry| entry.numbered()) {
            named.insert(numbered.number);
        }
        named
    }

    /// Covers everything of runs that have ended, when all members have told the same of them.
    pub(super) fn retire_runs(&mut self, step: &mut Step<'_>) {
        let settled = self.settled();
        let started = step.directory.node_of.len();
        for (index, own) in settled.into_iter().enumerate().take(started) {
            let run = Run(index as u8);
            if let Some(numbers) = self.agreed(step, run, own) {
                self.retire(step, run, numbers);
            }
        }
    }

    /// Events of a run that has ended, if no member has others. `own` is what all copies here have.
    fn agreed(&self, step: &Step<'_>, run: Run, own: Option<Numbers>) -> Option<Numbers> {
        let told = self.told_settled[run.index()];
        let has_retired = |peer| {
            self.membership
                .settled(peer, run)
                .is_some_and(Numbers::is_retired)
        };
        let is_same = |peer| self.membership.settled_before(peer, run) == told;
        let peers = || self.membership.peers().iter();
        if peers().any(|peer| has_retired(peer) && is_same(peer)) {
            return told;
        }
        let is_complete = self.membership.view.present == step.directory.members;
        let agrees = |peer| {
            let among_all = self.has_told_among_all(step, peer);
            among_all && self.membership.settled(peer, run) == told
        };
        let is_known = own == told && is_complete && peers().all(agrees);
        own.filter(|_| self.has_ended(step, run) && (is_known || !step.holds(Rule::RetireAgreed)))
    }

    /// What `peer` has told last, it told when it had exactly the members for present, in the runs that they have now, and knew
    /// their last ring markers. Nobody else can have given it anything since, and what another member has given it, that one had
    /// when it told.
    ///
    /// The members have to be present here.
    pub(super) fn has_told_among_all(&self, step: &Step<'_>, peer: NodeId) -> bool {
        let runs = self.present_runs();
        let knows_marker = |run: Run| {
            let marker = self.receiver.last_marker(run);
            marker.is_none_or(|marker| self.membership.has_told_of(peer, marker))
        };
        let among_all = self.membership.has_told_among(peer, &runs);
        among_all && runs.into_iter().flatten().all(knows_marker) || !step.holds(Rule::ToldAmongAll)
    }

    fn retire(&mut self, step: &mut Step<'_>, run: Run, numbers: Numbers) {
        if numbers.is_retired() {
            return;
        }
        let contents = self.copies.iter_mut().flatten().map(|copy| &mut copy.content);
        for content in contents.filter(|content| content.covered.of(run) == numbers) {
            step.counters.retired += 1;
            step.observed.push(Observation::Retired { run, numbers });
            content.covered.retire(run);
        }
    }

    /// A later run of that node is present, or the node is no member any more.
    pub(super) fn has_ended(&self, step: &Step<'_>, run: Run) -> bool {
        let node = step.directory.node(run);
        let current = if node == self.id {
            Some(self.sender.run)
        } else {
            self.membership.run_of(node)
        };
        current.is_some_and(|current| run < current) || !step.directory.members.has(node)
    }
}
