//! Three services that hear each other.

use std::collections::VecDeque;
use std::time::Duration;

use cluster::GroupId;
use cluster::replica::{Recovered, ReplicaConfig};
use protocol::hlc::Hlc;
use protocol::state_store::Condition;
use store::{CommandAction, Origin};

use super::peers::PeerMessage;
use super::*;

struct Three {
    now: Now,
    services: Vec<StateStoreService>,
    on_the_way: VecDeque<(NodeId, NodeId, Bytes)>,
    /// Node that no message reaches or leaves.
    cut_off: Option<usize>,
    /// Which nodes were asked for their disks, whatever the durability is.
    asked_for_disk: Vec<usize>,
}

const NODES: [NodeId; 3] = [NodeId(1), NodeId(2), NodeId(3)];

impl Three {
    fn new() -> Self {
        let now = Now {
            instant: crate::epoch(),
            wall: 1_700_000_000_000,
            system_wall: 1_700_000_000_000,
        };
        let service = |node: NodeId| {
            let config = StateStoreConfig {
                node: node.0,
                incarnation: 1,
                dialect: DialectChoice::Auto,
                quota: Quota::UNLIMITED,
                entry_bytes_max: 1 << 20,
                pending_max: 100,
                snapshot_log_bytes: 1 << 20,
                snapshot_chunk_bytes: 1_024,
                digest_interval: Duration::from_secs(5),
                scan: ScanLimits::default(),
                scan_seal: ScanSeal::new(&[1; crate::SCAN_KEY_BYTES]),
            };
            let mut started = Vec::new();
            let replica = ReplicaConfig::new(GroupId(0), node, NODES.to_vec(), 1);
            let replica = Replica::new(now.instant, replica, Recovered::nothing(), &mut started);
            let recovered = RecoveredGroup {
                store: Store::new(),
                replica: replica.expect("it fits"),
                started,
            };
            StateStoreService::new(config, 1, recovered)
        };
        Self {
            now,
            services: NODES.map(service).into(),
            on_the_way: VecDeque::new(),
            cut_off: None,
            asked_for_disk: Vec::new(),
        }
    }

    /// Time passes until somebody leads and all is quiet.
    fn elect(&mut self) -> usize {
        for _ in 0..1_000 {
            self.now.instant += Duration::from_millis(10);
            for node in 0..NODES.len() {
                let mut outputs = Vec::new();
                self.services[node].timeout(self.now, &mut outputs);
                self.settle(node, outputs);
            }
            if let Some(leader) = self.services.iter().position(|one| one.replica.is_leader()) {
                return leader;
            }
        }
        panic!("nobody leads");
    }

    /// Disks are as fast as messages.
    fn settle(&mut self, node: usize, mut outputs: Vec<Output>) {
        let now = self.now;
        self.services[node].flush(now, &mut outputs);
        self.take(node, outputs);
        self.settle_below(usize::MAX);
    }

    /// Messages of so many bytes and more stay on their way.
    fn settle_below(&mut self, bytes: usize) {
        let is_small = |(_, _, message): &(NodeId, NodeId, Bytes)| message.len() < bytes;
        while let Some(position) = self.on_the_way.iter().position(is_small) {
            let (from, to, message) = self.on_the_way.remove(position).expect("just seen");
            let node = NODES.iter().position(|node| *node == to).expect("one of three");
            let mut outputs = Vec::new();
            self.give(node, from, &message, &mut outputs);
            self.services[node].flush(self.now, &mut outputs);
            self.take(node, outputs);
        }
    }

    fn give(&mut self, node: usize, from: NodeId, message: &Bytes, outputs: &mut Vec<Output>) {
        let taken = self.services[node].message(self.now, from, message, outputs);
        assert_eq!(taken, Ok(()));
    }

    fn take(&mut self, node: usize, outputs: Vec<Output>) {
        let mut outputs: VecDeque<_> = outputs.into();
        while let Some(output) = outputs.pop_front() {
            match output {
                Output::Persist(ticket, _, needs_disk) => {
                    if needs_disk {
                        self.asked_for_disk.push(node);
                    }
                    let mut more = Vec::new();
                    self.services[node].persisted(self.now, ticket, &mut more);
                    outputs.extend(more);
                }
                Output::ToPeer { to, .. }
                    if self.cut_off.is_some_and(|cut| cut == node || NODES[cut] == to) => {}
                Output::ToPeer { to, message } => {
                    self.on_the_way.push_back((NODES[node], to, message.into_bytes()));
                }
                _ => {}
            }
        }
    }

    /// Another node's command comes to the leader.
    fn command(&mut self, leader: usize, request: u64, needs_disk: bool) {
        let action = CommandAction::Expire { keys: Vec::new() };
        let (from, message) = message_to(leader, request, action, needs_disk);
        self.on_the_way.push_back((from, NODES[leader], message));
        self.settle(leader, Vec::new());
    }
}

/// A command that another node gives to the leader, as it comes there.
fn message_to(leader: usize, request: u64, action: CommandAction, needs_disk: bool) -> (NodeId, Bytes) {
    let from = NODES[(leader + 1) % NODES.len()];
    let mut entry = EntryBuilder::new();
    let origin = Origin {
        node: from.0,
        incarnation: 1,
        request,
    };
    entry.push(&Command { origin, action });
    let commands = PeerMessage::Commands {
        needs_disk,
        entry: entry.finish(store::Stamp::default()),
    };
    (from, commands.encode(GroupId(0)).into_bytes())
}

#[test]
fn what_asks_for_the_disk_is_synced_by_all_who_take_it_and_nothing_else_is() {
    let mut three = Three::new();
    let leader = three.elect();
    assert_eq!(three.asked_for_disk, []);
    three.command(leader, 1_000, false);
    assert_eq!(three.asked_for_disk, []);
    three.command(leader, 1_001, true);
    three.asked_for_disk.sort_unstable();
    assert_eq!(three.asked_for_disk, [0, 1, 2]);
    three.command(leader, 1_002, false);
    assert_eq!(three.asked_for_disk.len(), 3);
}

impl Three {
    /// A client of another node sets a key to so many bytes; the message as it comes to the leader.
    fn set_of(&self, leader: usize, request: u64, bytes: usize) -> (NodeId, Bytes) {
        message_to(leader, request, set_of(request, bytes), false)
    }
}

fn set_of(request: u64, bytes: usize) -> CommandAction {
    CommandAction::Set {
        key: Bytes::from(request.to_be_bytes().to_vec()),
        value: Bytes::from(vec![7; bytes]),
        condition: Condition::default(),
        expires_in: None,
        timestamp: Hlc::parse("1:0:client").expect("a timestamp"),
        fencing: None,
        retry: None,
    }
}

/// More than may be proposed and not applied waits: nobody is refused for it.
#[test]
fn large_commands_that_come_together_are_decided_one_after_the_other() {
    let mut three = Three::new();
    let leader = three.elect();
    let keys_before = three.services[leader].store.usage().keys;
    let mut outputs = Vec::new();
    for request in 1_000..1_004 {
        let (from, message) = three.set_of(leader, request, 33 << 20);
        three.give(leader, from, &message, &mut outputs);
    }
    three.settle(leader, outputs);
    assert_eq!(three.services[leader].store.usage().keys, keys_before + 4);
}

#[test]
fn what_is_too_much_for_the_leader_is_left_out_and_decided_when_it_comes_again() {
    let mut three = Three::new();
    let leader = three.elect();
    let (from, message) = three.set_of(leader, 1_000, 10);
    for (is_at_limit, keys) in [(true, 0), (false, 1)] {
        three.services[leader].full.pretend(is_at_limit);
        let mut outputs = Vec::new();
        three.give(leader, from, &message, &mut outputs);
        three.settle(leader, outputs);
        assert_eq!(three.services[leader].store.usage().keys, keys);
    }
}

/// Two of these are more than may be proposed and not applied.
const LARGE: usize = 40 << 20;

/// A leader with a large entry that is on its way, another one that waits for room, and a small command in the open entry.
fn leader_without_room() -> (Three, usize) {
    let mut three = Three::new();
    let leader = three.elect();
    for (request, bytes) in [(1_000, 10), (1_001, LARGE), (1_002, LARGE), (1_003, 10)] {
        let (from, message) = three.set_of(leader, request, bytes);
        let mut outputs = Vec::new();
        three.give(leader, from, &message, &mut outputs);
        three.services[leader].flush(three.now, &mut outputs);
        three.take(leader, outputs);
    }
    three.settle_below(LARGE);
    (three, leader)
}

/// Nothing is due while the leader waits for room: it is looked for when an entry is applied.
#[test]
fn an_entry_that_waits_for_room_wakes_nobody() {
    let (mut three, leader) = leader_without_room();
    let service = &three.services[leader];
    assert_eq!(
        service.store.usage().keys,
        1,
        "the small one is not behind the large"
    );
    assert_eq!(service.full.first_bytes().map(|bytes| bytes > LARGE), Some(true));

    three.now.instant += Duration::from_millis(10);
    let mut outputs = Vec::new();
    three.services[leader].timeout(three.now, &mut outputs);
    three.services[leader].flush(three.now, &mut outputs);
    let deadline = three.services[leader].deadline(three.now);
    assert!(deadline.is_some_and(|deadline| deadline > three.now.instant));
    three.settle(leader, outputs);
    assert_eq!(three.services[leader].store.usage().keys, 4);
}

/// Nodes that keep the commands give them to the next leader.
#[test]
fn a_leader_that_steps_down_forgets_the_entries_that_wait() {
    let (mut three, leader) = leader_without_room();
    while three.services[leader].replica.is_leader() {
        three.now.instant += Duration::from_millis(50);
        three.services[leader].timeout(three.now, &mut Vec::new());
    }
    assert!(three.services[leader].full.is_empty());
}

/// A command that the old leader was sent waits for no time to pass.
#[test]
fn a_new_leader_is_given_at_once_what_the_old_one_was_sent() {
    let mut three = Three::new();
    let old = three.elect();
    let keeper = (old + 1) % NODES.len();
    three.cut_off = Some(old);
    let since = three.now.instant;
    let mut outputs = Vec::new();
    let service = &mut three.services[keeper];
    let request = service.pending.push_own();
    service.append(three.now, request, set_of(1_000, 10), Whose::Own, &mut outputs);
    three.settle(keeper, outputs);
    let others = [keeper, (old + 2) % NODES.len()];
    while three.services[keeper].store.usage().keys == 0 {
        three.now.instant += Duration::from_millis(10);
        for node in others {
            let mut outputs = Vec::new();
            three.services[node].timeout(three.now, &mut outputs);
            three.settle(node, outputs);
        }
        let passed = three.now.instant - since;
        assert!(
            passed < Duration::from_secs(1),
            "it is not sent for the time that has passed"
        );
    }
}
