//! S1: a session that was acknowledged is there when its client comes back, and one that has ended is not; and outside splits a client id has one
//! live connection at most.

use std::collections::BTreeMap;
use std::fmt::{Debug, Display};

/// What CONNACK says is what the client was told before. `expected`: whether it must be told that its session is present; `None` if it cannot know.
pub fn check_present(client: impl Display, expected: Option<bool>, is_present: bool) -> Result<(), String> {
    if expected.is_none_or(|expected| expected == is_present) {
        return Ok(());
    }
    let present = if is_present { "present" } else { "not present" };
    Err(format!(
        "S1: the session of {client} is {present}, against what it was told before"
    ))
}

/// No client has connections at two nodes. `connected`: at which nodes which clients are.
pub fn check_alone<C: Ord + Debug>(connected: impl IntoIterator<Item = (u64, C)>) -> Result<(), String> {
    let mut places: BTreeMap<C, u64> = BTreeMap::new();
    for (node, client) in connected {
        if let Some(other) = places.get(&client) {
            return Err(format!("S1: {client:?} is connected at {other} and at {node}"));
        }
        places.insert(client, node);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_that_is_lost_or_comes_back_breaks_the_promise() {
        for is_present in [false, true] {
            assert!(check_present("me", None, is_present).is_ok());
            assert!(check_present("me", Some(is_present), is_present).is_ok());
            assert!(check_present("me", Some(!is_present), is_present).is_err());
        }
    }

    #[test]
    fn a_client_with_two_connections_breaks_the_promise() {
        assert!(check_alone([(1, "a"), (1, "b"), (2, "c")]).is_ok());
        assert!(check_alone([(1, "a"), (2, "b"), (3, "a")]).is_err());
    }
}
