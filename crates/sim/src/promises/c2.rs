//! C2: when everything is at rest, and all nodes of the cluster are there, nobody remembers for long what was taken away: after the grace time no node has tombstones.

/// How many tombstones each node has, after the grace time.
pub(crate) fn check(tombstones: impl Iterator<Item = (u64, usize)>) -> Result<(), String> {
    for (node, tombstones) in tombstones {
        if tombstones > 0 {
            return Err(format!("C2: node {node} still has {tombstones} tombstones"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tombstone_that_stays_breaks_the_promise() {
        assert!(check([(1, 0), (2, 0)].into_iter()).is_ok());
        assert!(check([(1, 0), (2, 1)].into_iter()).is_err());
    }
}
