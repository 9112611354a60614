//! Hash that places clients, shared groups and nodes: XXH64 with seed 0, as the ring of `cluster`
//! uses.
//!
//! The hash is a format for ever: with another one every node would look for every session at other
//! owners. It has no secret seed, since all nodes must agree. So clients can choose ids of one
//! slot; the limits of that slot's owners bound the harm.

use xxhash_rust::xxh64::xxh64;

/// Hash of `bytes`, equal on every node and in every version.
pub(crate) fn hash(bytes: &[u8]) -> u64 {
    xxh64(bytes, SEED)
}

const SEED: u64 = 0;

#[cfg(test)]
mod tests {
    use super::hash;

    /// Values of the reference implementation of XXH64.
    #[test]
    fn hashes_are_those_of_xxh64() {
        assert_eq!(hash(b""), 0xEF46_DB37_51D8_E999);
        assert_eq!(hash(b"a"), 0xD24E_C4F1_A98C_6E5B);
        assert_eq!(hash(b"abc"), 0x44BC_2CF5_AD77_0999);
    }
}
