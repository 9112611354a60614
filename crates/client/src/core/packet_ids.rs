//! Packet identifiers that this client has in use.

use std::collections::BTreeSet;

use protocol::packet::PacketId;

/// Hands out packet identifiers that are not in use. [MQTT-2.2.1-3]
#[derive(Debug, Default)]
pub(super) struct PacketIds {
    used: BTreeSet<PacketId>,
    last: u16,
}

impl PacketIds {
    /// A packet identifier that is not in use, or `None` if all 65,535 are.
    pub(super) fn take(&mut self) -> Option<PacketId> {
        if self.used.len() == usize::from(u16::MAX) {
            return None;
        }
        loop {
            self.last = self.last.wrapping_add(1);
            if let Some(id) = PacketId::new(self.last)
                && self.used.insert(id)
            {
                return Some(id);
            }
        }
    }

    #[cfg(test)]
    pub(super) fn is_unused(&self) -> bool {
        self.used.is_empty()
    }

    pub(super) fn release(&mut self, id: PacketId) {
        assert!(self.used.remove(&id), "packet id {id:?} was not in use");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mqtt_2_2_1_3_each_id_is_unused_and_not_zero() {
        let mut ids = PacketIds::default();
        let mut seen = BTreeSet::new();
        for _ in 0..65_535 {
            assert!(seen.insert(ids.take().expect("some are free")));
        }
        assert_eq!(ids.take(), None);
        let id = PacketId::new(700).expect("not zero");
        ids.release(id);
        assert_eq!(ids.take(), Some(id));
    }
}
