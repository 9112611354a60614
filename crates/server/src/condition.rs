//! Conditions that keep a node from serving its clients, or from talking to another node.
//!
//! Each condition has one line: the cause, and what to do. `/readyz`, `cluster status` and the log show the same line.
//! A new cause is a variant of [`Condition`], or a `RefusalCode`: a node that refuses another one words the line for both, and
//! sends it along.

use std::fmt;

use cluster::control::CONTROL;
use cluster::peers::{PeerAddress, Refusal};
use cluster::{GroupId, NodeId};
use protocol::Escaped;

use crate::peers::cause_of;

/// Condition that keeps a node from serving, or from talking to another node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Condition {
    /// The server ends.
    Stopping,
    /// The cluster is not formed, or has not taken this node in; with what the node waits for.
    NotFormed(String),
    /// Groups have no leader that this node knows; with the voters that it has no connection to.
    NoLeader {
        groups: Vec<GroupId>,
        unreached: Vec<NodeAt>,
    },
    /// The cluster has removed this node, which hands over what it holds.
    Leaving,
    /// A node's copies of groups are not whole, and it fetches others.
    FetchingCopy { node: NodeAt, groups: Vec<GroupId> },
    /// This node's disk is older than what other nodes know of it, and it takes no part in the cluster; with how that is known.
    RolledBack(String),
    /// A node cannot send to another one, which leads these groups.
    NoConnection {
        from: NodeAt,
        to: NodeAt,
        why: String,
        led: Vec<GroupId>,
    },
    /// One of two nodes does not go on with the other one, or has stopped; with the address of the other node.
    Refused { address: PeerAddress, refusal: Refusal },
}

/// Node with its address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NodeAt {
    pub(crate) node: NodeId,
    pub(crate) address: PeerAddress,
}

impl Condition {
    /// Name for programs. Refusals have the name that the metrics of the peers have for them.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Stopping => "stopping",
            Self::NotFormed(_) => "not_formed",
            Self::NoLeader { .. } => "no_leader",
            Self::Leaving => "leaving",
            Self::FetchingCopy { .. } => "fetching_copy",
            Self::RolledBack(_) => "rolled_back",
            Self::NoConnection { .. } => "no_connection",
            Self::Refused { refusal, .. } => cause_of(refusal.code),
        }
    }

    /// Its line, as a page shows it: parts of it come from other nodes.
    pub(crate) fn line(&self) -> String {
        Escaped::whole(&self.to_string()).to_string()
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stopping => {
                f.write_str("the server stops: start it again, or send clients to another node")
            }
            Self::NotFormed(waiting) => write!(f, "the cluster is not formed: {waiting}"),
            Self::NoLeader { groups, unreached } => no_leader(f, groups, unreached),
            Self::Leaving => f.write_str(
                "this node was removed, and hands over what it holds: send its clients to the other nodes, and stop it when it \
                 takes part in nothing any more",
            ),
            Self::FetchingCopy { node, groups } => write!(
                f,
                "{node} has no whole copy of {}, and fetches another one: wait, and start the other nodes if it lasts",
                all(groups)
            ),
            Self::RolledBack(cause) => f.write_str(cause),
            Self::NoConnection { from, to, why, led } => {
                write!(f, "{from} cannot send to {to}: {why}")?;
                if !led.is_empty() {
                    write!(f, "; it leads {}, whose requests fail here", all(led))?;
                }
                f.write_str(": start it if it does not run, or repair the network between them")
            }
            Self::Refused { refusal, .. } => refusal.fmt(f),
        }
    }
}

fn no_leader(f: &mut fmt::Formatter<'_>, groups: &[GroupId], unreached: &[NodeAt]) -> fmt::Result {
    let refused = match groups {
        [_] => "has no leader: requests about its keys are refused",
        _ => "have no leader: requests about their keys are refused",
    };
    write!(f, "{} {refused}; ", all(groups))?;
    if unreached.is_empty() {
        return f
            .write_str("an election is under way: if it lasts, look whether the voters reach each other");
    }
    let named: Vec<_> = unreached.iter().map(NodeAt::to_string).collect();
    let named = named.join(", ");
    write!(
        f,
        "there is no connection to {named}: start what does not run, or repair the network"
    )
}

/// Cause for a node whose log ends before what it has acknowledged in a group.
pub(crate) fn log_too_short(node: &NodeAt, group: GroupId) -> String {
    format!(
        "{node} is rolled back: its data directory is older than what it has acknowledged in {}; \
         start it with an empty directory, and replace it in the cluster",
        all(&[group])
    )
}

/// Groups as operators call them.
fn all(groups: &[GroupId]) -> String {
    let named: Vec<_> = groups.iter().map(|group| named(*group)).collect();
    let kind = if groups.len() == 1 { "group" } else { "groups" };
    format!("{kind} {}", named.join(", "))
}

fn named(group: GroupId) -> String {
    if group == CONTROL {
        "control".to_owned()
    } else {
        group.to_string()
    }
}

impl fmt::Display for NodeAt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "node {} at {}", self.node, self.address)
    }
}

#[cfg(test)]
mod tests {
    use cluster::peers::RefusalCode;

    use super::*;

    fn at(node: u64, address: &str) -> NodeAt {
        NodeAt {
            node: NodeId(node),
            address: address.parse().expect("an address"),
        }
    }

    #[track_caller]
    fn check(condition: &Condition, name: &str, line: &str) {
        assert_eq!((condition.name(), condition.line().as_str()), (name, line));
    }

    #[test]
    fn a_server_that_stops_says_so() {
        let line = "the server stops: start it again, or send clients to another node";
        check(&Condition::Stopping, "stopping", line);
    }

    #[test]
    fn a_node_that_was_removed_says_what_becomes_of_it() {
        let line = "this node was removed, and hands over what it holds: send its clients to the other nodes, \
             and stop it when it takes part in nothing any more";
        check(&Condition::Leaving, "leaving", line);
    }

    #[test]
    fn a_cluster_that_is_not_formed_says_what_it_waits_for() {
        let condition = Condition::NotFormed("waiting for 2 more nodes of 3".to_owned());
        let line = "the cluster is not formed: waiting for 2 more nodes of 3";
        check(&condition, "not_formed", line);
    }

    #[test]
    fn a_group_without_a_leader_names_the_voters_that_are_not_reached() {
        let condition = Condition::NoLeader {
            groups: vec![GroupId(0), CONTROL],
            unreached: vec![at(0xb2, "10.0.0.2:7000"), at(0xc3, "10.0.0.3:7000")],
        };
        let line = "groups 0, control have no leader: requests about their keys are refused; \
             there is no connection to node 00000000000000b2 at 10.0.0.2:7000, node 00000000000000c3 at 10.0.0.3:7000: \
             start what does not run, or repair the network";
        check(&condition, "no_leader", line);
    }

    #[test]
    fn a_group_whose_voters_are_all_reached_elects_a_leader() {
        let condition = Condition::NoLeader {
            groups: vec![GroupId(3)],
            unreached: Vec::new(),
        };
        let line = "group 3 has no leader: requests about its keys are refused; \
             an election is under way: if it lasts, look whether the voters reach each other";
        check(&condition, "no_leader", line);
    }

    #[test]
    fn a_copy_that_is_not_whole_is_fetched() {
        let line = "node 00000000000000a1 at 10.0.0.1:7000 has no whole copy of group 1, and fetches another one: \
             wait, and start the other nodes if it lasts";
        let condition = Condition::FetchingCopy {
            node: at(0xa1, "10.0.0.1:7000"),
            groups: vec![GroupId(1)],
        };
        check(&condition, "fetching_copy", line);
    }

    #[test]
    fn a_disk_that_is_older_is_to_be_replaced() {
        let cause = log_too_short(&at(0xa1, "10.0.0.1:7000"), GroupId(2));
        let line = "node 00000000000000a1 at 10.0.0.1:7000 is rolled back: its data directory is older than what it has \
             acknowledged in group 2; start it with an empty directory, and replace it in the cluster";
        check(&Condition::RolledBack(cause), "rolled_back", line);
    }

    #[test]
    fn a_broken_link_names_both_ends_and_the_groups_of_its_leader() {
        let mut condition = Condition::NoConnection {
            from: at(0xa1, "10.0.0.1:7000"),
            to: at(0xb2, "10.0.0.2:7000"),
            why: "Connection refused".to_owned(),
            led: vec![GroupId(0)],
        };
        let line = "node 00000000000000a1 at 10.0.0.1:7000 cannot send to node 00000000000000b2 at 10.0.0.2:7000: \
             Connection refused; it leads group 0, whose requests fail here: \
             start it if it does not run, or repair the network between them";
        check(&condition, "no_connection", line);
        let Condition::NoConnection { led, .. } = &mut condition else {
            unreachable!("it was made above");
        };
        led.clear();
        let line = "node 00000000000000a1 at 10.0.0.1:7000 cannot send to node 00000000000000b2 at 10.0.0.2:7000: \
             Connection refused: start it if it does not run, or repair the network between them";
        check(&condition, "no_connection", line);
    }

    #[test]
    fn a_refusal_has_its_own_line_and_cannot_draw_on_a_terminal() {
        let condition = |code, text: &str| Condition::Refused {
            address: "10.0.0.2:7000".parse().expect("an address"),
            refusal: Refusal::new(code, text),
        };
        let removed = condition(RefusalCode::NotAMember, "node b2 was removed: empty it");
        check(&removed, "not_a_member", "node b2 was removed: empty it");
        let clone = condition(RefusalCode::NodeTwice, "there are two: stop one");
        check(&clone, "same_node", "there are two: stop one");
        let stopped = condition(RefusalCode::Stopped, "node b2 has stopped: the disk is full");
        check(&stopped, "stopped", "node b2 has stopped: the disk is full");
        assert!(
            !condition(RefusalCode::Clock, "a\u{1b}[31m\nb")
                .line()
                .contains(['\u{1b}', '\n'])
        );
    }
}
