//! Q2: a QoS 2 message reaches a durable session once.

use std::collections::BTreeSet;
use std::fmt::{Debug, Display};

/// What a session's client was given. What it was given under a packet id that it knows, and has not released, does not count.
#[derive(Debug)]
pub struct Delivered<M>(BTreeSet<M>);

impl<M> Default for Delivered<M> {
    fn default() -> Self {
        Self(BTreeSet::new())
    }
}

impl<M: Ord + Clone + Debug> Delivered<M> {
    /// A message has come. Says whether it is the first time.
    pub fn note(
        &mut self,
        receiver: impl Display,
        message: &M,
        is_exactly_once: bool,
    ) -> Result<bool, String> {
        let is_first = self.0.insert(message.clone());
        if is_exactly_once && !is_first {
            return Err(format!("Q2: {receiver} got {message:?} twice"));
        }
        Ok(is_first)
    }

    /// Each that has come.
    pub fn all(&self) -> &BTreeSet<M> {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_of_qos_2_that_comes_twice_breaks_the_promise() {
        let mut delivered = Delivered::default();
        assert_eq!(delivered.note("me", &1, false), Ok(true));
        assert_eq!(delivered.note("me", &1, false), Ok(false), "QoS 1");
        assert_eq!(delivered.note("me", &2, true), Ok(true));
        assert!(delivered.note("me", &2, true).is_err());
    }
}
