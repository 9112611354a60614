//! Wills upon the plane: left by connections of this node, and published for the slots that it decides
//! about (rules 56 to 62).
//!
//! A will is written behind the session's entry, and CONNACK waits for both. A connection whose CONNECT
//! got no CONNACK leaves none. The wills say what follows from an end; this module makes their events,
//! and hands what is due to the publishing.

use super::acting::Queue;
use super::entries::{EntryWrite, OwnWrite, Written, WrittenEntry};
use super::exchanges::WaitingUse;
use super::{Sessions, SessionsAction, SessionsValue};
use crate::connecting::{ConnectionEvent, ConnectionId};
use crate::plane::{Matching, NewBirth, NewEntry, Now, OwnEntry};
use crate::publishing::{DueWill, PublishingEvent, WillNumber};
use crate::transfer::TransferBytes;
use crate::wills::{OwnWill, WillEnd, WillsAction, WillsEvent};
use crate::{Birth, ClientId, Dot, Entry, EntryId, EntryKind, Fact, MadeEvent, Slot, WillTerms};

/// Will of a CONNECT.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewWill<V> {
    /// Value of the will's entry.
    pub value: V,
    /// The will has a delay.
    pub is_delayed: bool,
}

/// Entry of a will, or beside one, that is to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct WillWrite<V> {
    pub(super) removes: Vec<Dot>,
    pub(super) adds: Option<NewEntry<V>>,
    pub(super) then: AfterWill,
}

/// What follows when the event of a [`WillWrite`] is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AfterWill {
    /// The claim goes on: its session's entry and its will are made.
    Claim {
        connection: ConnectionId,
        session: Dot,
    },
    /// The connection is released when the event is durable.
    Leave(ConnectionId),
    /// The number is routed when all nodes have the entry.
    Number(Dot),
    Nothing,
}

impl<V, M, R> Sessions<V, M, R>
where
    V: SessionsValue<M>,
    M: TransferBytes + Clone,
    R: Matching<V, M>,
{
    /// Writes the will of a claim behind its session's entry. False where it has none.
    pub(super) fn write_will(&mut self, connection: ConnectionId, session: MadeEvent, birth: Birth) -> bool {
        let Some(client) = self.clients.get(&connection) else {
            return false;
        };
        let (Some(will), Some(opened)) = (client.will_of_connect(), client.opened()) else {
            return false;
        };
        let terms = WillTerms {
            connection: opened.dot,
            delayed_since: will.is_delayed.then_some(session.clock),
        };
        let adds = NewEntry {
            birth: NewBirth::Of(birth),
            fact: Fact::Will(Box::new(terms)),
            value: will.value.clone(),
        };
        let removes = client.will.iter().map(|will| will.entry.dot).collect();
        let write = WillWrite {
            removes,
            adds: Some(adds),
            then: AfterWill::Claim {
                connection,
                session: session.dot,
            },
        };
        let client = client.client().clone();
        // Nothing comes between the two: what waits may be the end of the connection.
        self.stalled.push_front(EntryWrite {
            connection: Some(connection),
            client,
            write: OwnWrite::Will(write),
        });
        true
    }

    /// The event of a will, or of what stands beside one, is made.
    pub(super) fn will_written(
        &mut self,
        now: Now,
        then: AfterWill,
        written: Written<V>,
        queue: &mut Queue<V, M>,
    ) {
        let Written { made, entry } = written;
        match then {
            AfterWill::Claim {
                connection,
                session: dot,
            } => {
                let ring = self.ring;
                self.note_event(Some(connection), made.dot);
                if let Some(client) = self.clients.get_mut(&connection) {
                    client.will = entry.map(|entry| WrittenEntry { entry, ring });
                }
                self.step(ConnectionEvent::SessionWritten { connection, dot }, queue);
            }
            AfterWill::Leave(connection) => {
                self.note_event(Some(connection), made.dot);
                let dot = made.dot;
                self.step_wills(now, WillsEvent::EndWritten { connection, dot }, queue);
            }
            AfterWill::Number(number) => {
                self.note_event(None, made.dot);
                self.step_own_publishing(PublishingEvent::WillNumberWritten { number, made }, queue);
                self.keep_use(number, entry);
            }
            AfterWill::Nothing => {}
        }
    }

    /// A connection has its session: from now on its end leaves the will.
    pub(super) fn open_will(&mut self, now: Now, connection: ConnectionId, queue: &mut Queue<V, M>) {
        let Some(client) = self.clients.get_mut(&connection) else {
            return;
        };
        client.is_accepted = true;
        let (Some(will), Some(opened)) = (&client.will, client.opened()) else {
            return;
        };
        let own = OwnWill {
            client: client.client().clone(),
            connection: opened.dot,
            will: will.entry.dot,
            birth: will.entry.entry.birth,
        };
        self.step_wills(now, WillsEvent::Written { connection, own }, queue);
    }

    /// A connection ends: its will is left, or dropped.
    pub(super) fn end_will(
        &mut self,
        now: Now,
        connection: ConnectionId,
        end: WillEnd,
        queue: &mut Queue<V, M>,
    ) {
        if let Some(client) = self.clients.get_mut(&connection)
            && !client.is_accepted
        {
            client.dropped_will = client.will.as_ref().map(|will| will.entry.dot);
        }
        self.step_wills(now, WillsEvent::Ended { connection, end }, queue);
    }

    /// Publishes a will that is due ([`SessionsAction::WillDue`]).
    pub fn publish_will(&mut self, now: Now, due: DueWill, actions: &mut Vec<SessionsAction<V, M>>) {
        let mut queue = Queue::default();
        if let Some(body) = self.will_body(&due) {
            self.step_own_publishing(PublishingEvent::WillDue { due, body }, &mut queue);
        }
        self.apply(now, queue, actions);
    }

    /// Removes a will that is due: its client has lost the right to publish it.
    pub fn refuse_will(&mut self, now: Now, due: DueWill, actions: &mut Vec<SessionsAction<V, M>>) {
        let mut queue = Queue::default();
        let DueWill { client, will, .. } = due;
        self.step_wills(now, WillsEvent::Refused { client, will }, &mut queue);
        self.apply(now, queue, actions);
    }

    /// Does what the wills ask for.
    pub(super) fn apply_will(
        &mut self,
        action: WillsAction,
        queue: &mut Queue<V, M>,
        actions: &mut Vec<SessionsAction<V, M>>,
    ) {
        match action {
            WillsAction::Leave {
                connection,
                client,
                dot,
                birth,
                delay,
            } => {
                let fact = Fact::ConnectionEnd { connection: dot };
                let value = V::of_will_end(Some(delay));
                let write = WillWrite {
                    removes: vec![dot],
                    adds: Some(new_entry(birth, fact, value)),
                    then: AfterWill::Leave(connection),
                };
                self.push_will(Some(connection), client, write);
            }
            WillsAction::Release { connection, removes } => {
                if let Some(client) = self.clients.get_mut(&connection) {
                    client.is_released = true;
                    client.dropped_will = client.dropped_will.or(removes);
                }
                self.close_if_durable(connection, queue);
            }
            WillsAction::Publish(due) => self.begin_will(due, queue, actions),
            WillsAction::GiveUp { number } => {
                self.step_own_publishing(PublishingEvent::WillGivenUp { number }, queue);
                if !self.publishing.has_message(number) {
                    self.waiting_uses.remove(&number);
                }
            }
            WillsAction::Remove { client, removes } => {
                let write = WillWrite {
                    removes: removes.into_iter().collect(),
                    adds: None,
                    then: AfterWill::Nothing,
                };
                self.push_will(None, client, write);
            }
            WillsAction::Arm {
                client,
                will,
                removes,
            } => {
                if let Some(entry) = self.will_entry(&client, will) {
                    let write = WillWrite {
                        removes: removes.into_iter().collect(),
                        adds: Some(new_entry(entry.birth, entry.fact, entry.value)),
                        then: AfterWill::Nothing,
                    };
                    self.push_will(None, client, write);
                }
            }
        }
    }

    /// Publishes a will, or asks the node first whether it may be published. One with a number was asked about.
    fn begin_will(&mut self, due: DueWill, queue: &mut Queue<V, M>, actions: &mut Vec<SessionsAction<V, M>>) {
        let Some(body) = self.will_body(&due) else {
            return;
        };
        if due.numbered.is_none() {
            actions.push(SessionsAction::WillDue { due, body });
        } else {
            self.step_own_publishing(PublishingEvent::WillDue { due, body }, queue);
        }
    }

    /// Writes the number of a will, in the session of the will.
    pub(super) fn write_will_number(&mut self, client: ClientId, will: Dot, number: WillNumber) {
        if let Some(entry) = self.will_entry(&client, will) {
            let (fact, value) = (Fact::WillNumber { will }, V::of_will_number(number));
            let write = WillWrite {
                removes: Vec::new(),
                adds: Some(new_entry(entry.birth, fact, value)),
                then: AfterWill::Number(number.number),
            };
            self.push_will(None, client, write);
        }
    }

    /// Finds the entry of a number that this run has routed once and goes on with: a will was given up here
    /// in between.
    pub(super) fn find_will_number(&mut self, client: &ClientId, number: Dot, dot: Dot) {
        if self.waiting_uses.contains_key(&number) {
            return;
        }
        let slot = Slot::of_client(client.as_bytes());
        let kind = EntryKind::WillNumber;
        if let Some(entry) = self.plane.entry(client, EntryId { kind, dot }).cloned() {
            let client = client.clone();
            let entry = OwnEntry {
                slot,
                client,
                dot,
                entry,
            };
            let giving = None;
            self.waiting_uses.insert(number, WaitingUse { entry, giving });
        }
    }

    fn push_will(&mut self, connection: Option<ConnectionId>, client: ClientId, write: WillWrite<V>) {
        self.stalled.push_back(EntryWrite {
            connection,
            client,
            write: OwnWrite::Will(write),
        });
    }

    /// Message of a will. None where it was removed meanwhile.
    fn will_body(&self, due: &DueWill) -> Option<M> {
        self.will_entry(&due.client, due.will)?.value.body()
    }

    fn will_entry(&self, client: &ClientId, will: Dot) -> Option<Entry<V>> {
        let (kind, dot) = (EntryKind::Will, will);
        self.plane.entry(client, EntryId { kind, dot }).cloned()
    }
}

pub(super) fn new_entry<V>(birth: Birth, fact: Fact, value: V) -> NewEntry<V> {
    let birth = NewBirth::Of(birth);
    NewEntry { birth, fact, value }
}
