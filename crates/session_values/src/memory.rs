//! Memory of values: fixed amounts beside what is of variable length.
//!
//! Both ends of a feed count the bytes of its items. So the amounts are constants: they depend
//! neither on the build nor on the allocator. Tests compare them with the structs.

/// Place of a value in a map of entries. It exceeds the fixed fields of each form.
pub(crate) const PLACE: usize = 64;
/// Content of a message without its bytes: the parts, and the counters of both.
pub(crate) const CONTENT: usize = 448;
/// Counters and parts of a subscription without its filter.
pub(crate) const SUBSCRIPTION: usize = 192;
/// Parts of an owner without its texts.
pub(crate) const OWNER: usize = 128;
/// Attribute of a principal without its texts: a place in a map.
pub(crate) const ATTRIBUTE: usize = 112;
/// Subscription Identifier beyond the first.
pub(crate) const SUBSCRIPTION_ID: usize = 4;
/// Fields of a value that do not fit into its place: numbers of wills, used packet ids.
pub(crate) const BOXED: usize = 96;
/// Counters of bytes that many share.
pub(crate) const COUNTERS: usize = 16;

#[cfg(test)]
mod tests {
    use mqtt::memory::footprint::block;
    use mqtt::ownership::Owner;
    use session_plane::publishing::WillNumber;

    use super::*;
    use crate::content::Inner;
    use crate::{SubscriptionParts, UsedPacketId, Value};

    fn counted(bytes: usize) -> u64 {
        bytes as u64
    }

    /// Millions of values are in memory.
    #[test]
    fn a_value_is_small() {
        assert!(size_of::<Value>() <= 32, "{}", size_of::<Value>());
        assert!(size_of::<Value>() <= PLACE);
    }

    #[test]
    fn amounts_are_those_of_the_structs() {
        /// Counter of bytes that have clones, in a block of its own.
        const SHARED_BYTES: usize = 24;
        let shared = |bytes| block(bytes + COUNTERS) + block(SHARED_BYTES);
        let near = |amount, exact: u64| exact <= counted(amount) && counted(amount) <= exact + exact / 2;
        assert!(
            near(CONTENT, shared(size_of::<Inner>())),
            "{}",
            shared(size_of::<Inner>())
        );
        let subscription = shared(size_of::<SubscriptionParts>());
        assert!(near(SUBSCRIPTION, subscription), "{subscription}");
        let owner = block(size_of::<Owner>() + COUNTERS);
        assert!(near(OWNER, owner), "{owner}");
        let used = block(size_of::<UsedPacketId>());
        assert!(near(BOXED, used), "{used}");
        assert!(size_of::<WillNumber>() <= BOXED);
    }
}
