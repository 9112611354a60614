//! Which nodes may be connected: whether they fit to this one, and belong to its cluster once that is formed.

use std::collections::{BTreeMap, BTreeSet};

use cluster::forming::{Founder, Statement};
use cluster::peers::{Hello, PeerAddress, Refusal, RefusalCode};
use cluster::{ClusterId, NodeId};

use super::{PING_EVERY, PeerEvent, SILENCE_MAX, Shared};

/// A cluster that is formed, as connections need to know it.
#[derive(Debug)]
pub(super) struct Membership {
    pub(super) cluster: ClusterId,
    /// With the addresses where they were found last.
    pub(super) members: BTreeMap<NodeId, PeerAddress>,
    /// They were members.
    pub(super) removed: BTreeSet<NodeId>,
    /// What a founder that has missed the end is told.
    pub(super) statement: Statement,
}

/// What a formed cluster thinks of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    Member,
    Removed,
    Stranger,
}

impl Membership {
    /// Who belongs to the cluster already may have been taken in while this node was away.
    fn judge(&self, node: NodeId, cluster: Option<ClusterId>) -> Standing {
        if self.removed.contains(&node) {
            Standing::Removed
        } else if self.members.contains_key(&node) || cluster == Some(self.cluster) {
            Standing::Member
        } else {
            Standing::Stranger
        }
    }
}

impl Shared {
    /// What speaks against a node in general.
    pub(super) fn check(&self, own: &Hello, theirs: &Hello) -> Result<(), Refusal> {
        own.check(theirs)?;
        let membership = self.membership.borrow();
        let Some(membership) = membership.as_ref() else {
            return Ok(());
        };
        match membership.judge(theirs.node, theirs.cluster) {
            Standing::Member => self.check_past(theirs),
            Standing::Removed => {
                let text = format!(
                    "node {} at {} was removed from cluster {}: start it with an empty data directory",
                    theirs.node, theirs.address, membership.cluster
                );
                Err(Refusal::new(RefusalCode::NotAMember, text))
            }
            Standing::Stranger => {
                let text = format!(
                    "node {} at {} is no member of cluster {}, which node {} at {} belongs to: if it is new, or has lost its data \
                     directory, tell this member of it by `statehold cluster add {} --admin {}`",
                    theirs.node,
                    theirs.address,
                    membership.cluster,
                    own.node,
                    own.address,
                    theirs.address,
                    self.settings.admin_url,
                );
                // Somebody may want to add it. If too much is going on, it will call again.
                let _ = self.events.try_send(PeerEvent::Called(Founder {
                    node: theirs.node,
                    address: theirs.address.clone(),
                }));
                Err(Refusal::new(RefusalCode::NotAMember, text))
            }
        }
    }

    /// Whether another process with the same id is there.
    pub(super) fn check_alone(&self, theirs: &Hello) -> Result<(), Refusal> {
        let text = self.two_processes(theirs);
        text.map_or(Ok(()), |text| Err(Refusal::new(RefusalCode::NodeTwice, text)))
    }

    /// Words for a node of which another process is connected.
    pub(super) fn two_processes(&self, theirs: &Hello) -> Option<String> {
        let incoming = self.incoming.borrow();
        let other = incoming.get(&theirs.node)?;
        (other.start != theirs.starts.newest() && !other.is_closing.get()).then(|| {
            format!(
                "there are two nodes with the id {}, at {} and at {}: one has a copy of the other's data directory; \
                 stop one of them, and start it with an empty directory",
                theirs.node, other.founder.address, theirs.address
            )
        })
    }

    /// Whether this node sends to it already, on a connection to another address.
    pub(super) fn check_not_connected(&self, theirs: &Hello) -> Result<(), Refusal> {
        if self.outgoing.borrow().contains_key(&theirs.node) {
            return Err(Refusal::new(
                RefusalCode::Connected,
                "there is a connection already",
            ));
        }
        Ok(())
    }

    /// The same as [`Shared::check_alone`], with time for the connection of a process that has died to end.
    pub(super) async fn check_alone_patiently(&self, theirs: &Hello) -> Result<(), Refusal> {
        let patience = async {
            while self.check_alone(theirs).is_err() {
                self.contacts_changed.notified().await;
            }
        };
        // A process that is alive is heard of within this time.
        let _ = tokio::time::timeout(SILENCE_MAX + PING_EVERY, patience).await;
        self.check_alone(theirs)
    }

    /// Whether an address is dialled as long as nobody answers there: until the cluster is formed any, and then those of its nodes.
    pub(super) fn is_of_member(&self, address: &PeerAddress) -> bool {
        let membership = self.membership.borrow();
        let Some(membership) = membership.as_ref() else {
            return true;
        };
        let incoming = self.incoming.borrow();
        membership.members.values().any(|known| known == address)
            || incoming.values().any(|known| known.founder.address == *address)
    }

    /// Whether this node sends to every other node of the cluster.
    pub(super) fn reaches_all(&self) -> bool {
        let (membership, outgoing) = (self.membership.borrow(), self.outgoing.borrow());
        let mut members = membership.iter().flat_map(|membership| membership.members.keys());
        members.all(|node| *node == self.identity.node || outgoing.contains_key(node))
    }

    /// Whether a node belongs here. It may have been removed while hello was said.
    pub(super) fn is_welcome(&self, node: NodeId, cluster: Option<ClusterId>) -> bool {
        let membership = self.membership.borrow();
        let is_member = membership
            .as_ref()
            .is_none_or(|membership| membership.judge(node, cluster) == Standing::Member);
        is_member && self.takes_part_with(node)
    }

    /// Ends the connections of those who do not belong to the cluster.
    pub(super) fn part_with_strangers(&self) {
        for (node, outgoing) in self.outgoing.borrow().iter() {
            if !self.is_welcome(*node, outgoing.cluster) {
                outgoing.close();
            }
        }
        for (node, incoming) in self.incoming.borrow().iter() {
            if !self.is_welcome(*node, incoming.cluster) {
                incoming.end();
            }
        }
    }
}
