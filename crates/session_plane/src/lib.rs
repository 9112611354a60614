//! Session plane: how sessions, routes and retained messages are replicated between nodes.
//!
//! Every change has an identity, a [`Dot`]. Every copy of a [`Slot`] knows exactly which changes it
//! has decided upon, by a [`VersionVector`]. One merge rule serves joins, failover, returns and
//! heals: [`SlotCopy::merge`]. The nodes that have a copy follow from a [`View`], by its [`Ring`].
//! [`Membership`] decides which nodes a view has.
//!
//! `docs/internals/session-plane.md` has the rules; the crate `session-plane-model` beside this one
//! plays them. Nothing here knows MQTT packets, sockets or clocks.

pub mod client_id;
pub mod connecting;
mod connection_order;
pub mod copy;
pub mod deciding_node;
pub mod delivering;
mod dirty;
pub mod dot;
pub mod ended;
pub mod entry;
pub mod expiring;
pub mod feed;
pub mod garbage;
pub mod groups;
mod hash;
pub mod interests;
mod join;
mod made_event;
pub mod membership;
mod misplaced;
pub mod plane;
mod progress;
pub mod publishing;
pub mod queue_limits;
pub mod recipients;
pub mod records;
pub mod retiring;
pub mod ring;
pub mod session_entries;
pub mod sessions;
pub mod single_dots;
pub mod slot;
pub mod slot_entries;
pub mod slot_set;
pub mod stream;
pub mod transfer;
pub mod version_vector;
pub mod view;
pub mod wills;
pub mod wire;

pub use client_id::{ClientId, ClientIdTooLong};
pub use connecting::{Connections, Questions};
pub use connection_order::ConnectionOrder;
pub use copy::{
    ClaimError, ClientDot, ClientEntry, CopyParts, CopyPartsError, Matched, Pending, PendingMessage,
    SlotCopy, TakeError,
};
pub use deciding_node::DecidingNode;
pub use delivering::Delivering;
pub use dot::{Dot, EVENT_NUMBER_MAX, Run};
pub use ended::{Ended, EndedError};
pub use entry::{AssignedMessage, Birth, Entry, EntryId, EntryKind, Fact, MemberTerms, WillTerms};
pub use expiring::{Expiring, SessionExpiry};
pub use feed::{FeedSink, FeedSource};
pub use garbage::{Garbage, GarbageOf, GarbagePlace};
pub use groups::{GroupId, GroupSink, GroupSource};
pub use interests::{Interests, TopicFilter};
pub use made_event::MadeEvent;
pub use membership::{Membership, MembershipConfig};
pub use misplaced::MisplacedEntry;
pub use publishing::Publishing;
pub use queue_limits::{QueueLimiting, QueueLimits, QueueSize};
pub use recipients::Recipients;
pub use records::{RecordBatch, RecordError, RecordValue, RecordWrite, RecordsReader};
pub use retiring::{CopySets, Retired, Retiring, Settled, SettledError};
pub use ring::Ring;
pub use session_entries::{Ending, SessionEntries};
pub use sessions::Sessions;
pub use single_dots::SingleDots;
pub use slot::{GroupPart, Slot, SlotOutOfRange};
pub use slot_entries::{Change, SingleDotsFull, SlotEntries};
pub use slot_set::SlotSet;
pub use transfer::{Asker, Handover, Holder};
pub use version_vector::{Interval, VectorFull, VersionVector};
pub use view::{NodeState, PresentNode, SwimIncarnation, View, ViewError};
pub use wills::Wills;
