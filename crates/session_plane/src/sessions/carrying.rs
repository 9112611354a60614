//! Carrying: sessions that come from elsewhere, without a connection: of a backup, or of a data directory without a
//! session plane.
//!
//! *Invariant*: such a session is born with its first event, and nothing takes the place of a session that is there.

use super::acting::Queue;
use super::ending::with_routes;
use super::{Sessions, SessionsAction, SessionsValue};
use crate::delivering::{DeliveryStage, DeliveryValue, PacketDelivery};
use crate::expiring::SessionExpiry;
use crate::plane::{Matching, NewBirth, NewChange, NewEntry, Now};
use crate::publishing::PacketId;
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
    /// Packet ids of QoS 2 messages that the client has, in the order of their PUBREL packets.
    pub released: Vec<PacketId>,
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
        let everywhere = with_routes(&carried.client);
        let begin = NewBirth::Here {
            is_clean: false,
            clock: None,
        };
        let fact = Fact::Session { connected: None };
        let session = adding(carried.client.clone(), begin, fact, carried.session.clone());
        let first = self.plane.change(now, everywhere, session, &mut queue.plane)?;
        let mut made = vec![first];
        for CarriedChange { slots, change } in self.parts(first, carried) {
            made.push(self.plane.change(now, slots, change, &mut queue.plane)?);
        }
        Ok(made)
    }

    /// What goes with the session that an event has begun.
    fn parts(&self, first: MadeEvent, carried: CarriedSession<V>) -> Vec<CarriedChange<V>> {
        let client = carried.client;
        let everywhere = with_routes(&client);
        let own = SlotSet::from_iter([Slot::of_client(client.as_bytes())]);
        let birth = NewBirth::Of(Birth {
            dot: first.dot,
            clock: first.clock,
            is_clean: false,
        });
        let with = |slots: &SlotSet, fact, value| CarriedChange {
            slots: slots.clone(),
            change: adding(client.clone(), birth, fact, value),
        };
        let released = (0..).zip(carried.released);
        // A delivery names no message that the client has.
        let delivery = || Fact::Delivery { message: first.dot };
        let released = released.map(|of| with(&own, delivery(), freeing(of, first)));
        let subscriptions = carried.subscriptions.into_iter();
        let subscriptions = subscriptions.map(|value| with(&everywhere, Fact::Subscription, value));
        let memberships = carried.memberships.into_iter();
        let memberships = memberships.map(|of| self.membership(of, &client, birth));
        let messages = carried.messages.into_iter();
        let messages = messages.map(|value| with(&own, Fact::Message, value));
        let expiry = Fact::Expiry { connected: None };
        let expiry = with(&own, expiry, V::of_expiry(carried.expiry));
        let parts = released.chain(subscriptions).chain(memberships);
        parts.chain(messages).chain([expiry]).collect()
    }

    fn membership(
        &self,
        membership: CarriedMembership<V>,
        client: &ClientId,
        birth: NewBirth,
    ) -> CarriedChange<V> {
        let CarriedMembership { group, value } = membership;
        let terms = MemberTerms {
            client: client.clone(),
            since: self.members.memberships.earliest(&group),
        };
        CarriedChange {
            slots: super::group_changes::with_routes(&group),
            change: adding(group.key().clone(), birth, Fact::Member(Box::new(terms)), value),
        }
    }
}

/// Change of such a session, and the slots that it is of.
struct CarriedChange<V> {
    slots: SlotSet,
    change: NewChange<V>,
}

/// Value of a packet id whose PUBREL is the first, second, ... of the session.
fn freeing<V: DeliveryValue>((order, packet_id): (u64, PacketId), first: MadeEvent) -> V {
    V::of_delivery(PacketDelivery {
        packet_id,
        connection_clock: first.clock,
        order,
        stage: DeliveryStage::Freeing,
    })
}

fn adding<V>(client: ClientId, birth: NewBirth, fact: Fact, value: V) -> NewChange<V> {
    NewChange {
        client,
        removes: Vec::new(),
        adds: Some(NewEntry { birth, fact, value }),
    }
}
