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
        while let Some((from, to, message)) = self.on_the_way.pop_front() {
            let node = NODES.iter().position(|node| *node == to).expect("one of three");
            let mut outputs = Vec::new();
            let taken = self.services[node].message(now, from, &message, &mut outputs);
            assert_eq!(taken, Ok(()));
            self.services[node].flush(now, &mut outputs);
            self.take(node, outputs);
        }
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
                Output::ToPeer { to, message } => {
                    self.on_the_way.push_back((NODES[node], to, message.into_bytes()));
                }
                _ => {}
            }
        }
    }

    /// Another node's command comes to the leader.
    fn command(&mut self, leader: usize, request: u64, needs_disk: bool) {
        let from = NODES[(leader + 1) % NODES.len()];
        let mut entry = EntryBuilder::new();
        entry.push(&Command {
            origin: Origin {
                node: from.0,
                incarnation: 1,
                request,
            },
            action: CommandAction::Expire { keys: Vec::new() },
        });
        let commands = PeerMessage::Commands {
            needs_disk,
            entry: entry.finish(store::Stamp::default()),
        };
        let message = commands.encode(GroupId(0)).into_bytes();
        self.on_the_way.push_back((from, NODES[leader], message));
        self.settle(leader, Vec::new());
    }
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
        let from = NODES[(leader + 1) % NODES.len()];
        let mut entry = EntryBuilder::new();
        entry.push(&Command {
            origin: Origin {
                node: from.0,
                incarnation: 1,
                request,
            },
            action: CommandAction::Set {
                key: Bytes::from(request.to_be_bytes().to_vec()),
                value: Bytes::from(vec![7; bytes]),
                condition: Condition::default(),
                expires_in: None,
                timestamp: Hlc::parse("1:0:client").expect("a timestamp"),
                fencing: None,
                retry: None,
            },
        });
        let commands = PeerMessage::Commands {
            needs_disk: false,
            entry: entry.finish(store::Stamp::default()),
        };
        (from, commands.encode(GroupId(0)).into_bytes())
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
        let now = three.now;
        let taken = three.services[leader].message(now, from, &message, &mut outputs);
        assert_eq!(taken, Ok(()));
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
        let now = three.now;
        let taken = three.services[leader].message(now, from, &message, &mut outputs);
        assert_eq!(taken, Ok(()));
        three.settle(leader, outputs);
        assert_eq!(three.services[leader].store.usage().keys, keys);
    }
}
