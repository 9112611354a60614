//! Clocks of sessions do not grow for ever.
//!
//! Whoever goes on with a session adds a run of its node to the session's clock. These are of use as long as somebody may have an older state of the session, which they tell from another one. When all nodes of
//! the cluster are RUNNING, and none has come or gone for a while, there is no other state than that of the holder and of the copies that are in step with it. Then all runs are retired but the holder's present
//! one: who has seen what that one counted has seen all before it.
//!
//! First the copies do so, each by itself, and the holder some time later. A copy whose holder counts more than it does is an older state, as always; the other way round it could be taken for a later one, and a session that has ended
//! would come back with it. Whoever of them is offered the other's clock in between goes by the holder's own count.

use std::time::Duration;

use cluster::session_plane::VectorClock;
use mqtt::ids::SessionNumber;
use mqtt::now::Now;

use super::noting::{FORGET_MAX, Noting};
use super::standing_by::StandingBy;
use super::{Held, Owner, Stage};
use crate::node::Node;

/// Runs of a clock that stay: retiring them costs a write, and they are 32 bytes each.
const RUNS_KEPT: usize = 8;

/// For how long copies are ahead of their holders. Both notice within a moment that a node has come or gone.
pub(super) const COPIES_BEFORE: Duration = Duration::from_secs(15);

fn is_long(clock: &VectorClock) -> bool {
    clock.actors().len() > RUNS_KEPT
}

impl StandingBy {
    /// Says whether there was anything to retire.
    pub(super) fn retire(&mut self) -> bool {
        self.is_whole() && is_long(&self.clock) && self.clock.retire_before(self.holder)
    }
}

impl Held {
    /// Whether nobody has another state of it.
    fn is_alike_everywhere(&self) -> bool {
        let has_it = |owner: &Owner| owner.stage == Stage::InStep;
        self.owners.iter().all(has_it) && self.giving.is_none() && self.taking_in.is_none()
    }
}

impl Node {
    /// The greatest number of runs in a clock of a session that this node holds, or has a copy of. It looks at all of them.
    pub fn longest_clock(&self) -> usize {
        let Some(copies) = &self.copies else { return 0 };
        let held = copies.held.values().map(|held| &held.clock);
        let copied = copies.standing_by.values().map(|copy| &copy.clock);
        held.chain(copied)
            .map(|clock| clock.actors().len())
            .max()
            .unwrap_or(0)
    }

    /// Retires runs of the sessions of this node, some at a time, when it is time.
    pub(super) fn retire_of_sessions(&mut self, now: Now) {
        let (Some(copies), Some(states)) = (&mut self.copies, &self.states) else {
            return;
        };
        let Noting::Retiring(at, next) = &mut copies.noting else {
            return;
        };
        if now.instant < *at {
            return;
        }
        let may_retire = states.is_everybody_running();
        let (own, mut left, mut retired) = (copies.own, FORGET_MAX, Vec::new());
        for (number, held) in copies.held.range_mut(*next..).take(FORGET_MAX) {
            left -= 1;
            *next = SessionNumber(number.0 + 1);
            let is_due = may_retire && is_long(&held.clock) && held.is_alike_everywhere();
            if is_due && held.clock.retire_before(own) {
                retired.push(*number);
            }
        }
        if left > 0 {
            copies.noting = Noting::Off;
        }
        for number in retired {
            self.commits.write(copies.record(number));
        }
    }
}
