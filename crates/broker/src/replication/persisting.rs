//! Persisting: records of the plane go to the disk with those of the batch, and what they say is durable then.

use cluster::write::{Keyspace, Write};
use mqtt::now::Now;
use session_plane::plane::PersistPoint;
use session_plane::{RecordBatch, RecordWrite};

use super::frames::Cause;
use super::{ReplicatedEvent, Replication};
use crate::node::{Action, Node};
use crate::waiting::Waiter;

impl Replication {
    /// Point for the disk with what differs from it, if anything has changed: entries, or what is known. Peers
    /// are told what the disk knows.
    fn take_point(&mut self) -> Option<(PersistPoint, RecordBatch)> {
        let last = self.plane.last().number;
        let is_changed = self.is_changed || last != self.pointed || self.plane.has_unwritten_knowledge();
        if !is_changed || self.is_ended {
            return None;
        }
        self.is_changed = false;
        self.pointed = last;
        let mut batch = RecordBatch::default();
        let point = self.plane.persist_point(&mut batch);
        Some((point, batch))
    }
}

impl Node {
    /// Adds the records of the plane to the open batch, if it closes in this step: what comes until then needs one record of a topic.
    pub(super) fn persist_plane(&mut self, now: Now, actions: &mut Vec<Action>) {
        if !self.commits.has_room() {
            return;
        }
        let Some((point, batch)) = self.replication.take_point() else {
            return;
        };
        batch
            .into_writes()
            .into_iter()
            .map(write_of)
            .for_each(|write| self.commits.write(write));
        if let Some(waiter) = self.commits.wait_for_disk(Waiter::PlanePersisted(point)) {
            self.release(now, waiter, actions);
        }
    }

    /// Everything up to the point is on the disk.
    pub(crate) fn plane_persisted(&mut self, now: Now, point: PersistPoint, actions: &mut Vec<Action>) {
        if self.replication.is_ended {
            return;
        }
        self.with_plane(now, Cause::Own, actions, |plane, _, made| {
            plane
                .persisted(point, made)
                .expect("batches are durable in their order");
        });
        self.read_on_after_plane(now, actions);
    }

    /// Lets somebody go on when an event is durable at all nodes that are present: at once if it is.
    pub(crate) fn after_event(
        &mut self,
        now: Now,
        event: ReplicatedEvent,
        waiter: Waiter,
        actions: &mut Vec<Action>,
    ) {
        match self.replication.open.get_mut(&event.0) {
            Some(waiting) => waiting.push(waiter),
            None => {
                self.replication.late.push(waiter);
                self.go_on_after_plane(now, actions);
            }
        }
    }
}

fn write_of(write: RecordWrite) -> Write {
    let keyspace = Keyspace::Plane;
    match write {
        RecordWrite::Put { key, value } => Write::Put { keyspace, key, value },
        RecordWrite::Remove { key } => Write::Remove { keyspace, key },
        RecordWrite::RemoveRange { from, to } => Write::RemoveRange { keyspace, from, to },
    }
}
