//! The control group on one node: which nodes there are, and what operators want of them.
//!
//! Every node applies the control group's log. A change is decided by the group's leader, which looks first whether the cluster can do
//! without whoever is to go; another node gives it on and waits for the answer. How the groups get where they are to be is in
//! `membership.rs`.
//!
//! The log has an entry for each change of the cluster. After some thousand of them the state is written as one record,
//! and a node that lacks earlier ones is sent that.

mod arrivals;
mod callers;
mod deciding;
mod leading;
mod messages;
mod questions;
mod reports;

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use bytes::Bytes;
use cluster::control::{Command, Control, NodeStage, decode_command};
use cluster::fitness::Fitness;
use cluster::forming::Founder;
use cluster::peer_header::PeerError;
use cluster::replica::record::LogPoint;
use cluster::replica::{self, MemberChange, Replica, Request as Asking, Ticket};
use cluster::{GroupId, NodeId};
use mqtt::now::Now;
use state_service::Output;

use self::arrivals::Arrivals;
use self::callers::Callers;
use self::deciding::Asked;
pub(crate) use self::deciding::{Asker, answer, leave_open};
use self::messages::ControlMessage;
pub use self::questions::{
    ClusterAnswer, ClusterChange, ClusterQuestion, ClusterStatus, CopyReport, GroupReport, GroupStatus,
    MemberReport, NodeStatus,
};
use self::reports::Reports;
use crate::node::Action;

/// The control group as it was recovered.
#[derive(Debug)]
pub struct RecoveredControl {
    /// As of its record, or as the cluster was formed.
    pub control: Control,
    /// With the log behind it.
    pub replica: Replica,
    /// What [`Replica::new`] wanted done.
    pub started: Vec<replica::Action>,
    /// Entries of the log after which the state is written as one record.
    pub entries_kept: u64,
}

/// The control group on one node.
#[derive(Debug)]
pub(crate) struct ControlGroup {
    node: NodeId,
    replica: Replica,
    control: Control,
    replica_actions: Vec<replica::Action>,
    /// Commands of this leader that are not applied, and who wants to know.
    deciding: Vec<(Command, Option<Asker>)>,
    /// Questions that another node was asked.
    asked: Asked,
    /// What the others said last of the groups that they lead.
    reports: Reports,
    callers: Callers,
    /// Progress of nodes that join, while this node leads the group.
    arrivals: Arrivals,
    fitness: Fitness,
    next_look: Instant,
    next_report: Instant,
    /// The edge was told these.
    told: Option<(BTreeSet<Founder>, Vec<NodeId>)>,
    /// Up to which entry the state is in its record.
    recorded: LogPoint,
    entries_kept: u64,
    is_recording: bool,
    /// It is to be written as a record.
    to_keep: Option<LogPoint>,
    /// A state that another node sent, until the log has begun anew after it.
    received: Option<(LogPoint, Control)>,
}

/// How often a node looks whether something is to be done.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// How often a node tells the others of the groups that it leads.
const REPORT_EVERY: Duration = Duration::from_secs(1);

impl ControlGroup {
    pub(crate) fn new(now: Now, node: NodeId, recovered: RecoveredControl) -> Self {
        let recorded = recovered.replica.applied();
        Self {
            node,
            replica: recovered.replica,
            control: recovered.control,
            replica_actions: recovered.started,
            deciding: Vec::new(),
            asked: Asked::default(),
            reports: Reports::default(),
            callers: Callers::default(),
            arrivals: Arrivals::default(),
            fitness: Fitness::default(),
            next_look: now.instant,
            next_report: now.instant,
            told: None,
            recorded,
            entries_kept: recovered.entries_kept,
            is_recording: false,
            to_keep: None,
            received: None,
        }
    }

    /// This node.
    pub(crate) fn node(&self) -> NodeId {
        self.node
    }

    pub(crate) fn replica(&self) -> &Replica {
        &self.replica
    }

    pub(crate) fn control(&self) -> &Control {
        &self.control
    }

    pub(crate) fn deadline(&self) -> Instant {
        self.replica
            .deadline()
            .map_or(self.next_look, |due| due.min(self.next_look))
    }

    /// Does what is due. True: it is time to look whether a group has to change.
    pub(crate) fn timeout(&mut self, now: Now, outputs: &mut Vec<Output>, actions: &mut Vec<Action>) -> bool {
        if self.replica.deadline().is_some_and(|due| due <= now.instant) {
            self.step(replica::Event::Timeout, now, outputs, actions);
        }
        if self.next_look > now.instant {
            return false;
        }
        self.next_look = now.instant + LOOK_EVERY;
        self.asked.give_up(now, actions);
        self.callers.forget(now, &self.control);
        self.look_at_disk(now, outputs, actions);
        true
    }

    pub(crate) fn persisted(
        &mut self,
        now: Now,
        ticket: Ticket,
        outputs: &mut Vec<Output>,
        actions: &mut Vec<Action>,
    ) {
        self.step(replica::Event::Persisted { ticket }, now, outputs, actions);
    }

    /// The state of this point is to be written as a record, if it is time.
    pub(crate) fn record_due(&mut self) -> Option<LogPoint> {
        let applied = self.replica.applied();
        let is_due = applied.index.0 - self.recorded.index.0 >= self.entries_kept;
        (is_due && !std::mem::replace(&mut self.is_recording, is_due)).then_some(applied)
    }

    /// The state that another node sent, if it is to be written as a record.
    pub(crate) fn take_to_keep(&mut self) -> Option<(LogPoint, Control)> {
        let point = self.to_keep.take()?;
        self.received.clone().filter(|(of, _)| *of == point)
    }

    /// The record of a state that another node sent is durable.
    pub(crate) fn kept(
        &mut self,
        now: Now,
        LogPoint { index, term }: LogPoint,
        outputs: &mut Vec<Output>,
        actions: &mut Vec<Action>,
    ) {
        self.step(
            replica::Event::SnapshotKept { index, term },
            now,
            outputs,
            actions,
        );
    }

    /// The record of this point is durable.
    pub(crate) fn recorded(
        &mut self,
        now: Now,
        point: LogPoint,
        outputs: &mut Vec<Output>,
        actions: &mut Vec<Action>,
    ) {
        self.is_recording = false;
        self.recorded = point;
        let event = replica::Event::SnapshotTaken {
            index: point.index,
            term: point.term,
        };
        self.step(event, now, outputs, actions);
    }

    /// A node called.
    pub(crate) fn called(&mut self, now: Now, caller: Founder) {
        self.callers.called(now, caller, &self.control);
    }

    /// Another node is there, though its message is not whole yet.
    pub(crate) fn heard(
        &mut self,
        now: Now,
        from: NodeId,
        outputs: &mut Vec<Output>,
        actions: &mut Vec<Action>,
    ) {
        self.step(replica::Event::Heard { from }, now, outputs, actions);
    }

    /// Another node's control group has something to say. What it wants to be changed is for the caller to decide.
    pub(crate) fn message(
        &mut self,
        now: Now,
        from: NodeId,
        message: &Bytes,
        outputs: &mut Vec<Output>,
        actions: &mut Vec<Action>,
    ) -> Result<Option<(Asker, ClusterChange)>, PeerError> {
        match ControlMessage::decode(message).ok_or(PeerError::Damaged)? {
            ControlMessage::Raft(bytes) => {
                self.step(replica::Event::Message { from, bytes }, now, outputs, actions);
            }
            ControlMessage::Report { groups, copies } => {
                if self.control.nodes().contains_key(&from) {
                    self.reports.said(now, from, groups, copies);
                }
            }
            ControlMessage::State {
                point: LogPoint { index, term },
                control,
                members,
            } => {
                // One that is being kept is not given up for another one: it is sent again and again while it is not there.
                if self.received.is_some() {
                    return Ok(None);
                }
                if self.replica.lacks(index, term) {
                    self.received = Some((LogPoint { index, term }, control));
                    let event = replica::Event::SnapshotReceived { index, term, members };
                    self.step(event, now, outputs, actions);
                } else {
                    let event = replica::Event::SnapshotOffered { index, term };
                    self.step(event, now, outputs, actions);
                }
            }
            ControlMessage::Unfit => self.said_unfit(now, from),
            ControlMessage::Ask { number, change } => return Ok(Some((Asker::There(from, number), change))),
            ControlMessage::Answer { number, answer } => {
                self.asked.answered(number, answer, actions);
            }
        }
        Ok(None)
    }

    /// Whether it is time to tell the other nodes of the groups that this one leads.
    pub(crate) fn is_report_due(&self, now: Now) -> bool {
        self.next_report <= now.instant
    }

    /// Tells the other nodes of the groups that this one leads, and of its copies.
    pub(crate) fn report(
        &mut self,
        now: Now,
        groups: Vec<GroupReport>,
        copies: CopyReport,
        outputs: &mut Vec<Output>,
    ) {
        self.next_report = now.instant + REPORT_EVERY;
        let message = ControlMessage::Report { groups, copies };
        let others = self.control.nodes().keys().filter(|node| **node != self.node);
        outputs.extend(others.map(|node| to_peer(*node, &message)));
    }

    /// Report of another node about its copies, if it is not old.
    pub(crate) fn copies_of(&self, now: Now, node: NodeId) -> Option<&CopyReport> {
        self.reports.copies_of(now, node)
    }

    /// Changes the members of the group itself.
    pub(crate) fn change_members(
        &mut self,
        now: Now,
        changes: Vec<MemberChange>,
        outputs: &mut Vec<Output>,
        actions: &mut Vec<Action>,
    ) {
        self.step(replica::Event::ChangeMembers { changes }, now, outputs, actions);
    }

    /// A node that waits to be taken in, by its id or its address.
    pub(crate) fn caller(&self, who: &str) -> Option<Founder> {
        self.callers.find(who)
    }

    /// Nodes that wait to be taken in.
    pub(crate) fn callers(&self) -> BTreeSet<Founder> {
        self.callers.waiting(&self.control)
    }

    /// Whether a node that joins has confirmed all that a group had, as the group's leader reports.
    pub(crate) fn has_caught_up(&mut self, node: NodeId, report: &GroupReport) -> bool {
        self.arrivals.has_caught_up(node, report)
    }

    /// Forgets how far nodes are that do not join any more.
    pub(crate) fn forget_arrived(&mut self) {
        let control = &self.control;
        self.arrivals
            .retain(|node| control.stage(node) == Some(NodeStage::Joining));
    }

    /// Nodes that are elsewhere than the cluster knows.
    pub(crate) fn moved(&self) -> Vec<Founder> {
        self.callers.moved()
    }

    /// Whether a node can be reached, as far as this node knows.
    pub(crate) fn is_heard(&self, now: Now, node: NodeId) -> bool {
        node == self.node || self.reports.is_heard(now, node)
    }

    /// What a node said of a group that it leads.
    pub(crate) fn report_of(&self, now: Now, node: NodeId, group: GroupId) -> Option<GroupReport> {
        self.reports.find(now, node, group)
    }

    /// Who takes part, if the edge was not told yet.
    pub(crate) fn peers_to_tell(&mut self) -> Option<Action> {
        let members = self.control.peers();
        let removed: Vec<_> = self.control.removed().collect();
        let current = Some((members, removed));
        if self.told == current {
            return None;
        }
        self.told.clone_from(&current);
        current.map(|(members, removed)| Action::Peers { members, removed })
    }

    /// Lets the replica work off what it wanted at its start.
    pub(crate) fn start(&mut self, now: Now, outputs: &mut Vec<Output>, actions: &mut Vec<Action>) {
        self.drain(now, outputs, actions);
    }

    /// Whether [`ControlGroup::flush`] has something to do.
    pub(crate) fn has_news(&self) -> bool {
        self.replica.has_news()
    }

    /// Tells the others what is committed.
    pub(crate) fn flush(&mut self, now: Now, outputs: &mut Vec<Output>, actions: &mut Vec<Action>) {
        self.step(replica::Event::Flush, now, outputs, actions);
    }

    fn step(
        &mut self,
        event: replica::Event,
        now: Now,
        outputs: &mut Vec<Output>,
        actions: &mut Vec<Action>,
    ) {
        self.replica.step(now.instant, event, &mut self.replica_actions);
        self.drain(now, outputs, actions);
    }

    fn drain(&mut self, now: Now, outputs: &mut Vec<Output>, actions: &mut Vec<Action>) {
        for action in std::mem::take(&mut self.replica_actions) {
            match action {
                replica::Action::Persist { ticket, writes } => {
                    outputs.push(Output::Persist(ticket, writes, true));
                }
                replica::Action::Apply { data, .. } => self.apply(&data, outputs, actions),
                replica::Action::Refused { request, refusal } => {
                    if let Asking::Propose { data } = request {
                        self.refused(&data, &refusal.to_string(), actions);
                    }
                }
                replica::Action::Leadership { leader, .. } => {
                    self.fitness.has_new_leader();
                    if leader != Some(self.node) {
                        self.lose_leadership(actions);
                    }
                    self.next_look = now.instant;
                }
                replica::Action::Send { to, message } => {
                    outputs.push(Output::ToPeer { to, message });
                }
                replica::Action::Missing { node, missing } => {
                    outputs.push(Output::Missing { node, missing });
                }
                replica::Action::Dropped { from, error } => outputs.push(Output::Dropped { from, error }),
                replica::Action::OfferSnapshot { to } => {
                    let state = ControlMessage::State {
                        point: self.replica.applied(),
                        control: self.control.clone(),
                        members: self.replica.members().clone(),
                    };
                    outputs.push(to_peer(to, &state));
                }
                replica::Action::KeepSnapshot { index, term } => {
                    self.to_keep = Some(LogPoint { index, term });
                }
                replica::Action::Restored { index, term } => self.restored(LogPoint { index, term }),
                replica::Action::SnapshotUnneeded { .. } => self.received = None,
                replica::Action::Members { .. } | replica::Action::ReadReady { .. } => {}
            }
        }
    }

    fn apply(&mut self, data: &[u8], outputs: &mut Vec<Output>, actions: &mut Vec<Action>) {
        // What is in the log was written by this code and passed its checksum.
        let (at, command) = decode_command(data).expect("a committed entry can be read");
        self.control.apply(at, &command);
        self.decided(&command, outputs, actions);
    }

    /// The log has begun anew after the state that another node sent.
    fn restored(&mut self, point: LogPoint) {
        let (of, control) = self.received.take().expect("it was received before it was kept");
        assert!(of == point, "one state is received at a time");
        self.control = control;
        self.recorded = point;
    }
}

fn to_peer(to: NodeId, message: &ControlMessage) -> Output {
    Output::ToPeer {
        to,
        message: message.encode().into(),
    }
}
