//! Storing: what the publishing asks for, and the waits for entries of packet ids (rules
//! `received-first` and `received-to-new-owners`).

use super::acting::Queue;
use super::entries::{OwnWrite, UseWrite};
use super::exchanges::WaitingUse;
use super::routing::RoutedNow;
use super::waits::{AllNodesWait, FreedWait, StoredWait};
use super::{ConnectionViolation, Sessions, SessionsAction, SessionsValue};
use crate::Dot;
use crate::plane::{Matching, Now, OwnEntry};
use crate::publishing::{PublishingAction, PublishingEvent, StoredAt};
use crate::transfer::TransferBytes;
use crate::wills::WillsEvent;

impl<V, M, R> Sessions<V, M, R>
where
    V: SessionsValue<M>,
    M: TransferBytes + Clone,
    R: Matching<V, M>,
{
    /// Does what the publishing asks for.
    pub(super) fn apply_publishing(
        &mut self,
        now: Now,
        action: PublishingAction<M>,
        queue: &mut Queue<V, M>,
        actions: &mut Vec<SessionsAction<V, M>>,
    ) {
        match action {
            PublishingAction::Write {
                connection,
                client,
                packet_use,
                body,
                removes,
            } => {
                let value = V::of_use(packet_use, body);
                let write = UseWrite {
                    packet_use,
                    value,
                    removes,
                };
                self.write_later(connection, client, OwnWrite::Use(write));
            }
            PublishingAction::GiveAgain {
                client,
                number,
                entry,
            } => {
                self.find_will_number(&client, number, entry);
                self.give_use(now, number, queue);
            }
            PublishingAction::AwaitStored {
                at,
                number,
                entry,
                marker,
                ..
            } => {
                let wait = StoredWait {
                    number,
                    entry,
                    marker,
                    at,
                };
                self.await_stored(wait, queue);
            }
            PublishingAction::Route {
                message,
                body,
                clock,
                to,
                marker,
            } => {
                let routed = RoutedNow {
                    message,
                    body,
                    clock,
                    marker,
                };
                self.route(now, &routed, &to, queue);
            }
            PublishingAction::SendPubrec { .. }
            | PublishingAction::SendPubcomp { .. }
            | PublishingAction::Refuse { .. }
            | PublishingAction::Disconnect { .. } => actions.extend(answer_of(&action)),
            PublishingAction::WillNumbered { client, will, number } => {
                self.step_wills(now, WillsEvent::Numbered { client, will, number }, queue);
            }
            PublishingAction::WriteWillNumber { client, will, number } => {
                self.write_will_number(client, will, number);
            }
            PublishingAction::WillPublished { number } => {
                self.waiting_uses.remove(&number);
                self.step_wills(now, WillsEvent::Published { number }, queue);
            }
        }
    }

    /// Keeps the entry of a number, if its message waits for this one. Of two entries that were written
    /// under one number it waits for the first; that of a number that was given up nobody waits for.
    pub(super) fn keep_use(&mut self, number: Dot, written: Option<OwnEntry<V>>) {
        if let Some(entry) = written.filter(|entry| self.publishing.is_storing(number, entry.dot)) {
            let giving = None;
            self.waiting_uses.insert(number, WaitingUse { entry, giving });
        }
    }

    /// Gives the entry of a number to all owners of the ring in force (rule `received-to-new-owners`).
    fn give_use(&mut self, now: Now, number: Dot, queue: &mut Queue<V, M>) {
        let Some(waiting) = self.waiting_uses.get_mut(&number) else {
            return;
        };
        let entry = waiting.entry.clone();
        let owners: Vec<_> = self.plane.owners(entry.slot).collect();
        waiting.giving = Some(self.plane.give(now, entry, &owners, &mut queue.plane));
    }

    /// Waits until the owners of the ring in force have the entry of a number.
    fn await_stored(&mut self, wait: StoredWait, queue: &mut Queue<V, M>) {
        let waiting = self.waiting_uses.get(&wait.number);
        let Some(waiting) = waiting.filter(|waiting| waiting.entry.dot == wait.entry) else {
            return;
        };
        match waiting.giving {
            Some(giving) => self.waits.add_stored_giving(giving, wait),
            None if self.waits.has_event(wait.entry) => self.waits.add_stored(wait),
            None => self.end_stored_wait(wait, queue),
        }
    }

    /// The owners have the entry of a number. Of a will all nodes have to confirm the stream up to it.
    ///
    /// A wait by an earlier ring is void, and may end last: it must not take the place of a later one.
    pub(super) fn end_stored_wait(&mut self, wait: StoredWait, queue: &mut Queue<V, M>) {
        if wait.marker != self.plane.marker() {
            return;
        }
        if wait.at == StoredAt::AllNodes {
            self.await_all_nodes(wait.entry, AllNodesWait::Number(wait), queue);
        } else {
            self.tell_stored(wait, queue);
        }
    }

    pub(super) fn tell_stored(&mut self, wait: StoredWait, queue: &mut Queue<V, M>) {
        let StoredWait {
            number,
            entry,
            marker,
            ..
        } = wait;
        let stored = PublishingEvent::Stored {
            number,
            entry,
            marker,
        };
        self.step_own_publishing(stored, queue);
    }

    pub(super) fn end_freed_wait(&mut self, wait: FreedWait, dot: Dot, queue: &mut Queue<V, M>) {
        let FreedWait {
            connection,
            packet_id,
        } = wait;
        let freed = PublishingEvent::Freed {
            connection,
            packet_id,
            dot,
        };
        self.step_own_publishing(freed, queue);
    }
}

/// Answer to a publisher.
fn answer_of<V, M>(action: &PublishingAction<M>) -> Option<SessionsAction<V, M>> {
    match *action {
        PublishingAction::SendPubrec {
            connection,
            packet_id,
        } => Some(SessionsAction::Received {
            connection,
            packet_id,
        }),
        PublishingAction::SendPubcomp {
            connection,
            packet_id,
            is_found,
        } => Some(SessionsAction::Freed {
            connection,
            packet_id,
            is_found,
        }),
        PublishingAction::Refuse {
            connection,
            packet_id,
            reason,
        } => Some(SessionsAction::NotReceived {
            connection,
            packet_id,
            reason,
        }),
        PublishingAction::Disconnect { connection, reason } => {
            let reason = ConnectionViolation::Publish(reason);
            Some(SessionsAction::Violated { connection, reason })
        }
        _ => None,
    }
}
