//! What sessions and connections are called inside one node.

use protocol::packet::PacketId;

/// A live session's place in memory; used again after the session has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionKey(pub u32);

/// A session's durable name: what its queue, subscriptions and received packet ids are stored under. Never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionNumber(pub u64);

/// One network connection; never reused within a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub u64);

/// Place of a delivery in the queue of a session, in records of older data directories and of backups.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueueSequence(pub u64);

impl ConnectionId {
    /// The `generation`-th connection, in a slot that no open connection has.
    pub fn new(generation: u32, slot: u32) -> Self {
        Self(u64::from(generation) << 32 | u64::from(slot))
    }

    /// Its place in tables.
    pub fn slot(self) -> usize {
        (self.0 & u64::from(u32::MAX)) as usize
    }
}

impl QueueSequence {
    /// Higher than any that is reached: at a delivery each nanosecond it would take 292 years.
    pub const MAX: u64 = 1 << 63;

    /// After so many packet identifiers are the same again.
    pub const PACKET_IDS: u64 = u16::MAX as u64;

    /// The packet identifier under which the delivery is sent.
    ///
    /// It follows from the sequence, so that it survives a crash without having been written: a delivery that is
    /// sent again after a restart has its original packet identifier. [MQTT-4.4.0-1]
    pub fn packet_id(self) -> PacketId {
        let id = u16::try_from(self.0 % Self::PACKET_IDS).expect("a remainder of 65,535 fits") + 1;
        PacketId::new(id).expect("at least 1")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packet_ids_of_sequences_are_1_to_65535_in_turn() {
        let ids: Vec<u16> = [0, 1, 65_534, 65_535, u64::MAX]
            .map(|n| QueueSequence(n).packet_id().get())
            .into();
        assert_eq!(ids, [1, 2, 65_535, 1, 1]);
    }
}
