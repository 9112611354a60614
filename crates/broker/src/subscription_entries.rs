//! Entries of subscriptions at the session plane, and the tables of this node in which messages find them.

use bytes::Bytes;
use cluster::session_plane::Hlc;
use mqtt::ids::SessionKey;
use mqtt::now::Now;
use mqtt::subscriptions::{Standing, Subscription, point_of};
use protocol::Text;
use protocol::packet::QoS;
use protocol::topic::SubscriptionFilter;
use session_plane::connecting::{ConnectionId as ClaimId, KnownSession};
use session_plane::interests::Interest;
use session_plane::plane::{NewBirth, NewChange, NewEntry};
use session_plane::stream::StreamFull;
use session_plane::{Birth, ClientId, EntryKind, Fact, GroupId, MadeEvent, Slot, SlotSet};
use session_values::{SubscriptionParts, SubscriptionTerms, Value};
use smallvec::{SmallVec, smallvec};

use crate::node::{Action, Node};
use crate::replication::{Awaited, Cause, GroupWait, ReplicatedEvent};
use crate::sessions::{SessionEntry, SubscriptionEntry};
use crate::subscribing::Refusal;

impl Node {
    /// Writes a subscription where the session outlives its connection, or is shared.
    pub(crate) fn write_subscription(
        &mut self,
        now: Now,
        key: SessionKey,
        (filter, subscription): (&SubscriptionFilter, Subscription),
        awaited: &mut Awaited,
        actions: &mut Vec<Action>,
    ) -> Result<(), Refusal> {
        let entry = self.sessions.get(key).ok_or(Refusal::ENDED)?;
        let claim = entry.claim;
        if let Some(group) = group_of(filter) {
            let since = entry.entries.get(filter).map(|entry| entry.since);
            let (joined, value) = (group.clone(), value_of((filter, subscription), since, None));
            self.with_sessions(now, Cause::Own, actions, |sessions, at, made| {
                sessions.join(at, claim, joined, &value, made);
            });
            awaited.groups.push(GroupWait { claim, group });
            return Ok(());
        }
        if !entry.is_durable {
            return Ok(());
        }
        let made = self
            .put_subscription(now, key, (filter, subscription), None, actions)
            .map_err(|StreamFull { .. }| Refusal::FULL)?;
        awaited.events.extend(made.map(ReplicatedEvent::of));
        Ok(())
    }

    /// Writes the entry of a subscription, with the place from which retained messages are due.
    pub(crate) fn put_subscription(
        &mut self,
        now: Now,
        key: SessionKey,
        (filter, subscription): (&SubscriptionFilter, Subscription),
        retained_from: Option<Bytes>,
        actions: &mut Vec<Action>,
    ) -> Result<Option<MadeEvent>, StreamFull> {
        let Some(entry) = self.sessions.get(key) else {
            return Ok(None);
        };
        let (claim, before) = (entry.claim, entry.entries.get(filter));
        let since = before.map(|before| before.since);
        let change = NewChange {
            client: plane_client(&entry.client_id),
            removes: before.map(|before| before.dots.to_vec()).unwrap_or_default(),
            adds: Some(NewEntry {
                birth: NewBirth::Of(entry.birth),
                fact: Fact::Subscription,
                value: value_of((filter, subscription), since, retained_from),
            }),
        };
        let made = self.change_session(now, claim, change, actions)?;
        if let Some(entry) = self.sessions.get_mut(key) {
            let written = SubscriptionEntry {
                dots: smallvec![made.dot],
                since: since.unwrap_or(made.clock),
            };
            entry.entries.insert(filter.detached(), written);
        }
        Ok(Some(made))
    }

    /// Changes the session of a connection, at its owners and in the routes.
    pub(crate) fn change_session(
        &mut self,
        now: Now,
        claim: ClaimId,
        change: NewChange<Value>,
        actions: &mut Vec<Action>,
    ) -> Result<MadeEvent, StreamFull> {
        let slots = SlotSet::from_iter([Slot::of_client(change.client.as_bytes()), Slot::ROUTES]);
        let made = self.with_sessions(now, Cause::Own, actions, |sessions, at, made| {
            sessions.change(at, claim, slots, change, made)
        })?;
        self.replication.open_event(made.dot);
        Ok(made)
    }

    /// Takes over the subscriptions of a session that goes on.
    pub(crate) fn resume_subscriptions(
        &mut self,
        key: SessionKey,
        birth: Birth,
        known: &KnownSession<Value>,
    ) {
        let Some(entry) = self.sessions.get(key) else {
            return;
        };
        let (claim, is_durable) = (entry.claim, entry.is_durable);
        let entries = known.entries().of_kind(EntryKind::Subscription);
        let own = entries.filter(|(_, entry)| entry.birth.dot == birth.dot);
        let own = own.filter_map(|(dot, entry)| Some((dot, (terms_of(&entry.value)?.clone(), entry.clock))));
        for (dot, (terms, clock)) in own.collect::<Vec<_>>() {
            let since = terms.since().unwrap_or(clock);
            self.resume(key, is_durable, &terms);
            self.resume_retained(key, &terms);
            if let Some(entry) = self.sessions.get_mut(key) {
                let known = entry.entries.entry(terms.filter().clone());
                let known = known.or_insert_with(|| SubscriptionEntry {
                    dots: SmallVec::new(),
                    since,
                });
                known.dots.push(dot);
                known.since = known.since.min(since);
            }
        }
        for (_, value) in self.replication.sessions().memberships(claim) {
            if let Some(terms) = terms_of(&value) {
                self.resume(key, is_durable, terms);
            }
        }
    }

    fn resume(&mut self, key: SessionKey, is_durable: bool, terms: &SubscriptionTerms) {
        let subscription = Subscription {
            options: terms.options(),
            id: terms.id(),
        };
        let Some(entry) = self.sessions.get_mut(key) else {
            return;
        };
        let before = entry.filters.insert(terms.filter(), subscription);
        // One that finds no room here gets messages of QoS 0 no more, and all others.
        let _ = self.join(key, is_durable, (terms.filter(), subscription), before);
    }

    /// Adds a subscription where messages find it at this node; gives the position that the other nodes are to
    /// know.
    pub(crate) fn join(
        &mut self,
        key: SessionKey,
        is_durable: bool,
        (filter, subscription): (&SubscriptionFilter, Subscription),
        before: Option<Subscription>,
    ) -> Result<u64, Refusal> {
        if filter.share.is_some() {
            self.share(key, filter, subscription);
            return Ok(0);
        }
        self.subscriptions.subscribe(key, &filter.filter, subscription);
        let wanted = interest(is_durable, subscription);
        let before = before.map(|before| interest(is_durable, before));
        self.replication
            .want(&filter.filter, before, Some(wanted))
            .map_err(|_| Refusal::FULL)
    }

    /// Removes a subscription from where messages find it at this node.
    pub(crate) fn leave(
        &mut self,
        key: SessionKey,
        is_durable: bool,
        filter: &SubscriptionFilter,
        subscription: Subscription,
    ) {
        if filter.share.is_some() {
            self.shares.unsubscribe(key, filter);
            return;
        }
        self.subscriptions.unsubscribe(key, &filter.filter);
        let before = Some(interest(is_durable, subscription));
        // To want less never fails.
        let _ = self.replication.want(&filter.filter, before, None);
    }

    fn share(&mut self, key: SessionKey, filter: &SubscriptionFilter, subscription: Subscription) {
        let Some(entry) = self.sessions.get_mut(key) else {
            return;
        };
        let point = point_of(&entry.client_id);
        self.shares.subscribe(key, point, filter, subscription);
        entry.standing = standing_of(entry);
        self.shares.stand(key, filter, entry.standing);
    }

    /// A session, or its outbox, has changed: for the totals of all, and for the shares that it is in.
    pub(crate) fn note_standing(&mut self, key: SessionKey) {
        self.sessions.recount(key);
        let Some(entry) = self.sessions.get_mut(key) else {
            return;
        };
        if !entry.filters.has_shared() {
            return;
        }
        let standing = standing_of(entry);
        if standing == entry.standing {
            return;
        }
        entry.standing = standing;
        for filter in entry.filters.shared() {
            self.shares.stand(key, filter, standing);
        }
    }
}

fn standing_of(entry: &SessionEntry) -> Standing {
    if entry.outbox.is_behind(entry.standing == Standing::Behind) {
        Standing::Behind
    } else {
        Standing::Free
    }
}

/// Messages that this node wants for a subscription of a connected session.
fn interest(is_durable: bool, subscription: Subscription) -> Interest {
    match is_durable && subscription.options.qos > QoS::AtMostOnce {
        true => Interest::Unstored,
        false => Interest::All,
    }
}

fn value_of(
    (filter, subscription): (&SubscriptionFilter, Subscription),
    since: Option<Hlc>,
    retained_from: Option<Bytes>,
) -> Value {
    Value::Subscription(SubscriptionTerms::new(&SubscriptionParts {
        filter: filter.clone(),
        options: subscription.options,
        id: subscription.id,
        since,
        retained_from,
    }))
}

/// Terms of a subscription. None where another node has given the entry another kind of value.
pub(crate) fn terms_of(value: &Value) -> Option<&SubscriptionTerms> {
    match value {
        Value::Subscription(terms) => Some(terms),
        _ => None,
    }
}

/// Shared group of a filter.
pub(crate) fn group_of(filter: &SubscriptionFilter) -> Option<GroupId> {
    let share = filter.share.as_ref()?;
    let name = format!("{}/{}", &**share, filter.filter.as_str());
    GroupId::new(name.as_bytes()).ok()
}

/// Client at the session plane.
pub(crate) fn plane_client(client_id: &Text) -> ClientId {
    ClientId::new(client_id.as_bytes()).expect("a client id is a string of MQTT")
}
