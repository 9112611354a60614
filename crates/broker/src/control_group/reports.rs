//! What the other nodes said last of the groups that they lead, and of their copies.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use cluster::{GroupId, NodeId};

use super::questions::{CopyReport, GroupReport};
use crate::now::Now;

/// What the other nodes said last.
#[derive(Debug, Default)]
pub(super) struct Reports {
    groups: BTreeMap<NodeId, (Instant, Vec<GroupReport>)>,
    copies: BTreeMap<NodeId, (Instant, CopyReport)>,
}

/// What was said longer ago does not count.
const REPORT_HOLDS: Duration = Duration::from_secs(3);

impl Reports {
    /// A node says this of the groups that it leads.
    pub(super) fn said(&mut self, now: Now, node: NodeId, reports: Vec<GroupReport>) {
        self.groups.insert(node, (now.instant, reports));
    }

    /// Records a node's report about its copies.
    pub(super) fn record_copies(&mut self, now: Now, node: NodeId, report: CopyReport) {
        self.copies.insert(node, (now.instant, report));
    }

    /// Report of a node about its copies, if it is not old.
    pub(super) fn copies_of(&self, now: Now, node: NodeId) -> Option<&CopyReport> {
        let (at, report) = self.copies.get(&node)?;
        (*at + REPORT_HOLDS > now.instant).then_some(report)
    }

    /// Whether a node said something lately.
    pub(super) fn is_heard(&self, now: Now, node: NodeId) -> bool {
        let said = self.groups.get(&node);
        said.is_some_and(|(at, _)| *at + REPORT_HOLDS > now.instant)
    }

    /// What a node said lately of a group that it leads.
    pub(super) fn find(&self, now: Now, node: NodeId, group: GroupId) -> Option<GroupReport> {
        let (_, reports) = self.groups.get(&node).filter(|_| self.is_heard(now, node))?;
        reports.iter().find(|report| report.group == group).cloned()
    }
}
