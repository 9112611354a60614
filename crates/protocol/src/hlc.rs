//! Hybrid logical clock timestamps as the state store protocol writes them: `wall:counter:node`.

use crate::text::Text;

/// A hybrid logical clock timestamp. Ordered by wall, then counter, then node (bytes).
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Hlc {
    /// Milliseconds since the Unix epoch.
    pub wall: u64,
    /// Orders timestamps of the same millisecond.
    pub counter: u64,
    /// Who made it; not empty.
    pub node: Text,
}
