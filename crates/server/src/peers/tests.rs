//! Nodes that talk to each other in one process.

use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use cluster::NodeId;
use cluster::forming::{Founder, Founding};
use cluster::peers::Starts;
use storage::{Identity, KnownStarts};
use tokio::sync::mpsc;
use tokio::task::LocalSet;

use super::{PeerEvent, Peers, PeersStart, bind};
use crate::clock::Clock;
use crate::config;

/// A node's connections, and what comes from them.
struct Talker {
    peers: Peers,
    events: mpsc::Receiver<PeerEvent>,
}

/// Where nodes will be, before they are there.
struct Reserved(Vec<(config::Cluster, tokio::net::TcpListener)>);

impl Reserved {
    fn new(count: usize) -> Self {
        let settings = || config::Cluster {
            peer_listen: Some(SocketAddr::from(([127, 0, 0, 1], 0))),
            size: Some(2),
            insecure_peers: true,
            ..config::Cluster::default()
        };
        let each = (0..count).map(|_| {
            let listener = bind(Some(&settings()))
                .expect("bound")
                .expect("there is an address");
            (settings(), listener)
        });
        Self(each.collect())
    }

    fn port(&self, place: usize) -> u16 {
        self.0[place].1.local_addr().expect("bound").port()
    }

    /// Starts a node with this id for each.
    fn start(self, ids: &[u64], join: &[String]) -> Vec<Talker> {
        let identities = ids.iter().zip(1..).map(|(id, nonce)| Identity {
            node: NodeId(*id),
            starts: Starts::first(nonce),
        });
        self.start_as(identities, join)
    }

    /// Starts a node with this identity for each.
    fn start_as(self, identities: impl IntoIterator<Item = Identity>, join: &[String]) -> Vec<Talker> {
        let each = self.0.into_iter().zip(identities).zip(1..);
        each.map(|(((mut settings, listener), identity), seed)| {
            settings.join = join
                .iter()
                .map(|address| address.parse().expect("an address"))
                .collect();
            let start = PeersStart {
                settings: &settings,
                identity,
                known_starts: KnownStarts::default(),
                clock: Rc::new(Clock::new(Duration::from_millis(500))),
                tls: None,
                handshakes: None,
                admin_url: "http://127.0.0.1:8080".to_owned(),
                seed,
            };
            let (peers, events) = Peers::start(start, listener).expect("started");
            Talker { peers, events }
        })
        .collect()
    }
}

impl Talker {
    fn founder(&self) -> Founder {
        Founder {
            node: self.peers.shared.identity.node,
            address: self.peers.address().clone(),
        }
    }

    /// Waits until there are connections both ways with so many.
    async fn has_met(&self, count: usize) {
        while self.peers.shared.contacts().len() != count {
            self.peers.shared.contacts_changed.notified().await;
        }
    }

    async fn hears(&mut self) -> (NodeId, Vec<Bytes>) {
        match self.events.recv().await {
            Some(PeerEvent::Messages(from, messages)) => (from, messages),
            other => panic!("unexpected: {other:?}"),
        }
    }
}

fn check(test: impl AsyncFnOnce()) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let within = async { tokio::time::timeout(Duration::from_secs(60), test()).await };
    let ended = LocalSet::new().block_on(&runtime, within);
    ended.expect("what is waited for happens");
}

#[test]
fn messages_arrive_in_their_order() {
    check(async || {
        let reserved = Reserved::new(2);
        let join = [0, 1].map(|place| format!("127.0.0.1:{}", reserved.port(place)));
        let mut two = reserved.start(&[11, 12], &join);
        two[0].has_met(1).await;
        for number in 0..1_000_u32 {
            let message = Bytes::copy_from_slice(&number.to_be_bytes());
            two[0].peers.send(NodeId(12), message.into());
            if number % 100 == 0 {
                two[0].peers.flush();
            }
        }
        two[0].peers.flush();
        let mut heard = Vec::new();
        while heard.len() < 1_000 {
            let (from, messages) = two[1].hears().await;
            assert_eq!(from, NodeId(11));
            heard.extend(
                messages
                    .into_iter()
                    .map(|message| u32::from_be_bytes(message[..].try_into().unwrap())),
            );
        }
        assert_eq!(heard, (0..1_000).collect::<Vec<_>>());
        // Nobody is there.
        two[0].peers.send(NodeId(13), Bytes::from_static(b"lost").into());
        let figures = two[0].peers.figures();
        assert_eq!(figures.dropped["not_connected"], 1);
        assert_eq!((figures.messages_sent, figures.connected), (1_000, 1));
    });
}

#[test]
fn a_clock_that_runs_away_while_nodes_are_connected_parts_them_until_it_is_right() {
    check(async || {
        let reserved = Reserved::new(2);
        let join = [0, 1].map(|place| format!("127.0.0.1:{}", reserved.port(place)));
        let two = reserved.start(&[11, 12], &join);
        for talker in &two {
            talker.has_met(1).await;
            assert!(talker.peers.figures().refused.is_empty());
        }
        // Twice as much as is allowed.
        two[1].peers.shared.clock.set_forward(1_000);
        for talker in &two {
            talker.has_met(0).await;
            while !talker.peers.figures().refused.contains_key("clock") {
                tokio::task::yield_now().await;
            }
        }
        // It is right again, and nobody is started anew.
        two[1].peers.shared.clock.set_forward(0);
        for talker in &two {
            talker.has_met(1).await;
        }
    });
}

#[test]
fn many_addresses_of_one_node_are_one_connection() {
    check(async || {
        let reserved = Reserved::new(2);
        let addresses = |place: usize| {
            let port = reserved.port(place);
            [
                format!("127.0.0.1:{port}"),
                format!("localhost:{port}"),
                format!("LOCALHOST:{port}"),
            ]
        };
        let join = [addresses(0), addresses(1)].concat();
        let two = reserved.start(&[11, 12], &join);
        for talker in &two {
            talker.has_met(1).await;
            // Three lead to the other node, and two to this one by a name.
            while talker
                .peers
                .shared
                .targets
                .borrow()
                .values()
                .filter(|target| target.is_settled())
                .count()
                < 5
            {
                tokio::task::yield_now().await;
            }
            talker.has_met(1).await;
            assert!(talker.peers.shared.unreachable().is_empty());
            assert!(talker.peers.figures().refused.is_empty());
        }
    });
}

#[test]
fn once_there_is_a_cluster_strangers_are_parted_with() {
    check(async || {
        let reserved = Reserved::new(3);
        let join = [0, 1].map(|place| format!("127.0.0.1:{}", reserved.port(place)));
        let three = reserved.start(&[11, 12, 13], &join);
        for talker in &three {
            talker.has_met(2).await;
        }
        let founders = vec![three[0].founder(), three[1].founder()];
        let founding = Founding::new(founders.clone(), 1).expect("possible");
        three[0].peers.join(&founding);
        three[1].peers.join(&founding);
        three[0].has_met(1).await;
        three[2].has_met(0).await;
        // It is taken in.
        let all = [founders, vec![three[2].founder()]].concat();
        three[0].peers.replace_members(&all, &[]);
        three[1].peers.replace_members(&all, &[]);
        three[2].has_met(2).await;
        // And removed again.
        for talker in &three[..2] {
            talker.peers.replace_members(&all[..2], &[NodeId(13)]);
        }
        three[2].has_met(0).await;
        // Nobody dials it any more, since nothing says that it could be back.
        let gone = three[2].peers.address();
        for talker in &three[..2] {
            while talker.peers.shared.targets.borrow().contains_key(gone) {
                tokio::task::yield_now().await;
            }
        }
        while !three[2]
            .peers
            .shared
            .unreachable()
            .values()
            .any(|why| why.contains("was removed"))
        {
            tokio::task::yield_now().await;
        }
    });
}

/// A cluster of nodes 11, 12 and 13, whose processes are started one by one.
struct Three {
    addresses: [String; 3],
}

impl Three {
    /// With a place for each node.
    fn reserved() -> (Self, [Reserved; 3]) {
        let places = [1; 3].map(Reserved::new);
        let addresses = places
            .each_ref()
            .map(|place| format!("127.0.0.1:{}", place.port(0)));
        (Self { addresses }, places)
    }

    /// Starts a process of a node.
    fn start(&self, place: Reserved, node: u64, starts: Starts) -> Talker {
        let founders = self.addresses.iter().zip(11..).map(|(address, node)| Founder {
            node: NodeId(node),
            address: address.parse().expect("an address"),
        });
        let founding = Founding::new(founders.collect(), 1).expect("possible");
        let node = NodeId(node);
        let talker = place
            .start_as([Identity { node, starts }], &self.addresses)
            .remove(0);
        talker.peers.join(&founding);
        talker
    }
}

async fn has_refused(talker: &Talker, cause: &str) {
    while !talker.peers.figures().refused.contains_key(cause) {
        tokio::task::yield_now().await;
    }
}

#[test]
fn a_member_with_another_past_takes_no_part_with_anybody() {
    check(async || {
        let (three, [first, second, of_third]) = Three::reserved();
        let eleven = three.start(first, 11, Starts::first(1));
        let later = Starts::first(2).with_next(3).expect("a number");
        let twelve = three.start(second, 12, later);
        eleven.has_met(1).await;
        drop(twelve);
        eleven.has_met(0).await;
        assert_eq!(eleven.peers.starts_to_write().len(), 1);
        assert!(eleven.peers.starts_to_write().is_empty());

        // The same start has another nonce: an older copy was started.
        let older = Starts::first(2).with_next(4).expect("a number");
        let copy = three.start(Reserved::new(1), 12, older);
        let cause = copy.peers.rolled_back().await;
        assert!(
            cause.contains("node 000000000000000b has met start 2 of it"),
            "{cause}"
        );
        // The third one has met nobody.
        let third = three.start(of_third, 13, Starts::first(5));
        has_refused(&third, "aside").await;
        third.has_met(1).await;
        copy.has_met(0).await;
        eleven.has_met(1).await;
    });
}

#[test]
fn of_two_processes_the_second_takes_no_part_while_the_first_lives() {
    check(async || {
        let (three, [first, second, of_third]) = Three::reserved();
        let eleven = three.start(first, 11, Starts::first(1));
        let twelve = three.start(second, 12, Starts::first(2));
        eleven.has_met(1).await;
        // A copy of the directory of a node that runs.
        let next = Starts::first(2).with_next(3).expect("a number");
        let twin = three.start(Reserved::new(1), 12, next);
        while twin.peers.shared.takes_part_with(NodeId(13)) {
            tokio::task::yield_now().await;
        }
        assert_eq!(twin.peers.rolled_back_cause(), None);
        let third = three.start(of_third, 13, Starts::first(5));
        has_refused(&third, "aside").await;
        third.has_met(2).await;
        assert!(twin.peers.shared.contacts().is_empty());
        // The first one is gone, and the second one is a later start of it.
        drop(twelve);
        while !twin.peers.shared.takes_part_with(NodeId(13)) {
            tokio::task::yield_now().await;
        }
    });
}
