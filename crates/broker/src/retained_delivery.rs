//! Retained messages of new subscriptions, page by page.
//!
//! A subscription to `#` may match a million retained messages. They are looked for when the outbox of the session has room for
//! a page of them and the connection keeps up, so that they neither fill the outbox nor stop the node. Each page goes through the
//! outbox like everything else; new messages that come meanwhile stand between the pages.
//!
//! The search begins when SUBACK leaves: from then on each node sends what is retained there to the session itself. On a node that is
//! alone it begins with the SUBSCRIBE. Where more than a page is due to a session that outlives its connection, the entry of the
//! subscription says so, and from where on. The next connection goes on there.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use bytes::Bytes;
use mqtt::ids::SessionKey;
use mqtt::memory::footprint::{block, cloned_text, tree};
use mqtt::message::{Delivery, DeliveryKind, Message};
use mqtt::now::Now;
use mqtt::retained::{Retained, Search};
use mqtt::subscriptions::Subscription;
use protocol::packet::{QoS, SubscriptionId};
use protocol::topic::SubscriptionFilter;
use session_plane::Dot;
use session_values::SubscriptionTerms;

use crate::node::{Action, Node};
use crate::sessions::SessionEntry;
use crate::turns::Unfinished;

/// A subscription whose retained messages have not all been delivered.
#[derive(Debug)]
pub(crate) struct RetainedDue {
    pub(crate) filter: SubscriptionFilter,
    pub(crate) subscription: Subscription,
    /// Search that has begun. None: SUBACK has not been sent.
    search: Option<Search>,
    /// The entry of the subscription says that messages are due: the next connection goes on.
    is_noted: bool,
}

/// What a session has due, in the order of its subscriptions. Nearly always nothing, so it is small.
#[derive(Debug, Default)]
pub(crate) struct AllDue(Option<Box<DueList>>);

/// Found by place in the order and by filter, so that nothing is looked for one by one: a client may subscribe to as many filters as
/// the limits allow, and to each of them again and again.
#[derive(Debug, Default)]
struct DueList {
    next: u64,
    in_order: BTreeMap<u64, RetainedDue>,
    places: BTreeMap<SubscriptionFilter, u64>,
    /// Memory of the filters.
    texts: u64,
}

impl AllDue {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Adds what is due of a subscription, behind all others, instead of what was due of it.
    pub(crate) fn push(&mut self, due: RetainedDue) {
        self.forget(&due.filter);
        let list = self.0.get_or_insert_default();
        let place = list.next;
        list.next += 1;
        list.texts += due.texts();
        list.places.insert(due.filter.clone(), place);
        list.in_order.insert(place, due);
    }

    /// Forgets what is due of one subscription.
    pub(crate) fn forget(&mut self, filter: &SubscriptionFilter) {
        let place = self.0.as_mut().and_then(|list| list.places.remove(filter));
        if let Some(place) = place {
            self.remove(place);
        }
    }

    /// Its memory.
    pub(crate) fn memory(&self) -> u64 {
        self.0.as_ref().map_or(0, |list| list.memory())
    }

    /// What is due of a subscription goes on as this one says.
    fn replace(&mut self, filter: &SubscriptionFilter, subscription: Subscription) {
        let Some(list) = &mut self.0 else { return };
        let place = list.places.get(filter);
        if let Some(due) = place.and_then(|place| list.in_order.get_mut(place)) {
            due.subscription = subscription;
        }
    }

    /// Begins the searches that wait.
    fn begin(&mut self, retained: &Retained) {
        for due in self.0.iter_mut().flat_map(|list| list.in_order.values_mut()) {
            due.search
                .get_or_insert_with(|| retained.search(&due.filter.filter));
        }
    }

    fn into_list(self) -> impl Iterator<Item = RetainedDue> {
        self.0.into_iter().flat_map(|list| list.in_order.into_values())
    }

    fn first_mut(&mut self) -> Option<&mut RetainedDue> {
        let list = self.0.as_mut()?;
        list.in_order.values_mut().next()
    }

    fn pop_first(&mut self) {
        let first = self
            .0
            .as_ref()
            .and_then(|list| list.in_order.keys().next().copied());
        if let Some(place) = first {
            self.remove(place);
        }
    }

    fn remove(&mut self, place: u64) {
        if let Some(list) = &mut self.0 {
            if let Some(due) = list.in_order.remove(&place) {
                list.texts -= due.texts();
                list.places.remove(&due.filter);
            }
        }
        self.0.take_if(|list| list.in_order.is_empty());
    }
}

impl DueList {
    fn memory(&self) -> u64 {
        let entries = self.in_order.len();
        let places = tree::<u64, RetainedDue>(entries) + tree::<SubscriptionFilter, u64>(entries);
        // Searches go on one after the other, so one place at most is not where it was.
        let first = self.in_order.values().next().and_then(|due| due.search.as_ref());
        let place = first.map_or(0, |search| block(search.place().len()));
        block(size_of::<Self>()) + places + self.texts + place
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

/// Topics looked at for the price of one [unit](crate::turns).
const LOOKUPS_PER_UNIT: u64 = 4;

impl Node {
    /// A subscription was made: its retained messages are due. [MQTT-3.3.1-9]
    pub(crate) fn owe_retained(
        &mut self,
        key: SessionKey,
        filter: SubscriptionFilter,
        subscription: Subscription,
    ) {
        let is_alone = self.replication.is_alone();
        let search = is_alone.then(|| self.retained.search(&filter.filter));
        let Some(entry) = self.sessions.get_mut(key) else {
            return;
        };
        entry.due.push(RetainedDue {
            filter,
            subscription,
            search,
            is_noted: false,
        });
    }

    /// SUBACK is sent: what is due is looked for.
    pub(crate) fn begin_retained_due(&mut self, key: SessionKey) {
        if let Some(entry) = self.sessions.get_mut(key) {
            entry.due.begin(&self.retained);
        }
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
        entry.due.replace(filter, subscription);
    }

    /// Gives a session that keeps up the next pages of what is due to it, and the rest when others have had their turn.
    pub(crate) fn deliver_retained(&mut self, now: Now, key: SessionKey, actions: &mut Vec<Action>) {
        if self.turns.is_waiting(key) {
            return;
        }
        if self.deliver_pages(now, key, actions) {
            self.wait_for_turn(now, Unfinished::Retained(key));
        }
    }

    /// Some pages. True if there may be more at once.
    pub(crate) fn deliver_pages(&mut self, now: Now, key: SessionKey, actions: &mut Vec<Action>) -> bool {
        for _ in 0..PAGES_AT_ONCE {
            if self.work.is_turn_over() {
                return self.room_for_page(key).is_some();
            }
            if !self.take_page(now, key, actions) {
                return false;
            }
            self.send_outbox(now, key, actions);
        }
        true
    }

    /// Puts a page into the outbox of the session. False if there is no room, or nothing due.
    fn take_page(&mut self, now: Now, key: SessionKey, actions: &mut Vec<Action>) -> bool {
        let Some(room) = self.room_for_page(key) else {
            return false;
        };
        let Some(entry) = self.sessions.get_mut(key) else {
            return false;
        };
        let Some(due) = entry.due.first_mut() else {
            return false;
        };
        let Some(search) = &mut due.search else {
            return false;
        };
        let page = Page::find(now, &self.retained, search, room);
        self.work.retained_topics(page.looked_at, LOOKUPS_PER_UNIT);
        self.work.charge(page.messages.len() as u64);
        let (subscription, is_durable) = (due.subscription, entry.is_durable);
        let is_noted = std::mem::replace(&mut due.is_noted, is_durable && !page.is_last);
        let place = due.place();
        let filter = (is_noted != due.is_noted).then(|| due.filter.clone());
        if page.is_last {
            entry.due.pop_first();
        }
        for message in page.messages {
            let qos = message.qos.min(subscription.options.qos);
            if is_durable && qos != QoS::AtMostOnce {
                self.store_retained(now, key, &message, (qos, subscription.id), actions);
                continue;
            }
            let delivery = Delivery {
                qos,
                message,
                retain: true,
                subscription_ids: subscription.id.into_iter().collect(),
                kind: DeliveryKind::Message,
                dup: false,
            };
            self.enqueue(now, key, delivery);
        }
        if let Some(filter) = filter {
            let place = place.filter(|_| !page.is_last);
            self.note_due(now, key, (&filter, subscription), place, actions);
        }
        true
    }

    /// Goes on with what was due of a subscription when the last connection of its session ended.
    pub(crate) fn resume_retained(&mut self, key: SessionKey, terms: &SubscriptionTerms) {
        let (Some(place), Some(entry)) = (terms.retained_from(), self.sessions.get_mut(key)) else {
            return;
        };
        let search = self.retained.search_from(&terms.filter().filter, place.to_vec());
        entry.due.push(RetainedDue {
            filter: terms.filter().clone(),
            subscription: Subscription {
                options: terms.options(),
                id: terms.id(),
            },
            search: Some(search),
            is_noted: true,
        });
    }

    /// Notes in the entries of subscriptions from where retained messages are due: the connection ends.
    pub(crate) fn store_due(&mut self, now: Now, key: SessionKey, actions: &mut Vec<Action>) {
        let entry = self.sessions.get_mut(key);
        let entry = entry.filter(|entry| entry.is_durable && entry.expiry > 0);
        let due = entry
            .map(|entry| std::mem::take(&mut entry.due))
            .unwrap_or_default();
        for due in due.into_list() {
            let place = due.place().or(Some(Bytes::new()));
            self.note_due(now, key, (&due.filter, due.subscription), place, actions);
        }
    }

    /// Writes from where retained messages of a subscription are due. Where too much is not durable, an earlier place
    /// stays: messages come again.
    fn note_due(
        &mut self,
        now: Now,
        key: SessionKey,
        subscribed: (&SubscriptionFilter, Subscription),
        place: Option<Bytes>,
        actions: &mut Vec<Action>,
    ) {
        let is_kept = |entry: &SessionEntry| entry.entries.contains_key(subscribed.0);
        if self.sessions.get(key).is_some_and(is_kept) {
            let _ = self.put_subscription(now, key, subscribed, place, actions);
        }
    }

    /// Puts a retained message into the queue that the owners of the session have. It is delivered like any other
    /// message of the queue.
    fn store_retained(
        &mut self,
        now: Now,
        key: SessionKey,
        message: &Message,
        (qos, id): (QoS, Option<SubscriptionId>),
        actions: &mut Vec<Action>,
    ) {
        let stored = self.store_message(now, key, message, (qos, true, id.as_slice()), actions);
        let made = stored.expect("there is room while the plane is not behind");
        if let Some((made, entry)) = made.zip(self.sessions.get_mut(key)) {
            entry.paged.insert(made.dot);
        }
    }

    /// A stored message is sent, or dropped, and so were the earlier ones of its run: the next page may have room.
    pub(crate) fn note_paged(&mut self, now: Now, key: SessionKey, message: Dot, actions: &mut Vec<Action>) {
        let Some(entry) = self.sessions.get_mut(key).filter(|entry| !entry.paged.is_empty()) else {
            return;
        };
        entry
            .paged
            .retain(|paged| paged.run != message.run || paged.number > message.number);
        if entry.paged.is_empty() && !entry.due.is_empty() {
            self.deliver_retained(now, key, actions);
        }
    }

    /// How many messages and bytes the session's queue has room for, if it has room for a page.
    fn room_for_page(&self, key: SessionKey) -> Option<(usize, u64)> {
        let entry = self.sessions.get(key)?;
        let connection = self.connections.get(entry.connection)?;
        if !connection.is_connected() || connection.is_congested || self.replication.is_behind() {
            return None;
        }
        let limits = &self.config.limits;
        let waiting = entry.outbox.len() + entry.paged.len();
        // The other half is for what comes meanwhile.
        let messages_max = PAGE_MESSAGES.min((limits.queue_messages_max / 2).max(1) as usize);
        let messages = messages_max.checked_sub(waiting).filter(|room| *room > 0)?;
        let bytes = (limits.queue_bytes_max / 2)
            .min(PAGE_BYTES)
            .saturating_sub(entry.outbox.bytes());
        // A message that does not fit beside others has the queue for itself.
        (bytes > 0 || waiting == 0).then_some((messages, bytes))
    }
}

/// The next retained messages for one subscription.
struct Page {
    messages: Vec<Arc<Message>>,
    /// Topics, for that.
    looked_at: u64,
    is_last: bool,
}

impl Page {
    fn find(
        now: Now,
        retained: &Retained,
        search: &mut Search,
        (messages_max, bytes_max): (usize, u64),
    ) -> Self {
        let (mut messages, mut bytes) = (Vec::new(), 0);
        let (is_last, looked_at) = retained.go_on(now, search, PAGE_LOOKUPS, &mut |message| {
            bytes += message.size() as u64;
            if messages.len() >= messages_max || bytes > bytes_max && !messages.is_empty() {
                return ControlFlow::Break(());
            }
            messages.push(Arc::clone(message));
            ControlFlow::Continue(())
        });
        Self {
            messages,
            looked_at,
            is_last,
        }
    }
}

impl RetainedDue {
    /// Place from which messages are due, once the search has begun.
    fn place(&self) -> Option<Bytes> {
        let search = self.search.as_ref()?;
        Some(Bytes::copy_from_slice(search.place()))
    }

    /// Memory of the filter, which the search and the list share.
    fn texts(&self) -> u64 {
        let share = self.filter.share.as_ref().map_or(0, cloned_text);
        share + cloned_text(self.filter.filter.text())
    }
}
