//! Frames: messages of the plane over channels, on the way to and from other nodes.

use std::collections::VecDeque;

use bytes::{BufMut, Bytes};
use cluster::peer_header::{self, HEADER_LENGTH, PeerError};
use cluster::{GroupId, NodeId, Outbound};
use mqtt::now::Now;
use session_plane::interests::InterestMessage;
use session_plane::plane::EventContent;
use session_plane::sessions::SessionsMessage;
use session_plane::wire::{Message, ReplicationMessage, WireError};
use session_plane::{Dot, Run};
use session_values::{Content, Value};
use smallvec::SmallVec;

use super::channel::{Channel, HEADER_BYTES, Header};
use super::{NodeAction, NodeMessage, Replication, Waiter};
use crate::invoking::drop_message;
use crate::node::{Action, Node};

/// Messages of planes travel under this number, which no group has.
pub(crate) const REPLICATION: GroupId = GroupId(u32::MAX - 4);

/// The kind of all frames; there is one.
const KIND: u8 = 1;

type AnyMessage = Message<Value, Content, EventContent<Value, Content>>;

/// Why a frame is not understood.
#[derive(Debug, thiserror::Error)]
enum FrameError {
    #[error(transparent)]
    Header(#[from] PeerError),
    #[error("a message of the session plane is not understood: {0}")]
    Wire(#[from] WireError),
    #[error("a message of the session plane is for what opens connections")]
    Hello,
}

/// What a message may change beyond the membership.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cause {
    /// This node, or a merge: subscribers here hear nothing of what topics retain now.
    Own,
    /// An event of another node: subscribers here may not have been sent the message.
    Event,
}

/// Message as bytes. The second piece may be empty.
#[derive(Debug, Default)]
struct Body {
    head: Bytes,
    tail: Bytes,
}

/// Event of this node's stream as bytes. They are the same for all its receivers.
#[derive(Debug)]
struct EncodedEvent {
    dot: Dot,
    bytes: Bytes,
}

/// Encoder of messages, with the event that it has encoded last.
#[derive(Debug, Default)]
pub(super) struct Encoder {
    last: Option<EncodedEvent>,
}

impl Encoder {
    /// Encodes a message. An event is encoded once for all its receivers.
    fn encode(&mut self, message: NodeMessage) -> Body {
        let next = match message {
            NodeMessage::Replication(ReplicationMessage::Event(next)) => next,
            other => {
                let head = AnyMessage::from(other).encode();
                let tail = Bytes::new();
                return Body { head, tail };
            }
        };
        let dot = next.event.dot;
        let known = self.last.take().filter(|encoded| encoded.dot == dot);
        let encoded = known.unwrap_or_else(|| EncodedEvent {
            dot,
            bytes: next.event.encode(),
        });
        let tail = self.last.insert(encoded).bytes.clone();
        let head = next.encode_head();
        Body { head, tail }
    }

    /// Forgets the event: all its receivers have it.
    fn forget(&mut self) {
        self.last = None;
    }
}

impl Replication {
    /// Message for a peer, as the next one of its channel. None where it is no peer.
    fn frame(&mut self, to: NodeId, message: Option<NodeMessage>) -> Option<Action> {
        let channel = self.channels.get_mut(&to)?;
        let encoder = &mut self.encoder;
        let Body { head, tail } = message.map_or_else(Body::default, |message| encoder.encode(message));
        let shared = Outbound::tail_of(&tail);
        let copied = if shared.is_empty() { &tail[..] } else { &[] };
        let mut frame = peer_header::begin(REPLICATION, HEADER_BYTES + head.len() + copied.len());
        frame.put_u8(KIND);
        channel.next_header().put(&mut frame);
        frame.put_slice(&head);
        frame.put_slice(copied);
        let message = Outbound::in_two(frame.freeze(), shared);
        Some(Action::ToPeer { to, message })
    }

    /// Applies what the plane wants done. Gives those who go on now.
    pub(super) fn apply(
        &mut self,
        now: Now,
        wanted: Vec<NodeAction>,
        actions: &mut Vec<Action>,
    ) -> Vec<Waiter> {
        let at = self.at(now);
        let mut released = Vec::new();
        let mut wanted = VecDeque::from(wanted);
        while let Some(action) = wanted.pop_front() {
            match action {
                NodeAction::Send { to, message } => {
                    if is_confirmation(&message) {
                        // What was published before this node knew the filters is there first.
                        self.send_streams(actions);
                    }
                    actions.extend(self.frame(to, Some(message)));
                }
                NodeAction::Durable(dot) => self.waits.end_event(dot.number, &mut released),
                NodeAction::InterestsTold(told) => self.waits.end_told(told, &mut released),
                NodeAction::GaveUp { run, .. } => {
                    if let Some(channel) = self.channels.get_mut(&run.node) {
                        channel.begin_anew();
                    }
                    let mut more = Vec::new();
                    self.sessions.connected(at, run.node, &mut more);
                    wanted.extend(more);
                }
                NodeAction::EndRun(why) => self.end(&why, actions),
                of_session => self.news.push_back(of_session),
            }
        }
        released
    }

    /// Sends what the streams of the peers have: each event to all of them, then the next one.
    pub(super) fn send_streams(&mut self, actions: &mut Vec<Action>) {
        let mut peers: SmallVec<[NodeId; 8]> = self.channels.keys().copied().collect();
        while !peers.is_empty() {
            peers.retain(|to| {
                let message = self.sessions.next_message(*to);
                let has_more = message.is_some();
                actions.extend(message.and_then(|message| self.frame(*to, Some(message))));
                has_more
            });
        }
        self.encoder.forget();
    }

    /// Greets a peer that knows nothing of this run's channel.
    pub(super) fn greet(&mut self, to: NodeId, actions: &mut Vec<Action>) {
        if self.channels.get(&to).is_some_and(|channel| !channel.is_known()) {
            actions.extend(self.frame(to, None));
        }
    }

    /// Channels to the other nodes of the cluster.
    pub(super) fn set_channels(&mut self) {
        self.channels.retain(|node, _| self.members.contains(node));
        let own = self.run;
        for node in self.members.iter().filter(|node| **node != own.node) {
            let channel = || Channel::new(own.incarnation);
            self.channels.entry(*node).or_insert_with(channel);
        }
    }
}

impl Node {
    /// The plane of another node has something to say.
    pub(crate) fn replication_message(
        &mut self,
        now: Now,
        from: NodeId,
        frame: &Bytes,
        actions: &mut Vec<Action>,
    ) {
        self.look_for_members_of_plane(now);
        if frame[HEADER_LENGTH - 1] != KIND {
            return drop_message(from, PeerError::Damaged, actions);
        }
        let mut body = frame.slice(HEADER_LENGTH..);
        let Some(header) = Header::take(&mut body) else {
            return drop_message(from, PeerError::Damaged, actions);
        };
        let replication = &mut self.replication;
        let Some(channel) = replication
            .channels
            .get_mut(&from)
            .filter(|_| !replication.is_ended)
        else {
            return;
        };
        let arrival = channel.receive(now.instant, header);
        if arrival.is_begun {
            replication.figures.channels += 1;
            self.with_sessions(now, Cause::Own, actions, |sessions, at, made| {
                sessions.connected(at, from, made);
            });
        }
        if arrival.is_greeted {
            actions.extend(self.replication.frame(from, None));
        }
        if arrival.is_next && !body.is_empty() {
            let incarnation = header.from.incarnation;
            let node = from;
            self.take_plane_message(now, Run { node, incarnation }, body, actions);
        }
    }

    fn take_plane_message(&mut self, now: Now, from: Run, body: Bytes, actions: &mut Vec<Action>) {
        let taken = decode(body)
            .map_err(|error| error.to_string())
            .and_then(|message| {
                let cause = cause_of(&message);
                self.replication.is_due = true;
                let received = self.with_sessions(now, cause, actions, |sessions, at, made| {
                    sessions.receive(at, from, message, made)
                });
                match received {
                    Err(error) if !error.is_ordinary() => Err(error.to_string()),
                    _ => Ok(()),
                }
            });
        if let Err(why) = taken {
            drop_message(from.node, why, actions);
            if let Some(channel) = self.replication.channels.get_mut(&from.node) {
                channel.close(now.instant);
            }
            self.with_sessions(now, Cause::Own, actions, |sessions, at, made| {
                sessions.connected(at, from.node, made);
            });
        }
    }
}

/// The message says that this node knows filters of the peer.
fn is_confirmation(message: &NodeMessage) -> bool {
    matches!(message, NodeMessage::Interests(InterestMessage::Confirm { .. }))
}

fn decode(body: Bytes) -> Result<NodeMessage, FrameError> {
    SessionsMessage::of_read(AnyMessage::decode(body)?).ok_or(FrameError::Hello)
}

/// What a message may change. A merge brings what was published before, and is no publication.
fn cause_of(message: &NodeMessage) -> Cause {
    let NodeMessage::Replication(message) = message else {
        return Cause::Own;
    };
    match message {
        ReplicationMessage::Event(_) | ReplicationMessage::Resend(_) | ReplicationMessage::FlushEvents(_) => {
            Cause::Event
        }
        _ => Cause::Own,
    }
}
