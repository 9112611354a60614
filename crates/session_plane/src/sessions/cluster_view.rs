//! Cluster as claims and questions see it: through the plane.

use std::sync::Arc;

use cluster::NodeId;

use crate::connecting::{ClusterState, KnownSession, OwnedSessions};
use crate::plane::{Matching, Plane, PlaneValue};
use crate::transfer::TransferBytes;
use crate::{ClientId, Interval, Run, Slot, VersionVector};

/// View of the cluster.
#[derive(Debug)]
pub(super) struct ClusterView<'a, V, M, R> {
    pub(super) plane: &'a Plane<V, M, R>,
}

impl<V, M, R> ClusterState<V> for ClusterView<'_, V, M, R>
where
    V: PlaneValue<M>,
    M: TransferBytes + Clone,
    R: Matching<V, M>,
{
    fn owners(&self, slot: Slot) -> Vec<NodeId> {
        self.plane.owners(slot).collect()
    }

    fn present_run(&self, node: NodeId) -> Option<Run> {
        self.plane.present_run(node)
    }

    fn known(&self) -> Arc<VersionVector> {
        let last = self.plane.last();
        let own = Interval::up_to(last.run, last.number);
        Arc::new(self.plane.known().united(&VersionVector::of_apart(own)))
    }

    fn routes(&self, client: &ClientId) -> Option<KnownSession<V>> {
        let routes = self.plane.copy(Slot::ROUTES)?;
        Some(KnownSession::of_whole(routes.entries, routes.covered, client))
    }
}

impl<V, M, R> OwnedSessions<V> for ClusterView<'_, V, M, R>
where
    V: PlaneValue<M>,
    M: TransferBytes + Clone,
    R: Matching<V, M>,
{
    fn read(&self, client: &ClientId, known: &VersionVector) -> Option<KnownSession<V>> {
        let slot = Slot::of_client(client.as_bytes());
        let copy = self.plane.copy(slot)?;
        let answers = self.plane.has_all_for(client, known);
        answers.then(|| KnownSession::of_whole(copy.entries, copy.covered, client))
    }
}
