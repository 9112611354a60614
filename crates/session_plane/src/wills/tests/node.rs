//! One node, told of everything by hand.

use super::*;

/// Node 1 in its first start.
pub(super) const RUN: Run = Run {
    node: NodeId(1),
    incarnation: Incarnation(1),
};

/// Node 1, which decides about all wills.
pub(super) struct Node {
    pub(super) wills: Wills,
    pub(super) state: State,
    now: Instant,
}

/// What the node has.
pub(super) struct State {
    pub(super) decides: bool,
    pub(super) wills: BTreeMap<ClientId, Vec<KnownWill>>,
    pub(super) present: BTreeMap<NodeId, Run>,
    pub(super) ended: BTreeSet<Run>,
    pub(super) heard: BTreeSet<Dot>,
}

impl DecidingNode for State {
    fn decides(&self, _slot: Slot) -> bool {
        self.decides
    }
}

impl WillState for State {
    fn clients(&self) -> Vec<ClientId> {
        self.wills.keys().cloned().collect()
    }

    fn clients_of(&self, _slot: Slot) -> Vec<ClientId> {
        self.clients()
    }

    fn wills(&self, client: &ClientId) -> Vec<KnownWill> {
        self.wills.get(client).cloned().unwrap_or_default()
    }

    fn present_run(&self, node: NodeId) -> Option<Run> {
        self.present.get(&node).copied()
    }

    fn has_ended(&self, run: Run) -> bool {
        self.ended.contains(&run)
    }

    fn has_heard(&self, _slot: Slot, number: Dot) -> bool {
        self.heard.contains(&number)
    }
}

pub(super) fn dot(node: u64, number: u64) -> Dot {
    let run = run_of(node, 1);
    Dot { run, number }
}

/// QoS 2 number `number` of a node, from 1.
pub(super) fn number_of(node: u64, number: u64) -> Dot {
    dot(node, crate::EVENT_NUMBER_MAX + number)
}

/// Will of a connection of node 2, which is open: event 3 of the connection 1.
pub(super) fn open_will() -> KnownWill {
    KnownWill {
        will: dot(2, 3),
        connection: dot(2, 1),
        birth: Birth {
            dot: dot(2, 2),
            clock: Hlc::at(2),
            is_clean: false,
        },
        content: ContentId(7),
        delay: Duration::ZERO,
        is_ended: false,
        has_connection: true,
        numbers: Vec::new(),
        entries: [dot(2, 3)].into(),
    }
}

/// The same, after an end without DISCONNECT.
pub(super) fn ended_will() -> KnownWill {
    KnownWill {
        is_ended: true,
        has_connection: false,
        entries: [dot(2, 3), dot(2, 4)].into(),
        ..open_will()
    }
}

/// Entry of a number, made by a node at a clock.
pub(super) fn numbered(number: Dot, by: u64, clock: u64) -> NumberEntry {
    NumberEntry {
        dot: dot(by, clock),
        clock: Hlc::at(clock),
        number: WillNumber {
            number,
            message_clock: None,
        },
    }
}

impl Node {
    pub(super) fn new(firing_max: usize) -> Node {
        let present = (1..=3).map(|node| (NodeId(node), run_of(node, 1))).collect();
        Node {
            wills: Wills::new(RUN, WillLimits { firing_max }),
            state: State {
                decides: true,
                wills: BTreeMap::new(),
                present,
                ended: BTreeSet::new(),
                heard: BTreeSet::new(),
            },
            now: *ORIGIN,
        }
    }

    pub(super) fn step(&mut self, event: WillsEvent) -> Vec<WillsAction> {
        let mut actions = Vec::new();
        self.wills.step(self.now, event, &self.state, &mut actions);
        actions
    }

    /// The copy has these wills of a client from here on.
    pub(super) fn change(&mut self, client: usize, wills: Vec<KnownWill>) -> Vec<WillsAction> {
        let client = client_id(client);
        self.state.wills.insert(client.clone(), wills);
        self.step(WillsEvent::Changed { client })
    }

    pub(super) fn wait(&mut self, time: Duration) -> Vec<WillsAction> {
        self.now += time;
        let mut actions = Vec::new();
        self.wills.tick(self.now, &self.state, &mut actions);
        actions
    }

    /// Publishing has given the will of a client a number.
    pub(super) fn number(&mut self, client: usize, number: Dot) -> Vec<WillsAction> {
        self.step(WillsEvent::Numbered {
            client: client_id(client),
            will: dot(2, 3),
            number,
        })
    }

    pub(super) fn published(&mut self, number: Dot) -> Vec<WillsAction> {
        self.step(WillsEvent::Published { number })
    }

    /// Time until the node has something to do.
    pub(super) fn due_in(&self) -> Option<Duration> {
        self.wills.deadline().map(|deadline| deadline - self.now)
    }
}

/// The will of a client is published, under this number and with this own entry.
pub(super) fn publish(client: usize, numbered: Option<NumberedWill>) -> WillsAction {
    WillsAction::Publish(DueWill {
        client: client_id(client),
        will: dot(2, 3),
        content: ContentId(7),
        numbered,
    })
}

pub(super) fn removed(client: usize, dots: &[Dot]) -> WillsAction {
    WillsAction::Remove {
        client: client_id(client),
        removes: dots.iter().copied().collect(),
    }
}
