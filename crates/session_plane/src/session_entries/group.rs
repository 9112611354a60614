//! Entries of a shared group, as the rule of reading has them.
//!
//! A group has entries as a client has: its members, their connections, its messages, and to whom each
//! is given. A message is for the group if a member is earlier than it, and goes with the last such
//! member. Its assignment stands beside it, so an acknowledgement that removes the message ends every
//! assignment of it.

use cluster::session_plane::Hlc;

use super::SessionEntries;
use crate::EntryKind;

/// Members of a group, as far as one of its messages depends on them.
#[derive(Debug, Default)]
pub(super) struct GroupReading {
    /// Clock of the earliest SUBSCRIBE. None where there is no member.
    earliest: Option<Hlc>,
}

impl GroupReading {
    /// A session is a member, and was one before the clock of a message.
    pub(super) fn has_member_before(&self, clock: Hlc) -> bool {
        self.earliest.is_some_and(|earliest| earliest < clock)
    }
}

impl<V: Ord> SessionEntries<V> {
    /// Members, for the reading of messages and assignments; of other kinds nothing depends on them.
    pub(super) fn group_reading(&self, kind: EntryKind) -> GroupReading {
        if !matches!(kind, EntryKind::Message | EntryKind::Assignment) {
            return GroupReading::default();
        }
        let members = self.of_kind(EntryKind::Member);
        GroupReading {
            earliest: members.filter_map(|(_, entry)| entry.member_since()).min(),
        }
    }
}
