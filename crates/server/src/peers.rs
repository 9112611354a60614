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
mod dialling;
pub(crate) mod formation;
mod log;
mod meeting;
mod outgoing;
mod parting;
mod tls;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use cluster::forming::{Founder, Founding, Stage, Statement, Step};
use cluster::peers::{Frame, Hello, PeerAddress, Refusal, RefusalCode, VERSIONS};
use cluster::{ClusterId, NodeId};
use rustls::pki_types::CertificateDer;
use storage::Identity;
use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tokio::sync::{Notify, mpsc};
use tokio::task::{JoinHandle, spawn_local};

use self::dialling::Target;
use self::log::Problems;
use self::outgoing::Outgoing;
pub(crate) use self::tls::PeerTls;
use crate::bound_socket::bind_tcp;
use crate::clock::Clock;
use crate::config;
use crate::error::RunError;
use crate::metrics::{PeerFigures, PeersFigures};
use crate::socket::Written;

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
    nonce: u64,
    clock: Rc<Clock>,
    tls: Option<PeerTls>,
    /// Where handshakes of TLS run.
    handshakes: Option<Handle>,
    events: mpsc::Sender<PeerEvent>,
    /// Once the cluster is formed.
    membership: RefCell<Option<Membership>>,
    outgoing: RefCell<BTreeMap<NodeId, Rc<Outgoing>>>,
    incoming: RefCell<BTreeMap<NodeId, Rc<Incoming>>>,
    /// The newest incarnation that was seen of each node.
    newest: RefCell<BTreeMap<NodeId, u32>>,
    targets: RefCell<BTreeMap<PeerAddress, Rc<Target>>>,
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
}

/// A cluster that is formed, as connections need to know it.
#[derive(Debug)]
struct Membership {
    cluster: ClusterId,
    /// With the addresses where they were found last.
    members: BTreeMap<NodeId, PeerAddress>,
    /// They were members.
    removed: BTreeSet<NodeId>,
    /// What a founder that has missed the end is told.
    statement: Statement,
}

/// What a formed cluster thinks of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    Member,
    Removed,
    Stranger,
}

impl Membership {
    /// Who belongs to the cluster already may have been taken in while this node was away.
    fn judge(&self, node: NodeId, cluster: Option<ClusterId>) -> Standing {
        if self.removed.contains(&node) {
            Standing::Removed
        } else if self.members.contains_key(&node) || cluster == Some(self.cluster) {
            Standing::Member
        } else {
            Standing::Stranger
        }
    }
}

/// A connection that another node has made.
#[derive(Debug)]
struct Incoming {
    founder: Founder,
    /// As it said in its hello.
    cluster: Option<ClusterId>,
    /// Of the process at the other end.
    nonce: u64,
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
            nonce: seed,
            clock,
            tls,
            handshakes,
            events,
            membership: RefCell::default(),
            outgoing: RefCell::default(),
            incoming: RefCell::default(),
            newest: RefCell::default(),
            targets: RefCell::default(),
            dirty: RefCell::default(),
            spare: RefCell::default(),
            problems: RefCell::default(),
            counts: RefCell::default(),
            seed: Cell::new(seed),
            contacts_changed: Notify::new(),
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
        for member in members {
            self.shared.learn(member);
        }
        self.shared.part_with_strangers();
        self.shared.review_targets();
    }

    /// Queues a message. It is dropped if there is no connection, or in favour of later ones if too much waits.
    pub(crate) fn send(&self, to: NodeId, message: Bytes) {
        self.shared.send(to, message);
    }

    /// Writes what waits.
    pub(crate) fn flush(&self) {
        self.shared.flush();
    }

    /// By how many milliseconds the clocks of connected nodes are ahead of this one's.
    pub(crate) fn clocks_ahead_ms(&self) -> BTreeMap<NodeId, i64> {
        let outgoing = self.shared.outgoing.borrow();
        let measured = |(node, outgoing): (&NodeId, &Rc<Outgoing>)| {
            Some((*node, outgoing.measured.get()?.clock_ahead_ms))
        };
        outgoing.iter().filter_map(measured).collect()
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
            incarnation: self.identity.incarnation,
            nonce: self.nonce,
            wall: self.clock.now().wall,
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

    /// What speaks against a node in general.
    fn check(&self, own: &Hello, theirs: &Hello) -> Result<(), Refusal> {
        own.check(theirs)?;
        let membership = self.membership.borrow();
        let Some(membership) = membership.as_ref() else {
            return Ok(());
        };
        match membership.judge(theirs.node, theirs.cluster) {
            Standing::Member => Ok(()),
            Standing::Removed => {
                let text = format!(
                    "node {} at {} was removed from cluster {}: start it with an empty data directory",
                    theirs.node, theirs.address, membership.cluster
                );
                Err(Refusal::new(RefusalCode::NotAMember, text))
            }
            Standing::Stranger => {
                let text = format!(
                    "node {} at {} is no member of cluster {}, which node {} at {} belongs to: if it is new, or has lost its data \
                     directory, tell this member of it by `statehold cluster add {} --admin {}`",
                    theirs.node,
                    theirs.address,
                    membership.cluster,
                    own.node,
                    own.address,
                    theirs.address,
                    self.settings.admin_url,
                );
                // Somebody may want to add it. If too much is going on, it will call again.
                let _ = self.events.try_send(PeerEvent::Called(Founder {
                    node: theirs.node,
                    address: theirs.address.clone(),
                }));
                Err(Refusal::new(RefusalCode::NotAMember, text))
            }
        }
    }

    /// Whether another process with the same id is there, or a newer one was.
    fn check_alone(&self, theirs: &Hello) -> Result<(), Refusal> {
        let refuse = |text| Err(Refusal::new(RefusalCode::NodeTwice, text));
        if let Some(other) = self.incoming.borrow().get(&theirs.node)
            && other.nonce != theirs.nonce
            && !other.is_closing.get()
        {
            return refuse(format!(
                "there are two nodes with the id {}, at {} and at {}: one has a copy of the other's data directory; \
                 stop one of them, and start it with an empty directory",
                theirs.node, other.founder.address, theirs.address
            ));
        }
        let newest = self
            .newest
            .borrow()
            .get(&theirs.node)
            .copied()
            .unwrap_or_default();
        if theirs.incarnation.0 < newest {
            return refuse(format!(
                "node {} at {} has an older copy of its data directory: it was started {newest} times, and knows of {}",
                theirs.node, theirs.address, theirs.incarnation
            ));
        }
        Ok(())
    }

    /// Whether this node sends to it already, on a connection to another address.
    fn check_not_connected(&self, theirs: &Hello) -> Result<(), Refusal> {
        if self.outgoing.borrow().contains_key(&theirs.node) {
            return Err(Refusal::new(
                RefusalCode::Connected,
                "there is a connection already",
            ));
        }
        Ok(())
    }

    /// The same as [`Shared::check_alone`], with time for the connection of a process that has died to end.
    async fn check_alone_patiently(&self, theirs: &Hello) -> Result<(), Refusal> {
        let patience = async {
            while self.check_alone(theirs).is_err() {
                self.contacts_changed.notified().await;
            }
        };
        // A process that is alive is heard of within this time.
        let _ = tokio::time::timeout(SILENCE_MAX + PING_EVERY, patience).await;
        self.check_alone(theirs)
    }

    /// Whether another node is to be dialled, too, and where.
    fn learn(self: &Rc<Self>, founder: &Founder) {
        if founder.node != self.identity.node {
            dialling::begin(self, &founder.address);
        }
    }

    /// Whether an address is dialled as long as nobody answers there: until the cluster is formed any, and then those of its nodes.
    fn is_of_member(&self, address: &PeerAddress) -> bool {
        let membership = self.membership.borrow();
        let Some(membership) = membership.as_ref() else {
            return true;
        };
        let incoming = self.incoming.borrow();
        membership.members.values().any(|known| known == address)
            || incoming.values().any(|known| known.founder.address == *address)
    }

    /// Whether this node sends to every other node of the cluster.
    fn reaches_all(&self) -> bool {
        let (membership, outgoing) = (self.membership.borrow(), self.outgoing.borrow());
        let mut members = membership.iter().flat_map(|membership| membership.members.keys());
        members.all(|node| *node == self.identity.node || outgoing.contains_key(node))
    }

    /// Whether a node belongs here. It may have been removed while hello was said.
    fn is_welcome(&self, node: NodeId, cluster: Option<ClusterId>) -> bool {
        let membership = self.membership.borrow();
        membership
            .as_ref()
            .is_none_or(|membership| membership.judge(node, cluster) == Standing::Member)
    }

    /// Ends the connections of those who do not belong to the cluster.
    fn part_with_strangers(&self) {
        for (node, outgoing) in self.outgoing.borrow().iter() {
            if !self.is_welcome(*node, outgoing.cluster) {
                outgoing.close();
            }
        }
        for (node, incoming) in self.incoming.borrow().iter() {
            if !self.is_welcome(*node, incoming.cluster) {
                incoming.end();
            }
        }
    }

    fn send(&self, to: NodeId, message: Bytes) {
        let outgoing = self.outgoing.borrow();
        let Some(outgoing) = outgoing.get(&to) else {
            return self.count_dropped("not_connected", 1);
        };
        let dropped = outgoing.push(message);
        if dropped > 0 {
            self.count_dropped("queue_full", dropped);
        }
        self.mark_dirty(outgoing);
    }

    /// Says something to a node at once, if there is a connection.
    fn say(&self, to: NodeId, frame: &Frame) {
        let outgoing = self.outgoing.borrow().get(&to).cloned();
        if let Some(outgoing) = outgoing {
            outgoing.say(frame);
            self.write(&outgoing);
        }
    }

    fn mark_dirty(&self, outgoing: &Rc<Outgoing>) {
        if !outgoing.is_dirty.replace(true) {
            self.dirty.borrow_mut().push(Rc::clone(outgoing));
        }
    }

    fn flush(&self) {
        if self.dirty.borrow().is_empty() {
            return;
        }
        let mut dirty = self.dirty.take();
        for outgoing in dirty.drain(..) {
            outgoing.is_dirty.set(false);
            self.write(&outgoing);
        }
        self.dirty.replace(dirty);
    }

    /// Gives a connection what it takes; its task does the rest.
    fn write(&self, outgoing: &Outgoing) {
        let mut counts = self.counts.borrow_mut();
        match outgoing.write(&mut self.spare.borrow_mut(), &mut counts.sent) {
            Written::All => {}
            Written::Blocked => outgoing.changed.notify_one(),
            Written::Failed => outgoing.close(),
        }
    }

    fn count_dropped(&self, cause: &'static str, count: u64) {
        *self.counts.borrow_mut().dropped.entry(cause).or_default() += count;
    }

    /// Nodes with a connection each way.
    fn contacts(&self) -> BTreeMap<NodeId, Founder> {
        let outgoing = self.outgoing.borrow();
        let incoming = self.incoming.borrow();
        let both = incoming.iter().filter(|(node, _)| outgoing.contains_key(node));
        both.map(|(node, incoming)| (*node, incoming.founder.clone()))
            .collect()
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
