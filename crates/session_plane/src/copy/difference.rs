//! Difference of a copy: another copy of the slot, as far as it is not known from this one.

use std::collections::BTreeSet;

use super::SlotCopy;
use crate::progress::Progress;
use crate::{ClientId, VersionVector};

/// Another copy of a slot, of which the entries of some clients are known.
///
/// Of each other client it has exactly those entries of this copy whose events are shared, and no single
/// dot. Shared events are some that both copies cover.
#[derive(Debug)]
pub(crate) struct CopyDifference<V, M> {
    /// The other copy, with the entries of `clients` alone.
    pub(crate) copy: SlotCopy<V, M>,
    pub(crate) clients: BTreeSet<ClientId>,
    pub(crate) shared: VersionVector,
}

impl<V, M> CopyDifference<V, M> {
    /// Events that the other copy has decided upon, that are not shared, and that a copy with this
    /// progress may have entries of. Empty mostly: neither side has decided upon what the other one sends.
    pub(super) fn unshared(&self, mine: &Progress) -> VersionVector {
        let unshared = self.copy.progress.covered().minus(&self.shared);
        let is_met = !unshared.is_disjoint(mine.covered()) || !unshared.is_disjoint(mine.taken());
        if is_met {
            unshared
        } else {
            VersionVector::default()
        }
    }
}
