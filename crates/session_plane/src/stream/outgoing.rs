//! Outgoing stream of this node's run: gives events their dots, keeps them until they are durable.
//!
//! [`OutgoingStream::push`] gives a change its number and queues it for the owners of its slots.
//! Connections pull what is next for their peer. Confirmations move a position for each receiver;
//! the run's own node is a receiver too, whose position is that of its disk. A change is *durable*
//! when each receiver that is still present has confirmed it, and each of its slots has enough
//! copies. Its dot is reported then, once.
//!
//! *Invariants*: an event is kept until it is durable and no resend has it, whatever happens to its
//! receivers. Each receiver is sent its events once for each connection, in ascending order. What
//! has too few copies when a ring changes is resent to the new owners under its old dot.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use cluster::NodeId;

use crate::stream::peer_stream::PeerStream;
use crate::stream::resend::{Confirmed, Resends};
use crate::stream::ring_epoch::RingEpoch;
use crate::stream::{ConfirmError, EventKind, Resend, ResendId, Routing, StreamEvent, StreamPosition};
use crate::{Dot, Recipients, Run};

mod copies;
mod kept;
mod late_copies;
mod limits;

pub use copies::Unconfirmed;
pub use late_copies::GivingId;
pub use limits::{OutgoingLimits, RingsFull, StreamFull};

use kept::{Kept, Receivers};

/// Events of one run, on their way to the nodes that need them.
///
/// A change costs O(log n) for each of its receivers, and a look at the owners of its own slots. A
/// confirmation costs O(log n) for each event that it settles. Only a ring marker, or the end of a
/// ring's last event, looks at all slots.
#[derive(Debug)]
pub struct OutgoingStream<P> {
    run: Run,
    /// Number of the last event.
    number: u64,
    limits: OutgoingLimits,
    /// Present nodes, this one among them.
    streams: BTreeMap<NodeId, PeerStream>,
    /// In ascending order; the last one is in force.
    epochs: Vec<RingEpoch>,
    resends: Resends<P>,
    last_giving: u64,
    /// Receivers of late copies that have not confirmed them.
    givings: BTreeMap<GivingId, usize>,
    /// Givings that have ended since they were taken last.
    given: Vec<GivingId>,
    kept: BTreeMap<u64, Kept<P>>,
    kept_bytes: usize,
    /// Kept events that no stream is to confirm, and that have too few copies.
    short: BTreeSet<u64>,
}

/// Next message to a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamMessage<'a, P> {
    /// Ring marker that begins the stream.
    Welcome(&'a StreamEvent<P>),
    /// Next event that the peer needs.
    Event {
        /// Number that the peer has before the event; see [`StreamPosition::after`].
        after: u64,
        /// The event.
        event: &'a StreamEvent<P>,
    },
}

impl<P> OutgoingStream<P> {
    /// Stream of a run that begins alone, with the view `routing` of its own node.
    pub fn new(run: Run, routing: Arc<Routing>, limits: OutgoingLimits) -> OutgoingStream<P> {
        assert!(limits.copies_min >= 1, "an event without a copy is not durable");
        let stream = OutgoingStream {
            run,
            number: 0,
            limits,
            streams: BTreeMap::from([(run.node, PeerStream::new(0))]),
            epochs: vec![RingEpoch::new(routing, 1)],
            resends: Resends::default(),
            last_giving: 0,
            givings: BTreeMap::new(),
            given: Vec::new(),
            kept: BTreeMap::new(),
            kept_bytes: 0,
            short: BTreeSet::new(),
        };
        stream.assert_view();
        stream
    }

    /// Gives a change its dot and queues it for the owners of `slots`, and for those of `nodes` that are
    /// present.
    ///
    /// A change that needs nobody is durable at once.
    ///
    /// # Errors
    ///
    /// [`StreamFull`] where a limit is reached.
    pub fn push(
        &mut self,
        to: Recipients,
        payload: P,
        bytes: usize,
        durable: &mut Vec<Dot>,
    ) -> Result<Dot, StreamFull> {
        if self.kept.len() >= self.limits.events_max || self.kept_bytes >= self.limits.bytes_max {
            return Err(StreamFull {
                events: self.kept.len(),
                bytes: self.kept_bytes,
                behind: self.behind(),
            });
        }
        let receivers = self.receivers_of(&to);
        let dot = self.keep(EventKind::Change(to.slots), payload, bytes, &receivers);
        self.complete_if_settled(dot.number, durable);
        Ok(dot)
    }

    /// Gives a ring marker its dot: from the next number on the run routes by `routing`.
    ///
    /// The view has exactly this node, the peers that have a stream, and `welcomed`, whose stream
    /// begins with this marker. What has too few copies is queued for the owners of the new ring.
    ///
    /// # Errors
    ///
    /// [`RingsFull`] where too many older rings are kept.
    pub fn push_marker(
        &mut self,
        routing: Arc<Routing>,
        welcomed: Option<NodeId>,
        payload: P,
        bytes: usize,
    ) -> Result<Dot, RingsFull> {
        let has_room = if welcomed.is_some() {
            self.can_welcome()
        } else {
            self.epochs.len() < self.limits.rings_max
        };
        if !has_room {
            return Err(RingsFull {
                rings: self.epochs.len(),
                behind: self.behind(),
            });
        }
        if let Some(peer) = welcomed {
            let before = self.streams.insert(peer, PeerStream::new(self.number + 1));
            assert!(before.is_none(), "a peer is given up before it is welcomed again");
        }
        let receivers = Receivers {
            nodes: self.peers().collect(),
            is_short: false,
        };
        let kind = EventKind::RingMarker(Arc::clone(&routing));
        let dot = self.keep(kind, payload, bytes, &receivers);
        self.complete_if_settled(dot.number, &mut Vec::new());
        self.change_ring(routing, dot.number);
        self.assert_view();
        Ok(dot)
    }

    /// Next event for `peer` over its present connection.
    pub fn send_event(&mut self, peer: NodeId) -> Option<StreamMessage<'_, P>> {
        let stream = self.streams.get_mut(&peer)?;
        let StreamPosition { after, number } = stream.send_event()?;
        let event = &self.kept.get(&number)?.event;
        Some(if number == stream.begin() {
            StreamMessage::Welcome(event)
        } else {
            StreamMessage::Event { after, event }
        })
    }

    /// What `peer` needs up to `number` was sent over its present connection. A peer without a stream
    /// needs nothing.
    pub fn has_sent(&self, peer: NodeId, number: u64) -> bool {
        let next = self.streams.get(&peer).and_then(PeerStream::next_event);
        next.is_none_or(|next| next > number)
    }

    /// Position of the stream to `peer`, after what was sent over its present connection: nothing
    /// else up to there was for the peer.
    ///
    /// None before the stream's first marker was sent.
    pub fn send_position(&mut self, peer: NodeId) -> Option<StreamPosition> {
        self.streams.get_mut(&peer)?.send_position(self.number)
    }

    /// Next resend to `peer` over its present connection; to this node itself, too.
    pub fn send_resend(&mut self, peer: NodeId) -> Option<Resend<'_, P>> {
        if !self.resends.has_unsent(peer) {
            return self.next_late(peer);
        }
        let (id, resend) = self.resends.send(peer)?;
        let kept = self.kept.range(resend.numbers.first..=resend.numbers.last);
        let events = kept.map(|(_, kept)| &kept.event);
        Some(Resend {
            id,
            slots: &resend.slots,
            numbers: resend.numbers,
            events: events
                .filter(|event| event.kind.is_for_any(&resend.slots))
                .collect(),
        })
    }

    /// Begins a new connection to `peer`: what it has not confirmed is sent again.
    pub fn restart_connection(&mut self, peer: NodeId) {
        assert!(peer != self.run.node, "a node has no connection to itself");
        if let Some(stream) = self.streams.get_mut(&peer) {
            stream.restart();
        }
        self.resends.restart(peer);
    }

    /// Moves the position of a receiver: everything up to `number` is durable there. The dots of
    /// changes that become durable are added to `durable`.
    ///
    /// The node confirms for itself what it has persisted.
    ///
    /// # Errors
    ///
    /// [`ConfirmError`] where the receiver cannot have that position.
    pub fn confirm(&mut self, peer: NodeId, number: u64, durable: &mut Vec<Dot>) -> Result<(), ConfirmError> {
        let Some(stream) = self.streams.get_mut(&peer) else {
            return Err(ConfirmError::NotPresent { peer, number });
        };
        stream.check(peer, number)?;
        let before = stream.confirmed();
        for settled in stream.confirm(number) {
            self.settle(settled, durable);
        }
        let oldest = self.epochs.iter().find_map(RingEpoch::numbers);
        if oldest.is_some_and(|oldest| before < oldest.last && oldest.last <= number) {
            self.drop_settled_epochs();
        }
        Ok(())
    }

    /// Takes the confirmation of a resend. A second one of the same resend changes nothing.
    ///
    /// # Errors
    ///
    /// [`ConfirmError::UnknownResend`] where the peer was sent no such resend.
    pub fn confirm_resend(
        &mut self,
        peer: NodeId,
        id: ResendId,
        durable: &mut Vec<Dot>,
    ) -> Result<(), ConfirmError> {
        match self.resends.confirm(peer, id)? {
            Some(Confirmed::Resent(resend)) => self.add_copy(resend, durable),
            Some(Confirmed::Late(giving)) => self.settle_late(giving),
            None => {}
        }
        Ok(())
    }

    /// Ends the stream to `peer`. What it has confirmed stays confirmed; what it has not is not
    /// waited for.
    ///
    /// A ring marker without the peer follows before the next change.
    pub fn give_up(&mut self, peer: NodeId, durable: &mut Vec<Dot>) {
        assert!(peer != self.run.node, "a node does not give itself up");
        let Some(stream) = self.streams.remove(&peer) else {
            return;
        };
        for epoch in &mut self.epochs {
            epoch.end_stream(peer, stream.begin(), stream.confirmed());
        }
        self.drop_resends(peer);
        for number in stream.into_unconfirmed() {
            if let Some(kept) = self.kept.get_mut(&number) {
                kept.is_counted = true;
            }
            self.settle(number, durable);
        }
        self.drop_settled_epochs();
    }

    /// Dot of the last event; the number is 0 before the first.
    pub fn last(&self) -> Dot {
        let (run, number) = (self.run, self.number);
        Dot { run, number }
    }

    /// There is room to welcome a peer: [`OutgoingStream::push_marker`] does not refuse it. The node
    /// asks before it confirms a handshake.
    ///
    /// True stays true until the next ring marker.
    pub fn can_welcome(&self) -> bool {
        self.epochs.len() < self.limits.rings_max / 2
    }

    /// Highest number that all present peers have confirmed. Receivers need not keep events up to
    /// there for passing them on.
    pub fn stable(&self) -> u64 {
        let confirmed = self.peers().filter_map(|peer| self.streams.get(&peer));
        confirmed.map(PeerStream::confirmed).min().unwrap_or(self.number)
    }

    /// Events that are not durable, or that are being resent, in ascending order.
    pub fn kept(&self) -> impl DoubleEndedIterator<Item = &StreamEvent<P>> {
        self.kept.values().map(|kept| &kept.event)
    }

    /// Bytes of the events that are kept.
    pub fn kept_bytes(&self) -> usize {
        self.kept_bytes
    }

    /// Number of the last ring marker; 0 before the first.
    pub fn marker(&self) -> u64 {
        self.epochs.last().map_or(0, |epoch| epoch.first() - 1)
    }

    /// A present peer has confirmed the stream up to `number`.
    pub fn has_confirmed(&self, peer: NodeId, number: u64) -> bool {
        let stream = self.streams.get(&peer);
        stream.is_some_and(|stream| stream.confirmed() >= number)
    }

    /// View and ring by which the run routes.
    pub fn routing(&self) -> &Arc<Routing> {
        let in_force = self.epochs.last().expect("a run has a ring from its begin on");
        in_force.routing()
    }

    /// Present peers.
    fn peers(&self) -> impl Iterator<Item = NodeId> + '_ {
        let own = self.run.node;
        self.streams.keys().copied().filter(move |node| *node != own)
    }

    /// Receiver that has confirmed least of those that need something.
    fn behind(&self) -> Option<NodeId> {
        let behind = self.streams.iter().filter(|(_, stream)| stream.is_behind());
        behind
            .min_by_key(|(_, stream)| stream.confirmed())
            .map(|(node, _)| *node)
    }

    /// The view in force names exactly the nodes that have a stream.
    fn assert_view(&self) {
        let nodes = self.routing().view().nodes().iter();
        assert!(
            nodes
                .map(|present| present.run.node)
                .eq(self.streams.keys().copied()),
            "a view has this node and the peers that have a stream"
        );
    }
}

#[cfg(test)]
mod tests;
