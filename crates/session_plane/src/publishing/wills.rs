//! Wills among the messages: a will takes a number, or goes on with one, and is routed under it.
//!
//! An entry beside the will names the number. A run that goes on with it writes such an entry of its
//! own first, under the same number and the clock of the first entry: a single owner may be left that
//! has the number. It writes one more only where it has learned of another number, and removes none:
//! otherwise two primary owners would write in turns for ever.

use cluster::session_plane::Hlc;

use super::Publishing;
use super::action::PublishingAction;
use super::message::{Message, Origin, Phase};
use super::packet_use::ContentId;
use super::storing::{await_stored, give_again};
use crate::{ClientId, Dot};

/// Number of a will: the value of an entry of [`EntryKind::WillNumber`](crate::EntryKind::WillNumber).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WillNumber {
    /// QoS 2 number, under which every node routes the will.
    pub number: Dot,
    /// Clock of the message, where an earlier entry has named its number. None: that of this entry.
    pub message_clock: Option<Hlc>,
}

/// Will that is to be published.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DueWill {
    /// Client of the will.
    pub client: ClientId,
    /// Event of the will.
    pub will: Dot,
    /// Content of the message.
    pub content: ContentId,
    /// Number that the will has. None: it takes one.
    pub numbered: Option<NumberedWill>,
}

/// Number that a will has already.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NumberedWill {
    /// The number.
    pub number: Dot,
    /// Clock of the message.
    pub clock: Hlc,
    /// Event of this run that has made an entry with the number.
    pub entry: Option<Dot>,
}

impl<M: Clone> Publishing<M> {
    /// Routes a will under its number, or under a new one. An entry of this run names it first.
    ///
    /// A number that no run can have given out, or that another message has, is not gone on with.
    pub(super) fn publish_will(&mut self, due: DueWill, body: M, actions: &mut Vec<PublishingAction<M>>) {
        let numbered = due.numbered.as_ref().filter(|numbered| {
            let known = self.messages.get(&numbered.number);
            let is_of_will = |known: &Message<M>| known.origin == Origin::Will { will: due.will };
            self.is_given_out(numbered.number) && known.is_none_or(is_of_will)
        });
        let (clock, entry) = (
            numbered.map(|numbered| numbered.clock),
            numbered.and_then(|numbered| numbered.entry),
        );
        let number = numbered.map(|numbered| numbered.number);
        let number = number.unwrap_or_else(|| self.next_number());
        actions.push(PublishingAction::WillNumbered {
            client: due.client.clone(),
            will: due.will,
            number,
        });
        if self.messages.contains_key(&number) {
            return;
        }
        let message = Message {
            client: due.client,
            content: due.content,
            body,
            clock,
            origin: Origin::Will { will: due.will },
            phase: entry.map_or(self.writing(None), |entry| Phase::Storing { entry }),
        };
        actions.extend(self.store_will(number, due.will, &message));
        self.add_message(number, message);
        self.wills.insert(number);
    }

    /// Sends the entry of a number to all that have to have it, or writes it first.
    fn store_will(&self, number: Dot, will: Dot, message: &Message<M>) -> Vec<PublishingAction<M>> {
        match message.phase {
            Phase::Storing { entry } => vec![
                give_again(message, number, entry),
                await_stored(message, number, entry, self.ring.marker),
            ],
            Phase::Writing { .. } | Phase::Ready { .. } | Phase::OnTheWay { .. } => {
                let message_clock = message.clock;
                vec![PublishingAction::WriteWillNumber {
                    client: message.client.clone(),
                    will,
                    number: WillNumber {
                        number,
                        message_clock,
                    },
                }]
            }
        }
    }

    /// Gives up the number of a will that is not on its way: another primary owner goes on with it, or
    /// another number counts (rule `one-number`).
    pub(super) fn give_up_will(&mut self, number: Dot, actions: &mut Vec<PublishingAction<M>>) {
        let message = self.messages.get(&number);
        let waits = message.is_some_and(|message| !message.is_on_the_way());
        if waits && self.wills.remove(&number) {
            self.give_up(number);
            self.route_ready(actions);
        }
    }
}
