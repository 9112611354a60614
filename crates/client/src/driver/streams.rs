//! What the session delivers, on its way to the readers of subscriptions and watches.
//!
//! A reader's channel has a limit. What does not fit is held back, and its message is not acknowledged before
//! it fits: a server sends no more than the client's Receive Maximum beyond that. QoS 0 messages have no
//! acknowledgement and are dropped instead.

use std::collections::{BTreeMap, VecDeque};

use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

use crate::core::{DeliveryId, Item, OperationError, StreamId};
use protocol::packet::QoS;

/// Who reads a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StreamKind {
    Subscription,
    Watch,
}

/// What a reader receives; an error is the last.
pub(crate) type StreamItem = Result<Item, OperationError>;
pub(crate) type StreamSender = mpsc::Sender<StreamItem>;
pub(crate) type StreamReceiver = mpsc::Receiver<StreamItem>;

#[derive(Debug, Default)]
pub(super) struct Streams {
    senders: BTreeMap<StreamId, StreamSender>,
    held: VecDeque<Held>,
    /// How many of `held` each delivery still waits for.
    untaken: BTreeMap<DeliveryId, usize>,
}

#[derive(Debug)]
struct Held {
    stream: StreamId,
    delivery: Option<DeliveryId>,
    item: StreamItem,
}

impl Streams {
    pub(super) fn add(&mut self, stream: StreamId, sender: StreamSender) {
        self.senders.insert(stream, sender);
    }

    /// Removes a stream; deliveries that only it had to take.
    pub(super) fn remove(&mut self, stream: StreamId) -> Vec<DeliveryId> {
        self.senders.remove(&stream);
        let (gone, kept) = std::mem::take(&mut self.held)
            .into_iter()
            .partition(|held: &Held| held.stream == stream);
        self.held = kept;
        let gone: VecDeque<Held> = gone;
        gone.into_iter()
            .filter_map(|held| self.taken(held.delivery))
            .collect()
    }

    /// Hands an item to streams. True if all have it.
    pub(super) fn deliver(
        &mut self,
        delivery: Option<DeliveryId>,
        streams: &[StreamId],
        item: &Item,
    ) -> bool {
        let may_drop = matches!(item, Item::Message(message) if message.qos == QoS::AtMostOnce);
        let mut waiting = 0;
        for stream in streams {
            let Some(item) = self.try_send(*stream, Ok(item.clone())) else {
                continue;
            };
            if !may_drop {
                self.held.push_back(Held {
                    stream: *stream,
                    delivery,
                    item,
                });
                waiting += 1;
            }
        }
        if let Some(delivery) = delivery
            && waiting > 0
        {
            self.untaken.insert(delivery, waiting);
        }
        waiting == 0
    }

    pub(super) fn gap(&mut self, stream: StreamId) {
        self.deliver(None, &[stream], &Item::Gap);
    }

    /// Tells a stream why nothing more comes.
    pub(super) fn end(&mut self, stream: StreamId, error: OperationError) {
        match self.try_send(stream, Err(error)) {
            None => {
                self.senders.remove(&stream);
            }
            Some(item) => self.held.push_back(Held {
                stream,
                delivery: None,
                item,
            }),
        }
    }

    /// Waits until the stream at the front of what is held has room.
    pub(super) async fn room(&self) {
        let sender = self.held.front().and_then(|held| self.senders.get(&held.stream));
        match sender {
            // A reader that is gone has room as well: `hand_over` notices.
            Some(sender) => drop(sender.reserve().await),
            None if self.held.is_empty() => std::future::pending().await,
            None => {}
        }
    }

    /// Hands over what fits by now; deliveries that all their streams have.
    pub(super) fn hand_over(&mut self) -> Vec<DeliveryId> {
        let mut taken = Vec::new();
        while let Some(held) = self.held.pop_front() {
            let Held {
                stream,
                delivery,
                item,
            } = held;
            let is_last = item.is_err();
            match self.send_now(stream, item) {
                None => {
                    if is_last {
                        self.senders.remove(&stream);
                    }
                    taken.extend(self.taken(delivery));
                }
                Some(item) => {
                    self.held.push_front(Held {
                        stream,
                        delivery,
                        item,
                    });
                    break;
                }
            }
        }
        taken
    }

    fn taken(&mut self, delivery: Option<DeliveryId>) -> Option<DeliveryId> {
        let delivery = delivery?;
        let waiting = self.untaken.get_mut(&delivery)?;
        *waiting -= 1;
        if *waiting > 0 {
            return None;
        }
        self.untaken.remove(&delivery);
        Some(delivery)
    }

    /// Sends behind what is held for the same stream. The item, if it has to wait.
    fn try_send(&self, stream: StreamId, item: StreamItem) -> Option<StreamItem> {
        if self.held.iter().any(|held| held.stream == stream) {
            return Some(item);
        }
        self.send_now(stream, item)
    }

    fn send_now(&self, stream: StreamId, item: StreamItem) -> Option<StreamItem> {
        match self.senders.get(&stream)?.try_send(item) {
            // A reader that is gone takes everything.
            Ok(()) | Err(TrySendError::Closed(_)) => None,
            Err(TrySendError::Full(item)) => Some(item),
        }
    }
}
