//! What goes on when the disk is done.
//!
//! The batches themselves are in `commits.rs`; here is who waits for them.

use std::time::Instant;

use cluster::NodeId;
use cluster::control::CONTROL;
use cluster::replica::record::LogPoint;
use cluster::session_plane::Actor;
use mqtt::acks::{AckSequence, Acknowledgement};
use mqtt::ids::{ConnectionId, SessionKey, SessionNumber};
use mqtt::now::Now;
use mqtt::origin::Position;
use mqtt::records;
use mqtt::session::Written;
use protocol::Packet;
use protocol::packet::PacketId;
use session_plane::plane::PersistPoint;

use crate::clients::Place;
use crate::commits::{Committed, DiskTicket, WriteMark};
use crate::copies::MergeMessage;
use crate::node::{Action, Node};
use crate::replication::ReplicatedEvent;
use crate::routes::WaitId;
use crate::slow::SlowKind;

/// Who waits for the disk.
#[derive(Debug)]
pub(crate) enum Waiter {
    /// A received PUBLISH whose effects are in the batch.
    Ack {
        connection: ConnectionId,
        sequence: AckSequence,
        acknowledgement: Acknowledgement,
    },
    /// A CONNECT whose session is in the batch.
    Connack {
        connection: ConnectionId,
        packet: Packet,
    },
    /// A SUBSCRIBE whose subscriptions are in the batch, and when it came.
    Suback {
        connection: ConnectionId,
        packet: Packet,
        received: Instant,
    },
    /// A session that may send more when its records are in place.
    Records {
        session: SessionKey,
        number: SessionNumber,
        written: Written,
    },
    /// The record of the control group's state, as of this point of its log.
    ControlRecorded(LogPoint),
    /// The record of a state of the control group that another node sent.
    ControlKept(LogPoint),
    /// Items of another node, up to here.
    Taken { node: NodeId, position: Position },
    /// Those who sent what a restart has found.
    Recovered,
    /// The holder of a session that has a copy here, as far as it has this one on disk then, whatever else is waited for.
    Copied { holder: Actor, number: SessionNumber },
    /// Who waits for other nodes, too.
    After { wait: WaitId, then: Box<Waiter> },
    /// What takes the place of another node that was waited for.
    Over(Vec<WaitId>),
    /// Who waits for the other nodes to know this node's routes after that.
    Announced(Box<Waiter>),
    /// A QoS 2 message that other nodes have now: its packet id is kept before it is acknowledged.
    Received {
        session: SessionKey,
        number: SessionNumber,
        packet_id: PacketId,
        then: Box<Waiter>,
    },
    /// A client whose session is looked for at other nodes, as soon as it is known who they are.
    Seek(u64),
    /// A node that asks what this one has of a client.
    Place { to: NodeId, question: u64, place: Place },
    /// The plane, whose records up to a point are in the batch.
    PlanePersisted(PersistPoint),
    /// Who waits for an event of the plane, too.
    Replicated {
        event: ReplicatedEvent,
        then: Box<Waiter>,
    },
    /// A node whose session gives way to one of this node, which has something of it now.
    Merging { to: NodeId, message: Box<MergeMessage> },
    /// Who waits for the disk after that.
    Durable(Box<Waiter>),
    /// An operator who wanted something done.
    Administered { question: u64 },
    /// A node that is told of sessions that have ended without it, in this run of it.
    EndedKnown { node: NodeId, run: u32 },
    /// An operator for whom something is put back.
    Restored { question: u64 },
    /// Anything else for one connection.
    Act {
        connection: ConnectionId,
        action: Action,
    },
}

impl Waiter {
    /// Whether it has nothing to do with sessions: it does not wait for the nodes that have copies of them. Those may wait for it, to count on this node.
    fn is_of_disk_alone(&self) -> bool {
        matches!(
            self,
            Self::ControlRecorded(_) | Self::ControlKept(_) | Self::PlanePersisted(_)
        )
    }
}

impl Node {
    /// Everything up to `ticket` is on disk.
    pub(crate) fn durable(&mut self, now: Now, ticket: DiskTicket, actions: &mut Vec<Action>) {
        while let Some(committed) = self.commits.durable(ticket) {
            match committed {
                Committed::Records(mut waiters, wait) => {
                    self.note_on_disk(&waiters);
                    let alone: Vec<_> = waiters
                        .extract_if(.., |waiter| waiter.is_of_disk_alone())
                        .collect();
                    self.commits.settle(waiters, wait);
                    alone
                        .into_iter()
                        .for_each(|waiter| self.release(now, waiter, actions));
                    self.go_on_after_copies(now, actions);
                }
                Committed::Log(CONTROL, ticket) => {
                    self.with_control(now, actions, |control, _, outputs, actions| {
                        control.persisted(now, ticket, outputs, actions);
                    });
                }
                Committed::Log(group, ticket) => {
                    self.with_group(now, group, actions, |service, outputs| {
                        service.persisted(now, ticket, outputs);
                    });
                }
            }
        }
    }

    /// Other nodes are told that copies of theirs are on disk, whatever else is waited for.
    fn note_on_disk(&mut self, waiters: &[Waiter]) {
        for waiter in waiters {
            match waiter {
                Waiter::Taken { node, position } => {
                    if let Some(peers) = &mut self.peers {
                        peers.on_disk(*node, *position);
                    }
                }
                Waiter::Copied { holder, number } => self.note_copied(*holder, *number),
                _ => {}
            }
        }
    }

    /// Lets those go on whose batches are on disk here and wherever there are copies of what they changed.
    pub(crate) fn go_on_after_copies(&mut self, now: Now, actions: &mut Vec<Action>) {
        loop {
            let peers = self.peers.as_deref();
            let is_open = |wait| peers.is_some_and(|peers| peers.is_open(wait));
            let Some(waiters) = self.commits.settled(is_open) else {
                return;
            };
            for waiter in waiters {
                self.release(now, waiter, actions);
            }
        }
    }

    /// Lets `waiter` go on when what this step has written is durable: at once if it has written nothing.
    pub(crate) fn after_own_writes(&mut self, now: Now, waiter: Waiter, actions: &mut Vec<Action>) {
        self.after_writes_since(now, self.step_began, waiter, actions);
    }

    /// The same for what was written in several turns, since a mark.
    pub(crate) fn after_writes_since(
        &mut self,
        now: Now,
        mark: WriteMark,
        waiter: Waiter,
        actions: &mut Vec<Action>,
    ) {
        self.write_owed();
        if let Some(waiter) = self.commits.wait_since(mark, waiter) {
            self.release(now, waiter, actions);
        }
    }

    /// Lets `waiter` go on when everything written so far is durable.
    pub(crate) fn after_commit(&mut self, now: Now, waiter: Waiter, actions: &mut Vec<Action>) {
        if let Some(waiter) = self.commits.wait(waiter) {
            self.release(now, waiter, actions);
        }
    }

    pub(crate) fn release(&mut self, now: Now, waiter: Waiter, actions: &mut Vec<Action>) {
        match waiter {
            Waiter::Ack {
                connection,
                sequence,
                acknowledgement,
            } => {
                self.acknowledge(now, connection, sequence, acknowledgement, actions);
            }
            Waiter::Suback {
                connection,
                packet,
                received,
            } => self.subscribed(now, (connection, packet), received, actions),
            Waiter::Connack { connection, packet } => self.accepted(now, connection, packet, actions),
            Waiter::Records {
                session,
                number,
                written,
            } => self.go_on_after_records(now, (session, number), written, actions),
            Waiter::ControlKept(point) => self.control_kept(now, point, actions),
            Waiter::ControlRecorded(point) => self.control_recorded(now, point, actions),
            Waiter::Taken { node, position } => self.items_written(now, (node, position), actions),
            Waiter::Recovered => self.note_recovered_durable(),
            // It was told when its batch was on disk.
            Waiter::Copied { .. } => {}
            Waiter::After { wait, then } => {
                self.note_message_kept(now, &then);
                let Some(peers) = &mut self.peers else { return };
                if let Some(then) = peers.park(wait, then) {
                    self.release(now, *then, actions);
                }
            }
            Waiter::Over(waits) => {
                if let Some(peers) = &mut self.peers {
                    waits.into_iter().for_each(|wait| peers.end_wait(wait));
                }
                self.go_on_after_nodes(now, actions);
            }
            Waiter::Announced(then) => {
                let waiter = self.after_routes(now, *then);
                self.release(now, waiter, actions);
            }
            Waiter::Received {
                session,
                number,
                packet_id,
                then,
            } => {
                self.keep_received_by_nodes((session, number), packet_id);
                self.after_commit(now, *then, actions);
            }
            Waiter::Seek(question) => self.ask_nodes(now, question, actions),
            Waiter::Place { to, question, place } => self.answer_place(to, question, place),
            Waiter::PlanePersisted(point) => self.plane_persisted(now, point, actions),
            Waiter::Replicated { event, then } => self.after_event(now, event, *then, actions),
            Waiter::Merging { to, message } => self.answer_merging(to, &message),
            Waiter::Durable(then) => self.after_commit(now, *then, actions),
            Waiter::EndedKnown { node, run } => self.note_ended_known(node, run),
            Waiter::Administered { question } => {
                let is_done = true;
                actions.push(Action::Administered { question, is_done });
            }
            Waiter::Restored { question } => self.item_restored(question, actions),
            Waiter::Act { connection, action } => {
                let is_there = self.connections.get(connection).is_some();
                actions.extend(is_there.then_some(action));
            }
        }
    }

    /// What another node sent up to there is where it has to be.
    fn items_written(&mut self, now: Now, (node, position): (NodeId, Position), actions: &mut Vec<Action>) {
        if let Some(peers) = &mut self.peers {
            peers.written(node, position);
        }
        self.arrivals_written(now, (node, position), actions);
    }

    /// The subscriptions of a SUBSCRIBE that came at a moment are durable, and other nodes know them.
    fn subscribed(
        &mut self,
        now: Now,
        (connection, packet): (ConnectionId, Packet),
        received: Instant,
        actions: &mut Vec<Action>,
    ) {
        if self.connections.get(connection).is_some() {
            actions.push(Action::Send { connection, packet });
            self.note_slow(now, connection, (SlowKind::Subscribe, received), None, actions);
        }
    }

    /// A session may send more, if it is the one whose records are in place.
    fn go_on_after_records(
        &mut self,
        now: Now,
        (session, number): (SessionKey, SessionNumber),
        written: Written,
        actions: &mut Vec<Action>,
    ) {
        let entry = self.sessions.get_mut(session);
        if let Some(entry) = entry.filter(|entry| entry.session.number == number) {
            entry.session.persisted(written);
            self.pump(now, session, actions);
        }
    }

    /// Other nodes have a QoS 2 message: its packet id is kept, if its session still waits for that.
    fn keep_received_by_nodes(
        &mut self,
        (session, number): (SessionKey, SessionNumber),
        packet_id: PacketId,
    ) {
        let entry = self.sessions.get(session);
        let entry = entry.filter(|entry| entry.session.number == number);
        if entry.is_some_and(|entry| entry.session.received.contains(packet_id)) {
            self.commits.write(records::received::put(number, packet_id));
        }
    }
}
