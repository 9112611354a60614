//! How a cluster stands, as this node sees it.

use cluster::replica::{MemberProgress, Replica};
use mqtt::now::Now;
use state_service::Groups;

use crate::control_group::{ClusterStatus, ControlGroup, GroupReport, GroupStatus, MemberReport, NodeStatus};
use crate::node::Node;

/// Of the groups that this node leads.
pub(super) fn reports(control: &ControlGroup, groups: &Groups) -> Vec<GroupReport> {
    let stores = groups.iter().map(|service| service.replica());
    let led = stores
        .chain([control.replica()])
        .filter(|replica| replica.is_leader());
    led.map(report).collect()
}

/// Report of a group by its leader, if that is known at this moment.
pub(super) fn report_of(now: Now, control: &ControlGroup, replica: &Replica) -> Option<GroupReport> {
    match replica.leader()? {
        leader if leader == control.node() => Some(report(replica)),
        leader => control.report_of(now, leader, replica.group()),
    }
}

fn report(replica: &Replica) -> GroupReport {
    let member = |progress: MemberProgress| MemberReport {
        node: progress.node,
        matched: progress.matched,
        is_active: progress.is_active,
        is_rolled_back: progress.is_rolled_back,
    };
    GroupReport {
        group: replica.group(),
        term: replica.term(),
        last: replica.last(),
        members: replica.progress().into_iter().map(member).collect(),
    }
}

impl Node {
    /// Status of all nodes and groups, as this node sees it.
    pub(super) fn cluster_status(&self, now: Now, control: &ControlGroup) -> ClusterStatus {
        let nodes = control.control().nodes().iter().map(|(node, found)| NodeStatus {
            node: *node,
            address: found.address.clone(),
            stage: found.stage,
            since: found.since,
            is_heard: control.is_heard(now, *node),
            sessions: self.replication.state_of(*node),
            copies: if *node == control.node() {
                Some(self.copy_report())
            } else {
                control.copies_of(now, *node).cloned()
            },
        });
        let stores = self.groups.iter().map(|service| service.replica());
        let groups = stores.chain([control.replica()]).map(|replica| GroupStatus {
            group: replica.group(),
            leader: replica.leader(),
            term: replica.term(),
            members: replica.members().clone(),
            report: report_of(now, control, replica),
        });
        ClusterStatus {
            cluster: control.control().cluster(),
            node: control.node(),
            nodes: nodes.collect(),
            groups: groups.collect(),
            callers: control.callers(),
            voters_wanted: control.control().voters_wanted(),
        }
    }
}
