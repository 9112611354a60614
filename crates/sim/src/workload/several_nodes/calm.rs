//! The end of faults. Liveness: when they are over and a majority is there, within a bounded simulated time somebody leads, everything that
//! was asked is answered, all nodes have the same state, and nothing waits anywhere. Then F1: a minority is lost for ever.

use std::time::Duration;

use cluster::GroupId;
use state_service::group_of_key;

use super::World;
use super::member::Power;
use crate::history::Version;
use crate::machine::Machine;
use crate::promises::bounded_memory::Maxima;
use crate::promises::{f1, l2};
use crate::rest::Bound;

/// How long rounds without faults are.
const ROUND: Duration = Duration::from_millis(5);

/// After so many rounds a cluster without faults has to be at rest: 10 s. Longer than all waits of the product together, of which the
/// longest is for a leader, 1.5 s, and than leases of keys, 0.3 s.
const CALM_ROUNDS_MAX: usize = 2_000;

/// In so many rounds nothing may happen: as long as a lease lasts.
const QUIET_ROUNDS: usize = 70;

impl World {
    /// No more faults: everybody is there, and everything that waits is decided.
    pub(super) fn calm(&mut self) -> Result<(), String> {
        self.trace.note(self.now, || "faults are over".to_owned());
        self.network.repair();
        for index in 0..self.nodes.len() {
            self.forget_removed(index);
            let member = &mut self.nodes[index];
            member.away = 0;
            member.drift = 0;
            if self.clocks.is_watched() {
                member.set_right(self.now);
            }
            let has_failed = member.machine().is_some_and(Machine::has_failed);
            if has_failed || member.is_stopping {
                self.switch_off(index);
            } else if let Some(machine) = member.machine_mut() {
                machine.fill_disk(u64::MAX);
            }
            self.switch_on(index)?;
        }
        self.finish_changes()?;
        let mut quiet = 0;
        for _ in 0..CALM_ROUNDS_MAX {
            let was_anything = self.round()?;
            let is_quiet = !was_anything && self.is_quiet();
            quiet = if is_quiet { quiet + 1 } else { 0 };
            if quiet == QUIET_ROUNDS {
                return Ok(());
            }
        }
        Err(self.restless("liveness: the cluster does not come to rest"))
    }

    /// Time passes, and everything that can be done in no time is done. True if a client heard something.
    pub(super) fn round(&mut self) -> Result<bool, String> {
        self.round_of(ROUND)
    }

    pub(super) fn round_of(&mut self, time: Duration) -> Result<bool, String> {
        self.pass(time);
        self.write_all()?;
        let mut bound = Bound::new("nodes answer each other without end");
        while !self.network.is_idle() {
            bound.round().map_err(|why| self.restless(&why))?;
            let links: Vec<_> = self.network.busy(self.now + Duration::from_secs(1)).collect();
            for link in links {
                bound.message().map_err(|why| self.restless(&why))?;
                self.deliver_on(link);
            }
            self.write_all()?;
        }
        self.summary.longest = self.summary.longest.or(bound.taken());
        let mut is_anything = false;
        for index in 0..self.keepers.len() {
            is_anything |= self.listen_one(index)?;
        }
        for index in 0..self.watchers.len() {
            is_anything |= self.listen_to(index)?;
        }
        is_anything |= self.listen_to_retainers()?;
        is_anything |= self.listen_to_wanderers()?;
        self.look()?;
        Ok(is_anything)
    }

    fn write_all(&mut self) -> Result<(), String> {
        for member in &mut self.nodes {
            if let Some(machine) = member.machine_mut() {
                machine.write_all();
                machine.finish_snapshot();
            }
        }
        self.collect()
    }

    pub(super) fn machines(&self) -> impl Iterator<Item = (&Machine, u64)> {
        let machines = self.nodes.iter().zip(1..);
        machines.filter_map(|(member, node)| Some((member.machine()?, node)))
    }

    fn is_quiet(&self) -> bool {
        let applied = |machine: &Machine| -> Vec<_> {
            let node = machine.node();
            node.groups().map(|group| node.applied(group)).collect()
        };
        let first = self.machines().next().map(|(machine, _)| applied(machine));
        // A response that was on its way when its node lost its power is gone, like what else is in memory.
        self.keepers.iter().all(|(_, keeper)| keeper.client.is_done())
            && self.watchers.iter().all(|watcher| watcher.client.is_done())
            && self.are_retainers_done()
            && self.are_wanderers_done()
            && self.is_led()
            && self.is_idle()
            && self.check_members().is_ok()
            && self
                .machines()
                .all(|(machine, _)| Some(applied(machine)) == first)
    }

    /// Whether nothing waits on any node: also what clients have asked that went to other nodes since.
    fn is_idle(&self) -> bool {
        let mut at_rest = self.machines().map(|(machine, node)| {
            let (gauges, batches) = (machine.node().gauges(), machine.writing_len());
            Maxima::at_rest(node, &gauges, batches)
        });
        at_rest.all(|at_rest| at_rest.is_ok())
    }

    /// Whether each group has a leader that says so.
    fn is_led(&self) -> bool {
        let leads = |group| {
            self.machines()
                .any(|(machine, _)| machine.node().leads(group).is_some())
        };
        let first = self.machines().next();
        first.is_some_and(|(machine, _)| machine.node().groups().all(leads))
    }

    fn restless(&self, why: &str) -> String {
        format!("{why}: {}", self.unrest())
    }

    fn unrest(&self) -> String {
        let mut text = String::new();
        text.extend(self.check_members().err());
        for (machine, node) in self.machines() {
            let gauges = machine.node().gauges();
            let leads: Vec<_> = machine
                .node()
                .groups()
                .map(|group| machine.node().leads(group))
                .collect();
            let (applied, term, waiting) =
                (gauges.log_applied, gauges.log_term, gauges.store_requests_waiting);
            text += &format!(
                "\nnode {node}: term {term}, applied {applied}, {waiting} requests wait, leads {leads:?}"
            );
            let at_rest = Maxima::at_rest(node, &gauges, machine.writing_len());
            text.extend(at_rest.err().map(|why| format!(", {why}")));
        }
        for (node, keeper) in self.keepers.iter().filter(|(_, keeper)| !keeper.client.is_done()) {
            text += &format!("\nof node {}: {:?}", node + 1, keeper.client);
        }
        if !self.are_retainers_done() {
            text += "\nretainers wait";
        }
        if !self.are_wanderers_done() {
            text += &format!("\n{:?}", self.wanderers);
        }
        for watcher in self.watchers.iter().filter(|watcher| !watcher.client.is_done()) {
            text += &format!("\nof node {}: {:?}", watcher.node + 1, watcher.client);
        }
        text
    }

    /// Everything is at rest: what was promised is there.
    pub(super) fn check(&mut self) -> Result<(), String> {
        for (member, node) in self.nodes.iter().zip(1..) {
            if let Some(machine) = member.machine() {
                self.look.compare(machine, node)?;
                Maxima::at_rest(node, &machine.node().gauges(), machine.writing_len())?;
                f1::check(&self.histories, |key| stored(machine, key))?;
            }
        }
        // A leader whose clock was set back lets leases last longer: they may be over and still be there.
        let has_ended = |machine: &&Machine| machine.node().gauges().store.expiring == 0;
        let machine = self
            .machines()
            .next()
            .map(|(machine, _)| machine)
            .filter(has_ended);
        self.notifications
            .check(&self.histories, |key| machine.map(|machine| stored(machine, key)))?;
        l2::check(&self.histories)
    }

    /// The run is over: what clients were told all the time fits.
    pub(super) fn check_histories(&mut self) -> Result<(), String> {
        self.summary.not_known = self.histories.check(self.wrong.tolerance())?;
        Ok(())
    }

    /// As many nodes as may be lost are lost for ever, the leader first; and all keys that clients share are read again.
    pub(super) fn lose_minority(&mut self) -> Result<(), String> {
        loop {
            let leader = self.nodes.iter().position(|member| {
                member
                    .machine()
                    .is_some_and(|machine| machine.node().leads(GroupId(0)).is_some())
            });
            let index = leader.ok_or("liveness: nobody leads")?;
            if !self.may_be_lost(index) {
                break;
            }
            self.trace.note(self.now, || format!("{} is lost", index + 1));
            self.switch_off(index);
            self.nodes[index].power = Power::Lost;
            self.leave(index);
            self.wait_for_leader()?;
        }
        self.calm()?;
        let keys: Vec<String> = self
            .histories
            .keys()
            .map(|(key, _)| key.to_owned())
            .filter(|key| !key.starts_with("own-"))
            .collect();
        for number in 0..self.keepers.len() {
            let at = self.at();
            let (node, keeper) = &mut self.keepers[number];
            for key in &keys {
                if let Some(machine) = self.nodes[*node].running() {
                    keeper.get(machine, at, &mut self.histories, key.clone());
                }
            }
        }
        Ok(())
    }

    fn wait_for_leader(&mut self) -> Result<(), String> {
        let since = self.now;
        while !self.is_led() {
            if self.now - since > f1::LEADERLESS_MAX {
                return Err(format!("F1: nobody leads {:?} after the loss", self.now - since));
            }
            self.round()?;
        }
        let millis = u64::try_from((self.now - since).as_millis()).unwrap_or(u64::MAX);
        self.summary.leaderless_max = self.summary.leaderless_max.max(millis);
        Ok(())
    }
}

/// The version of a key on a node.
fn stored(machine: &Machine, key: &str) -> Option<Version> {
    let groups = u32::try_from(machine.node().groups().count()).expect("few groups");
    let store = machine.node().state_store(group_of_key(key.as_bytes(), groups))?;
    let found = store.get(key.as_bytes(), 0)?;
    Some((found.version.wall, u64::from(found.version.counter)))
}
