//! Q3: per publisher, topic and QoS, the first deliveries to a session are in the order in which they were sent. One that was refused (0x97) counts from when it is
//! sent again.

use std::collections::BTreeMap;
use std::fmt::{Debug, Display};

/// The highest number that a receiver got of each line of messages.
#[derive(Debug)]
pub struct Order<L>(BTreeMap<L, u64>);

impl<L> Default for Order<L> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<L: Ord + Clone + Debug> Order<L> {
    /// A message has come for the first time. `may_be_late`: it was sent again, and may have been refused before.
    pub fn first(
        &mut self,
        receiver: impl Display,
        (line, number): (&L, u64),
        may_be_late: bool,
    ) -> Result<(), String> {
        let highest = self.0.entry(line.clone()).or_default();
        if *highest > number && !may_be_late {
            return Err(format!("Q3: {receiver} got {number} of {line:?} after {highest}"));
        }
        *highest = number.max(*highest);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_that_was_overtaken_breaks_the_promise() {
        let mut order = Order::default();
        for (line, number) in [("a", 1), ("b", 7), ("a", 3), ("b", 8)] {
            assert!(order.first("me", (&line, number), false).is_ok());
        }
        assert!(order.first("me", (&"a", 2), true).is_ok());
        assert!(order.first("me", (&"a", 2), false).is_err());
        assert!(order.first("me", (&"a", 4), false).is_ok());
    }
}
