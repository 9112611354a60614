//! Sink: shared groups at the node of a member's connection.
//!
//! ```text
//!  SUBSCRIBE, or CONNACK         Give          QoS 1: PUBACK                    all nodes know it
//!  ---------------------> there ------> given -----------------> acknowledged ------------> gone
//!                                              QoS 2: moved
//! ```
//!
//! The sink writes the client's memberships, and a presence for each connection and group. It passes
//! on what it is given, and removes message and assignment when the client has acknowledged. A QoS 2
//! message moves into the queue of the session before PUBLISH (rule 86). That is its
//! acknowledgement here: it is the session's alone, and is never taken back.
//!
//! *Invariants*: a connection is sent a message of a group once, whoever gives it and how often. What
//! was acknowledged is remembered until nobody can give it any more. A presence goes behind the
//! acknowledgements of its connection.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry::{Occupied, Vacant};

use cluster::NodeId;
use cluster::session_plane::Hlc;

use super::error::GroupError;
use super::group_id::GroupId;
use super::message::Give;
use crate::connecting::ConnectionId;
use crate::{Birth, Dot, Run, Slot};

mod action;
mod event;

pub use action::{GivenDots, GroupWrite, MemberViolation, SinkAction};
pub use event::{KnownMember, SinkEvent, SubscribedGroup};

/// Limits of a sink.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SinkLimits {
    /// Presences of this node's connections at most. A further SUBSCRIBE is refused with 0x97, Quota
    /// exceeded. A connection whose session is a member already is closed.
    pub presences_max: usize,
    /// Messages at most that connections were given, and whose acknowledgement some node may not know.
    /// A connection that is given one more is closed: its messages go to other members.
    pub given_max: usize,
}

/// Groups of the connections of one run of this node.
///
/// An event costs O(log n) in the presences and in the messages of a connection. A given message takes
/// about 150 bytes: its content is passed on.
#[derive(Debug)]
pub struct GroupSink {
    run: Run,
    limits: SinkLimits,
    connections: BTreeMap<ConnectionId, MemberConnection>,
    /// Connection and group of each presence that is written.
    presences: BTreeMap<Dot, Presence>,
    attended: usize,
    given: usize,
}

/// Connection that has its session.
#[derive(Debug)]
struct MemberConnection {
    /// Birth of its session.
    birth: Birth,
    groups: BTreeMap<GroupId, Attended>,
}

/// Group that a connection is present in.
#[derive(Debug, Default)]
struct Attended {
    /// Event of the presence. None until it is made.
    presence: Option<Dot>,
    given: BTreeMap<Dot, GivenMessage>,
}

/// Message that a connection was given.
#[derive(Debug)]
struct GivenMessage {
    slot: Slot,
    /// Last assignment that names the connection; it has removed those before.
    assignment: Dot,
    is_acknowledged: bool,
}

/// What a presence stands for.
#[derive(Debug, Clone)]
struct Presence {
    connection: ConnectionId,
    group: GroupId,
}

impl GroupSink {
    /// Sink of a run without connections.
    pub fn new(run: Run, limits: SinkLimits) -> GroupSink {
        GroupSink {
            run,
            limits,
            connections: BTreeMap::new(),
            presences: BTreeMap::new(),
            attended: 0,
            given: 0,
        }
    }

    /// Takes what has happened; appends what the node does.
    ///
    /// # Errors
    ///
    /// [`GroupError`] where a peer's message is refused.
    pub fn step<V>(
        &mut self,
        event: SinkEvent<V>,
        actions: &mut Vec<SinkAction<V>>,
    ) -> Result<(), GroupError> {
        match event {
            SinkEvent::Opened {
                connection,
                birth,
                groups,
            } => self.open(connection, birth, groups, actions),
            SinkEvent::Joined { connection, group } => {
                self.attend_or_close(connection, group, actions);
            }
            SinkEvent::Subscribed(subscribed) => self.subscribe(subscribed, actions),
            SinkEvent::Unsubscribed(left) => leave(&left, actions),
            SinkEvent::PresenceWritten {
                connection,
                group,
                dot,
            } => self.presence_written(connection, group, dot, actions),
            SinkEvent::Given { from, give } => self.receive(from, give, actions)?,
            SinkEvent::Acknowledged {
                connection,
                group,
                message,
            } => self.acknowledge(connection, group, message, actions),
            SinkEvent::Moving {
                connection,
                group,
                message,
                value,
            } => self.move_message(connection, group, message, value, actions),
            SinkEvent::AcknowledgementKnown {
                connection,
                group,
                message,
            } => self.acknowledgement_known(connection, &group, message),
            SinkEvent::Closed { connection } => self.close(connection, actions),
        }
        Ok(())
    }

    /// The connection was opened, and is not closed.
    pub fn is_open(&self, connection: ConnectionId) -> bool {
        self.connections.contains_key(&connection)
    }

    /// Presence under which the connection was given the message. None where it was not, and once every
    /// node knows its acknowledgement.
    pub fn given_under(&self, connection: ConnectionId, group: &GroupId, message: Dot) -> Option<Dot> {
        let attended = self.connections.get(&connection)?.groups.get(group)?;
        attended
            .presence
            .filter(|_| attended.given.contains_key(&message))
    }

    /// Presences of this node's connections.
    pub fn attended(&self) -> usize {
        self.attended
    }

    /// Messages that connections were given, and whose acknowledgement some node may not know.
    pub fn given(&self) -> usize {
        self.given
    }

    /// A connection has its session: it is present in the groups whose member the session is.
    fn open<V>(
        &mut self,
        connection: ConnectionId,
        birth: Birth,
        groups: Vec<GroupId>,
        actions: &mut Vec<SinkAction<V>>,
    ) {
        let opened = MemberConnection {
            birth,
            groups: BTreeMap::new(),
        };
        let before = self.connections.insert(connection, opened);
        assert!(before.is_none(), "a connection is opened once");
        for group in groups {
            if !self.attend_or_close(connection, group, actions) {
                return;
            }
        }
    }

    /// Makes a connection present in a group whose member its session is. False: it has to close, as
    /// there is no room.
    fn attend_or_close<V>(
        &mut self,
        connection: ConnectionId,
        group: GroupId,
        actions: &mut Vec<SinkAction<V>>,
    ) -> bool {
        let has_room = self.attend(connection, group, actions);
        if !has_room {
            let presences_max = self.limits.presences_max;
            let reason = MemberViolation::TooManyPresences { presences_max };
            actions.push(SinkAction::Disconnect { connection, reason });
        }
        has_room
    }

    /// A client becomes a member, or stays one. It keeps the begin of its membership: what came since is
    /// for it.
    fn subscribe<V>(&mut self, subscribed: SubscribedGroup, actions: &mut Vec<SinkAction<V>>) {
        let SubscribedGroup {
            connection,
            group,
            known,
        } = subscribed;
        let Some(birth) = self.connections.get(&connection).map(|open| open.birth) else {
            return;
        };
        if !self.attend(connection, group.clone(), actions) {
            actions.push(SinkAction::RefuseSubscribe { connection, group });
            return;
        }
        let since: Option<Hlc> = known.iter().map(|member| member.since).min();
        let removes = known.iter().map(|member| member.dot).collect();
        actions.push(SinkAction::Write {
            connection,
            group,
            write: GroupWrite::Member {
                birth,
                since,
                removes,
            },
        });
    }

    /// Writes the presence of a connection in a group, if it is not present yet. False: there is no room.
    fn attend<V>(
        &mut self,
        connection: ConnectionId,
        group: GroupId,
        actions: &mut Vec<SinkAction<V>>,
    ) -> bool {
        let has_room = self.attended < self.limits.presences_max;
        let Some(open) = self.connections.get_mut(&connection) else {
            return true;
        };
        if open.groups.contains_key(&group) {
            return true;
        }
        if has_room {
            self.attended += 1;
            open.groups.insert(group.clone(), Attended::default());
            let write = GroupWrite::Presence { birth: open.birth };
            actions.push(SinkAction::Write {
                connection,
                group,
                write,
            });
        }
        has_room
    }

    /// The event of a presence is made. If its connection has ended meanwhile, it goes at once.
    fn presence_written<V>(
        &mut self,
        connection: ConnectionId,
        group: GroupId,
        dot: Dot,
        actions: &mut Vec<SinkAction<V>>,
    ) {
        let Some(attended) = self.attended_mut(connection, &group) else {
            actions.push(absence(connection, group, dot));
            return;
        };
        attended.presence = Some(dot);
        self.presences.insert(dot, Presence { connection, group });
    }

    /// A connection is given a message. One that it has, or has acknowledged, is not sent again.
    fn receive<V>(
        &mut self,
        from: NodeId,
        give: Give<V>,
        actions: &mut Vec<SinkAction<V>>,
    ) -> Result<(), GroupError> {
        let found = self.find(from, &give)?;
        let Some(Presence { connection, group }) = found else {
            return Ok(());
        };
        let Give {
            slot,
            message,
            assignment,
            value,
            ..
        } = give;
        let has_room = self.given < self.limits.given_max;
        let Some(attended) = self.attended_mut(connection, &group) else {
            return Ok(());
        };
        match attended.given.entry(message) {
            Occupied(mut known) => known.get_mut().assignment = assignment,
            Vacant(place) if has_room => {
                place.insert(GivenMessage {
                    slot,
                    assignment,
                    is_acknowledged: false,
                });
                self.given += 1;
                actions.push(SinkAction::Deliver {
                    connection,
                    group,
                    message,
                    value,
                });
            }
            Vacant(_) => {
                let given_max = self.limits.given_max;
                let reason = MemberViolation::TooManyGiven { given_max };
                actions.push(SinkAction::Disconnect { connection, reason });
            }
        }
        Ok(())
    }

    /// Connection that a message is given to. None where it has ended.
    fn find<V>(&self, peer: NodeId, give: &Give<V>) -> Result<Option<Presence>, GroupError> {
        let (presence, assignment, slot) = (give.presence, give.assignment, give.slot);
        if presence.run != self.run {
            return Err(GroupError::OtherRun { peer, presence });
        }
        if assignment.run.node != peer {
            return Err(GroupError::OtherGiver { peer, assignment });
        }
        let found = self.presences.get(&presence);
        match found {
            Some(of) if !of.group.slots().contains(slot) => Err(GroupError::OtherSlot { peer, slot }),
            found => Ok(found.cloned()),
        }
    }

    /// A client acknowledges: message and assignment are removed.
    fn acknowledge<V>(
        &mut self,
        connection: ConnectionId,
        group: GroupId,
        message: Dot,
        actions: &mut Vec<SinkAction<V>>,
    ) {
        if let Some(given) = self.take_given(connection, &group, message) {
            let write = GroupWrite::Acknowledgement(given);
            actions.push(SinkAction::Write {
                connection,
                group,
                write,
            });
        }
    }

    /// A message moves into the queue of the session: it is in the group no more.
    fn move_message<V>(
        &mut self,
        connection: ConnectionId,
        group: GroupId,
        message: Dot,
        value: V,
        actions: &mut Vec<SinkAction<V>>,
    ) {
        if let Some(given) = self.take_given(connection, &group, message) {
            actions.push(SinkAction::Move {
                connection,
                group,
                given,
                value,
            });
        }
    }

    /// Marks a message that was given as acknowledged; gives what removes it. None where it is acknowledged, or
    /// was not given.
    fn take_given(&mut self, connection: ConnectionId, group: &GroupId, message: Dot) -> Option<GivenDots> {
        let given = self.attended_mut(connection, group)?.given.get_mut(&message)?;
        let is_first = !std::mem::replace(&mut given.is_acknowledged, true);
        is_first.then_some(GivenDots {
            slot: given.slot,
            message,
            assignment: given.assignment,
        })
    }

    /// Every present node knows an acknowledgement: nobody gives the message any more.
    fn acknowledgement_known(&mut self, connection: ConnectionId, group: &GroupId, message: Dot) {
        let Some(attended) = self.attended_mut(connection, group) else {
            return;
        };
        let is_acknowledged = attended
            .given
            .get(&message)
            .is_some_and(|given| given.is_acknowledged);
        if is_acknowledged {
            attended.given.remove(&message);
            self.given -= 1;
        }
    }

    /// A connection has ended: its presences go, behind its acknowledgements.
    fn close<V>(&mut self, connection: ConnectionId, actions: &mut Vec<SinkAction<V>>) {
        let Some(open) = self.connections.remove(&connection) else {
            return;
        };
        for (group, attended) in open.groups {
            self.attended -= 1;
            self.given -= attended.given.len();
            if let Some(dot) = attended.presence {
                self.presences.remove(&dot);
                actions.push(absence(connection, group, dot));
            }
        }
    }

    fn attended_mut(&mut self, connection: ConnectionId, group: &GroupId) -> Option<&mut Attended> {
        self.connections.get_mut(&connection)?.groups.get_mut(group)
    }
}

/// A session is a member no more. Its presence stays until the connection ends, so that it completes
/// what it was given [MQTT-3.10.4-4].
fn leave<V>(left: &SubscribedGroup, actions: &mut Vec<SinkAction<V>>) {
    let removes: Vec<Dot> = left.known.iter().map(|member| member.dot).collect();
    if !removes.is_empty() {
        actions.push(SinkAction::Write {
            connection: left.connection,
            group: left.group.clone(),
            write: GroupWrite::Leave { removes },
        });
    }
}

fn absence<V>(connection: ConnectionId, group: GroupId, presence: Dot) -> SinkAction<V> {
    SinkAction::Write {
        connection,
        group,
        write: GroupWrite::Absence { presence },
    }
}
