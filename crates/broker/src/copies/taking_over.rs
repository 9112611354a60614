//! When the holder of a session is lost, the first owner goes on with it; and a node that comes back leaves to others what they have gone on with.

use protocol::packet::Disconnect;
use protocol::{ReasonCode, Text};

use super::{Held, StandingBy};
use crate::closing::Ending;
use crate::ids::SessionNumber;
use crate::node::{Action, Node, TimerKey};
use crate::now::Now;
use crate::records;
use crate::retained_delivery::RetainedDue;
use crate::sessions::SessionEntry;
use crate::will;

impl Node {
    /// Goes on with the sessions that were held by nodes that are lost, and of which this node is the first owner now. Before, nothing of them is in the index of
    /// subscriptions; after, all is.
    #[expect(dead_code, reason = "clients do not find yet what was taken over")]
    pub(crate) fn take_over_lost(&mut self, now: Now, actions: &mut Vec<Action>) {
        let (Some(copies), Some(states)) = (&self.copies, &self.states) else {
            return;
        };
        let own = Some(copies.own.node);
        let due = copies.standing_by.iter().filter(|(client_id, copy)| {
            copy.is_whole()
                && self.is_lost(copy.holder.node)
                && states.primary().home(client_id.as_bytes()) == own
                // A session that ends with its connection, or one that began while nobody knew better.
                && self.sessions.find(client_id).is_none()
        });
        let due: Vec<Text> = due.map(|(client_id, _)| client_id.clone()).collect();
        for client_id in due {
            let copies = self.copies.as_mut();
            if let Some(copy) = copies.and_then(|copies| copies.remove_copy(&client_id)) {
                self.stand_up(now, copy, actions);
            }
        }
    }

    /// A copy is the session from here on.
    fn stand_up(&mut self, now: Now, copy: StandingBy, actions: &mut Vec<Action>) {
        let StandingBy {
            mut session,
            record,
            due,
            holder,
            mut clock,
            ..
        } = copy;
        let (Some(record), Some(copies)) = (record, &mut self.copies) else {
            return;
        };
        session.stand_up(&record);
        let (number, client_id) = (session.number, session.client_id.clone());
        // From here on it is another one than what its holder may come back with.
        clock.increment(copies.own, 0).ok();
        let held = Held {
            taken_from: Some(holder),
            received: session.received.iter().collect(),
            ..Held::new(client_id.clone(), clock)
        };
        copies.held.insert(number, held);
        copies.begin_visit();
        copies.figures.taken_over += 1;
        let is_over = record.is_over(now.wall);
        let filters: Vec<_> = session
            .filters
            .iter()
            .map(|(filter, subscription)| (filter.clone(), *subscription))
            .collect();
        let entry = SessionEntry::recovered(session, record);
        let key = self.sessions.insert(&client_id, entry);
        for (filter, subscription) in filters {
            self.join(key, &filter, subscription);
            let place = due.iter().find(|(due, _)| *due == filter);
            if let (Some((_, place)), Some(entry)) = (place, self.sessions.get_mut(key)) {
                let search = self.retained.search_from(&filter.filter, place.clone());
                entry.due.push(RetainedDue {
                    filter,
                    subscription,
                    search,
                    is_recorded: true,
                });
            }
        }
        self.recover_session(now, key, actions);
        if is_over {
            self.discard_session(now, key, actions);
        }
    }

    /// Another node has gone on with a session of this one: it is that node's. Nobody hears of its end here, and its will is that node's business.
    pub(super) fn supersede(&mut self, now: Now, number: SessionNumber, actions: &mut Vec<Action>) {
        let Some(copies) = &mut self.copies else { return };
        let Some(held) = copies.remove_held(number) else {
            return;
        };
        copies.figures.superseded += 1;
        let key = self.sessions.find(&held.client_id);
        let Some(key) = key.filter(|key| {
            let entry = self.sessions.get(*key);
            entry.is_some_and(|entry| entry.session.number == number)
        }) else {
            return;
        };
        if let Some(entry) = self.sessions.get_mut(key) {
            entry.will = None;
            // It does not end with its connection here.
            entry.expiry = u32::MAX;
        }
        let connection = self.sessions.get(key).and_then(|entry| entry.connection);
        if let Some(id) = connection {
            let disconnect = Disconnect {
                explanation: self.explain(id, "the session goes on at another node"),
                ..Disconnect::new(ReasonCode::SessionTakenOver)
            };
            self.send_disconnect(now, id, disconnect, actions);
            actions.push(Action::Close { connection: id });
            self.connection_ended(now, id, Ending::Normal, actions);
        }
        self.timers.cancel(TimerKey::Session(key));
        self.will_step(now, will::Event::Connected { session: key }, actions);
        let Some(entry) = self.sessions.remove(key) else {
            return;
        };
        for (filter, _) in entry.session.filters.iter() {
            self.leave(key, filter);
        }
        let own = [
            records::session::remove(&entry.session.client_id),
            records::copy::remove(number),
        ];
        for write in own.into_iter().chain(records::remove_all(number)) {
            self.commits.write(write);
        }
    }
}
