//! Pasts of nodes: the last start that this node has met of each member, and whether this node itself takes no part.
//!
//! A node takes no part when a member tells it one of two things:
//!
//! - Its data directory is an older copy, since it shows another past than the member has met ([`RefusalCode::OlderDisk`]). The node
//!   is rolled back for good, and keeps that on its disk.
//! - Another process with its id is alive ([`RefusalCode::NodeTwice`]). The node stands aside until that member lets it in.
//!
//! It takes no part with members either that do not know. One of them could elect it although it lacks entries that it has
//! acknowledged, or count the votes of two processes as those of one node.
//!
//! ```text
//! OlderDisk from a member, or a log that is too short --> rolled back --> connections end, others are refused (Aside)
//!                                                              +--> record on the disk (`storage::RolledBack`)
//! NodeTwice from a member --> doubled --> connections end, others are refused (Aside), until that member says welcome
//! ```

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use cluster::peers::{Frame, Hello, Refusal, RefusalCode, Start};
use cluster::{ClusterId, GroupId, NodeId, Write};
use storage::KnownStarts;
use tokio::sync::Notify;

use super::{Peers, Shared};
use crate::condition::log_too_short;

/// Last starts that were met of members, and what members say of this node's own past.
#[derive(Debug)]
pub(super) struct Past {
    met: RefCell<BTreeMap<NodeId, Start>>,
    written: RefCell<KnownStarts>,
    /// Something was met that may not be written.
    is_changed: Cell<bool>,
    /// Cause for which this node takes no part any more.
    rolled_back: RefCell<Option<String>>,
    is_rolled_back: Notify,
    /// Members that know another process with this node's id, with their words.
    doubled: RefCell<BTreeMap<NodeId, String>>,
}

/// Who refuses this node, as the other one has said hello.
#[derive(Debug, Clone, Copy)]
pub(super) struct Refuser {
    pub(super) node: NodeId,
    pub(super) cluster: Option<ClusterId>,
}

impl Past {
    pub(super) fn new(known: KnownStarts) -> Self {
        Self {
            met: RefCell::new(known.by_node().clone()),
            written: RefCell::new(known),
            is_changed: Cell::default(),
            rolled_back: RefCell::default(),
            is_rolled_back: Notify::new(),
            doubled: RefCell::default(),
        }
    }

    /// Cause for which this node takes no part with another one.
    fn stands_aside_from(&self, node: NodeId) -> Option<String> {
        let rolled_back = self.rolled_back.borrow().clone();
        rolled_back.or_else(|| {
            let doubled = self.doubled.borrow();
            let others = (!doubled.contains_key(&node)).then_some(&*doubled)?;
            others.values().next().cloned()
        })
    }
}

impl Peers {
    /// Takes no part in the cluster from here on, since this node's data directory is an older copy.
    pub(crate) fn roll_back(&self, cause: &str) {
        self.shared.roll_back(cause);
    }

    /// Takes no part in the cluster from here on, since the log of a group ends before what this node has acknowledged.
    pub(crate) fn roll_back_by_log(&self, group: GroupId) {
        self.shared.roll_back(&log_too_short(&self.shared.own(), group));
    }

    /// Cause for which this node takes no part any more.
    pub(crate) fn rolled_back_cause(&self) -> Option<String> {
        self.shared.past.rolled_back.borrow().clone()
    }

    /// Waits until this node is rolled back. Returns the cause.
    pub(crate) async fn rolled_back(&self) -> String {
        loop {
            if let Some(cause) = self.rolled_back_cause() {
                return cause;
            }
            self.shared.past.is_rolled_back.notified().await;
        }
    }

    /// Writes that keep the starts of members that were met since the last call. They need no sync of their own: what those starts
    /// acknowledge is written after them.
    pub(crate) fn starts_to_write(&self) -> Vec<Write> {
        let past = &self.shared.past;
        if !past.is_changed.take() {
            return Vec::new();
        }
        past.written.borrow_mut().replace(past.met.borrow().clone())
    }
}

impl Shared {
    /// Remembers a start of a member.
    pub(super) fn remember_start(&self, theirs: &Hello) {
        let membership = self.membership.borrow();
        let is_member = membership
            .as_ref()
            .is_some_and(|membership| membership.members.contains_key(&theirs.node));
        if is_member {
            let start = theirs.starts.newest();
            let before = self.past.met.borrow_mut().insert(theirs.node, start);
            let is_changed = self.past.is_changed.get() || before != Some(start);
            self.past.is_changed.set(is_changed);
        }
    }

    /// Forgets the starts of nodes that are no members any more.
    pub(super) fn forget_starts(&self) {
        let membership = self.membership.borrow();
        let Some(membership) = membership.as_ref() else {
            return;
        };
        let is_member = |node: &NodeId| membership.members.contains_key(node);
        self.past.met.borrow_mut().retain(|node, _| is_member(node));
        self.past.doubled.borrow_mut().retain(|node, _| is_member(node));
        self.past.is_changed.set(true);
    }

    /// Checks that this node takes part, and that the other one has the past that was met.
    pub(super) fn check_past(&self, theirs: &Hello) -> Result<(), Refusal> {
        if let Some(cause) = self.past.stands_aside_from(theirs.node) {
            return Err(Refusal::new(RefusalCode::Aside, cause));
        }
        let Some(met) = self.past.met.borrow().get(&theirs.node).copied() else {
            return Ok(());
        };
        if theirs.starts.include(met) {
            return Ok(());
        }
        let text = self.two_processes(theirs).unwrap_or_else(|| {
            format!(
                "node {} at {} has an older copy of its data directory: node {} has met start {} of it, which the copy lacks; \
                 start it with an empty directory, and replace it in the cluster",
                theirs.node, theirs.address, self.identity.node, met.incarnation
            )
        });
        Err(Refusal::new(RefusalCode::OlderDisk, text))
    }

    /// Whether this node takes part with another one.
    pub(super) fn takes_part_with(&self, node: NodeId) -> bool {
        self.past.stands_aside_from(node).is_none()
    }

    /// Notes that a member lets this node in.
    pub(super) fn welcomed_by(&self, node: NodeId) {
        self.past.doubled.borrow_mut().remove(&node);
    }

    /// Draws the conclusions from a refusal of this node.
    pub(super) fn heed(&self, refusal: &Refusal, by: Refuser) {
        let own = self.membership.borrow().as_ref().map(|own| own.cluster);
        if own.is_none() || by.cluster != own {
            return;
        }
        match refusal.code {
            RefusalCode::OlderDisk => self.roll_back(&refusal.text),
            RefusalCode::NodeTwice => {
                let text = refusal.text.clone();
                if self.past.doubled.borrow_mut().insert(by.node, text).is_none() {
                    self.leave(&refusal.text);
                }
            }
            _ => {}
        }
    }

    fn roll_back(&self, cause: &str) {
        if self.past.rolled_back.borrow().is_some() {
            return;
        }
        tracing::error!("this node takes no part in its cluster any more: {cause}");
        self.past.rolled_back.replace(Some(cause.to_owned()));
        self.leave(cause);
        self.past.is_rolled_back.notify_one();
    }

    /// Ends all connections with the cause as the last word.
    fn leave(&self, cause: &str) {
        let frame = Frame::Refused(Refusal::new(RefusalCode::Aside, cause));
        let outgoing: Vec<_> = self.outgoing.borrow().values().cloned().collect();
        for outgoing in outgoing {
            self.say(outgoing.node, &frame);
            outgoing.close();
        }
        self.incoming
            .borrow()
            .values()
            .for_each(|incoming| incoming.end());
    }
}
