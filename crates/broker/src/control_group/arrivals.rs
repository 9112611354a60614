//! Ends of the logs that joining nodes have to reach before they are members.
//!
//! A node that takes part in a group need not have anything of it yet. It has caught up when it has confirmed a certain entry: the last one of
//! the group's log when the control group's leader looked first. An entry of another term may never be decided, so a new term begins anew.

use std::collections::BTreeMap;

use cluster::{GroupId, Index, NodeId, Term};

use super::questions::GroupReport;

/// Ends of the logs that joining nodes have to reach.
#[derive(Debug, Default)]
pub(crate) struct Arrivals(BTreeMap<(NodeId, GroupId), (Term, Index)>);

impl Arrivals {
    /// Whether a node has confirmed all that a group had, as its leader reports.
    pub(crate) fn has_caught_up(&mut self, node: NodeId, report: &GroupReport) -> bool {
        let goal = self.0.entry((node, report.group));
        let goal = goal.or_insert((report.term, report.last));
        if goal.0 != report.term {
            *goal = (report.term, report.last);
        }
        let mut members = report.members.iter();
        members.any(|member| member.node == node && member.is_active && member.matched >= goal.1)
    }

    /// Forgets nodes that do not join any more.
    pub(crate) fn retain(&mut self, joins: impl Fn(NodeId) -> bool) {
        self.0.retain(|(node, _), _| joins(*node));
    }
}

#[cfg(test)]
mod tests {
    use super::super::questions::MemberReport;
    use super::*;

    const NEW: NodeId = NodeId(4);

    fn report(term: u64, last: u64, matched: u64, is_active: bool) -> GroupReport {
        GroupReport {
            group: GroupId(0),
            term: Term(term),
            last: Index(last),
            members: vec![MemberReport {
                node: NEW,
                matched: Index(matched),
                is_active,
                is_rolled_back: false,
            }],
        }
    }

    #[test]
    fn a_node_has_arrived_when_it_has_what_there_was_at_first() {
        let mut arrivals = Arrivals::default();
        assert!(
            !arrivals.has_caught_up(NEW, &report(1, 50, 0, true)),
            "it has nothing"
        );
        assert!(!arrivals.has_caught_up(NEW, &report(1, 60, 49, true)));
        assert!(
            !arrivals.has_caught_up(NEW, &report(1, 70, 50, false)),
            "it is silent"
        );
        assert!(
            arrivals.has_caught_up(NEW, &report(1, 80, 50, true)),
            "writes go on"
        );
        assert!(!arrivals.has_caught_up(NodeId(5), &report(1, 80, 80, true)));
    }

    #[test]
    fn a_new_term_begins_anew() {
        let mut arrivals = Arrivals::default();
        assert!(!arrivals.has_caught_up(NEW, &report(1, 50, 0, true)));
        assert!(!arrivals.has_caught_up(NEW, &report(2, 48, 47, true)));
        assert!(arrivals.has_caught_up(NEW, &report(2, 48, 48, true)));
    }

    #[test]
    fn a_node_that_joins_again_has_another_goal() {
        let mut arrivals = Arrivals::default();
        assert!(arrivals.has_caught_up(NEW, &report(1, 50, 50, true)));
        arrivals.retain(|node| node != NEW);
        assert!(!arrivals.has_caught_up(NEW, &report(1, 90, 50, true)));
    }
}
