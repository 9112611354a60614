//! Assignments of one message: to which presence it is given, and whether that was told.
//!
//! Two nodes that take themselves for primary at the same time assign a message without knowing of each
//! other. Every node that is present to both has both assignments, and has had one of them first: so one
//! of the two learns of the other's before it tells a connection. It cannot know whether the other has
//! told one. So it yields: the message goes to the other's presence. A node that has told stays with
//! what it has told.
//!
//! Where both learn of the other's, both would yield, and again. So the lower run yields only once its
//! own assignment is known, and the higher one at once.
//!
//! *Invariants*: an assignment of this run is told only while no rival is known. One that names another
//! presence stays while that presence may have the message: when the own presence ends, the message goes
//! there, and not to a third one.

use std::collections::{BTreeMap, BTreeSet};

use crate::feed::QueueKey;
use crate::{Dot, Run};

/// Assignments of a message, by this run and by others.
#[derive(Debug, Default)]
pub(super) struct Assignments {
    /// Presence of each, in the order of clocks.
    known: BTreeMap<QueueKey, Dot>,
    own: Option<Own>,
    /// Those of other runs that were not known when the own one was asked for.
    rivals: BTreeSet<Dot>,
    /// The own one has yielded to a rival.
    has_yielded: bool,
    /// Presences whose node this run has told.
    told: BTreeSet<Dot>,
}

/// Runs, as a message's assignments depend on them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Runs<'a> {
    /// This run.
    pub(super) own: Run,
    /// Runs that are present, this one among them.
    pub(super) present: &'a BTreeSet<Run>,
}

/// Assignment by this run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Own {
    /// Its event was asked for.
    Making { presence: Dot },
    /// Its event is made.
    Made(MadeAssignment),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct MadeAssignment {
    of: Assignment,
    /// Every present node knows it.
    is_known: bool,
    /// The node of the presence was told over its present connection.
    is_given: bool,
}

/// Assignment of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Assignment {
    /// Its event.
    pub(super) dot: Dot,
    /// Presence that it names.
    pub(super) presence: Dot,
}

impl Own {
    fn presence(self) -> Dot {
        match self {
            Own::Making { presence } => presence,
            Own::Made(made) => made.of.presence,
        }
    }

    fn is_known(self) -> bool {
        matches!(self, Own::Made(made) if made.is_known)
    }
}

impl Assignments {
    /// Adds an assignment that the copy has.
    pub(super) fn add(&mut self, run: Run, key: QueueKey, presence: Dot) {
        if self.known.insert(key, presence).is_none() && self.own.is_some() && key.dot.run != run {
            self.rivals.insert(key.dot);
        }
    }

    /// This run has told the node of a presence, before it read the part.
    pub(super) fn set_told(&mut self, presence: Dot) {
        self.told.insert(presence);
    }

    /// Removes an assignment.
    pub(super) fn remove(&mut self, dot: Dot) {
        self.known.retain(|key, _| key.dot != dot);
        self.rivals.remove(&dot);
    }

    /// Asks for an assignment of this run to `presence`. Gives those that it replaces.
    ///
    /// `is_there` says that the connection of a presence is open as far as this node knows, and `is_gone`
    /// that it has ended for certain.
    pub(super) fn make(
        &mut self,
        run: Run,
        presence: Dot,
        is_there: impl Fn(Dot) -> bool,
        is_gone: impl Fn(Dot) -> bool,
    ) -> Vec<Dot> {
        let goes_on = self.untold(run, &is_there).filter(|_| !self.has_yielded);
        self.rivals.clear();
        if goes_on.is_some_and(|own| own.presence == presence) {
            let others = self.there(&is_there).filter(|other| other.dot.run != run);
            self.rivals = others.map(|other| other.dot).collect();
        }
        self.has_yielded = false;
        self.own = Some(Own::Making { presence });
        self.told.retain(|told| !is_gone(*told));
        let stays = |of: &Assignment| {
            let is_told = self.told.contains(&of.presence) && of.presence != presence;
            (of.dot.run != run || is_told) && !is_gone(of.presence)
        };
        self.all().filter(|of| !stays(of)).map(|of| of.dot).collect()
    }

    /// The event of an assignment to `presence` is made. False: it was not asked for any more.
    pub(super) fn made(&mut self, dot: Dot, presence: Dot) -> bool {
        let is_asked_for = self.own == Some(Own::Making { presence });
        if is_asked_for {
            self.own = Some(Own::Made(MadeAssignment {
                of: Assignment { dot, presence },
                is_known: false,
                is_given: false,
            }));
        }
        is_asked_for
    }

    /// Every present node knows an assignment (rule `give-first`).
    pub(super) fn set_known(&mut self, dot: Dot) {
        if let Some(Own::Made(made)) = &mut self.own {
            made.is_known |= made.of.dot == dot;
        }
    }

    /// What was told may be lost.
    pub(super) fn give_again(&mut self) {
        if let Some(Own::Made(made)) = &mut self.own {
            made.is_given = false;
        }
    }

    /// A connection is told of the own assignment.
    pub(super) fn set_given(&mut self) {
        if let Some(Own::Made(made)) = &mut self.own {
            made.is_given = true;
            self.told.insert(made.of.presence);
        }
    }

    /// Finds out to which presence the message is given. `counts`: it is for the group. One that does not
    /// count stays with a presence that was told, which may acknowledge it. No other is kept from further
    /// messages by it.
    pub(super) fn settle(
        &mut self,
        runs: Runs<'_>,
        counts: bool,
        is_there: impl Fn(Dot) -> bool,
    ) -> Option<Dot> {
        let is_valid = |own: &Own| match own {
            Own::Making { .. } => true,
            Own::Made(made) => self.all().any(|of| of == made.of),
        };
        let own = self
            .own
            .filter(|own| counts && is_there(own.presence()) && is_valid(own));
        self.own = own;
        if own.is_some_and(|own| self.rival(own, runs.own, &is_there).is_some()) {
            self.own = None;
            self.has_yielded = true;
        }
        match self.own {
            Some(own) => Some(own.presence()),
            None if counts => self.choose(runs, &is_there),
            None => self.latest_told(&is_there).map(|of| of.presence),
        }
    }

    /// This run has assigned the message.
    pub(super) fn is_own(&self) -> bool {
        self.own.is_some()
    }

    /// Own assignment of which the connection is to be told.
    pub(super) fn due(&self) -> Option<Assignment> {
        match self.own {
            Some(Own::Made(made)) if made.is_known && !made.is_given => Some(made.of),
            Some(Own::Made(_) | Own::Making { .. }) | None => None,
        }
    }

    /// Events of all assignments.
    pub(super) fn dots(&self) -> impl Iterator<Item = Dot> + '_ {
        self.known.keys().map(|key| key.dot)
    }

    /// Presences whose node this run has told.
    pub(super) fn told(&self) -> impl Iterator<Item = Dot> + '_ {
        self.told.iter().copied()
    }

    /// Rival to which an own assignment yields.
    fn rival(&self, own: Own, run: Run, is_there: impl Fn(Dot) -> bool) -> Option<Assignment> {
        let is_told = self.told.contains(&own.presence());
        let wins = |rival: &Assignment| {
            let is_rival = self.rivals.contains(&rival.dot) && rival.presence != own.presence();
            is_rival && !is_told && (rival.dot.run < run || own.is_known())
        };
        self.there(is_there).filter(wins).last()
    }

    /// Presence that goes on with the message, while this run has not assigned it.
    ///
    /// Of several that others have assigned, one by a run that is present goes before one by a run that
    /// is not: what that has told on this side, its successor knew.
    fn choose(&self, runs: Runs<'_>, is_there: impl Fn(Dot) -> bool) -> Option<Dot> {
        let run = runs.own;
        let others = || self.there(&is_there).filter(|of| of.dot.run != run);
        let rival = others()
            .filter(|of| self.has_yielded && self.rivals.contains(&of.dot))
            .last();
        let untold = self.untold(run, &is_there);
        let keeps = !self.has_yielded && others().all(|other| other.dot.run > run);
        let by_present = others().filter(|of| runs.present.contains(&of.dot.run)).last();
        let chosen = self
            .latest_told(&is_there)
            .or(rival)
            .or(untold.filter(|_| keeps))
            .or(by_present)
            .or(others().last())
            .or(untold);
        chosen.map(|of| of.presence)
    }

    /// Latest assignment to a presence whose node this run has told.
    fn latest_told(&self, is_there: impl Fn(Dot) -> bool) -> Option<Assignment> {
        let is_told = |of: &Assignment| self.told.contains(&of.presence);
        self.there(is_there).filter(is_told).last()
    }

    /// Latest assignment of this run of which no connection was told.
    fn untold(&self, run: Run, is_there: impl Fn(Dot) -> bool) -> Option<Assignment> {
        let is_untold = |of: &Assignment| of.dot.run == run && !self.told.contains(&of.presence);
        self.there(is_there).filter(is_untold).last()
    }

    /// Assignments to presences that are there, in the order of clocks.
    fn there(&self, is_there: impl Fn(Dot) -> bool) -> impl Iterator<Item = Assignment> {
        self.all().filter(move |of| is_there(of.presence))
    }

    fn all(&self) -> impl Iterator<Item = Assignment> {
        self.known.iter().map(|(key, presence)| Assignment {
            dot: key.dot,
            presence: *presence,
        })
    }
}
