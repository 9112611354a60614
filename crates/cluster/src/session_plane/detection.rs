//! Which nodes can be reached: SWIM (Das, Gupta, Motivala, 2002) with suspicion, by the library `foca`.
//!
//! Each node asks another one in each period whether it is there; if it does not answer, some others are asked to try; if they do not reach it
//! either it is suspected, and may say that it lives; and then it is taken for dead. All of that travels with the nodes' messages, so that one side of a split
//! comes to one view of who is there. What follows from it is decided elsewhere ([`nodes`](super::nodes)).
//!
//! A node that was taken for dead and is not comes back as another *life* of the same run: foca takes no word back about an identity. It forgets then
//! whom it has taken for dead itself: after a split that is everybody else, and those who hear of it would part from each other. What others send to an earlier life
//! is for it as well: two nodes that were both told at one moment that they are taken for dead know each other by lives that are over, and no third one may be left to tell them.

mod wire;

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::num::{NonZeroU8, NonZeroUsize};
use std::time::{Duration, Instant};

use bytes::Bytes;
use foca::{Foca, Member, NoCustomBroadcast, Notification, PeriodicParams, Timer};

use self::wire::{Life, Wire};
use super::Actor;
use crate::random::Random;
use crate::{Incarnation, NodeId};

/// Who asks, and how patient it is.
#[derive(Debug, Clone, Copy)]
pub struct DetectionConfig {
    /// This run of this node.
    pub own: Actor,
    /// About how long a node that does not answer is waited for until it is taken for dead; more than 10 ms. It takes half of it until it is suspected, and
    /// half of it until that is believed; when there are many nodes, it may be some time until one of them asks.
    pub dead_after: Duration,
    /// Decides who is asked next.
    pub seed: u64,
}

/// What detection wants to be done, or has found out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// These bytes are for the detection of another node.
    Send(NodeId, Bytes),
    /// A node is there.
    Up(NodeId),
    /// It is taken for dead, by this node or by another one that has told it; or was, since it has started anew.
    Down(NodeId),
}

/// Bytes that did not come from a detection, or not from that of this node.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a message of failure detection is malformed: {0}")]
pub struct DetectionError(String);

/// Which nodes can be reached, as far as this one knows.
pub struct Detection {
    foca: Foca<Life, Wire, Draws, NoCustomBroadcast>,
    own: Life,
    dead_after: Duration,
    /// All nodes that there should be, this one apart.
    wanted: BTreeSet<NodeId>,
    /// Who is there.
    up: BTreeMap<NodeId, Life>,
    /// What foca waits for; the number keeps two of one moment apart. As many as there are nodes, and some.
    timers: BTreeMap<(Instant, u64), Timer<Life>>,
    timers_made: u64,
    seed: u64,
    /// When nodes that are not there are called again, and how long after that again.
    call_at: Instant,
    call_every: Duration,
}

/// What a message has at most. It goes over TCP; 1,000 nodes fit.
const MESSAGE_BYTES_MAX: usize = 32 * 1024;

/// Nodes that others have told of and that foca remembers, dead ones too. With more of them it forgets all that are not there.
const KNOWN_MAX: usize = 1_024;

/// How many others try to reach a node that does not answer.
const INDIRECT_PROBES: usize = 3;

/// In how many messages a change is told on.
const TRANSMISSIONS_MAX: u8 = 10;

impl Detection {
    /// Nobody is known yet.
    pub fn new(now: Instant, config: &DetectionConfig) -> Self {
        let own = Life {
            actor: config.own,
            life: 0,
        };
        let call_every = config.dead_after / 4;
        Self {
            foca: begun(own, config.dead_after, config.seed),
            own,
            dead_after: config.dead_after,
            seed: config.seed,
            wanted: BTreeSet::new(),
            up: BTreeMap::new(),
            timers: BTreeMap::new(),
            timers_made: 0,
            call_at: now,
            call_every,
        }
    }

    /// Which nodes there should be, this one among them or not.
    pub fn set_nodes(&mut self, now: Instant, nodes: &BTreeSet<NodeId>) {
        self.wanted = nodes
            .iter()
            .copied()
            .filter(|node| *node != self.own.actor.node)
            .collect();
        self.up.retain(|node, _| self.wanted.contains(node));
        // Others may have told of one before the cluster had it, as this node knew it: foca says so once.
        for member in self.foca.iter_members() {
            let life = *member.id();
            if self.wanted.contains(&life.actor.node) {
                self.up.insert(life.actor.node, life);
            }
        }
        self.call_at = now;
    }

    /// Whether a node is there.
    pub fn is_up(&self, node: NodeId) -> bool {
        self.up.contains_key(&node)
    }

    /// When [`tick`](Self::tick) has something to do.
    pub fn deadline(&self) -> Option<Instant> {
        let timer = self.timers.keys().next().map(|(at, _)| *at);
        let call = (!self.wanted.is_empty()).then_some(self.call_at);
        timer.into_iter().chain(call).min()
    }

    /// Time has passed.
    pub fn tick(&mut self, now: Instant, found: &mut Vec<Found>) {
        while let Some(entry) = self.timers.first_entry().filter(|entry| entry.key().0 <= now) {
            let timer = entry.remove();
            // What foca says of a timer is about its own bookkeeping, and it has gone on by itself.
            let _ = self.with_foca(now, found, |foca, runtime| foca.handle_timer(timer, runtime));
        }
        if self.call_at <= now {
            self.call_at = now + self.call_every;
            self.call_missing(now, found);
        }
    }

    /// A message of another node's detection.
    ///
    /// # Errors
    /// It is none, or says to be from another node than the one that it came from.
    pub fn hear(
        &mut self,
        now: Instant,
        from: NodeId,
        message: &[u8],
        found: &mut Vec<Found>,
    ) -> Result<(), DetectionError> {
        if wire::sender(message) != Some(from) {
            return Err(DetectionError(format!("it is not from {from}")));
        }
        if !self.wanted.contains(&from) {
            return Ok(());
        }
        let message = wire::readdressed(message, self.own);
        let heard = self.with_foca(now, found, |foca, runtime| foca.handle_data(&message, runtime));
        if self.foca.iter_membership_state().len() > KNOWN_MAX {
            self.live_again(now, found);
        }
        heard.map_err(|error| DetectionError(error.to_string()))
    }

    /// Says hello to all that should be there and are not: whether they are new, come back, or are on the other side of a split that may have healed.
    fn call_missing(&mut self, now: Instant, found: &mut Vec<Found>) {
        let missing: Vec<NodeId> = self
            .wanted
            .iter()
            .copied()
            .filter(|node| !self.is_up(*node))
            .collect();
        for node in missing {
            // Which run it is, nobody here knows: a call is heard by the node, whichever it is.
            let actor = Actor {
                node,
                incarnation: Incarnation(0),
            };
            let _ = self.with_foca(now, found, |foca, runtime| {
                foca.announce(Life { actor, life: 0 }, runtime)
            });
        }
    }

    fn with_foca<R>(
        &mut self,
        now: Instant,
        found: &mut Vec<Found>,
        call: impl FnOnce(&mut Foca<Life, Wire, Draws, NoCustomBroadcast>, &mut Runtime<'_>) -> R,
    ) -> R {
        let mut runtime = Runtime {
            now,
            wanted: &self.wanted,
            up: &mut self.up,
            timers: &mut self.timers,
            timers_made: &mut self.timers_made,
            found,
            is_presumed_dead: false,
        };
        let result = call(&mut self.foca, &mut runtime);
        if runtime.is_presumed_dead {
            self.live_again(now, found);
        }
        result
    }

    /// The others have taken this node for dead, or have told of too many: it comes back as another life that holds nobody for dead.
    fn live_again(&mut self, now: Instant, found: &mut Vec<Found>) {
        self.own.life += 1;
        self.foca = begun(self.own, self.dead_after, self.seed ^ u64::from(self.own.life));
        self.timers.clear();
        let up: Vec<Member<Life>> = self.up.values().map(|life| Member::alive(*life)).collect();
        // Neither can fail: they only write to memory that has room for what they write.
        let _ = self.with_foca(now, found, |foca, runtime| {
            foca.apply_many(up.into_iter(), false, &mut *runtime)?;
            foca.gossip(runtime)
        });
    }
}

impl std::fmt::Debug for Detection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Detection")
            .field("up", &self.up)
            .finish_non_exhaustive()
    }
}

fn begun(own: Life, dead_after: Duration, seed: u64) -> Foca<Life, Wire, Draws, NoCustomBroadcast> {
    Foca::new(own, tuned(dead_after), Draws(Random::new(seed)), Wire)
}

/// What foca draws: the same on every machine.
struct Draws(Random);

impl rand_core::TryRng for Draws {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        Ok((self.0.next() >> 32) as u32)
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        Ok(self.0.next())
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Infallible> {
        for part in bytes.chunks_mut(8) {
            part.copy_from_slice(&self.0.next().to_le_bytes()[..part.len()]);
        }
        Ok(())
    }
}

/// What foca calls while it works.
struct Runtime<'a> {
    now: Instant,
    wanted: &'a BTreeSet<NodeId>,
    up: &'a mut BTreeMap<NodeId, Life>,
    timers: &'a mut BTreeMap<(Instant, u64), Timer<Life>>,
    timers_made: &'a mut u64,
    found: &'a mut Vec<Found>,
    is_presumed_dead: bool,
}

impl Runtime<'_> {
    fn is_up(&mut self, life: Life) {
        if !self.wanted.contains(&life.actor.node) {
            return;
        }
        match self.up.insert(life.actor.node, life) {
            // Somebody else had taken it for dead.
            Some(before) if before.actor == life.actor => return,
            // It went on without having been missed.
            Some(_) => return,
            None => {}
        }
        self.found.push(Found::Up(life.actor.node));
    }

    fn is_down(&mut self, life: Life) {
        if self.up.get(&life.actor.node) == Some(&life) {
            self.up.remove(&life.actor.node);
            self.found.push(Found::Down(life.actor.node));
        }
    }
}

impl foca::Runtime<Life> for Runtime<'_> {
    fn notify(&mut self, notification: Notification<'_, Life>) {
        match notification {
            Notification::MemberUp(life) => self.is_up(*life),
            Notification::MemberDown(life) => self.is_down(*life),
            // Whether the one after is up is told as well if that is another thing than of the one before.
            Notification::Rename(before, after) => {
                if self.up.get(&before.actor.node) == Some(before) {
                    self.is_up(*after);
                }
            }
            Notification::Defunct => self.is_presumed_dead = true,
            Notification::Active | Notification::Idle | Notification::Rejoin(_) => {}
        }
    }

    fn send_to(&mut self, to: Life, data: &[u8]) {
        if self.wanted.contains(&to.actor.node) {
            self.found
                .push(Found::Send(to.actor.node, Bytes::copy_from_slice(data)));
        }
    }

    fn submit_after(&mut self, event: Timer<Life>, after: Duration) {
        *self.timers_made += 1;
        self.timers.insert((self.now + after, *self.timers_made), event);
    }
}

/// foca's settings, such that a node that does not answer is taken for dead after about this time.
fn tuned(dead_after: Duration) -> foca::Config {
    let several = |count| NonZeroUsize::new(count).expect("it is more than zero");
    let often = |frequency| PeriodicParams {
        frequency,
        num_members: several(INDIRECT_PROBES),
    };
    foca::Config {
        // Asked at the beginning of a period, suspected at its end; until it is its turn, half a period goes by.
        probe_period: dead_after / 3,
        probe_rtt: dead_after / 9,
        num_indirect_probes: several(INDIRECT_PROBES),
        max_transmissions: NonZeroU8::new(TRANSMISSIONS_MAX).expect("it is more than zero"),
        suspect_to_down_after: dead_after / 2,
        // An identity that is down stays so: a node comes back as another one.
        remove_down_after: None,
        max_packet_size: several(MESSAGE_BYTES_MAX),
        notify_down_members: true,
        periodic_announce: None,
        // Nodes that are missing are called from here, also when nobody is left.
        periodic_announce_to_down_members: None,
        periodic_gossip: Some(often(dead_after / 10)),
    }
}
