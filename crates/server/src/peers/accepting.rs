//! Connections that other nodes have made: messages are read from them.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use cluster::forming::{Founder, Stage, Step};
use cluster::peers::{Frame, FrameDecoder, FrameError};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::time::{sleep_until, timeout};

use super::meeting::{self, Meeting, MeetingError};
use super::parts::Parts;
use super::past::Refuser;
use super::{Incoming, PeerEvent, SILENCE_MAX, Shared, tls};
use crate::admission::Counted;
use crate::client_address::SourceNetwork;
use crate::clock::instant as now;
use crate::strangers::{GaveWay, Place, PoolLimits, Strangers};
use crate::stream::Stream;

/// Connections whose other side has not proved yet that it is a node. A proof takes a node some milliseconds, so with as many
/// places a flood needs thousands of connections a second to push one out.
const STRANGERS: PoolLimits = PoolLimits {
    places: 64,
    of_network: 16,
};

/// Nodes that have proved what they are, and say hello: strangers take none of these places.
pub(super) const PROVED_MAX: usize = 64;

/// How long to wait when the system has no descriptor left.
const PAUSE_WITHOUT_DESCRIPTORS: Duration = Duration::from_millis(50);

/// Bytes asked of a socket at once.
const READ_SIZE: usize = 256 << 10;

/// Why a connection ended.
enum End {
    /// It was closed.
    Closed,
    /// Nothing came for [`SILENCE_MAX`].
    Silent,
    /// There is another one, or the node is no member any more.
    Unwanted,
    /// It does not keep to the protocol.
    Violated(FrameError),
    /// The other node does not go on.
    Refused(cluster::peers::Refusal),
    /// This node stops.
    Stopping,
}

/// Places of strangers at the port of the nodes.
pub(super) fn strangers() -> Strangers {
    Strangers::new("peers", STRANGERS)
}

/// Accepts connections of other nodes. It never waits for those that were accepted before: who says nothing gives way.
pub(super) async fn accept(shared: Rc<Shared>, listener: TcpListener) {
    loop {
        match listener.accept().await {
            Ok((stream, from)) => {
                // This fails on a connection that has ended, which reading will show.
                let _ = stream.set_nodelay(true);
                let accepted = now();
                let network = SourceNetwork::of_ip(from.ip());
                // Whoever came before has had its time: a node speaks first, and at once.
                match shared.strangers.enter(network, accepted, accepted) {
                    Ok((place, gave_way)) => {
                        let accepted = accepted_from(Rc::clone(&shared), stream, from, place, gave_way);
                        tokio::task::spawn_local(accepted);
                    }
                    Err(why) => {
                        tracing::debug!(%from, why = why.name(), "closed a connection at the port of the nodes");
                    }
                }
            }
            Err(error) => {
                tracing::error!(%error, "cannot accept a connection of a node");
                tokio::time::sleep(PAUSE_WITHOUT_DESCRIPTORS).await;
            }
        }
    }
}

async fn accepted_from(
    shared: Rc<Shared>,
    stream: TcpStream,
    from: SocketAddr,
    place: Place,
    mut gave_way: GaveWay,
) {
    let met = tokio::select! {
        met = meet(&shared, Stream::Tcp(stream), place) => met,
        () = gave_way.happened() => {
            tracing::debug!(%from, "closed a connection at the port of the nodes: its place was needed for another one");
            return;
        }
    };
    match met {
        Ok((meeting, counted)) => {
            drop(counted);
            serve(&shared, meeting, from).await;
        }
        Err(error) => shared.accepting_failed(from, &error),
    }
}

/// A node has proved what it is: with TLS by its certificate, else by a hello that fits.
async fn meet(shared: &Shared, stream: Stream, place: Place) -> Result<(Meeting, Counted), MeetingError> {
    let proof = Proof {
        place: RefCell::new(Some(place)),
        counted: RefCell::default(),
    };
    let stream = tls::accept(shared, stream).await?;
    if shared.tls.is_some() {
        proof.given(shared)?;
    }
    let meeting = meeting::by_accepting(shared, stream, &proof).await?;
    let counted = proof.counted.take().ok_or(MeetingError::Unexpected)?;
    Ok((meeting, counted))
}

/// What a connection has instead of a stranger's place, once its other side has proved that it is a node.
#[derive(Debug)]
pub(super) struct Proof {
    place: RefCell<Option<Place>>,
    counted: RefCell<Option<Counted>>,
}

impl Proof {
    /// It has; from here on it does not give way to strangers.
    pub(super) fn given(&self, shared: &Shared) -> Result<(), MeetingError> {
        if let Some(place) = self.place.take() {
            let counted = shared.proved.take().ok_or(MeetingError::TooMany)?;
            self.counted.replace(Some(counted));
            drop(place);
        }
        Ok(())
    }
}

/// Reads from a node until the connection ends.
async fn serve(shared: &Rc<Shared>, meeting: Meeting, from: SocketAddr) {
    let theirs = &meeting.theirs;
    if !shared.is_welcome(theirs.node, theirs.cluster) {
        return;
    }
    let founder = Founder {
        node: theirs.node,
        address: theirs.address.clone(),
    };
    let incoming = Rc::new(Incoming {
        founder: founder.clone(),
        cluster: theirs.cluster,
        start: theirs.starts.newest(),
        certificates: meeting.stream.peer_certificates().to_vec(),
        close: Notify::new(),
        is_closing: Cell::new(false),
    });
    shared.accepting_succeeded(&founder.address);
    shared.remember_start(theirs);
    shared.welcomed_by(theirs.node);
    let before = shared
        .incoming
        .borrow_mut()
        .insert(founder.node, Rc::clone(&incoming));
    if let Some(before) = before {
        // The other end has made a new one: it has given this one up.
        before.end();
    }
    tracing::debug!(node = %founder.node, address = %founder.address, %from, "a node has connected");
    shared.learn(&founder);
    shared.wake(&founder.address);
    shared.contacts_changed.notify_waiters();
    if shared.membership.borrow().is_some() {
        // If too much is going on, it is said when it connects again.
        let _ = shared.events.try_send(PeerEvent::Called(founder.clone()));
    }

    let end = read(shared, meeting, &incoming).await;

    let mut all = shared.incoming.borrow_mut();
    if all
        .get(&founder.node)
        .is_some_and(|other| Rc::ptr_eq(other, &incoming))
    {
        all.remove(&founder.node);
    }
    drop(all);
    shared.contacts_changed.notify_waiters();
    let (node, address) = (founder.node, &founder.address);
    match end {
        End::Closed => tracing::debug!(%node, %address, "a node has closed its connection"),
        End::Silent => tracing::info!(%node, %address, "nothing was heard of a node for {SILENCE_MAX:?}"),
        End::Violated(error) => tracing::warn!(%node, %address, %error, "closed the connection of a node"),
        End::Refused(refusal) => {
            let cluster = incoming.cluster;
            shared.heed(&refusal, Refuser { node, cluster });
            shared.refused_by(address, refusal);
        }
        End::Unwanted | End::Stopping => {}
    }
}

async fn read(shared: &Rc<Shared>, meeting: Meeting, incoming: &Incoming) -> End {
    let Meeting {
        mut stream,
        mut decoder,
        theirs,
    } = meeting;
    let node = theirs.node;
    let mut heard = now();
    let mut silent_at = heard + SILENCE_MAX;
    let mut answers = BytesMut::new();
    let mut parts = Parts::default();
    loop {
        let messages = match take_frames(shared, node, &mut decoder, &mut answers).await {
            Ok(messages) => messages,
            Err(end) => return end,
        };
        if !answers.is_empty() {
            // Who asks and does not read the answer is not there.
            let written = timeout(SILENCE_MAX, write(&mut stream, &answers)).await;
            if !matches!(written, Ok(Ok(()))) {
                return End::Closed;
            }
            answers.clear();
        }
        if !messages.is_empty() {
            shared.counts.borrow_mut().received.messages += messages.len() as u64;
            let event = PeerEvent::Messages(node, messages);
            if shared.events.send(event).await.is_err() {
                return End::Stopping;
            }
            heard = now();
        }
        if decoder.missing() > 0 {
            parts.passed(shared, node);
        }
        // Not more than has come already, whatever length is announced.
        let room = decoder.missing().clamp(READ_SIZE / 4, READ_SIZE);
        decoder.bytes().reserve(room);
        tokio::select! {
            biased;
            count = stream.read_buf(decoder.bytes()) => match count {
                Ok(0) | Err(_) => return End::Closed,
                Ok(count) => {
                    shared.counts.borrow_mut().received.bytes += count as u64;
                    heard = now();
                }
            },
            () = incoming.close.notified() => return End::Unwanted,
            () = sleep_until(silent_at.into()) => {
                silent_at = heard + SILENCE_MAX;
                if silent_at <= now() {
                    return End::Silent;
                }
            }
        }
    }
}

/// Messages that have come whole. What asks for an answer is answered in `answers`.
async fn take_frames(
    shared: &Shared,
    node: cluster::NodeId,
    decoder: &mut FrameDecoder,
    answers: &mut BytesMut,
) -> Result<Vec<Bytes>, End> {
    let mut messages = Vec::new();
    loop {
        match decoder.next() {
            Ok(Some(Frame::Message(message))) => messages.push(message),
            Ok(Some(Frame::Ping { number })) => {
                let wall = shared.clock.system().wall;
                Frame::Pong { number, wall }.encode(answers);
            }
            Ok(Some(Frame::Statement(statement))) => {
                if answer_statement(shared, node, &statement.stage) {
                    continue;
                }
                let event = PeerEvent::Statement(node, statement);
                if shared.events.send(event).await.is_err() {
                    return Err(End::Stopping);
                }
            }
            Ok(Some(Frame::Refused(refusal))) => return Err(End::Refused(refusal)),
            Ok(Some(Frame::Pong { .. } | Frame::Welcome)) => {}
            Ok(None) => return Ok(messages),
            Err(error) => return Err(End::Violated(error)),
        }
    }
}

/// Whether this node is formed: then who is not is told so.
fn answer_statement(shared: &Shared, node: cluster::NodeId, stage: &Stage) -> bool {
    let statement = match shared.membership.borrow().as_ref() {
        Some(membership) => membership.statement.clone(),
        None => return false,
    };
    if !matches!(stage, Stage::Bound(Step::Formed, _)) {
        shared.say(node, &Frame::Statement(statement));
    }
    true
}

async fn write(stream: &mut Stream, bytes: &[u8]) -> std::io::Result<()> {
    stream.write_all(bytes).await?;
    stream.flush().await
}
