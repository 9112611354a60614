//! Connections that other nodes have made: messages are read from them.

use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use cluster::forming::{Founder, Stage, Step};
use cluster::peers::{Frame, FrameError};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::{Notify, Semaphore};
use tokio::time::{sleep_until, timeout};

use super::meeting::{self, Meeting, MeetingError};
use super::{Incoming, PeerEvent, SILENCE_MAX, Shared, tls};
use crate::clock::instant as now;
use crate::stream::Stream;

/// Connections whose other side is not known yet; further ones wait in the system's backlog.
const MEETINGS_MAX: usize = 64;

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

/// Accepts connections of other nodes.
pub(super) async fn accept(shared: Rc<Shared>, listener: TcpListener) {
    let meetings = Arc::new(Semaphore::new(MEETINGS_MAX));
    loop {
        let permit = Arc::clone(&meetings).acquire_owned().await.ok();
        match listener.accept().await {
            Ok((stream, from)) => {
                // This fails on a connection that has ended, which reading will show.
                let _ = stream.set_nodelay(true);
                let shared = Rc::clone(&shared);
                tokio::task::spawn_local(async move {
                    let met = meet(&shared, Stream::Tcp(stream)).await;
                    drop(permit);
                    match met {
                        Ok(meeting) => serve(&shared, meeting, from).await,
                        Err(error) => shared.accepting_failed(from, &error),
                    }
                });
            }
            Err(error) => {
                tracing::error!(%error, "cannot accept a connection of a node");
                tokio::time::sleep(PAUSE_WITHOUT_DESCRIPTORS).await;
            }
        }
    }
}

async fn meet(shared: &Shared, stream: Stream) -> Result<Meeting, MeetingError> {
    let stream = tls::accept(shared, stream).await?;
    meeting::by_accepting(shared, stream).await
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
        nonce: theirs.nonce,
        certificates: meeting.stream.peer_certificates().to_vec(),
        close: Notify::new(),
        is_closing: Cell::new(false),
    });
    shared.accepting_succeeded(&founder.address);
    shared
        .newest
        .borrow_mut()
        .insert(theirs.node, theirs.incarnation.0);
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
        End::Refused(refusal) => tracing::warn!(%address, "a node refuses this one: {refusal}"),
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
    loop {
        let mut messages = Vec::new();
        loop {
            match decoder.next() {
                Ok(Some(Frame::Message(message))) => messages.push(message),
                Ok(Some(Frame::Ping { number })) => {
                    let wall = shared.clock.now().wall;
                    Frame::Pong { number, wall }.encode(&mut answers);
                }
                Ok(Some(Frame::Statement(statement))) => {
                    if answer_statement(shared, node, &statement.stage) {
                        continue;
                    }
                    let event = PeerEvent::Statement(node, statement);
                    if shared.events.send(event).await.is_err() {
                        return End::Stopping;
                    }
                }
                Ok(Some(Frame::Refused(refusal))) => return End::Refused(refusal),
                Ok(Some(Frame::Pong { .. } | Frame::Welcome)) => {}
                Ok(None) => break,
                Err(error) => return End::Violated(error),
            }
        }
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
