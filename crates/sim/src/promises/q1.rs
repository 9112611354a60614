//! Q1: a QoS 1 message that was acknowledged to its publisher reaches every durable session that was subscribed before it, unless it expired or hit a
//! limit, which is counted. A QoS 2 message does, too.
//!
//! It is looked at when everything is at rest. Which messages a receiver has to have is for the caller to know.

use std::collections::BTreeSet;
use std::fmt::{Debug, Display};

/// All that were acknowledged have arrived at a receiver.
pub fn check<M: Ord + Debug>(
    receiver: impl Display,
    acknowledged: impl IntoIterator<Item = M>,
    delivered: &BTreeSet<M>,
) -> Result<(), String> {
    let missing = acknowledged
        .into_iter()
        .find(|message| !delivered.contains(message));
    match missing {
        Some(missing) => Err(format!(
            "Q1: {receiver} never got {missing:?}, which was acknowledged while it was subscribed"
        )),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_acknowledged_message_that_did_not_arrive_breaks_the_promise() {
        let delivered = BTreeSet::from([1, 2]);
        assert!(check("me", [1, 2], &delivered).is_ok());
        assert!(
            check("me", [2], &delivered).is_ok(),
            "what was not acknowledged may arrive"
        );
        assert!(check("me", [1, 3], &delivered).is_err());
    }
}
