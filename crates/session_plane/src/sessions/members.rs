//! Members of shared groups upon the plane: at the nodes of their connections (rules 63 to 65).
//!
//! ```text
//!  join ---> entry of the member, presence ---> durable: Joined
//!            Give from a primary owner ------------------------> Delivering
//!  its acknowledgement, or its move --> message and assignment removed ------> all nodes know it
//! ```
//!
//! Memberships are in the routes, too. So each node finds the groups of a session that connects, and the
//! primary owner of the routes finds the memberships that a session has left (`orphaned`).

use cluster::NodeId;

use super::acting::Queue;
use super::entries::EntryWrite;
use super::memberships::Memberships;
use super::moving::GroupMove;
use super::orphaned::Suspects;
use super::{ConnectionViolation, Sessions, SessionsAction, SessionsMessage, SessionsValue};
use crate::connecting::ConnectionId;
use crate::delivering::SharedMessage;
use crate::groups::{
    Give, GroupError, GroupMessage, SinkAction, SinkEvent, SinkLimits, SourceLimits, SubscribedGroup,
};
use crate::plane::{ChangedSession, Matching, Now, Plane};
use crate::transfer::TransferBytes;
use crate::{Birth, ClientId, EntryId, EntryKind, GroupId, GroupSink, Slot};

/// Limits of shared groups.
#[derive(Debug, Clone, Copy)]
pub struct GroupConfig {
    /// At the node of members' connections.
    pub sink: SinkLimits,
    /// At a primary owner.
    pub source: SourceLimits,
}

/// Members that are connected to this node.
#[derive(Debug)]
pub(super) struct Members {
    sink: GroupSink,
    pub(super) memberships: Memberships,
    /// Where the primary owner of the routes looks for memberships of sessions that have ended.
    pub(super) suspects: Suspects,
}

impl Members {
    pub(super) fn new<V, M, R>(plane: &Plane<V, M, R>, limits: SinkLimits) -> Members
    where
        V: SessionsValue<M>,
        M: TransferBytes + Clone,
        R: Matching<V, M>,
    {
        let routes = plane.copy(Slot::ROUTES);
        let memberships = routes.map(|routes| Memberships::of_routes(&routes));
        Members {
            sink: GroupSink::new(plane.run(), limits),
            memberships: memberships.unwrap_or_default(),
            suspects: Suspects::default(),
        }
    }

    /// Shared groups at the node of connections, to read.
    pub(super) fn sink(&self) -> &GroupSink {
        &self.sink
    }
}

impl<V, M, R> Sessions<V, M, R>
where
    V: SessionsValue<M>,
    M: TransferBytes + Clone,
    R: Matching<V, M>,
{
    /// Makes the session of a connection a member of a shared group, or keeps it one.
    /// [`SessionsAction::Joined`] or [`SessionsAction::NotJoined`] answers.
    ///
    /// `value` is that of the member's entry: options of the subscription.
    pub fn join(
        &mut self,
        now: Now,
        connection: ConnectionId,
        group: GroupId,
        value: &V,
        actions: &mut Vec<SessionsAction<V, M>>,
    ) {
        let Some(subscribed) = self.subscribed(connection, group) else {
            return;
        };
        let mut queue = Queue::default();
        self.open_if_member(connection, &mut queue);
        if let Some(birth) = self
            .birth(connection)
            .filter(|_| !self.members.sink.is_open(connection))
        {
            self.open_member(connection, birth, Vec::new(), &mut queue);
        }
        let mut of_members = Vec::new();
        let stepped = self
            .members
            .sink
            .step(SinkEvent::Subscribed(subscribed), &mut of_members);
        debug_assert!(stepped.is_ok(), "this node keeps to the protocol");
        for action in of_members {
            self.apply_member(action, value, &mut queue, actions);
        }
        self.write_stalled(now, &mut queue);
        self.apply(now, queue, actions);
    }

    /// Shared groups whose member the session of a connection is, with the values of its entries.
    pub fn memberships(&self, connection: ConnectionId) -> Vec<(GroupId, V)> {
        let (Some(client), Some(birth)) = (self.clients.get(&connection), self.birth(connection)) else {
            return Vec::new();
        };
        let groups = self.members.memberships.groups(client.client(), birth);
        let groups = groups.into_iter().filter_map(|group| {
            let value = self.member_value(&group, client.client(), birth)?;
            Some((group, value))
        });
        groups.collect()
    }

    /// Number of shared groups that have members, as far as the routes know. Each has a place among their clients.
    pub fn groups_len(&self) -> usize {
        self.members.memberships.groups_len()
    }

    /// Value of the entry by which the session of a connection is a member of a group.
    pub(super) fn member_of(&self, connection: ConnectionId, group: &GroupId) -> Option<V> {
        let client = self.clients.get(&connection)?;
        self.member_value(group, client.client(), self.birth(connection)?)
    }

    fn member_value(&self, group: &GroupId, client: &ClientId, birth: Birth) -> Option<V> {
        let routes = self.plane.copy(Slot::ROUTES)?;
        let entries = routes.entries.session(group.key().as_bytes())?;
        let known = self.members.memberships.known(client, birth, group);
        let latest = known.iter().max_by_key(|member| member.dot)?;
        let kind = EntryKind::Member;
        let entry = entries.get(EntryId {
            kind,
            dot: latest.dot,
        })?;
        Some(entry.value.clone())
    }

    /// Ends the membership of a connection's session. [`SessionsAction::Left`] answers.
    pub fn leave(
        &mut self,
        now: Now,
        connection: ConnectionId,
        group: GroupId,
        actions: &mut Vec<SessionsAction<V, M>>,
    ) {
        let Some(left) = self.subscribed(connection, group) else {
            return;
        };
        let mut queue = Queue::default();
        if left.known.is_empty() {
            actions.push(SessionsAction::Left {
                connection,
                group: left.group,
                is_found: false,
            });
        } else {
            self.step_members(SinkEvent::Unsubscribed(left), &mut queue);
        }
        self.apply(now, queue, actions);
    }

    fn subscribed(&self, connection: ConnectionId, group: GroupId) -> Option<SubscribedGroup> {
        let birth = self.birth(connection)?;
        let client = self.clients.get(&connection)?;
        let client = Some(client).filter(|client| !client.is_closing)?.client();
        let known = self.members.memberships.known(client, birth, &group);
        Some(SubscribedGroup {
            connection,
            group,
            known,
        })
    }

    /// Hands an event of this node to the sink. Only a peer is refused.
    pub(super) fn step_members(&mut self, event: SinkEvent<V>, queue: &mut Queue<V, M>) {
        let stepped = self.members.sink.step(event, &mut queue.members);
        debug_assert!(stepped.is_ok(), "this node keeps to the protocol");
    }

    /// Receives a message of a shared group, from a peer or from this node itself.
    pub(super) fn receive_group(
        &mut self,
        from: NodeId,
        message: GroupMessage<V>,
        queue: &mut Queue<V, M>,
    ) -> Result<(), GroupError> {
        let GroupMessage::Give(give) = message;
        if give.value.delivery_qos().is_none() {
            let (peer, message) = (from, give.message);
            return Err(GroupError::OtherValue { peer, message });
        }
        let given = SinkEvent::Given { from, give };
        self.members.sink.step(given, &mut queue.members)
    }

    /// Gives a message to the node of a presence.
    pub(super) fn give_message(
        &mut self,
        to: NodeId,
        give: Give<V>,
        queue: &mut Queue<V, M>,
        actions: &mut Vec<SessionsAction<V, M>>,
    ) {
        let message = GroupMessage::Give(give);
        if to == self.plane.run().node {
            let received = self.receive_group(to, message, queue);
            debug_assert!(received.is_ok(), "this node keeps to the protocol");
        } else {
            let message = SessionsMessage::Groups(message);
            actions.push(SessionsAction::Send { to, message });
        }
    }

    /// A connection has its session: it is present in the groups of the session. One without groups costs
    /// nothing.
    pub(super) fn open_if_member(&mut self, connection: ConnectionId, queue: &mut Queue<V, M>) {
        let (Some(client), Some(birth)) = (self.clients.get(&connection), self.birth(connection)) else {
            return;
        };
        let groups = self.members.memberships.groups(client.client(), birth);
        if !groups.is_empty() {
            self.open_member(connection, birth, groups, queue);
        }
    }

    /// Makes a connection present in groups of its session.
    fn open_member(
        &mut self,
        connection: ConnectionId,
        birth: Birth,
        groups: Vec<GroupId>,
        queue: &mut Queue<V, M>,
    ) {
        if self.members.sink.is_open(connection) {
            for group in groups {
                self.step_members(SinkEvent::Joined { connection, group }, queue);
            }
            return;
        }
        let opened = SinkEvent::Opened {
            connection,
            birth,
            groups,
        };
        self.step_members(opened, queue);
    }

    /// An event has changed a group in the routes.
    pub(super) fn change_members(
        &mut self,
        group: &GroupId,
        changed: &ChangedSession,
        queue: &mut Queue<V, M>,
    ) {
        let routes = self.plane.copy(Slot::ROUTES);
        let memberships = &mut self.members.memberships;
        let added = routes.and_then(|routes| memberships.note_added(&routes, group, changed.by));
        for removed in &changed.removed {
            memberships.remove(group, removed.dot());
        }
        if let Some(client) = added {
            self.suspect_if_orphaned(&client);
            self.open_connected(&client, queue);
        }
    }

    /// The routes have merged: memberships are read anew.
    pub(super) fn read_memberships(&mut self, queue: &mut Queue<V, M>) {
        let routes = self.plane.copy(Slot::ROUTES);
        let read = routes.map(|routes| Memberships::of_routes(&routes));
        self.members.memberships = read.unwrap_or_default();
        self.members.suspects.add_all();
        let clients: Vec<ClientId> = self.members.memberships.clients().cloned().collect();
        for client in clients {
            self.open_connected(&client, queue);
        }
    }

    /// A client is a member: its connection to this node is present.
    fn open_connected(&mut self, client: &ClientId, queue: &mut Queue<V, M>) {
        if let Some(connection) = self.fed.get(client).copied() {
            self.open_if_member(connection, queue);
        }
    }

    /// Does what members ask for. `value` is that of a member's entry.
    pub(super) fn apply_member(
        &mut self,
        action: SinkAction<V>,
        value: &V,
        queue: &mut Queue<V, M>,
        actions: &mut Vec<SessionsAction<V, M>>,
    ) {
        match action {
            SinkAction::Write {
                connection,
                group,
                write,
            } => {
                if let Some(change) = self.group_change(connection, &group, write, value) {
                    self.stalled
                        .push_back(EntryWrite::of_group(&group, Some(connection), change));
                }
            }
            SinkAction::Deliver {
                connection,
                group,
                message,
                value,
            } => {
                let message = SharedMessage { group, message };
                self.give_delivery(connection, message, value, queue, actions);
            }
            SinkAction::Move {
                connection,
                group,
                given,
                value,
            } => self.move_later(connection, GroupMove { group, given, value }),
            SinkAction::RefuseSubscribe { connection, group } => {
                actions.push(SessionsAction::NotJoined { connection, group });
            }
            SinkAction::Disconnect { connection, reason } => {
                let reason = ConnectionViolation::Member(reason);
                actions.push(SessionsAction::Violated { connection, reason });
            }
        }
    }
}
