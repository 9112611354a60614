//! Dot: the identity of a change.
//!
//! Dots are those of Preguiça et al. (Dotted Version Vectors, 2010). The actor is not a node but
//! one start of it, so that a number that was given out before a crash is never given out again.
//!
//! The lower half of a run's numbers is for the events of its stream, which have no gaps. The upper
//! half is for QoS 2 numbers: each names one message of a publisher, which any node may route. Both
//! are numbers of the run to version vectors, intervals and [`Retiring`](crate::Retiring).

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
    /// Number among the events of the run; from 1, without gaps. Above [`EVENT_NUMBER_MAX`] a QoS 2
    /// number.
    pub number: u64,
}

/// Highest number of an event of a stream; a format for ever. QoS 2 numbers have the highest bit.
///
/// A run that makes a million events each second reaches it after 292,000 years.
pub const EVENT_NUMBER_MAX: u64 = u64::MAX >> 1;

impl Dot {
    /// The number is a QoS 2 number: it names a message, and may have been reserved and never routed.
    pub fn is_qos2_number(self) -> bool {
        self.number > EVENT_NUMBER_MAX
    }

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
