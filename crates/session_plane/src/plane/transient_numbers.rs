//! QoS 2 numbers that were passed on to the connections of this node that have no copies: each one once.
//!
//! That a copy has taken a number says nothing about connections: a merge or an entry of a packet id may
//! have brought it before its route came.
//!
//! *Invariant*: what a route has brought to this run, and what the node knew when it started, is among them.

use crate::{Dot, Interval, VersionVector};

/// Numbers that no route passes on to connections again.
#[derive(Debug)]
pub(super) struct TransientNumbers(VersionVector);

impl TransientNumbers {
    /// Numbers of a run that starts with what it knows: its connections are all later.
    pub(super) fn new(known: &VersionVector) -> TransientNumbers {
        TransientNumbers(known.qos2_numbers())
    }

    /// Adds a number that a route brings. False where it was there before.
    ///
    /// Where gaps make the numbers too scattered, those count as passed on that `known` has: a number whose
    /// route comes last of all nodes may then be missed, as in a message of QoS 0.
    pub(super) fn insert(&mut self, number: Dot, known: &VersionVector) -> bool {
        if self.0.covers(number) {
            return false;
        }
        let Some(one) = Interval::one(number) else {
            return false;
        };
        if self.0.insert(one).is_err() {
            *self = TransientNumbers::new(known);
            return !known.covers(number);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use cluster::{Incarnation, NodeId};

    use super::*;
    use crate::version_vector::INTERVALS_MAX;
    use crate::{EVENT_NUMBER_MAX, Run};

    fn number(number: u64) -> Dot {
        let run = Run {
            node: NodeId(1),
            incarnation: Incarnation(1),
        };
        Dot {
            run,
            number: EVENT_NUMBER_MAX + number,
        }
    }

    fn known(numbers: &[u64]) -> VersionVector {
        let numbers = numbers.iter().map(|of| number(*of));
        VersionVector::of_apart(numbers.filter_map(Interval::one))
    }

    #[test]
    fn a_number_is_passed_on_once_and_also_where_a_copy_had_it_before_its_route() {
        let mut passed = TransientNumbers::new(&known(&[1]));
        let later = known(&[1, 3]);
        assert!(
            !passed.insert(number(1), &later),
            "older than the run's connections"
        );
        assert!(passed.insert(number(3), &later));
        assert!(!passed.insert(number(3), &later));
        assert!(passed.insert(number(5), &later));
    }

    #[test]
    fn numbers_that_are_too_scattered_begin_anew_with_what_is_known() {
        let mut passed = TransientNumbers::new(&VersionVector::default());
        let known = known(&[2, 4]);
        let scattered = (0..INTERVALS_MAX as u64).map(|index| number(10 + 2 * index));
        assert!(scattered.into_iter().all(|number| passed.insert(number, &known)));
        assert!(!passed.insert(number(2), &known));
        assert!(!passed.insert(number(4), &known));
        assert!(passed.insert(number(1), &known));
    }
}
