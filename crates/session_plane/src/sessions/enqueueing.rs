//! Enqueueing: messages for one session alone, such as the retained messages of a SUBSCRIBE.
//!
//! Such a message is an entry of the session like any other of its queue. It was not published to the slot, so
//! no subscription decides about it. Its event is its own, and its content is stored under that.

use super::{Sessions, SessionsAction, SessionsValue};
use crate::connecting::ConnectionId;
use crate::plane::{Matching, NewBirth, NewChange, NewEntry, Now};
use crate::stream::StreamFull;
use crate::transfer::TransferBytes;
use crate::{Fact, MadeEvent, Slot, SlotSet};

impl<V, M, R> Sessions<V, M, R>
where
    V: SessionsValue<M>,
    M: TransferBytes + Clone,
    R: Matching<V, M>,
{
    /// Puts a message of QoS 1 or 2 into the queue of the session that a connection has. It is delivered in the
    /// order of the queue, and stays until the client acknowledges it, over connections.
    /// [`SessionsAction::Durable`] reports it. None where the connection has no session, or has ended.
    ///
    /// # Errors
    ///
    /// [`StreamFull`] where too much is not durable: the client waits.
    ///
    /// # Panics
    ///
    /// If the value is of no message of QoS 1 or 2.
    pub fn enqueue(
        &mut self,
        now: Now,
        connection: ConnectionId,
        value: V,
        actions: &mut Vec<SessionsAction<V, M>>,
    ) -> Result<Option<MadeEvent>, StreamFull> {
        assert!(
            value.delivery_qos().is_some(),
            "a message that is stored has a packet id"
        );
        let client = self.clients.get(&connection);
        let client = client.filter(|client| !client.is_closing && client.is_accepted);
        let client = client.map(|client| client.client().clone());
        let Some((client, birth)) = client.zip(self.birth(connection)) else {
            return Ok(None);
        };
        let slots = SlotSet::from_iter([Slot::of_client(client.as_bytes())]);
        let adds = NewEntry {
            birth: NewBirth::Of(birth),
            fact: Fact::Message,
            value,
        };
        let change = NewChange {
            client,
            removes: Vec::new(),
            adds: Some(adds),
        };
        self.change(now, connection, slots, change, actions).map(Some)
    }
}
