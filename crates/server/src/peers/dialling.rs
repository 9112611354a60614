//! Connections that this node makes: messages are written to them.
//!
//! Each address is dialled by a task of its own, again and again. Several addresses may lead to one node, or to this one: then one
//! connection is kept, and the other tasks wait until it is lost.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use cluster::NodeId;
use cluster::peers::{
    ClockWatch, Frame, FrameDecoder, PeerAddress, Reading, Refusal, RefusalCode, clock_offset,
};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::task::{AbortHandle, spawn_local};
use tokio::time::{MissedTickBehavior, interval, timeout};

use super::meeting::{self, Meeting, MeetingError};
use super::outgoing::{Measured, Outgoing};
use super::parts::Parts;
use super::past::Refuser;
use super::{PING_EVERY, SILENCE_MAX, Shared, TARGETS_MAX, tls};
use crate::clock::instant as now;
use crate::stream::Stream;

/// An address that is dialled.
#[derive(Debug)]
pub(super) struct Target {
    address: PeerAddress,
    /// There is reason to try again at once.
    wake: Notify,
    /// There is a connection to it, or no need of one.
    is_settled: Cell<bool>,
    /// There was an attempt.
    is_tried: Cell<bool>,
    /// The last attempt found a formed cluster that this node does not belong to.
    pub(super) is_foreign: Cell<bool>,
    task: RefCell<Option<AbortHandle>>,
}

/// What became of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    /// There was a connection for a while, and it was lost.
    Lost,
    /// It leads to a node that is connected by another address, or to this one.
    Known,
    /// There was no connection, or a short one.
    Failed,
}

/// How long a connection may take to be made.
const CONNECT_MAX: Duration = Duration::from_secs(1);

/// The wait after the first attempt that fails; it doubles with each further one.
const BACKOFF_MIN: Duration = Duration::from_millis(50);

/// The longest wait between attempts.
const BACKOFF_MAX: Duration = Duration::from_secs(1);

/// An address of a node that is connected by another one is tried again after so long, if that is not lost before; and one of
/// `join` where no node of the cluster is, while all of them are connected.
const KNOWN_FOR: Duration = Duration::from_secs(30);

/// Dials an address from here on, unless it is dialled already.
pub(super) fn begin(shared: &Rc<Shared>, address: &PeerAddress) {
    let mut targets = shared.targets.borrow_mut();
    if targets.contains_key(address) || targets.len() >= TARGETS_MAX || *address == shared.settings.address {
        return;
    }
    let target = Rc::new(Target {
        address: address.clone(),
        wake: Notify::new(),
        is_settled: Cell::default(),
        is_tried: Cell::default(),
        is_foreign: Cell::default(),
        task: RefCell::default(),
    });
    let task = spawn_local(keep(Rc::clone(shared), Rc::clone(&target)));
    target.task.replace(Some(task.abort_handle()));
    targets.insert(address.clone(), target);
}

impl Target {
    /// Whether there is a connection to it, or no need of one.
    #[cfg(test)]
    pub(super) fn is_settled(&self) -> bool {
        self.is_settled.get()
    }

    /// Ends its task.
    pub(super) fn stop(&self) {
        if let Some(task) = self.task.take() {
            task.abort();
        }
    }
}

impl Shared {
    /// There is reason to try an address again at once.
    pub(super) fn wake(&self, address: &PeerAddress) {
        if let Some(target) = self.targets.borrow().get(address) {
            target.wake.notify_one();
        }
    }

    /// Other nodes belong to the cluster: an address that was no node's may be one now, and the other way round.
    pub(super) fn review_targets(&self) {
        for target in self.targets.borrow().values() {
            let is_idle = !target.is_settled.get() && self.is_of_member(&target.address);
            if is_idle || !self.is_needed(&target.address) {
                target.wake.notify_one();
            }
        }
    }

    /// Whether an address is worth another attempt.
    fn is_needed(&self, address: &PeerAddress) -> bool {
        self.is_of_member(address) || self.settings.join.contains(address)
    }

    /// Addresses of `join` at which a cluster may be that this node does not know of. Where the node is to be a cluster of its
    /// own, an address at which nobody answers is never given up: somebody has named it.
    pub(super) fn unanswered(&self) -> BTreeSet<PeerAddress> {
        let is_alone = self.settings.size == 1;
        let is_unanswered =
            |target: &Target| !target.is_settled.get() && (is_alone || !target.is_tried.get());
        let targets = self.targets.borrow();
        let unanswered = targets
            .iter()
            .filter(|(address, target)| self.settings.join.contains(address) && is_unanswered(target));
        unanswered.map(|(address, _)| address.clone()).collect()
    }

    /// What another node's clock said between two moments.
    pub(super) fn heard_clock(&self, node: NodeId, asked: Instant, received: Instant, wall: u64) {
        let at = asked + received.saturating_duration_since(asked) / 2;
        self.clock.hear(node, Reading { at, wall });
    }

    /// A connection was lost: another address may lead to the same node.
    fn wake_known(&self) {
        let targets = self.targets.borrow();
        let known = targets.values().filter(|target| target.is_settled.get());
        known.for_each(|target| target.wake.notify_one());
    }
}

/// Keeps a connection to an address, as long as it may lead to a node of the cluster.
async fn keep(shared: Rc<Shared>, target: Rc<Target>) {
    let mut backoff = BACKOFF_MIN;
    while shared.is_needed(&target.address) {
        let outcome = attempt(&shared, &target).await;
        target.is_settled.set(outcome == Outcome::Known);
        if !target.is_tried.replace(true) {
            shared.contacts_changed.notify_waiters();
        }
        let wait = match outcome {
            Outcome::Known => KNOWN_FOR,
            Outcome::Failed if !shared.is_of_member(&target.address) && shared.reaches_all() => KNOWN_FOR,
            Outcome::Lost => {
                backoff = BACKOFF_MIN;
                BACKOFF_MIN
            }
            Outcome::Failed => {
                backoff = (backoff * 2).min(BACKOFF_MAX);
                backoff.mul_f64(0.5 + shared.fraction() / 2.0)
            }
        };
        let _ = timeout(wait, target.wake.notified()).await;
    }
    shared.targets.borrow_mut().remove(&target.address);
    shared.dialling_succeeded(&target.address);
}

async fn attempt(shared: &Rc<Shared>, target: &Target) -> Outcome {
    let met = meet(shared, &target.address).await;
    note_foreign(shared, target, &met);
    match met {
        Ok(meeting) => {
            shared.dialling_succeeded(&target.address);
            let theirs = &meeting.theirs;
            if shared.outgoing.borrow().contains_key(&theirs.node) {
                return Outcome::Known;
            }
            if !shared.is_welcome(theirs.node, theirs.cluster) {
                return Outcome::Failed;
            }
            shared.welcomed_by(theirs.node);
            target.is_settled.set(true);
            let began = now();
            talk(shared, meeting).await;
            target.is_settled.set(false);
            shared.wake_known();
            // One that ends at once would be made again and again.
            if now() - began < BACKOFF_MAX {
                Outcome::Failed
            } else {
                Outcome::Lost
            }
        }
        Err(error) if error.is_harmless() => {
            shared.dialling_succeeded(&target.address);
            Outcome::Known
        }
        Err(error) => {
            shared.dialling_failed(&target.address, &error);
            Outcome::Failed
        }
    }
}

/// Remembers whether a formed cluster is there that this node does not belong to.
fn note_foreign(shared: &Shared, target: &Target, met: &Result<Meeting, MeetingError>) {
    let refusal = met.as_ref().err().and_then(MeetingError::refusal);
    // Nobody who is away is another cluster, nor is it none any more.
    if met.is_err() && refusal.is_none() {
        return;
    }
    let is_foreign = refusal.is_some_and(|(_, refusal)| refusal.code == RefusalCode::NotAMember);
    if target.is_foreign.replace(is_foreign) != is_foreign {
        shared.contacts_changed.notify_waiters();
    }
}

async fn meet(shared: &Shared, address: &PeerAddress) -> Result<Meeting, MeetingError> {
    let stream = timeout(CONNECT_MAX, connect(shared, address))
        .await
        .unwrap_or(Err(MeetingError::Silent(CONNECT_MAX)))?;
    // This fails on a connection that has ended, which reading will show.
    let _ = stream.set_nodelay(true);
    let stream = tls::connect(shared, Stream::Tcp(stream)).await?;
    meeting::by_dialling(shared, stream).await
}

async fn connect(shared: &Shared, address: &PeerAddress) -> Result<TcpStream, MeetingError> {
    let found: Vec<SocketAddr> = match address.ip() {
        Some(address) => vec![address],
        None => {
            let found = tokio::net::lookup_host(address.as_str()).await;
            found.map_err(MeetingError::Name)?.collect()
        }
    };
    if shared.settings.is_insecure && !found.iter().all(|address| address.ip().is_loopback()) {
        return Err(MeetingError::NotLoopback);
    }
    TcpStream::connect(&found[..])
        .await
        .map_err(MeetingError::Unreachable)
}

/// Sends to a node until the connection is lost.
async fn talk(shared: &Rc<Shared>, meeting: Meeting) {
    let Meeting {
        theirs,
        stream,
        decoder,
    } = meeting;
    let outgoing = Rc::new(Outgoing::new(theirs.node, theirs.cluster, stream));
    shared
        .outgoing
        .borrow_mut()
        .insert(theirs.node, Rc::clone(&outgoing));
    shared.counts.borrow_mut().connections += 1;
    tracing::info!(node = %theirs.node, address = %theirs.address, incarnation = %theirs.starts.newest().incarnation, "connected to a node");
    shared.note_links_changed();

    let why = keep_talking(shared, &outgoing, decoder).await;

    shared.outgoing.borrow_mut().remove(&theirs.node);
    shared.note_links_changed();
    tracing::info!(node = %theirs.node, address = %theirs.address, why, "lost the connection to a node");
}

async fn keep_talking(shared: &Shared, outgoing: &Outgoing, mut decoder: FrameDecoder) -> &'static str {
    let mut asking = Asking::new(shared.settings.clock_skew_max_ms);
    let mut parts = Parts::default();
    let mut every = interval(PING_EVERY);
    every.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        while let Some(frame) = match decoder.next() {
            Ok(frame) => frame,
            Err(_) => return "it does not keep to the protocol",
        } {
            match frame {
                Frame::Pong { number, wall } => {
                    if let Some(refusal) = asking.answered(shared, outgoing, number, wall) {
                        shared.connection_refused(&refusal);
                        outgoing.say(&Frame::Refused(refusal));
                        shared.write(outgoing);
                        return "its clock is off";
                    }
                }
                Frame::Refused(refusal) => {
                    let (node, cluster) = (outgoing.node, outgoing.cluster);
                    shared.heed(&refusal, Refuser { node, cluster });
                    tracing::warn!(node = %outgoing.node, "a node refuses this one: {refusal}");
                    return "it refuses this node";
                }
                _ => return "it does not keep to the protocol",
            }
        }
        let mut came = BytesMut::new();
        tokio::select! {
            biased;
            count = outgoing.read(&mut came) => {
                if count == 0 {
                    return "it was closed";
                }
                asking.heard = now();
                decoder.bytes().extend_from_slice(&came);
            }
            is_writable = outgoing.writable(), if outgoing.is_blocked() => {
                if !is_writable {
                    return "it is broken";
                }
                // What it takes is a sign of life, too: the answer is behind it.
                asking.heard = now();
                parts.passed(shared, outgoing.node);
                shared.write(outgoing);
            }
            () = outgoing.changed.notified() => {
                if outgoing.is_closing.get() {
                    return "it is broken, or not wanted any more";
                }
            }
            _ = every.tick() => {
                if now() - asking.heard > SILENCE_MAX {
                    return "nothing was heard of it";
                }
                outgoing.say(&asking.ask());
                shared.write(outgoing);
            }
        }
    }
}

/// Whether the other node is there, and what its clock says.
struct Asking {
    heard: Instant,
    number: u64,
    /// When the last question was asked.
    asked: Instant,
    clock_watch: ClockWatch,
}

impl Asking {
    fn new(clock_skew_max_ms: u64) -> Self {
        Self {
            heard: now(),
            number: 0,
            asked: now(),
            clock_watch: ClockWatch::new(clock_skew_max_ms),
        }
    }

    fn ask(&mut self) -> Frame {
        self.number += 1;
        self.asked = now();
        Frame::Ping { number: self.number }
    }

    /// Takes an answer. Why the connection has to end, if it has.
    fn answered(&mut self, shared: &Shared, outgoing: &Outgoing, number: u64, wall: u64) -> Option<Refusal> {
        if number != self.number {
            return None;
        }
        let received = shared.clock.system();
        let round_trip = received.instant.saturating_duration_since(self.asked);
        let trip = u64::try_from(round_trip.as_millis()).unwrap_or(u64::MAX);
        let clock_ahead_ms = clock_offset(received.wall, trip, wall);
        shared.heard_clock(outgoing.node, self.asked, received.instant, wall);
        outgoing.measured.set(Some(Measured {
            round_trip,
            clock_ahead_ms,
        }));
        let is_right = self.clock_watch.answered(clock_ahead_ms, trip);
        (!is_right).then(|| {
            let skew_max = shared.settings.clock_skew_max_ms;
            let ahead = if clock_ahead_ms > 0 { "ahead of" } else { "behind" };
            let text = format!(
                "the clock of node {} is {} ms {ahead} that of node {}, more than cluster.clock_skew_max = {skew_max} ms: \
                 set both by NTP or the like",
                outgoing.node,
                clock_ahead_ms.unsigned_abs(),
                shared.identity.node,
            );
            Refusal::new(RefusalCode::Clock, text)
        })
    }
}
