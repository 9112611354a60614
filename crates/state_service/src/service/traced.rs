//! Which of the requests that wait are traced, and which commands of other nodes.
//!
//! A node that forwards commands tells the leader which of them are traced, and below which span. That is lost with whatever else is
//! lost; then the leader's part is missing in the trace. Nobody waits for it.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use cluster::NodeId;
use mqtt::now::Now;
use protocol::trace_context::TraceContext;
use store::Origin;

use super::peers::PeerMessage;
use super::pending::{Pending, PendingCalls};
use super::trace::{Marks, decided_for};
use super::{Output, StateStoreService};

/// Traced commands of a group at one node.
#[derive(Debug, Default)]
pub(super) struct TracedCommands {
    /// Requests of this node's clients. Some may have been answered.
    own: Vec<u64>,
    /// Commands of other nodes, while this one leads: of which node, of which run of it, which request.
    others: BTreeMap<(u64, u32, u64), Other>,
}

#[derive(Debug)]
struct Other {
    place: TraceContext,
    began: Instant,
    marks: Marks,
}

/// Requests that are traced at the same time, those of this node and those of others each; more are not.
pub(super) const TRACED_MAX: usize = 256;

/// No command is under way for longer.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(10);

impl TracedCommands {
    /// A request of this node is traced. Of too many those that wait are followed no further.
    pub(super) fn begin(&mut self, request: u64) {
        if self.own.len() < TRACED_MAX {
            self.own.push(request);
        }
    }

    /// Does this to all that are not decided.
    #[inline]
    pub(super) fn each(&mut self, pending: &mut PendingCalls, mut mark: impl FnMut(&mut Marks)) {
        if !self.own.is_empty() {
            self.own.retain(|request| match pending.trace_of(*request) {
                Some(trace) => {
                    mark(&mut trace.marks);
                    true
                }
                None => false,
            });
        }
        if !self.others.is_empty() {
            self.others.values_mut().for_each(|other| mark(&mut other.marks));
        }
    }

    /// This node leads no more, or just begins to.
    pub(super) fn forget_others(&mut self) {
        self.others.clear();
    }
}

impl StateStoreService {
    /// What a leader is told of commands that it was not sent before.
    pub(super) fn traces_for(&mut self, now: Now, leader: NodeId) -> Option<PeerMessage> {
        let own = NodeId(self.config.node);
        let mut traced = Vec::new();
        for request in &self.traced.own {
            if let Some(trace) = self.pending.trace_of(*request)
                && trace.marks.send(now.instant, leader)
            {
                traced.push((*request, trace.at_leader(own)));
            }
        }
        let incarnation = self.config.incarnation;
        (!traced.is_empty()).then_some(PeerMessage::Traces { incarnation, traced })
    }

    /// Commands of another node that will come are traced.
    pub(super) fn traced_by(
        &mut self,
        now: Now,
        (node, incarnation): (NodeId, u32),
        traced: Vec<(u64, TraceContext)>,
    ) {
        if !self.replica.is_leader() {
            return;
        }
        let others = &mut self.traced.others;
        others.retain(|_, other| other.began + FORGOTTEN_AFTER > now.instant);
        for (request, place) in traced {
            if others.len() >= TRACED_MAX {
                return;
            }
            let other = Other {
                place,
                began: now.instant,
                marks: Marks::default(),
            };
            others.entry((node.0, incarnation, request)).or_insert(other);
        }
    }

    /// A command is executed: if it was another node's, and traced, this node's part is over.
    #[inline]
    pub(super) fn end_traced(&mut self, now: Now, origin: Origin, outputs: &mut Vec<Output>) {
        if self.traced.others.is_empty() {
            return;
        }
        let name = (origin.node, origin.incarnation, origin.request);
        if let Some(other) = self.traced.others.remove(&name) {
            let of = (NodeId(origin.node), self.replica.group());
            let times = (other.began, now.instant);
            let own = NodeId(self.config.node);
            outputs.push(Output::Traced(decided_for(
                of,
                other.place,
                own,
                &other.marks,
                times,
            )));
        }
    }
}

/// The barrier of these reads is asked for.
pub(super) fn ask(now: Now, reads: &mut [Pending]) {
    for pending in reads {
        if let Some(trace) = &mut pending.trace {
            trace.marks.ask(now.instant);
        }
    }
}
