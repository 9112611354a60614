//! Persisting: records of the plane go to the disk with those of the batch, and what they say is durable then.

use std::time::Instant;

use cluster::write::{Keyspace, Write};
use mqtt::now::Now;
use session_plane::plane::PersistPoint;
use session_plane::{RecordBatch, RecordWrite};

use super::frames::Cause;
use super::{GARBAGE_EVERY, Replication, Waiter};
use crate::node::{Action, Node};

impl Replication {
    /// Point for the disk with what differs from it, if anything has changed: entries, or what is known. Peers
    /// are told what the disk knows.
    fn take_point(&mut self) -> Option<(PersistPoint, RecordBatch)> {
        if self.is_ended || !self.plane().has_unwritten() {
            return None;
        }
        let mut batch = RecordBatch::default();
        let point = self.sessions.persist_point(&mut batch);
        Some((point, batch))
    }

    /// A plane that has nobody else is looked at soon, if it may have garbage.
    pub(super) fn look_for_garbage(&mut self, now: Instant) {
        if self.plane().may_have_garbage() {
            self.alone_at = self.alone_at.min(now + GARBAGE_EVERY);
        }
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
        if let Some(waiter) = self.commits.wait(Waiter::PlanePersisted(point)) {
            self.release(now, waiter, actions);
        }
    }

    /// Everything up to the point is on the disk.
    pub(crate) fn plane_persisted(&mut self, now: Now, point: PersistPoint, actions: &mut Vec<Action>) {
        if self.replication.is_ended {
            return;
        }
        self.with_sessions(now, Cause::Own, actions, |sessions, at, made| {
            sessions
                .persisted(at, point, made)
                .expect("batches are durable in their order");
        });
        self.replication.look_for_garbage(now.instant);
        self.read_on_after_plane(now, actions);
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
