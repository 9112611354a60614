//! Dot: the identity of a change.
//!
//! Dots are those of Preguiça et al. (Dotted Version Vectors, 2010). The actor is not a node but
//! one start of it, so that a number that was given out before a crash is never given out again.

use cluster::{Incarnation, NodeId};

/// One start of one node; the actor of a version vector. Never used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Run {
    /// Node that was started; never zero.
    pub node: NodeId,
    /// Start of that node.
    pub incarnation: Incarnation,
}

/// Identity of an event: the run that made it, and its number there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Dot {
    /// Run that made the event.
    pub run: Run,
    /// Number among the events of the run; from 1, without gaps.
    pub number: u64,
}

impl Dot {
    /// Below every dot of an event: a bound of ranges.
    pub(crate) const MIN: Dot = Dot {
        run: Run {
            node: NodeId(0),
            incarnation: Incarnation(0),
        },
        number: 0,
    };

    /// Not below any dot: a bound of ranges.
    pub(crate) const MAX: Dot = Dot {
        run: Run {
            node: NodeId(u64::MAX),
            incarnation: Incarnation(u32::MAX),
        },
        number: u64::MAX,
    };
}
