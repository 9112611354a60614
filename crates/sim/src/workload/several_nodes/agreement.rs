//! Election safety and equal state machines: a term has one leader, and what is applied up to one log position is the same everywhere.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};

use cluster::{GroupId, Term};

use crate::machine::Machine;

/// What was seen so far.
#[derive(Debug, Default)]
pub(super) struct Agreement {
    leaders: BTreeMap<(GroupId, Term), u64>,
    /// A digest of the store behind each log position.
    stores: BTreeMap<(GroupId, u64), (u64, u64)>,
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
            for group in machine.node().groups() {
                self.look_at_leader(machine, node, group)?;
            }
            if (self.looks + node).is_multiple_of(COMPARED_EVERY) {
                self.compare(machine, node)?;
            }
        }
        Ok(())
    }

    fn look_at_leader(&mut self, machine: &Machine, node: u64, group: GroupId) -> Result<(), String> {
        let Some(term) = machine.node().leads(group) else {
            return Ok(());
        };
        let leader = *self.leaders.entry((group, term)).or_insert(node);
        if leader == node {
            Ok(())
        } else {
            Err(format!(
                "election safety: {leader} and {node} lead group {group} in term {term}"
            ))
        }
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
        for group in machine.node().groups() {
            let (Some(applied), Some(store)) =
                (machine.node().applied(group), machine.node().state_store(group))
            else {
                continue;
            };
            let chunks: Vec<_> = store.image().into_chunks().collect();
            let digest = BuildHasherDefault::<DefaultHasher>::default().hash_one(&chunks);
            let (known, first) = *self.stores.entry((group, applied.0)).or_insert((digest, node));
            if first != node {
                self.compared += 1;
            }
            if known != digest {
                return Err(format!(
                    "equal state machines: {first} and {node} have different stores of group {group} behind entry {applied}"
                ));
            }
        }
        Ok(())
    }

    pub(super) fn terms(&self) -> u64 {
        self.leaders.len() as u64
    }

    pub(super) fn compared(&self) -> u64 {
        self.compared
    }
}
