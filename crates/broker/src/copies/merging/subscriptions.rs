//! Subscriptions of a session that gives way.

use bytes::Bytes;
use cluster::NodeId;
use mqtt::ids::{SessionKey, SessionNumber};
use mqtt::now::Now;
use mqtt::records;
use protocol::topic::SubscriptionFilter;

use crate::node::{Action, Node};

impl Node {
    /// Joins a filter that was joined there, if it is not here, and was not taken away here.
    pub(super) fn take_subscription(
        &mut self,
        key: SessionKey,
        (from, number): (NodeId, SessionNumber),
        (suffix, value): (Bytes, Bytes),
    ) {
        let full_key = [&number.0.to_be_bytes()[..], &suffix].concat();
        let Ok((_, filter, subscription, place)) = records::subscription::decode(&full_key, value) else {
            return;
        };
        let Some(copies) = &mut self.copies else { return };
        let Some(held) = copies.held.get_mut(&number) else {
            return;
        };
        let Some(taking_in) = held.taking_in.as_mut().filter(|it| it.from == from) else {
            return;
        };
        // What was taken away here does not come back, unless it was subscribed to anew there.
        let marks = held.marks.as_ref();
        let is_taken_away = !taking_in.subscribed.contains(&suffix)
            && marks.is_some_and(|marks| {
                marks.of(from, taking_in.number).is_some() && marks.unsubscribed.contains(&suffix)
            });
        taking_in.filters.insert(suffix.clone());
        let Some(entry) = self.sessions.get_mut(key) else {
            return;
        };
        if is_taken_away || entry.session.filters.get(&filter).is_some() {
            return;
        }
        taking_in.joined.insert(filter.clone());
        // At once, not when it is written: a third session that gives way in this moment, and that this one is from a copy of, has not ended what it never had.
        if let Some(marks) = &mut held.marks {
            marks.touch(&suffix, true);
        }
        copies.figures.merged_subscriptions += 1;
        entry.session.filters.insert(&filter, subscription);
        let write = records::subscription::put(number, &filter, &subscription, place.as_deref());
        self.commits.write(write);
        self.join_from(key, filter, (subscription, place));
    }

    /// Ends the subscriptions that were ended there, and not made again here.
    pub(super) fn end_subscriptions_left(
        &mut self,
        now: Now,
        key: SessionKey,
        number: SessionNumber,
        actions: &mut Vec<Action>,
    ) {
        let copies = self.copies.as_ref();
        let Some(held) = copies.and_then(|copies| copies.held.get(&number)) else {
            return;
        };
        let Some(taking_in) = &held.taking_in else { return };
        let marks = held.marks.as_deref();
        let is_from_copy = marks.is_some_and(|marks| {
            let mark = marks.of(taking_in.from, taking_in.number);
            mark.is_some_and(|mark| mark.number.is_some()) && !marks.is_incomplete
        });
        let entry = self.sessions.get(key);
        let filters = entry.iter().flat_map(|entry| entry.session.filters.iter());
        let is_ended = |filter: &SubscriptionFilter| {
            let suffix = records::subscription::suffix_of(filter);
            let is_made_here = marks.is_some_and(|marks| marks.subscribed.contains(&suffix));
            let is_missing = (is_from_copy || taking_in.replaces) && !taking_in.filters.contains(&suffix);
            !is_made_here && (is_missing || taking_in.unsubscribed.contains(&suffix))
        };
        let ended = filters
            .map(|(filter, _)| filter)
            .filter(|filter| is_ended(filter));
        let ended: Vec<SubscriptionFilter> = ended.cloned().collect();
        for filter in ended {
            self.end_subscription(now, key, &filter, actions);
        }
    }
}
