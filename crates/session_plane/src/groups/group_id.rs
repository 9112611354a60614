//! Shared group: the key of its entries, and the slots of its parts.
//!
//! The entries of a group are in its parts' slots under one key, as those of a client are under a
//! client id. *Invariant*: no client has the key of a group. A client id is UTF-8 [MQTT-3.1.3-4], and
//! the first byte of a group's key is none of UTF-8.

use crate::client_id::CLIENT_ID_BYTES_MAX;
use crate::{ClientId, ClientIdTooLong, GroupPart, Slot, SlotSet};

/// Shared group.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct GroupId(ClientId);

/// First byte of a group's key; a format for ever.
const MARK: u8 = 0xFF;

impl GroupId {
    /// Bytes of a group's name at most.
    pub const BYTES_MAX: usize = CLIENT_ID_BYTES_MAX - 1;

    /// Group with this name: the share name, a slash and the topic filter of the subscription.
    ///
    /// # Errors
    ///
    /// [`ClientIdTooLong`] where the name is longer than [`GroupId::BYTES_MAX`]. No such subscription
    /// fits into a SUBSCRIBE.
    pub fn new(name: &[u8]) -> Result<GroupId, ClientIdTooLong> {
        let mut key = Vec::with_capacity(name.len() + 1);
        key.push(MARK);
        key.extend_from_slice(name);
        ClientId::new(&key).map(GroupId)
    }

    /// Group whose entries have this key. None where it is a client's.
    pub fn of_key(key: &ClientId) -> Option<GroupId> {
        (key.as_bytes().first() == Some(&MARK)).then(|| GroupId(key.clone()))
    }

    /// Group before all others in their order; no SUBSCRIBE names it.
    pub fn first() -> GroupId {
        GroupId(ClientId::new(&[MARK]).expect("a byte is short"))
    }

    /// Key of the group's entries, in the place of a client id.
    pub fn key(&self) -> &ClientId {
        &self.0
    }

    /// Name of the group.
    pub fn name(&self) -> &[u8] {
        &self.0.as_bytes()[1..]
    }

    /// Slot of the part that distributes messages of `topic`.
    pub fn slot(&self, topic: &[u8]) -> Slot {
        Slot::of_group(self.name(), GroupPart::of_topic(topic))
    }

    /// Slots of all parts: members and presences are in each. There are at most eight.
    pub fn slots(&self) -> SlotSet {
        let slot = |part| Slot::of_group(self.name(), part);
        GroupPart::all().map(slot).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_has_a_key_that_no_client_has() {
        let group = GroupId::new(b"presses/plant/+/cmd").expect("a short name");
        assert_eq!(group.name(), b"presses/plant/+/cmd");
        assert!(std::str::from_utf8(group.key().as_bytes()).is_err());
        assert_eq!(GroupId::of_key(group.key()), Some(group));
        let client = ClientId::new("größe".as_bytes()).expect("a short id");
        assert_eq!(GroupId::of_key(&client), None);
        assert_eq!(GroupId::of_key(&ClientId::new(b"").expect("a short id")), None);
    }

    #[test]
    fn a_message_is_in_one_of_the_slots_of_its_group() {
        let group = GroupId::new(b"presses").expect("a short name");
        let numbers: Vec<u16> = group.slots().iter().map(Slot::number).collect();
        assert_eq!(numbers, [206, 564, 1_150, 1_642, 1_987, 2_420, 3_570, 3_890]);
        for topic in ["plant/7/cmd", "plant/8/cmd", ""] {
            assert!(group.slots().contains(group.slot(topic.as_bytes())), "{topic}");
        }
        assert_eq!(group.slot(b"plant/7/cmd").number(), 3_890);
    }

    #[test]
    fn a_name_has_a_bounded_length() {
        assert!(GroupId::new(&[b'a'; GroupId::BYTES_MAX]).is_ok());
        let error = GroupId::new(&[b'a'; GroupId::BYTES_MAX + 1]).expect_err("too long");
        assert_eq!(error, ClientIdTooLong { bytes: 65_536 });
    }
}
