//! The other nodes of the cluster: connections to and from each of them.
//!
//! Each node dials every other one, and sends on the connection that it has dialled; on one that it has accepted it only reads, and
//! answers when it is asked whether it is there. Everything here runs on the node's thread, handshakes of TLS apart. What is to be
//! sent is queued by [`Peers::send`] and written by [`Peers::flush`], once for a whole turn; what comes is handed over through a
//! bounded channel, so that nodes and clients wait for each other's turns.
//!
//! Not here: what is said (`cluster::peers`), and what messages mean. Messages may be lost, and doubled; in one connection they keep
//! their order.

mod accepting;
mod admission;
pub(crate) mod conditions;
mod dialling;
pub(crate) mod formation;
mod log;
mod meeting;
pub(crate) mod not_serving;
mod outgoing;
mod parting;
mod parts;
mod past;
mod sending;
mod tls;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use cluster::forming::{Founder, Founding, Stage, Statement, Step};
use cluster::peers::{Hello, PeerAddress, Start, VERSIONS};
use cluster::{ClusterId, NodeId, Outbound};
use rustls::pki_types::CertificateDer;
use storage::{Identity, KnownStarts};
use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tokio::sync::{Notify, mpsc};
use tokio::task::{JoinHandle, spawn_local};

use self::admission::Membership;
use self::dialling::Target;
use self::log::Problems;
pub(crate) use self::meeting::cause_of;
use self::outgoing::Outgoing;
use self::past::Past;
pub(crate) use self::tls::PeerTls;
use crate::admission::Places;
use crate::bound_socket::bind_tcp;
use crate::clock::Clock;
use crate::config;
use crate::error::RunError;
use crate::metrics::{PeerFigures, PeersFigures};
use crate::strangers::Strangers;

/// The other nodes of the cluster.
#[derive(Debug)]
pub(crate) struct Peers {
    shared: Rc<Shared>,
    tasks: Vec<JoinHandle<()>>,
}

/// What came from another node.
#[derive(Debug)]
pub(crate) enum PeerEvent {
    /// Messages, in their order.
    Messages(NodeId, Vec<Bytes>),
    /// A part of a message has come from it, or was taken by it.
    Heard(NodeId),
    /// What it knows of the cluster that is to be formed. Only while this node is not formed.
    Statement(NodeId, Statement),
    /// A node called: a member that says where it is, or one that is none, and was refused.
    Called(Founder),
}

/// What is the same for all connections.
#[derive(Debug)]
struct Shared {
    settings: Settings,
    identity: Identity,
    clock: Rc<Clock>,
    tls: Option<PeerTls>,
    /// Where handshakes of TLS run.
    handshakes: Option<Handle>,
    events: mpsc::Sender<PeerEvent>,
    /// Once the cluster is formed.
    membership: RefCell<Option<Membership>>,
    outgoing: RefCell<BTreeMap<NodeId, Rc<Outgoing>>>,
    incoming: RefCell<BTreeMap<NodeId, Rc<Incoming>>>,
    past: Past,
    targets: RefCell<BTreeMap<PeerAddress, Rc<Target>>>,
    /// Connections that others have made, and whose other side has not proved yet that it is a node.
    strangers: Strangers,
    /// Those whose other side has.
    proved: Places,
    /// Connections with something to write.
    dirty: RefCell<Vec<Rc<Outgoing>>>,
    /// Memory for what is on its way out.
    spare: RefCell<Vec<BytesMut>>,
    problems: RefCell<Problems>,
    counts: RefCell<Counts>,
    /// Seeds the waits between attempts.
    seed: Cell<u64>,
    /// Somebody was met or lost.
    contacts_changed: Notify,
    /// Nodes that are dialled were reached or lost, and the driver does not know yet.
    has_new_links: Cell<bool>,
    /// Wakes the driver for that.
    links_changed: Notify,
}

/// A connection that another node has made.
#[derive(Debug)]
struct Incoming {
    founder: Founder,
    /// As it said in its hello.
    cluster: Option<ClusterId>,
    /// Of the process at the other end.
    start: Start,
    /// What the node has shown in the handshake of TLS.
    certificates: Vec<CertificateDer<'static>>,
    /// Ends it.
    close: Notify,
    /// It was ended in favour of another one.
    is_closing: Cell<bool>,
}

#[derive(Debug, Clone)]
struct Settings {
    address: PeerAddress,
    join: Vec<PeerAddress>,
    admin_url: String,
    size: u16,
    groups: u32,
    clock_skew_max_ms: u64,
    is_insecure: bool,
}

/// Messages and their bytes, frames included.
#[derive(Debug, Clone, Copy, Default)]
struct Traffic {
    messages: u64,
    bytes: u64,
}

#[derive(Debug, Default)]
struct Counts {
    sent: Traffic,
    received: Traffic,
    dropped: crate::metrics::Counts,
    refused: crate::metrics::Counts,
    connections: u64,
}

/// A node that was not heard of for so long is taken for dead: it is dialled anew, and what waits for it is dropped.
const SILENCE_MAX: Duration = Duration::from_millis(1_500);

/// How often a node is asked whether it is there: some answers may be late within [`SILENCE_MAX`].
const PING_EVERY: Duration = Duration::from_millis(300);

/// Batches of messages that wait for the node's turn. One is what was read at once, 256 KiB, or one longer message; when all places
/// are taken nothing more is read, and the senders' queues fill.
const EVENTS_MAX: usize = 16;

/// Addresses that are dialled at most. They are told by nodes that were let in; of more nodes there is no cluster.
const TARGETS_MAX: usize = 64;

/// What it takes to talk to other nodes.
#[derive(Debug)]
pub(crate) struct PeersStart<'a> {
    pub(crate) settings: &'a config::Cluster,
    pub(crate) identity: Identity,
    /// Last starts of the others.
    pub(crate) known_starts: KnownStarts,
    pub(crate) clock: Rc<Clock>,
    pub(crate) tls: Option<PeerTls>,
    pub(crate) handshakes: Option<Handle>,
    /// Of this node's admin pages.
    pub(crate) admin_url: String,
    pub(crate) seed: u64,
}

/// Binds the address where other nodes connect. Has to be called within a tokio runtime.
pub(crate) fn bind(settings: Option<&config::Cluster>) -> Result<Option<TcpListener>, RunError> {
    let bind =
        |address: SocketAddr| bind_tcp(address).map_err(|error| RunError::BindPeers { address, error });
    settings
        .and_then(|settings| settings.peer_listen)
        .map(bind)
        .transpose()
}

impl Peers {
    /// Begins to dial and to accept. Has to be called within a local set.
    pub(crate) fn start(
        start: PeersStart<'_>,
        listener: TcpListener,
    ) -> io::Result<(Self, mpsc::Receiver<PeerEvent>)> {
        let PeersStart {
            settings,
            identity,
            known_starts,
            clock,
            tls,
            handshakes,
            admin_url,
            seed,
        } = start;
        let listens = listener.local_addr()?;
        let (events, received) = mpsc::channel(EVENTS_MAX);
        let shared = Rc::new(Shared {
            settings: Settings {
                address: settings.peer_advertise.clone().unwrap_or(listens.into()),
                join: settings.join.clone(),
                admin_url,
                size: settings.size.unwrap_or_default(),
                groups: settings.groups,
                clock_skew_max_ms: u64::try_from(settings.clock_skew_max.as_millis()).unwrap_or(u64::MAX),
                is_insecure: settings.insecure_peers,
            },
            identity,
            clock,
            tls,
            handshakes,
            events,
            membership: RefCell::default(),
            outgoing: RefCell::default(),
            incoming: RefCell::default(),
            past: Past::new(known_starts),
            targets: RefCell::default(),
            strangers: accepting::strangers(),
            proved: Places::new(Some(accepting::PROVED_MAX)),
            dirty: RefCell::default(),
            spare: RefCell::default(),
            problems: RefCell::default(),
            counts: RefCell::default(),
            seed: Cell::new(seed),
            contacts_changed: Notify::new(),
            has_new_links: Cell::default(),
            links_changed: Notify::new(),
        });
        for address in &settings.join {
            dialling::begin(&shared, address);
        }
        let accepting = accepting::accept(Rc::clone(&shared), listener);
        let parting = parting::watch(Rc::clone(&shared));
        let tasks = vec![spawn_local(accepting), spawn_local(parting)];
        Ok((Self { shared, tasks }, received))
    }

    /// Where others reach this node.
    pub(crate) fn address(&self) -> &PeerAddress {
        &self.shared.settings.address
    }

    /// From here on only nodes of the cluster are talked to: its founders, until [`Peers::replace_members`].
    pub(crate) fn join(&self, founding: &Founding) {
        let statement = Statement {
            sees: founding.founders().to_vec(),
            stage: Stage::Bound(Step::Formed, founding.clone()),
        };
        self.shared.membership.replace(Some(Membership {
            cluster: founding.cluster(),
            members: BTreeMap::new(),
            removed: BTreeSet::new(),
            statement,
        }));
        self.replace_members(founding.founders(), &[]);
    }

    /// These are the members now, and those were. Members are dialled; who is none is hung up on, and not dialled any more.
    pub(crate) fn replace_members(&self, members: &[Founder], removed: &[NodeId]) {
        if let Some(membership) = self.shared.membership.borrow_mut().as_mut() {
            let member = |member: &Founder| (member.node, member.address.clone());
            membership.members = members.iter().map(member).collect();
            membership.removed = removed.iter().copied().collect();
        }
        self.shared.forget_starts();
        self.shared.clock.set_members(members.len(), removed);
        for member in members {
            self.shared.learn(member);
        }
        self.shared.part_with_strangers();
        self.shared.review_targets();
    }

    /// Queues a message. It is dropped if there is no connection, or in favour of later ones if too much waits.
    pub(crate) fn send(&self, to: NodeId, message: Outbound) {
        self.shared.send(to, message);
    }

    /// Writes what waits.
    pub(crate) fn flush(&self) {
        self.shared.flush();
    }

    /// Waits until there are other links than the driver was told of last.
    pub(crate) async fn links_changed(&self) {
        self.shared.links_changed.notified().await;
    }

    /// Nodes that this one can send to, if they are others than those of the last call.
    pub(crate) fn take_links(&self) -> Option<BTreeSet<NodeId>> {
        let has_new = self.shared.has_new_links.take();
        has_new.then(|| self.shared.outgoing.borrow().keys().copied().collect())
    }

    /// By how many milliseconds the clocks of connected nodes are ahead of this one's.
    pub(crate) fn clocks_ahead_ms(&self) -> BTreeMap<NodeId, i64> {
        let outgoing = self.shared.outgoing.borrow();
        let measured = |(node, outgoing): (&NodeId, &Rc<Outgoing>)| {
            Some((*node, outgoing.measured.get()?.clock_ahead_ms))
        };
        outgoing.iter().filter_map(measured).collect()
    }

    /// Places of those who connect here.
    pub(crate) fn strangers(&self) -> &Strangers {
        &self.shared.strangers
    }

    /// For `/metrics`.
    pub(crate) fn figures(&self) -> PeersFigures {
        self.shared.figures()
    }
}

impl Drop for Peers {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
        let targets = std::mem::take(&mut *self.shared.targets.borrow_mut());
        targets.values().for_each(|target| target.stop());
    }
}

impl Shared {
    /// What this node says first, as of now.
    fn hello(&self) -> Hello {
        Hello {
            versions: VERSIONS,
            node: self.identity.node,
            starts: self.identity.starts.clone(),
            wall: self.clock.system().wall,
            cluster: self
                .membership
                .borrow()
                .as_ref()
                .map(|membership| membership.cluster),
            size: self.settings.size,
            groups: self.settings.groups,
            address: self.settings.address.clone(),
        }
    }

    /// Whether another node is to be dialled, too, and where.
    fn learn(self: &Rc<Self>, founder: &Founder) {
        if founder.node != self.identity.node {
            dialling::begin(self, &founder.address);
        }
    }

    /// Nodes with a connection each way.
    fn contacts(&self) -> BTreeMap<NodeId, Founder> {
        let outgoing = self.outgoing.borrow();
        let incoming = self.incoming.borrow();
        let both = incoming.iter().filter(|(node, _)| outgoing.contains_key(node));
        both.map(|(node, incoming)| (*node, incoming.founder.clone()))
            .collect()
    }

    /// A node is reached that was not, or the other way round.
    fn note_links_changed(&self) {
        self.contacts_changed.notify_waiters();
        self.has_new_links.set(true);
        self.links_changed.notify_one();
    }

    /// A number between 0 and 1, another one at each call.
    fn fraction(&self) -> f64 {
        let mut random = cluster::random::Random::new(self.seed.get());
        self.seed.set(random.next());
        f64::from(u32::try_from(self.seed.get() >> 32).unwrap_or(u32::MAX)) / f64::from(u32::MAX)
    }

    fn figures(&self) -> PeersFigures {
        let counts = self.counts.borrow();
        let outgoing = self.outgoing.borrow();
        let peers = outgoing.values().map(|outgoing| {
            let measured = outgoing.measured.get();
            PeerFigures {
                node: outgoing.node.to_string(),
                round_trip_seconds: measured.map(|measured| measured.round_trip.as_secs_f64()),
                clock_ahead_seconds: measured.map(|measured| measured.clock_ahead_ms as f64 / 1_000.0),
            }
        });
        PeersFigures {
            connected: outgoing.len() as u64,
            peers: peers.collect(),
            connections: counts.connections,
            messages_sent: counts.sent.messages,
            bytes_sent: counts.sent.bytes,
            messages_received: counts.received.messages,
            bytes_received: counts.received.bytes,
            dropped: counts.dropped.clone(),
            refused: counts.refused.clone(),
            relayed: 0,
        }
    }
}

impl Incoming {
    fn end(&self) {
        self.is_closing.set(true);
        self.close.notify_one();
    }
}

#[cfg(test)]
mod tests;
