//! Carrying: sessions that come from elsewhere, without a connection: of a backup, or of a data directory without a
//! session plane.
//!
//! *Invariant*: such a session is born with its first event, and nothing takes the place of a session that is there.

use super::acting::Queue;
use super::ending::with_routes;
use super::{Sessions, SessionsAction, SessionsValue};
use crate::expiring::SessionExpiry;
use crate::plane::{Matching, NewBirth, NewChange, NewEntry, Now};
use crate::stream::StreamFull;
use crate::transfer::TransferBytes;
use crate::{Birth, ClientId, EntryKind, Fact, GroupId, MadeEvent, MemberTerms, Slot, SlotSet};

/// Session without a connection.
#[derive(Debug)]
pub struct CarriedSession<V> {
    /// Its client.
    pub client: ClientId,
    /// Value of the session's entry.
    pub session: V,
    /// Values of its subscriptions that are not shared.
    pub subscriptions: Vec<V>,
    /// Shared groups whose member it is.
    pub memberships: Vec<CarriedMembership<V>>,
    /// Messages of its queue, in their order.
    pub messages: Vec<V>,
    /// How long it lasts from now on.
    pub expiry: SessionExpiry,
}

/// Membership of such a session.
#[derive(Debug)]
pub struct CarriedMembership<V> {
    /// The group.
    pub group: GroupId,
    /// Value of the member's entry.
    pub value: V,
}

impl<V, M, R> Sessions<V, M, R>
where
    V: SessionsValue<M>,
    M: TransferBytes + Clone,
    R: Matching<V, M>,
{
    /// Puts a session in, unless the client has one. Gives the events that have made it.
    /// [`SessionsAction::Durable`] reports each.
    ///
    /// # Errors
    ///
    /// [`StreamFull`] where too much is not durable. A part of the session may be there.
    pub fn carry(
        &mut self,
        now: Now,
        carried: CarriedSession<V>,
        actions: &mut Vec<SessionsAction<V, M>>,
    ) -> Result<Vec<MadeEvent>, StreamFull> {
        let routes = self.plane.copy(Slot::ROUTES);
        let is_there = routes.is_some_and(|routes| {
            let client = carried.client.as_bytes();
            let mut live = routes.entries.live(routes.covered, client, EntryKind::Session);
            live.next().is_some()
        });
        if is_there {
            return Ok(Vec::new());
        }
        let mut queue = Queue::default();
        let made = self.carry_all(now, carried, &mut queue);
        self.apply(now, queue, actions);
        made
    }

    fn carry_all(
        &mut self,
        now: Now,
        carried: CarriedSession<V>,
        queue: &mut Queue<V, M>,
    ) -> Result<Vec<MadeEvent>, StreamFull> {
        let client = carried.client;
        let (everywhere, own) = (
            with_routes(&client),
            SlotSet::from_iter([Slot::of_client(client.as_bytes())]),
        );
        let begin = NewBirth::Here {
            is_clean: false,
            clock: None,
        };
        let mut made = Vec::new();
        let session = adding(
            client.clone(),
            begin,
            Fact::Session { connected: None },
            carried.session,
        );
        let first = self
            .plane
            .change(now, everywhere.clone(), session, &mut queue.plane)?;
        made.push(first);
        let birth = NewBirth::Of(Birth {
            dot: first.dot,
            clock: first.clock,
            is_clean: false,
        });
        for value in carried.subscriptions {
            let subscription = adding(client.clone(), birth, Fact::Subscription, value);
            made.push(
                self.plane
                    .change(now, everywhere.clone(), subscription, &mut queue.plane)?,
            );
        }
        for CarriedMembership { group, value } in carried.memberships {
            let since = self.members.memberships.earliest(&group);
            let terms = MemberTerms {
                client: client.clone(),
                since,
            };
            let slots = super::group_changes::with_routes(&group);
            let member = adding(group.key().clone(), birth, Fact::Member(Box::new(terms)), value);
            made.push(self.plane.change(now, slots, member, &mut queue.plane)?);
        }
        for value in carried.messages {
            let message = adding(client.clone(), birth, Fact::Message, value);
            made.push(self.plane.change(now, own.clone(), message, &mut queue.plane)?);
        }
        let expiry = adding(
            client,
            birth,
            Fact::Expiry { connected: None },
            V::of_expiry(carried.expiry),
        );
        made.push(self.plane.change(now, own, expiry, &mut queue.plane)?);
        Ok(made)
    }
}

fn adding<V>(client: ClientId, birth: NewBirth, fact: Fact, value: V) -> NewChange<V> {
    NewChange {
        client,
        removes: Vec::new(),
        adds: Some(NewEntry { birth, fact, value }),
    }
}
