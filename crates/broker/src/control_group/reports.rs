//! What the other nodes said last of the groups that they lead.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use cluster::{GroupId, NodeId};

use super::questions::GroupReport;
use crate::now::Now;

/// What the other nodes said last.
#[derive(Debug, Default)]
pub(super) struct Reports(BTreeMap<NodeId, (Instant, Vec<GroupReport>)>);

/// What was said longer ago does not count.
const REPORT_HOLDS: Duration = Duration::from_secs(3);

impl Reports {
    /// A node says this of the groups that it leads.
    pub(super) fn said(&mut self, now: Now, node: NodeId, reports: Vec<GroupReport>) {
        self.0.insert(node, (now.instant, reports));
    }

    /// Whether a node said something lately.
    pub(super) fn is_heard(&self, now: Now, node: NodeId) -> bool {
        let said = self.0.get(&node);
        said.is_some_and(|(at, _)| *at + REPORT_HOLDS > now.instant)
    }

    /// What a node said lately of a group that it leads.
    pub(super) fn find(&self, now: Now, node: NodeId, group: GroupId) -> Option<GroupReport> {
        let (_, reports) = self.0.get(&node).filter(|_| self.is_heard(now, node))?;
        reports.iter().find(|report| report.group == group).cloned()
    }
}
