//! Interests: filters of the connected sessions of this node, each told once, however many sessions have it.

use std::collections::BTreeMap;

use mqtt::memory::footprint::tree;
use protocol::topic::TopicFilter;
use session_plane::interests::{Interest, InterestsFull};

use super::Replication;

/// Filters of connected sessions.
#[derive(Debug, Default)]
pub(super) struct WantedFilters(BTreeMap<TopicFilter, Wanted>);

/// Number of sessions that want a filter.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Wanted {
    all: u32,
    unstored: u32,
}

impl Wanted {
    fn count(&mut self, interest: Interest) -> &mut u32 {
        match interest {
            Interest::All => &mut self.all,
            Interest::Unstored => &mut self.unstored,
        }
    }

    fn interest(self) -> Option<Interest> {
        match self {
            Wanted { all: 1.., .. } => Some(Interest::All),
            Wanted { unstored: 1.., .. } => Some(Interest::Unstored),
            Wanted { all: 0, unstored: 0 } => None,
        }
    }
}

impl WantedFilters {
    pub(super) fn bytes(&self) -> u64 {
        tree::<TopicFilter, Wanted>(self.0.len())
    }
}

impl Replication {
    /// A session wants another thing of a filter than before. Gives the position that says so, once all nodes
    /// know it.
    ///
    /// # Errors
    ///
    /// [`InterestsFull`] where there is no room for another filter. Nothing is changed.
    pub(crate) fn want(
        &mut self,
        filter: &TopicFilter,
        before: Option<Interest>,
        wanted: Option<Interest>,
    ) -> Result<u64, InterestsFull> {
        let was = self.wanted.0.get(filter).copied().unwrap_or_default();
        let mut is = was;
        if let Some(before) = before {
            *is.count(before) -= 1;
        }
        if let Some(wanted) = wanted {
            *is.count(wanted) += 1;
        }
        let told = session_plane::TopicFilter::new(filter.as_str().as_bytes());
        let told = told.expect("a filter is a string of MQTT");
        let position = self.sessions.set_interest(&told, is.interest())?;
        if is == Wanted::default() {
            self.wanted.0.remove(filter);
        } else if was == Wanted::default() {
            self.wanted.0.insert(filter.detached(), is);
        } else if let Some(known) = self.wanted.0.get_mut(filter) {
            *known = is;
        }
        Ok(position)
    }
}
