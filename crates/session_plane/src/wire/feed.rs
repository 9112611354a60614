//! Feeds: questions for a queue, its messages, and windows.
//!
//! ```text
//! open       | feed, client, known, held, deliveries, last own event, window
//! items      | feed, number, deliveries, items, removed, events that removed them
//! key        | clock, dot
//! deliveries | added, gone, ended
//! ```
//!
//! Sets and maps are sent in ascending order, so each has one encoding.

use std::collections::BTreeMap;
use std::sync::Arc;

use cluster::session_plane::Hlc;

use super::field::Field;
use super::reader::Reader;
use super::with_kind::WithKind;
use super::writer::Writer;
use super::{Fault, Kind, WireError, WireValue};
use crate::feed::{
    CloseReason, DeliveryChanges, FeedDelivery, FeedId, FeedItem, FeedItems, FeedMessage, FeedOpen,
    KnownDelivery, QueueId, QueueKey, Window,
};
use crate::transfer::RunPosition;
use crate::{ClientId, Dot, VersionVector};

/// Window of a feed, as its message has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct GrantedWindow {
    feed: FeedId,
    window: Window,
}

/// End of a feed by its owner, as its message has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ClosedFeed {
    feed: FeedId,
    reason: CloseReason,
}

impl<V: WireValue> WithKind for FeedMessage<V> {
    fn kind(&self) -> Kind {
        match self {
            FeedMessage::Open(_) => Kind::FeedOpen,
            FeedMessage::Items(_) => Kind::FeedItems,
            FeedMessage::Window { .. } => Kind::FeedWindow,
            FeedMessage::Close { .. } => Kind::FeedClose,
            FeedMessage::Closed { .. } => Kind::FeedClosed,
        }
    }

    fn put_fields(&self, writer: &mut Writer) {
        match self {
            FeedMessage::Open(open) => writer.put(open),
            FeedMessage::Items(items) => writer.put(items),
            FeedMessage::Window { feed, window } => writer.put(&GrantedWindow {
                feed: *feed,
                window: *window,
            }),
            FeedMessage::Close { feed } => writer.put(feed),
            FeedMessage::Closed { feed, reason } => writer.put(&ClosedFeed {
                feed: *feed,
                reason: *reason,
            }),
        }
    }

    fn take_fields(reader: &mut Reader, kind: Kind) -> Result<FeedMessage<V>, WireError> {
        Ok(match kind {
            Kind::FeedOpen => FeedMessage::Open(reader.take("question")?),
            Kind::FeedItems => FeedMessage::Items(reader.take("items")?),
            Kind::FeedWindow => {
                let GrantedWindow { feed, window } = reader.take("window")?;
                FeedMessage::Window { feed, window }
            }
            Kind::FeedClose => FeedMessage::Close {
                feed: reader.take("feed")?,
            },
            Kind::FeedClosed => {
                let ClosedFeed { feed, reason } = reader.take("end of a feed")?;
                FeedMessage::Closed { feed, reason }
            }
            _ => return Err(WireError::MisplacedKind { kind }),
        })
    }
}

impl Field for FeedId {
    const BYTES_MIN: usize = 1;

    fn put(&self, writer: &mut Writer) {
        writer.put_number(self.0);
    }

    fn take(reader: &mut Reader) -> Result<FeedId, WireError> {
        reader.positive().map(FeedId)
    }
}

impl Field for QueueKey {
    const BYTES_MIN: usize = Hlc::BYTES_MIN + Dot::BYTES_MIN;

    fn put(&self, writer: &mut Writer) {
        writer.put(&self.clock);
        writer.put(&self.dot);
    }

    fn take(reader: &mut Reader) -> Result<QueueKey, WireError> {
        Ok(QueueKey {
            clock: reader.take("clock of a queued message")?,
            dot: reader.take("dot of a queued message")?,
        })
    }
}

impl Field for Window {
    const BYTES_MIN: usize = 2;

    fn put(&self, writer: &mut Writer) {
        writer.put(&self.items);
        writer.put(&self.bytes);
    }

    fn take(reader: &mut Reader) -> Result<Window, WireError> {
        Ok(Window {
            items: reader.take("items of a window")?,
            bytes: reader.take("bytes of a window")?,
        })
    }
}

impl Field for GrantedWindow {
    const BYTES_MIN: usize = FeedId::BYTES_MIN + Window::BYTES_MIN;

    fn put(&self, writer: &mut Writer) {
        writer.put(&self.feed);
        writer.put(&self.window);
    }

    fn take(reader: &mut Reader) -> Result<GrantedWindow, WireError> {
        Ok(GrantedWindow {
            feed: reader.take("feed")?,
            window: reader.take("window")?,
        })
    }
}

impl Field for CloseReason {
    const BYTES_MIN: usize = 1;

    fn put(&self, writer: &mut Writer) {
        writer.put_byte(match self {
            CloseReason::NotOwner => 1,
            CloseReason::Full => 2,
            CloseReason::TooManyDeliveries => 3,
            CloseReason::NoSession => 4,
        });
    }

    fn take(reader: &mut Reader) -> Result<CloseReason, WireError> {
        Ok(match reader.byte()? {
            1 => CloseReason::NotOwner,
            2 => CloseReason::Full,
            3 => CloseReason::TooManyDeliveries,
            4 => CloseReason::NoSession,
            found => return Err(reader.error(Fault::UnknownForm { found })),
        })
    }
}

impl Field for ClosedFeed {
    const BYTES_MIN: usize = FeedId::BYTES_MIN + CloseReason::BYTES_MIN;

    fn put(&self, writer: &mut Writer) {
        writer.put(&self.feed);
        writer.put(&self.reason);
    }

    fn take(reader: &mut Reader) -> Result<ClosedFeed, WireError> {
        Ok(ClosedFeed {
            feed: reader.take("feed")?,
            reason: reader.take("reason")?,
        })
    }
}

impl Field for KnownDelivery {
    const BYTES_MIN: usize = Dot::BYTES_MIN + bool::BYTES_MIN;

    fn put(&self, writer: &mut Writer) {
        writer.put(&self.message);
        writer.put(&self.is_gone);
    }

    fn take(reader: &mut Reader) -> Result<KnownDelivery, WireError> {
        Ok(KnownDelivery {
            message: reader.take("message of a delivery")?,
            is_gone: reader.take("mark of a gone message")?,
        })
    }
}

impl Field for QueueId {
    const BYTES_MIN: usize = ClientId::BYTES_MIN + Dot::BYTES_MIN;

    fn put(&self, writer: &mut Writer) {
        writer.put(&self.client);
        writer.put(&self.birth);
    }

    fn take(reader: &mut Reader) -> Result<QueueId, WireError> {
        Ok(QueueId {
            client: reader.take("client")?,
            birth: reader.take("begin of the session")?,
        })
    }
}

impl Field for FeedOpen {
    const BYTES_MIN: usize = FeedId::BYTES_MIN + QueueId::BYTES_MIN + 3 + Dot::BYTES_MIN + Window::BYTES_MIN;

    fn put(&self, writer: &mut Writer) {
        writer.put(&self.feed);
        writer.put(&self.queue);
        writer.put(self.known.as_ref());
        writer.put(&self.held);
        writer.put(&self.deliveries);
        let Dot { run, number } = self.own_after;
        writer.put(&RunPosition { run, number });
        writer.put(&self.window);
    }

    fn take(reader: &mut Reader) -> Result<FeedOpen, WireError> {
        Ok(FeedOpen {
            feed: reader.take("feed")?,
            queue: reader.take("queue")?,
            known: Arc::new(reader.take("knowledge")?),
            held: reader.take("held messages")?,
            deliveries: reader.take("known deliveries")?,
            own_after: {
                let RunPosition { run, number } = reader.take("last own event")?;
                Dot { run, number }
            },
            window: reader.take("window")?,
        })
    }
}

/// Delivery that a question names.
#[derive(Debug)]
struct ToldDelivery {
    dot: Dot,
    known: KnownDelivery,
}

impl Field for ToldDelivery {
    const BYTES_MIN: usize = Dot::BYTES_MIN + KnownDelivery::BYTES_MIN;

    fn put(&self, writer: &mut Writer) {
        writer.put(&self.dot);
        writer.put(&self.known);
    }

    fn take(reader: &mut Reader) -> Result<ToldDelivery, WireError> {
        Ok(ToldDelivery {
            dot: reader.take("dot of a delivery")?,
            known: reader.take("delivery")?,
        })
    }
}

impl Field for BTreeMap<Dot, KnownDelivery> {
    const BYTES_MIN: usize = 1;

    fn put(&self, writer: &mut Writer) {
        let told = self.iter().map(|(dot, known)| ToldDelivery {
            dot: *dot,
            known: *known,
        });
        writer.put(&told.collect::<Vec<ToldDelivery>>());
    }

    fn take(reader: &mut Reader) -> Result<BTreeMap<Dot, KnownDelivery>, WireError> {
        let told: Vec<ToldDelivery> = reader.list()?;
        if !told.is_sorted_by(|one, other| one.dot < other.dot) {
            return Err(reader.error(Fault::NotAscending));
        }
        let told = told.into_iter();
        Ok(told.map(|told| (told.dot, told.known)).collect())
    }
}

impl<V: WireValue> Field for FeedDelivery<V> {
    const BYTES_MIN: usize = Dot::BYTES_MIN + KnownDelivery::BYTES_MIN + 1;

    fn put(&self, writer: &mut Writer) {
        writer.put(&self.dot);
        writer.put(&self.known);
        writer.put_value(&self.value);
    }

    fn take(reader: &mut Reader) -> Result<FeedDelivery<V>, WireError> {
        Ok(FeedDelivery {
            dot: reader.take("dot of a delivery")?,
            known: reader.take("delivery")?,
            value: reader.value("value of a delivery")?,
        })
    }
}

impl<V: WireValue> Field for DeliveryChanges<V> {
    const BYTES_MIN: usize = 3;

    fn put(&self, writer: &mut Writer) {
        writer.put(&self.added);
        writer.put(&self.gone);
        writer.put(&self.ended);
    }

    fn take(reader: &mut Reader) -> Result<DeliveryChanges<V>, WireError> {
        Ok(DeliveryChanges {
            added: reader.take("added deliveries")?,
            gone: reader.take("gone deliveries")?,
            ended: reader.take("ended deliveries")?,
        })
    }
}

impl<V: WireValue> Field for FeedItem<V> {
    const BYTES_MIN: usize = QueueKey::BYTES_MIN + 1;

    fn put(&self, writer: &mut Writer) {
        writer.put(&self.key);
        writer.put_value(&self.value);
    }

    fn take(reader: &mut Reader) -> Result<FeedItem<V>, WireError> {
        Ok(FeedItem {
            key: reader.take("queued message")?,
            value: reader.value("value of a queued message")?,
        })
    }
}

impl<V: WireValue> Field for FeedItems<V> {
    const BYTES_MIN: usize =
        FeedId::BYTES_MIN + 3 + DeliveryChanges::<V>::BYTES_MIN + VersionVector::BYTES_MIN;

    fn put(&self, writer: &mut Writer) {
        writer.put(&self.feed);
        writer.put(&self.number);
        writer.put(&self.deliveries);
        writer.put(&self.items);
        writer.put(&self.removed);
        writer.put(&self.removed_by);
    }

    fn take(reader: &mut Reader) -> Result<FeedItems<V>, WireError> {
        Ok(FeedItems {
            feed: reader.take("feed")?,
            number: reader.take("number of the message")?,
            deliveries: reader.take("changes of deliveries")?,
            items: reader.take("items")?,
            removed: reader.take("removed messages")?,
            removed_by: reader.take("events that removed messages")?,
        })
    }
}
