//! Ends among the entries of a client: what they beat, and what the next one says.
//!
//! A later end of the client replaces the ends that its maker sees, and takes over what they have
//! seen. So a client leaves one end, however often it comes and goes.

use super::SessionEntries;
use crate::{Birth, Ended, EntryKind, Fact, VersionVector};

/// Entry that a session leaves when it ends. The event that writes it removes all that its maker
/// sees of the client's sessions, other ends included.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ending {
    /// Birth that the entry names: of the session that was begun clean last, so that the end beats
    /// what that one has beaten. Without such a session, of the session that was written last.
    pub birth: Birth,
    /// [`Fact::End`].
    pub fact: Fact,
}

impl<V: Ord> SessionEntries<V> {
    /// Entry of an end that is made now. `decided` are the events that the maker's copies have
    /// decided upon or taken. None where there is no session to end.
    pub fn ending(&self, decided: &VersionVector) -> Option<Ending> {
        let sessions = || self.of_kind(EntryKind::Session);
        let (_, last) = sessions().max_by_key(|(dot, entry)| (entry.clock, *dot))?;
        // These make delayed wills of earlier connections void. So does the end, when they are gone.
        let go_on = sessions().filter(|(dot, entry)| *dot != entry.birth.dot || !entry.birth.is_clean);
        let resumed = go_on.map(|(_, entry)| entry.clock).max();
        let mut ended = Ended::of_decided(decided, resumed);
        for replaced in self.ends() {
            ended.unite(replaced);
        }
        Some(Ending {
            birth: self.latest_clean_start().unwrap_or(last.birth),
            fact: Fact::End(Box::new(ended)),
        })
    }

    /// Events that all ends together have seen: they beat each session's entry of these.
    pub(super) fn seen_by_ends(&self) -> VersionVector {
        let seen = self.ends().map(Ended::seen);
        seen.fold(VersionVector::default(), |all, seen| all.united(seen))
    }

    /// What each end says, in ascending order of their dots.
    pub(super) fn ends(&self) -> impl Iterator<Item = &Ended> {
        self.of_kind(EntryKind::End)
            .filter_map(|(_, entry)| match &entry.fact {
                Fact::End(ended) => Some(&**ended),
                _ => None,
            })
    }
}
