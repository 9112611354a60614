//! Bounded memory: what nodes hold for others has a limit in every run, and is gone when everything has come to rest.
//!
//! Clients of a run have a limit of their own for what they ask at once, and so everything that a node remembers of them has one: requests that
//! wait, commands and reads on their way, batches for the disk, the log since the last snapshot. Limits here are what a run may need at
//! most; a queue that only grows passes them.

use broker::Gauges;

/// The largest that were seen.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Maxima {
    pub(crate) requests: usize,
    pub(crate) batches: usize,
    pub(crate) log_bytes: u64,
    pub(crate) memory: u64,
}

/// Bytes of log between two snapshots, at most: those that are written while one is being taken, and a mebibyte by which it is not exact.
const LOG_BYTES_MAX: u64 = 2 << 20;

/// What all clients of a run can make a node hold.
const MEMORY_MAX: u64 = 8 << 20;

/// Batches that wait for a disk which does nothing.
const BATCHES_MAX: usize = 4_096;

impl Maxima {
    /// Looks at a node. `requests_max`: what all clients may ask at once.
    pub(crate) fn look(
        &mut self,
        gauges: &Gauges,
        batches: usize,
        requests_max: usize,
    ) -> Result<(), String> {
        self.requests = self.requests.max(gauges.store_requests_waiting);
        self.batches = self.batches.max(batches);
        self.log_bytes = self.log_bytes.max(gauges.log_bytes);
        self.memory = self.memory.max(gauges.memory.total());
        let is_within = self.requests <= requests_max
            && self.batches <= BATCHES_MAX
            && self.log_bytes <= LOG_BYTES_MAX
            && self.memory <= MEMORY_MAX;
        if is_within {
            Ok(())
        } else {
            Err(format!("bounded memory: {self:?}"))
        }
    }

    /// Looks at a node when everything is quiet.
    pub(crate) fn at_rest(node: u64, gauges: &Gauges, batches: usize) -> Result<(), String> {
        // Queues may hold what clients have not fetched that went to other nodes.
        let waiting = (gauges.store_requests_waiting, batches, gauges.memory.writes);
        if waiting == (0, 0, 0) {
            Ok(())
        } else {
            Err(format!(
                "bounded memory: everything is quiet, and on node {node} {waiting:?} requests, batches and bytes wait"
            ))
        }
    }

    /// The larger of both.
    #[must_use]
    pub(crate) fn or(self, other: Self) -> Self {
        Self {
            requests: self.requests.max(other.requests),
            batches: self.batches.max(other.batches),
            log_bytes: self.log_bytes.max(other.log_bytes),
            memory: self.memory.max(other.memory),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_grows_is_found() {
        let mut gauges = Gauges::default();
        let mut maxima = Maxima::default();
        maxima.look(&gauges, 0, 10).unwrap();
        Maxima::at_rest(1, &gauges, 0).unwrap();
        gauges.store_requests_waiting = 10;
        maxima.look(&gauges, 0, 10).unwrap();
        assert!(Maxima::at_rest(1, &gauges, 0).is_err());
        gauges.store_requests_waiting = 11;
        assert!(maxima.look(&gauges, 0, 10).is_err());
        assert!(Maxima::at_rest(1, &Gauges::default(), 1).is_err());
        assert!(
            Maxima::default()
                .look(&Gauges::default(), BATCHES_MAX + 1, 10)
                .is_err()
        );
    }
}
