//! Election safety and equal state machines: a term has one leader, and what is applied up to one log position is the same everywhere.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};

use cluster::Term;

use crate::machine::Machine;

/// What was seen so far.
#[derive(Debug, Default)]
pub(super) struct Agreement {
    leaders: BTreeMap<Term, u64>,
    /// A digest of the store behind each log position.
    stores: BTreeMap<u64, (u64, u64)>,
    looks: u64,
    compared: u64,
}

/// Stores are compared in one of so many looks.
const COMPARED_EVERY: u64 = 16;

impl Agreement {
    /// Looks at all nodes.
    pub(super) fn look<'a>(&mut self, machines: impl Iterator<Item = &'a Machine>) -> Result<(), String> {
        self.looks += 1;
        for (machine, node) in machines.zip(1..) {
            if let Some(term) = machine.node().leads() {
                let leader = *self.leaders.entry(term).or_insert(node);
                if leader != node {
                    return Err(format!(
                        "election safety: {leader} and {node} lead in term {term}"
                    ));
                }
            }
            if (self.looks + node).is_multiple_of(COMPARED_EVERY) {
                self.compare(machine, node)?;
            }
        }
        Ok(())
    }

    /// Compares all nodes.
    pub(super) fn compare_all<'a>(
        &mut self,
        machines: impl Iterator<Item = &'a Machine>,
    ) -> Result<(), String> {
        for (machine, node) in machines.zip(1..) {
            self.compare(machine, node)?;
        }
        Ok(())
    }

    fn compare(&mut self, machine: &Machine, node: u64) -> Result<(), String> {
        let applied = machine.node().gauges().log_applied;
        let chunks: Vec<_> = machine.node().state_store().image().into_chunks().collect();
        let digest = BuildHasherDefault::<DefaultHasher>::default().hash_one(&chunks);
        let (known, first) = *self.stores.entry(applied).or_insert((digest, node));
        if first != node {
            self.compared += 1;
        }
        if known == digest {
            Ok(())
        } else {
            Err(format!(
                "equal state machines: {first} and {node} have different stores behind entry {applied}"
            ))
        }
    }

    pub(super) fn terms(&self) -> u64 {
        self.leaders.len() as u64
    }

    pub(super) fn compared(&self) -> u64 {
        self.compared
    }
}
