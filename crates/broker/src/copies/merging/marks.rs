//! Where a session has parted from what another node has of it.

use std::collections::BTreeMap;

use bytes::Bytes;
use cluster::NodeId;
use mqtt::ids::SessionNumber;
use mqtt::records;

use crate::cluster_records::copy::{Mark, Marks};
use crate::copies::Copies;
use crate::copies::messages::Change;

/// Nodes that a session remembers to have parted from; of the first ones it is forgotten.
const MARKS_MAX: usize = 4;

/// Filters that were changed since; of more it is not known.
const FILTERS_MAX: usize = 1_024;

impl Marks {
    /// Of a session that its client has begun anew while these nodes are away.
    pub(in crate::copies) fn begun_without(away: &[NodeId]) -> Self {
        let mut marks = Self {
            is_clean: true,
            had_client: true,
            ..Self::default()
        };
        for node in away {
            marks.part(Mark {
                node: *node,
                number: None,
                next_sequence: 0,
            });
        }
        marks
    }

    /// The session and what that node has are different from here on.
    pub(in crate::copies) fn part(&mut self, mark: Mark) {
        // What was different before still is.
        if self.has(mark.node) {
            return;
        }
        if self.nodes.len() == MARKS_MAX {
            self.nodes.remove(0);
        }
        self.nodes.push(mark);
    }

    /// The same, as another session knows it of which this one is a copy. False if this one knows more of that node.
    pub(in crate::copies) fn inherit(&mut self, mark: Mark) -> bool {
        let knows_more = |known: &Mark| known.node == mark.node && known.number.is_some();
        if self.nodes.iter().any(knows_more) {
            return false;
        }
        self.nodes.retain(|known| known.node != mark.node);
        self.part(mark);
        true
    }

    /// What is known of a node that calls the session so.
    pub(in crate::copies) fn of(&self, node: NodeId, number: SessionNumber) -> Option<Mark> {
        let is_it = |mark: &&Mark| mark.node == node && mark.number.is_none_or(|known| known == number);
        self.nodes.iter().find(is_it).copied()
    }

    pub(in crate::copies) fn has(&self, node: NodeId) -> bool {
        self.nodes.iter().any(|mark| mark.node == node)
    }

    /// Takes note of a change of the session.
    pub(in crate::copies) fn note(&mut self, change: &Change) {
        match change {
            Change::Session(value) => self.had_client |= records::session::is_connected(value),
            Change::Subscribed(filter, _) => self.touch(filter, true),
            Change::Unsubscribed(filter) => self.touch(filter, false),
            _ => {}
        }
    }

    /// A filter is subscribed to, or unsubscribed from.
    pub(super) fn touch(&mut self, filter: &Bytes, is_there: bool) {
        let (into, out_of) = if is_there {
            (&mut self.subscribed, &mut self.unsubscribed)
        } else {
            (&mut self.unsubscribed, &mut self.subscribed)
        };
        out_of.remove(filter);
        if into.len() < FILTERS_MAX {
            into.insert(filter.clone());
        } else {
            self.is_incomplete = true;
        }
    }
}

/// What sessions come from that other nodes hold, by their places. Of each node as many as this one has copies of its sessions, or was offered: it begins anew whenever it is reached.
#[derive(Debug, Default)]
pub(in crate::copies) struct Origins(BTreeMap<(NodeId, SessionNumber), Box<[Mark]>>);

impl Copies {
    /// A session of another node comes from these.
    pub(in crate::copies) fn note_origins(&mut self, place: (NodeId, SessionNumber), origins: &[Mark]) {
        if origins.is_empty() {
            self.origins.0.remove(&place);
        } else {
            let latest = origins.len().saturating_sub(MARKS_MAX);
            self.origins.0.insert(place, origins[latest..].into());
        }
    }

    pub(in crate::copies) fn take_origins(&mut self, place: (NodeId, SessionNumber)) -> Option<Box<[Mark]>> {
        self.origins.0.remove(&place)
    }

    /// A node tells anew what it holds: what it had offered, and has not given, it names again.
    pub(in crate::copies) fn forget_origins_without_copy(&mut self, node: NodeId) {
        let by_holder = &self.by_holder;
        let is_kept = |place: &(NodeId, SessionNumber)| place.0 != node || by_holder.contains_key(place);
        self.origins.0.retain(|place, _| is_kept(place));
    }
}

impl super::super::Held {
    /// The sessions that this one comes from, of other nodes: the latest last.
    pub(in crate::copies) fn origins(&self) -> Vec<Mark> {
        let own = self.marks.iter().flat_map(|marks| &marks.nodes);
        let own = own.filter(|mark| mark.number.is_some());
        let older = self.origins.iter().flatten();
        older.chain(own).copied().collect()
    }

    /// From where on this session is another one than one that it comes from by way of a third one.
    pub(super) fn origin(&self, node: NodeId, number: SessionNumber) -> Option<Mark> {
        let mut origins = self.origins.iter().flatten();
        origins
            .find(|mark| (mark.node, mark.number) == (node, Some(number)))
            .copied()
    }

    /// Another node may go on with the session, or does.
    pub(in crate::copies) fn part(&mut self, mark: Mark, had_client: bool) {
        let marks = self.marks.get_or_insert_default();
        marks.had_client |= had_client;
        marks.part(mark);
    }

    /// Another node has the same. What was known of its own session is not needed any more: its place.
    pub(in crate::copies) fn is_same_at(&mut self, node: NodeId) -> Option<(NodeId, SessionNumber)> {
        if let Some(marks) = &mut self.marks {
            marks.nodes.retain(|mark| mark.node != node);
        }
        self.marks.take_if(|marks| marks.nodes.is_empty());
        let done = self.taking_in.take_if(|taking_in| taking_in.place().0 == node);
        done.map(|done| done.place())
    }
}
