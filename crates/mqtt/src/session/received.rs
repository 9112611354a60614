//! Packet identifiers of QoS 2 messages that a client has sent and not released.

use protocol::packet::PacketId;

use crate::memory::footprint::places;

/// The identifiers for which a PUBREC was sent (or will be, once the message is on disk) and no PUBREL has come.
///
/// While an identifier is in here, a PUBLISH with it is a repetition, and not delivered again. [MQTT-4.3.3-10]
#[derive(Debug, Default)]
pub struct Received(Vec<PacketId>);

impl Received {
    /// Adds an identifier; false if it was there, so that the PUBLISH is a repetition.
    pub fn insert(&mut self, packet_id: PacketId) -> bool {
        match self.0.binary_search(&packet_id) {
            Ok(_) => false,
            Err(position) => {
                self.0.insert(position, packet_id);
                true
            }
        }
    }

    /// PUBREL: takes an identifier out; false if it was not there (0x92 in the PUBCOMP). [MQTT-4.3.3-11]
    pub fn release(&mut self, packet_id: PacketId) -> bool {
        let Ok(position) = self.0.binary_search(&packet_id) else {
            return false;
        };
        self.0.remove(position);
        if self.0.is_empty() {
            self.0 = Vec::new();
        }
        true
    }

    /// Whether an identifier is in use.
    pub fn contains(&self, packet_id: PacketId) -> bool {
        self.0.binary_search(&packet_id).is_ok()
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = PacketId> {
        self.0.iter().copied()
    }

    /// How many there are: they count for the Receive Maximum that the server told.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Their memory.
    pub fn memory(&self) -> u64 {
        places::<PacketId>(self.0.capacity())
    }

    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mqtt_4_3_3_10_an_identifier_is_new_again_after_its_release() {
        let (mut received, id) = (Received::default(), PacketId::new(7).unwrap());
        assert!(received.insert(id));
        assert!(!received.insert(id));
        assert!(received.contains(id));
        assert!(received.release(id));
        assert!(!received.release(id));
        assert!(received.insert(id));
        assert_eq!(received.len(), 1);
    }
}
