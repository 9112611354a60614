//! Who held a lock when, as the holders know it: never two at once, and the later holder has the newer fencing token.

use super::Version;

/// One client had a lock for a time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    /// The key of the lock.
    pub lock: String,
    /// What it was set to.
    pub holder: String,
    /// The fencing token of the acquisition.
    pub token: Version,
    /// When the holder was told that it has the lock, in nanoseconds.
    pub from: u64,
    /// Until when it could rely on it: when it gave the lock back, or its lease would have ended.
    pub until: u64,
}

/// Looks at all holders of one lock. `early`: by how many nanoseconds a lease may end before its time.
///
/// # Errors
/// Two held it at once, or an older token came later.
pub(super) fn check(held: &[Held], early: u64) -> Result<(), String> {
    let mut in_order: Vec<&Held> = held.iter().collect();
    in_order.sort_by_key(|held| held.from);
    for pair in in_order.windows(2) {
        let (first, second) = (pair[0], pair[1]);
        // Its own lease, taken again: nobody else had it in between.
        let is_same = first.holder == second.holder;
        if first.until > second.from.saturating_add(early) && !is_same {
            return Err(format!("L2: two held a lock at once: {first:?} and {second:?}"));
        }
        if first.token >= second.token {
            return Err(format!(
                "L2: a later holder has no newer token: {first:?} and {second:?}"
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(holder: &str, token: u64, from: u64, until: u64) -> Held {
        Held {
            lock: "lock".into(),
            holder: holder.into(),
            token: (token, 1),
            from,
            until,
        }
    }

    #[test]
    fn one_after_the_other_is_right() {
        let turns = [held("b", 2, 20, 30), held("a", 1, 0, 20), held("a", 3, 31, 40)];
        assert_eq!(check(&turns, 0), Ok(()));
        // By its own clock the first one could rely on it for longer than the servers' clocks gave it.
        assert_eq!(check(&[held("a", 1, 0, 24), held("b", 2, 20, 30)], 5), Ok(()));
    }

    #[test]
    fn two_at_once_are_found() {
        assert!(check(&[held("a", 1, 0, 21), held("b", 2, 20, 30)], 0).is_err());
        assert!(check(&[held("a", 1, 0, 30), held("b", 2, 20, 30)], 5).is_err());
    }

    #[test]
    fn a_token_that_is_not_newer_is_found() {
        assert!(check(&[held("a", 2, 0, 10), held("b", 1, 20, 30)], 0).is_err());
        assert!(check(&[held("a", 2, 0, 10), held("b", 2, 20, 30)], 0).is_err());
    }
}
