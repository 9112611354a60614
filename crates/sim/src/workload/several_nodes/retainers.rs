//! Clients that retain messages and take them away, each at one node, over everything that goes wrong. Only where nodes are members of a cluster.
//!
//! Each topic is retained once. Whoever clears one has seen it at its own node, and it was acknowledged: so the removal is the later write, whatever the clocks say.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use cluster::random::Random;
use mqtt::retained::Edition;

use super::super::client::Client;
use super::super::message::Retaining;
use super::World;
use crate::few_slots;
use crate::machine::Machine;
use crate::promises::s3::Retained;
use crate::promises::{c1, c2};

/// Time after which all nodes have met and merged, and have told each other what they know: what is cleared is forgotten then.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(40);

/// How long rounds are in which nobody does anything.
const QUIET_ROUND: Duration = Duration::from_millis(50);

/// One of so many steps is one of a retainer.
const STEPS: usize = 25;

/// All of them.
#[derive(Debug)]
pub(super) struct Retainers {
    /// With its node.
    clients: Vec<(usize, Client)>,
    random: Random,
    retained: Retained,
    /// Which edition of each topic was acknowledged: whoever has sent it has not sent it again after that.
    editions: BTreeMap<String, Edition>,
}

impl Retainers {
    pub(super) fn new(seed: u64, nodes: usize) -> Self {
        let clients = (0..nodes).map(|node| {
            (
                node,
                Client::retainer(few_slots::named(&format!("retainer{node}"))),
            )
        });
        Self {
            clients: clients.collect(),
            random: Random::new(seed ^ 0x7265_7461_696E_0000),
            retained: Retained::default(),
            editions: BTreeMap::new(),
        }
    }

    /// A node has lost its power.
    pub(super) fn cut(&mut self, node: usize) {
        for (_, client) in self.clients.iter_mut().filter(|(at, _)| *at == node) {
            client.cut();
        }
    }

    /// A node will never be there again.
    pub(super) fn leave(&mut self, node: usize) {
        self.clients.retain(|(at, _)| *at != node);
        self.retained.lost(node);
    }
}

impl World {
    /// Now and then somebody retains something.
    pub(super) fn retain_sometimes(&mut self) -> Result<(), String> {
        if self.retainers.clients.is_empty() || self.retainers.random.between(0, STEPS) > 0 {
            return Ok(());
        }
        let index = self.retainers.random.between(0, self.retainers.clients.len());
        self.listen_to_retainer(index)?;
        let Retainers {
            clients,
            random,
            retained,
            editions,
        } = &mut self.retainers;
        let (node, client) = &mut clients[index];
        let Some(machine) = self.nodes[*node].running() else {
            return Ok(());
        };
        if random.between(0, 3) > 0 {
            client.retain(machine);
            return Ok(());
        }
        // One that was sent twice may be here as it came first, and elsewhere be a later write.
        let there = machine.node().retained_editions().into_iter();
        let there = there.filter_map(|(topic, seen)| Some((topic, seen.edition, seen.message?)));
        let is_latest = |topic: &str, edition| editions.get(topic).is_some_and(|known| *known <= edition);
        let mut topics = there
            .filter(|(topic, edition, _)| is_latest(topic.as_str(), *edition))
            .map(|(topic, ..)| topic.as_str().to_owned())
            .filter(|topic| retained.is_kept(topic));
        if let Some(topic) = topics.next()
            && client.is_connected()
        {
            self.trace
                .note(self.now, || format!("clear {topic} at {}", *node + 1));
            client.clear(machine, &topic);
            retained.asked(topic);
        }
        Ok(())
    }

    /// All of them read what they were sent. True if there was something.
    pub(super) fn listen_to_retainers(&mut self) -> Result<bool, String> {
        let mut is_anything = false;
        for index in 0..self.retainers.clients.len() {
            is_anything |= self.listen_to_retainer(index)?;
        }
        Ok(is_anything)
    }

    fn listen_to_retainer(&mut self, index: usize) -> Result<bool, String> {
        let (node, client) = &mut self.retainers.clients[index];
        let Some(machine) = self.nodes[*node].running() else {
            return Ok(false);
        };
        client.connect(machine);
        let heard = client.listen(machine)?;
        for change in heard.retaining {
            self.trace.note(self.now, || {
                format!("retainer of {} is told {change:?}", *node + 1)
            });
            match change {
                Retaining::Set(topic) => {
                    let found = editions(machine).remove(&topic);
                    let edition = found.map(|(edition, _)| (topic.clone(), edition));
                    self.retainers.editions.extend(edition);
                    self.retainers.retained.kept(topic);
                }
                // Where clocks are wrong, one that clears it need not know of that.
                Retaining::SetAgain(topic) => self.retainers.retained.kept(topic),
                Retaining::Clear(topic) => self.retainers.retained.gone(topic, *node),
            }
        }
        Ok(heard.is_anything)
    }

    /// Whether those whose nodes are there wait for nothing.
    pub(super) fn are_retainers_done(&self) -> bool {
        let mut there = self.retainers.clients.iter();
        there.all(|(node, client)| self.nodes[*node].machine().is_none() || client.is_done())
    }

    /// Everything is at rest: S3, C1, and, when all nodes know what is cleared, C2.
    pub(super) fn check_retained(&mut self) -> Result<(), String> {
        self.summary.retained_gone = self.retainers.retained.gone_len() as u64;
        if self.retainers.clients.is_empty() {
            return Ok(());
        }
        self.pass_quietly(FORGOTTEN_AFTER)?;
        let is_whole = self.nodes.iter().all(|member| !member.is_lost());
        let editions: Vec<(u64, c1::Editions<Edition>)> = self
            .machines()
            .map(|(machine, node)| (node, editions(machine)))
            .collect();
        for (node, editions) in &editions {
            let there = editions.iter().filter(|(_, (_, message))| message.is_some());
            let there: BTreeSet<&str> = there.map(|(topic, _)| topic.as_str()).collect();
            self.retainers.retained.check(*node, &there, is_whole)?;
        }
        c1::check(&editions)?;
        let lacks_members = self
            .nodes
            .iter()
            .any(|member| member.is_lost() && !member.is_outside);
        if lacks_members {
            return Ok(());
        }
        let cleared = self.machines().map(|(machine, node)| {
            let gauges = machine.node().gauges();
            (node, gauges.replication.cleared)
        });
        c2::check(cleared)
    }

    /// Time passes and nothing goes wrong.
    fn pass_quietly(&mut self, time: Duration) -> Result<(), String> {
        let end = self.now + time;
        while self.now < end {
            self.round_of(QUIET_ROUND)?;
        }
        Ok(())
    }
}

fn editions(machine: &Machine) -> c1::Editions<Edition> {
    let all = machine.node().retained_editions().into_iter();
    let named = all.map(|(topic, seen)| {
        let payload = seen.message.map(|message| message.payload.to_vec());
        (topic.as_str().to_owned(), (seen.edition, payload))
    });
    named.collect()
}
