//! Node of the world: its copies, its events, and what waits for them.

use super::copy::{Copy, Event};
use super::{CLIENTS, IN_FLIGHT_MAX, NODES, OWNERS, Payload};
use crate::delivering::tests::*;

/// What an event is waited for.
#[derive(Debug, Clone, Copy)]
pub(super) enum Wait {
    Stored {
        connection: ConnectionId,
        packet_id: PacketId,
    },
    Removed {
        connection: ConnectionId,
        message: Dot,
    },
}

/// Acknowledgement of a message that a group gave to a connection.
#[derive(Debug, Clone, Copy)]
pub(super) struct GroupAcknowledgement {
    pub(super) connection: ConnectionId,
    pub(super) message: Dot,
    /// Event by which the message moves into the queue.
    pub(super) moved: Option<Dot>,
}

#[derive(Debug)]
pub(super) struct Machine {
    pub(super) is_up: bool,
    pub(super) run: Run,
    /// Last event of the run.
    pub(super) events: u64,
    pub(super) connections: u64,
    pub(super) view: BTreeSet<usize>,
    pub(super) delivering: Delivering<Payload>,
    pub(super) copies: Vec<Copy>,
    /// Events of each client that the node knows to exist.
    pub(super) known: Vec<BTreeSet<Dot>>,
    /// Own events that some owner may lack.
    pub(super) undurable: BTreeMap<Dot, Event>,
    pub(super) confirmed: BTreeMap<Dot, BTreeSet<usize>>,
    pub(super) waits: BTreeMap<Dot, Wait>,
    /// Messages without PUBACK.
    pub(super) acknowledging: BTreeSet<Dot>,
    /// Messages of groups whose acknowledgement some node does not know.
    pub(super) of_groups: VecDeque<GroupAcknowledgement>,
}

impl Machine {
    pub(super) fn new(node: usize) -> Machine {
        Machine {
            is_up: true,
            run: run_of(node as u64 + 1, 1),
            events: before_first(run_of(node as u64 + 1, 1)),
            connections: 0,
            view: BTreeSet::new(),
            delivering: new_delivering(),
            copies: vec![Copy::default(); CLIENTS],
            known: vec![BTreeSet::new(); CLIENTS],
            undurable: BTreeMap::new(),
            confirmed: BTreeMap::new(),
            waits: BTreeMap::new(),
            acknowledging: BTreeSet::new(),
            of_groups: VecDeque::new(),
        }
    }

    /// Begins another run, with the disk of the last one.
    pub(super) fn restart(&mut self) {
        let node = usize::try_from(self.run.node.0 - 1).expect("few nodes");
        let start = self.run.incarnation.0 + 1;
        let copies = std::mem::take(&mut self.copies);
        *self = Machine {
            run: run_of(self.run.node.0, start),
            events: before_first(run_of(self.run.node.0, start)),
            copies,
            connections: self.connections,
            ..Machine::new(node)
        };
    }

    pub(super) fn next_dot(&mut self) -> Dot {
        self.events += STRIDE;
        Dot {
            run: self.run,
            number: self.events,
        }
    }

    pub(super) fn confirm(&mut self, owner: usize, dot: Dot) {
        self.confirmed.entry(dot).or_default().insert(owner);
    }

    /// All owners that the node sees have the event.
    pub(super) fn is_durable(&self, event: &Event) -> bool {
        let confirmed = self.confirmed.get(&event.dot);
        let mut owners = owners(event.client, &self.view).into_iter();
        confirmed.is_some_and(|confirmed| owners.all(|owner| confirmed.contains(&owner)))
    }

    /// An own event of a client is not durable.
    pub(super) fn has_undurable(&self, client: usize) -> bool {
        let mut of_client = self.undurable.values().filter(|event| event.client == client);
        of_client.any(|event| !self.is_durable(event))
    }

    /// Messages that have come to be durable: PUBACK.
    pub(super) fn acknowledge(&mut self) -> BTreeSet<Dot> {
        let durable = self.undurable.values().filter(|event| self.is_durable(event));
        for dot in durable.map(|event| event.dot).collect::<Vec<Dot>>() {
            self.undurable.remove(&dot);
        }
        let undurable = &self.undurable;
        let acknowledged = self
            .acknowledging
            .extract_if(.., |dot| !undurable.contains_key(dot));
        acknowledged.collect()
    }

    /// Takes a wait that has come to its end.
    pub(super) fn take_durable(&mut self, at: usize) -> Option<(Dot, Wait)> {
        let ended = self.waits.keys().filter(|dot| !self.undurable.contains_key(dot));
        let ended: Vec<Dot> = ended.copied().collect();
        let dot = (!ended.is_empty()).then(|| ended[at % ended.len()])?;
        Some((dot, self.waits.remove(&dot)?))
    }
}

/// Number before the first event of a run. From there on messages of all runs want the same packet ids.
fn before_first(run: Run) -> u64 {
    let wanted = |number: &u64| preferred_id(Dot { run, number: *number }) == packet_id(1);
    (1..=65_535)
        .find(wanted)
        .expect("each packet id is that of a message")
}

/// Distance of event numbers: packet ids of messages repeat after five.
const STRIDE: u64 = 65_535 / 5;

fn new_delivering() -> Delivering<Payload> {
    let in_flight_max = NonZeroU16::new(IN_FLIGHT_MAX).expect("no zero");
    let waiting_max = 100;
    Delivering::new(DeliveringLimits {
        in_flight_max,
        waiting_max,
    })
}

/// Owners of a client's slot among the nodes of a side.
pub(super) fn owners(client: usize, side: &BTreeSet<usize>) -> Vec<usize> {
    let ring = (0..NODES).map(|place| (client + place) % NODES);
    ring.filter(|node| side.contains(node)).take(OWNERS).collect()
}
