//! Looks at all nodes after every step: what must hold at any time.

use cluster::Write;

use super::{ASKED_MAX, KEEPERS_PER_NODE, WATCHERS, World};
use crate::machine::Machine;
use crate::promises::bounded_memory::Maxima;
use crate::promises::election_safety::Leaders;
use crate::promises::log_matching::Logs;
use crate::promises::state_equality::Stores;

/// What was seen so far.
#[derive(Debug)]
pub(super) struct Look {
    leaders: Leaders,
    logs: Logs,
    stores: Stores,
    maxima: Maxima,
    requests_max: usize,
    looks: u64,
}

/// Stores are compared, and memory is looked at, in one of so many looks.
const COMPARED_EVERY: u64 = 16;

/// Requests that a watcher has without an answer.
const REGISTRATIONS_MAX: usize = 16;

/// A request may wait once for every time that it was sent, and nodes have commands of their own.
const SENT_AGAIN_MAX: usize = 4;

impl Look {
    pub(super) fn new(nodes: usize) -> Self {
        let asked_max = nodes * KEEPERS_PER_NODE * ASKED_MAX + WATCHERS * REGISTRATIONS_MAX;
        Self {
            leaders: Leaders::default(),
            logs: Logs::default(),
            stores: Stores::default(),
            maxima: Maxima::default(),
            requests_max: asked_max * SENT_AGAIN_MAX,
            looks: 0,
        }
    }

    /// A node has written to its log.
    pub(super) fn wrote(&mut self, node: usize, writes: &[Write]) -> Result<(), String> {
        self.logs.wrote(node, writes)
    }

    /// A node begins with what is on its disk.
    pub(super) fn restarted(&mut self, node: usize, machine: &Machine) -> Result<(), String> {
        self.logs.restarted(node, machine.log_on_disk().into_iter())
    }

    /// Looks at a node.
    pub(super) fn at(&mut self, machine: &Machine, node: u64) -> Result<(), String> {
        for group in machine.node().groups() {
            if let Some(term) = machine.node().leads(group) {
                self.leaders.leads(group, term, node)?;
            }
        }
        if (self.looks + node).is_multiple_of(COMPARED_EVERY) {
            self.compare(machine, node)?;
            if machine.node().counters().store_differences > 0 {
                return Err(format!("equal state machines: node {node} says that it differs"));
            }
            let (gauges, batches) = (machine.node().gauges(), machine.writing_len());
            self.maxima.look(&gauges, batches, self.requests_max)?;
        }
        Ok(())
    }

    /// Compares what a node has applied with what others had at that point.
    pub(super) fn compare(&mut self, machine: &Machine, node: u64) -> Result<(), String> {
        for group in machine.node().groups() {
            let applied = machine.node().applied(group);
            if let Some((applied, store)) = applied.zip(machine.node().state_store(group)) {
                self.stores.compare(node, (group, applied), store)?;
            }
        }
        Ok(())
    }

    pub(super) fn terms(&self) -> u64 {
        self.leaders.terms()
    }

    pub(super) fn entries(&self) -> u64 {
        self.logs.written()
    }

    pub(super) fn compared(&self) -> u64 {
        self.stores.compared()
    }

    pub(super) fn maxima(&self) -> Maxima {
        self.maxima
    }
}

impl World {
    /// Looks at all nodes.
    pub(super) fn look(&mut self) -> Result<(), String> {
        self.look.looks += 1;
        for (member, node) in self.nodes.iter().zip(1..) {
            if let Some(machine) = member.machine() {
                self.look.at(machine, node)?;
            }
        }
        Ok(())
    }
}
