//! The retained messages of new subscriptions, page by page.
//!
//! A subscription to `#` may match a million retained messages. They are looked for when the session's queue has room for
//! a page of them and the connection keeps up, so that they neither fill the queue nor stop the node. Each page goes through the
//! queue like everything else; new messages that come meanwhile stand between the pages. A message that was retained
//! after the SUBSCRIBE came on its own, and is not found again.
//!
//! What is still due of a durable session's subscription is in its record, written in one batch with the page before it: after
//! a restart it goes on from there.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use protocol::topic::SubscriptionFilter;

use crate::ids::SessionKey;
use crate::message::{Delivery, Message};
use crate::node::{Action, Node, TimerKey};
use crate::now::Now;
use crate::records;
use crate::retained::Search;
use crate::subscriptions::Subscription;

/// A subscription whose retained messages have not all been delivered.
#[derive(Debug)]
pub(crate) struct RetainedDue {
    pub(crate) filter: SubscriptionFilter,
    pub(crate) subscription: Subscription,
    pub(crate) search: Search,
    /// The subscription's record says how far it is.
    pub(crate) is_recorded: bool,
}

/// What a session has due, in the order of its subscriptions. Nearly always nothing, so it is small.
#[derive(Debug, Default)]
#[expect(
    clippy::box_collection,
    reason = "a place in each of a million sessions, and nearly always empty"
)]
pub(crate) struct AllDue(Option<Box<VecDeque<RetainedDue>>>);

impl AllDue {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    pub(crate) fn push(&mut self, due: RetainedDue) {
        self.0.get_or_insert_default().push_back(due);
    }

    /// Forgets what is due of one subscription.
    pub(crate) fn forget(&mut self, filter: &SubscriptionFilter) {
        if let Some(all) = &mut self.0 {
            all.retain(|due| due.filter != *filter);
        }
        self.shrink();
    }

    /// From where on retained messages are due for a subscription, if they are.
    pub(crate) fn place_of(&self, filter: &SubscriptionFilter) -> Option<&[u8]> {
        let due = self.0.iter().flat_map(|all| all.iter());
        let due = due.filter(|due| due.filter == *filter);
        due.map(|due| due.search.place()).next()
    }

    fn iter_mut(&mut self) -> impl Iterator<Item = &mut RetainedDue> {
        self.0.iter_mut().flat_map(|all| all.iter_mut())
    }

    fn pop_first(&mut self) {
        if let Some(all) = &mut self.0 {
            all.pop_front();
        }
        self.shrink();
    }

    fn shrink(&mut self) {
        self.0.take_if(|all| all.is_empty());
    }
}

/// Messages of a page, and of those that may wait before it in the queue.
const PAGE_MESSAGES: usize = 64;

/// Bytes of a page, unless its first message is larger.
const PAGE_BYTES: u64 = 256 * 1024;

/// Topics looked at for a page: those that match, and where the search jumps to between them.
const PAGE_LOOKUPS: usize = 1_024;

/// Pages of one session before others have their turn: about a millisecond.
const PAGES_AT_ONCE: usize = 4;

/// How long the others have their turn.
const PAUSE: Duration = Duration::from_millis(1);

impl Node {
    /// A session that was elsewhere takes part in what it has subscribed to; with what is due of retained messages from this place on.
    pub(crate) fn join_from(
        &mut self,
        key: SessionKey,
        filter: SubscriptionFilter,
        (subscription, place): (Subscription, Option<Vec<u8>>),
    ) {
        self.join(key, &filter, subscription);
        if let Some(place) = place {
            self.owe_retained_still((key, filter, subscription, place));
        }
    }

    /// A subscription was made: its retained messages are due. [MQTT-3.3.1-9]
    pub(crate) fn owe_retained(
        &mut self,
        key: SessionKey,
        filter: SubscriptionFilter,
        subscription: Subscription,
    ) {
        let search = self.retained.search(&filter.filter);
        let Some(entry) = self.sessions.get_mut(key) else {
            return;
        };
        entry.due.forget(&filter);
        entry.due.push(RetainedDue {
            filter,
            subscription,
            search,
            is_recorded: false,
        });
    }

    /// A subscription was replaced: what is due of it goes on as the new one says.
    pub(crate) fn owe_retained_as(
        &mut self,
        key: SessionKey,
        filter: &SubscriptionFilter,
        subscription: Subscription,
    ) {
        let Some(entry) = self.sessions.get_mut(key) else {
            return;
        };
        if let Some(due) = entry.due.iter_mut().find(|due| due.filter == *filter) {
            due.subscription = subscription;
            due.is_recorded = false;
        }
    }

    /// The end of a SUBSCRIBE: what is still due is written with the subscriptions themselves.
    pub(crate) fn record_retained_due(&mut self, key: SessionKey) {
        let Some(entry) = self.sessions.get_mut(key) else {
            return;
        };
        if !entry.session.is_durable() {
            return;
        }
        for due in entry.due.iter_mut().filter(|due| !due.is_recorded) {
            self.commits.write(due.record(entry.session.number));
            due.is_recorded = true;
        }
    }

    /// Gives a session that keeps up the next pages of what is due to it.
    pub(crate) fn deliver_retained(&mut self, now: Now, key: SessionKey, actions: &mut Vec<Action>) {
        if self.timers.get(TimerKey::RetainedDue(key)).is_some() {
            return;
        }
        for _ in 0..PAGES_AT_ONCE {
            if !self.take_page(now, key, actions) {
                return;
            }
            self.send_next(now, key, actions);
        }
        self.timers
            .schedule(TimerKey::RetainedDue(key), now.instant + PAUSE);
    }

    /// Puts a page into the session's queue. False if there is no room, or nothing due.
    fn take_page(&mut self, now: Now, key: SessionKey, actions: &mut Vec<Action>) -> bool {
        let Some(room) = self.room_for_page(key) else {
            return false;
        };
        let Some(entry) = self.sessions.get_mut(key) else {
            return false;
        };
        let Some(due) = entry.due.iter_mut().next() else {
            return false;
        };
        let page = Page::find(now, &self.retained, &mut due.search, room);
        let subscription = due.subscription;
        if entry.session.is_durable() && (due.is_recorded || !page.is_last) {
            let record = if page.is_last {
                records::subscription::put(entry.session.number, &due.filter, &subscription, None)
            } else {
                due.record(entry.session.number)
            };
            due.is_recorded = true;
            self.commits.write(record);
        }
        if page.is_last {
            entry.due.pop_first();
        }
        let mut must_await_disk = false;
        for message in page.messages {
            let delivery = Delivery {
                qos: message.qos.min(subscription.options.qos),
                message,
                retain: true,
                subscription_ids: subscription.id.into_iter().collect(),
                share: None,
                durable: None,
                is_volatile: false,
                dup: false,
                is_resumed: false,
            };
            must_await_disk |= self.enqueue(now, key, delivery);
        }
        if must_await_disk {
            self.await_records(now, key, actions);
        }
        self.stored = None;
        true
    }

    /// How many messages and bytes the session's queue has room for, if it has room for a page.
    fn room_for_page(&self, key: SessionKey) -> Option<(usize, u64)> {
        let entry = self.sessions.get(key)?;
        let connection = self.connections.get(entry.connection?)?;
        if !connection.is_connected() || connection.is_congested {
            return None;
        }
        let limits = &self.config.limits;
        let waiting = entry.session.queue_len();
        // The other half is for what comes meanwhile.
        let messages_max = PAGE_MESSAGES.min((limits.queue_messages_max / 2).max(1) as usize);
        let messages = messages_max.checked_sub(waiting).filter(|room| *room > 0)?;
        let bytes = (limits.queue_bytes_max / 2)
            .min(PAGE_BYTES)
            .saturating_sub(entry.session.queue_bytes());
        // A message that does not fit beside others has the queue for itself.
        (bytes > 0 || waiting == 0).then_some((messages, bytes))
    }
}

/// The next retained messages for one subscription.
struct Page {
    messages: Vec<Arc<Message>>,
    is_last: bool,
}

impl Page {
    fn find(
        now: Now,
        retained: &crate::retained::Retained,
        search: &mut Search,
        (messages_max, bytes_max): (usize, u64),
    ) -> Self {
        let (mut messages, mut bytes) = (Vec::new(), 0);
        let is_last = retained.go_on(now, search, PAGE_LOOKUPS, &mut |message| {
            bytes += message.size() as u64;
            if messages.len() >= messages_max || bytes > bytes_max && !messages.is_empty() {
                return ControlFlow::Break(());
            }
            messages.push(Arc::clone(message));
            ControlFlow::Continue(())
        });
        Self { messages, is_last }
    }
}

impl RetainedDue {
    fn record(&self, number: crate::ids::SessionNumber) -> cluster::Write {
        let place = Some(self.search.place());
        records::subscription::put(number, &self.filter, &self.subscription, place)
    }
}
