//! What the other nodes said last of the groups that they lead, and of their copies.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use cluster::{GroupId, NodeId};
use mqtt::now::Now;

use super::questions::{CopyReport, GroupReport};

/// Latest reports of the other nodes.
#[derive(Debug, Default)]
pub(super) struct Reports(BTreeMap<NodeId, Said>);

/// Report of one node.
#[derive(Debug)]
struct Said {
    at: Instant,
    groups: Vec<GroupReport>,
    copies: CopyReport,
}

/// What was said longer ago does not count.
const REPORT_HOLDS: Duration = Duration::from_secs(3);

impl Reports {
    /// Records a node's report about the groups that it leads, and about its copies.
    pub(super) fn said(&mut self, now: Now, node: NodeId, groups: Vec<GroupReport>, copies: CopyReport) {
        let at = now.instant;
        self.0.insert(node, Said { at, groups, copies });
    }

    /// Report of a node about its copies, if it is not old.
    pub(super) fn copies_of(&self, now: Now, node: NodeId) -> Option<&CopyReport> {
        Some(&self.heard(now, node)?.copies)
    }

    /// Whether a node said something lately.
    pub(super) fn is_heard(&self, now: Now, node: NodeId) -> bool {
        self.heard(now, node).is_some()
    }

    /// What a node said lately of a group that it leads.
    pub(super) fn find(&self, now: Now, node: NodeId, group: GroupId) -> Option<GroupReport> {
        let mut reports = self.heard(now, node)?.groups.iter();
        reports.find(|report| report.group == group).cloned()
    }

    fn heard(&self, now: Now, node: NodeId) -> Option<&Said> {
        let said = self.0.get(&node);
        said.filter(|said| said.at + REPORT_HOLDS > now.instant)
    }
}
