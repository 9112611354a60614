//! A session that comes back from a backup begins as if it had just been made here, with everything that it had.

use cluster::session_plane::Actor;
use cluster::{Incarnation, NodeId};
use mqtt::now::Now;
use mqtt::records;
use protocol::Text;

use super::messages::Change;
use super::standing_by::{Misfit, StandingBy, Surroundings};
use crate::node::{Action, Node};
use crate::sessions::SessionEntry;

impl Node {
    /// Whether this node knows of a session of a client, wherever it is.
    pub(crate) fn knows_session(&self, client_id: &str) -> bool {
        self.sessions.find(client_id).is_some() || self.holder_of(client_id).is_some()
    }

    /// Begins a session with these records, its own first. Its owners get copies of it as of every new one.
    ///
    /// Answers whether it goes on: its time may be over.
    ///
    /// # Errors
    /// If the records are none, or do not fit together: then nothing has changed.
    pub(crate) fn begin_restored(
        &mut self,
        now: Now,
        client_id: &Text,
        changes: Vec<Change>,
        actions: &mut Vec<Action>,
    ) -> Result<bool, Misfit> {
        let number = self.sessions.next_number();
        // It does not stand by for anybody.
        let own = Actor {
            node: NodeId(0),
            incarnation: Incarnation(0),
        };
        let limits = self.config.limits.of_session();
        let mut copy = StandingBy::new(number, client_id.clone(), limits, (own, number));
        let mut surroundings = Surroundings {
            now,
            messages: &self.memory.messages,
            latest: None,
            noted_ranges: None,
            writes: Vec::new(),
        };
        let changes = changes.into_iter().map(|change| without_ids(change, now));
        copy.take(changes.collect::<Result<_, _>>()?, &mut surroundings)?;
        let writes = surroundings.writes;
        let StandingBy {
            mut session,
            record,
            mut due,
            ..
        } = copy;
        let record = record.ok_or(Misfit)?;
        if record.is_over(now.wall) {
            return Ok(false);
        }
        writes.into_iter().for_each(|write| self.commits.write(write));
        session.stand_up(&record);
        let filters = session.filters.iter();
        let filters: Vec<_> = filters.map(|(filter, how)| (filter.clone(), *how)).collect();
        let entry = SessionEntry::recovered(session, record);
        let key = self.sessions.insert(client_id, entry);
        for (filter, subscription) in filters {
            let place = due.remove(&filter);
            self.join_from(key, filter, (subscription, place));
        }
        self.recover_session(now, key, actions);
        Ok(true)
    }
}

/// Messages of another cluster, or of another time, may have the ids of others here.
fn without_ids(change: Change, now: Now) -> Result<Change, Misfit> {
    let Change::Delivery(suffix, value) = change else {
        return Ok(change);
    };
    let value = records::queue::without_id(value, now)?;
    Ok(Change::Delivery(suffix, value))
}
