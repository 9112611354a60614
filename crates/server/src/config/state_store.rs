//! `[state_store]`: the dialect of its answers, and its quotas.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::quantity;

/// The state store.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct StateStore {
    /// In which form requests are answered where the published protocol and the shipped clients differ.
    pub dialect: DialectChoice,

    /// Keys at most. A SET that would make one more is answered `-ERR the quota has been exceeded`. `"auto"` is one for each KiB
    /// of `limits.memory_max`. In a cluster the leader's number counts: nodes of different size had better name one.
    #[serde(with = "quantity::count_or_auto")]
    #[schemars(with = "quantity::CountOrAutoText")]
    pub keys_max: QuotaMax,

    /// Keys and values together at most. A SET that would pass it is answered `-ERR the quota has been exceeded`. `"auto"` is half of
    /// `limits.memory_max`.
    #[serde(with = "quantity::size_or_auto")]
    #[schemars(with = "quantity::SizeOrAutoText")]
    pub bytes_max: QuotaMax,
}

/// In which form requests are answered where the published protocol and the shipped clients differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum DialectChoice {
    /// Each request in its own form: a request with the user property `__protVer` as the shipped clients expect it, one
    /// without it as the published text says.
    #[default]
    Auto,
    /// Every request as the shipped clients expect it.
    Sdk,
    /// Every request as the published text says.
    Published,
}

/// A quota of the store.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum QuotaMax {
    /// In proportion to the memory that the server may hold.
    #[default]
    Auto,
    /// So many.
    At(u64),
}

impl StateStore {
    /// The quotas of a server that may hold so many bytes for its clients.
    ///
    /// A full store of small keys then counts for three quarters of the memory (its account adds 256 bytes to each),
    /// which leaves it below the level from which messages are refused.
    pub fn quota(&self, memory: u64) -> store::Quota {
        store::Quota {
            keys_max: self.keys_max.or(memory / BYTES_PER_KEY),
            bytes_max: self.bytes_max.or(memory / 2),
        }
    }
}

impl QuotaMax {
    fn or(self, automatic: u64) -> u64 {
        match self {
            Self::Auto => automatic,
            Self::At(most) => most,
        }
    }
}

/// Memory for each key that may be there.
const BYTES_PER_KEY: u64 = 1_024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotas_follow_the_memory_unless_they_are_named() {
        let auto = StateStore::default().quota(200 << 20);
        assert_eq!((auto.keys_max, auto.bytes_max), (204_800, 100 << 20));
        let named = StateStore {
            keys_max: QuotaMax::At(5),
            bytes_max: QuotaMax::At(9),
            ..StateStore::default()
        };
        let named = named.quota(200 << 20);
        assert_eq!((named.keys_max, named.bytes_max), (5, 9));
    }
}
