//! What durable storage can do.

use std::ops::ControlFlow;

use bytes::Bytes;
use cluster::{Keyspace, Write};

use crate::Fault;

/// Is shown a key and its value; says whether to go on.
pub type Visit<'a> = dyn FnMut(&[u8], Bytes) -> ControlFlow<()> + 'a;

/// Ordered keys and values in several keyspaces, with atomic batches.
///
/// After a failed `write`, `flush` or `sync` it is not known what is durable, so each later one returns the same
/// fault: the node must stop, and find out at the next start.
pub trait Storage: Send {
    /// Makes one atomic batch visible: after a crash all of it is there, or nothing. Durable only after [`Storage::sync`];
    /// batches become durable in the order in which they were written.
    fn write(&mut self, writes: &[Write]) -> Result<(), Fault>;

    /// Hands everything written so far to the operating system: it survives the end of the process, not of the machine.
    fn flush(&mut self) -> Result<(), Fault>;

    /// Makes everything written so far durable.
    fn sync(&mut self) -> Result<(), Fault>;

    /// Bytes of what was written lately that are in memory, as far as they were counted.
    fn held_bytes(&self) -> u64 {
        0
    }

    /// The value of a key.
    fn get(&self, keyspace: Keyspace, key: &[u8]) -> Result<Option<Bytes>, Fault>;

    /// Visits the keys from `from` (included) to `to` (excluded; none: the end of the keyspace) in order.
    fn scan_range(
        &self,
        keyspace: Keyspace,
        from: &[u8],
        to: Option<&[u8]>,
        visit: &mut Visit<'_>,
    ) -> Result<(), Fault>;

    /// Visits the keys that begin with `prefix` in order.
    fn scan(&self, keyspace: Keyspace, prefix: &[u8], visit: &mut Visit<'_>) -> Result<(), Fault> {
        let to = end_of_prefix(prefix);
        self.scan_range(keyspace, prefix, to.as_deref(), visit)
    }
}

/// The smallest key after all keys that begin with `prefix`; none if there is no such key.
fn end_of_prefix(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|byte| *byte != u8::MAX)?;
    let mut end = prefix[..=last].to_vec();
    end[last] += 1;
    Some(end)
}

#[cfg(test)]
mod tests {
    use super::end_of_prefix;

    #[test]
    fn a_prefix_ends_before_the_next_one() {
        assert_eq!(end_of_prefix(b"ab"), Some(b"ac".to_vec()));
        assert_eq!(end_of_prefix(b"a\xFF\xFF"), Some(b"b".to_vec()));
        assert_eq!(end_of_prefix(b"\xFF\xFF"), None);
        assert_eq!(end_of_prefix(b""), None);
    }
}
