//! Image of a plane: what its next run begins with.
//!
//! Streams are not in it. The next run is met anew, and what came meanwhile is a hole until it is
//! merged. Nothing that was confirmed is lost: it is in the copies.

use cluster::session_plane::Hlc;

use super::Copies;
use crate::queue_limits::QueueValue;
use crate::{RecordError, RecordValue, RecordsReader};

/// State that outlives a run.
#[derive(Debug)]
pub struct PlaneImage<V, M> {
    /// Latest moment that the node has given or seen: later events have later clocks.
    clock: Hlc,
    copies: Copies<V, M>,
}

impl<V, M> Default for PlaneImage<V, M> {
    /// Nothing: the first start of a node.
    fn default() -> PlaneImage<V, M> {
        PlaneImage {
            clock: Hlc::ZERO,
            copies: Copies::default(),
        }
    }
}

impl<V: Ord + QueueValue + RecordValue, M: RecordValue> PlaneImage<V, M> {
    /// Image of all records of a disk.
    ///
    /// # Errors
    ///
    /// [`RecordError`] where they do not go together: the disk is damaged, and the node must not
    /// start with a part of it.
    pub fn of_records(records: RecordsReader<V, M>) -> Result<PlaneImage<V, M>, RecordError> {
        let read = records.finish();
        let clock = read.clock;
        let copies = Copies::of_records(read)?;
        Ok(PlaneImage { clock, copies })
    }
}

impl<V, M> PlaneImage<V, M> {
    /// Clock and copies.
    pub(super) fn into_parts(self) -> (Hlc, Copies<V, M>) {
        (self.clock, self.copies)
    }
}
