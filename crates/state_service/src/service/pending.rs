//! Requests that wait for their decision, and what they become then.

use std::collections::{BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use bytes::Bytes;
use mqtt::acks::AckSequence;
use mqtt::authorization::Access;
use mqtt::memory::Held;
use mqtt::memory::footprint::{block, places, properties, tree_entry};
use mqtt::now::Now;
use mqtt::response::Asking;
use protocol::Text;
use protocol::packet::{PacketId, Publish};
use protocol::state_store::{Dialect, Reply, Request, Verb};
use store::{Details, Version};

use super::trace::RequestTrace;
use crate::scan_seal::ScanBinding;

/// A request that waits, with all that its answer needs.
#[derive(Debug)]
pub struct Pending {
    pub(crate) asking: Asking,
    /// Which keys a SCAN may list; `None`: all.
    pub(crate) readable: Option<Box<Access>>,
    /// KEYNOTIFY of a client with a policy: the key, in case it may not be read any more when the registration is made.
    pub(crate) watched: Option<Bytes>,
    pub(crate) ack: AckSequence,
    pub(crate) packet_id: PacketId,
    pub(crate) response_topic: Text,
    pub(crate) correlation_data: Bytes,
    pub(crate) dialect: Dialect,
    /// Bytes of payload that fit its client for certain ([`crate::reply_room`]).
    pub(crate) reply_room: usize,
    /// `aio-persistence`: decided only when it is on disk, also with memory durability.
    pub(crate) needs_disk: bool,
    pub(crate) verb: Verb,
    /// GET and SCAN: what to read when the barrier is passed.
    pub(crate) read: Option<Request>,
    /// SCAN: what the token of its next page is bound to.
    pub(crate) bound: ScanBinding,
    /// GET: it asks for what else is known of the key.
    pub(crate) wants_details: bool,
    /// What a line about it shows, if it takes long.
    pub(crate) key: Option<Bytes>,
    /// When the answer is of no use any more.
    pub(crate) expires_at: Option<Instant>,
    pub(crate) received_at: Instant,
    /// If it is traced.
    pub(crate) trace: Option<Box<RequestTrace>>,
    /// A write: what it is known by when it comes again ([`RetryKey`](store::RetryKey)).
    pub(crate) identity: Option<u128>,
    /// Its part of the account, while it is there.
    pub(crate) _held: Held,
}

/// A decided request.
#[derive(Debug)]
pub struct Answer {
    /// Client that the response is for.
    pub asking: Asking,
    /// Place of the acknowledgement of the request.
    pub ack: AckSequence,
    /// Packet id of the request.
    pub packet_id: PacketId,
    /// Topic of the response.
    pub response_topic: Text,
    /// Correlation Data of the request.
    pub correlation_data: Bytes,
    /// Encoded reply.
    pub payload: Bytes,
    /// `__ts` of the response.
    pub version: Option<Version>,
    /// What else is known of the key, if the request asks for it.
    pub details: Option<Box<Details>>,
    /// `__protVer` of a request that cannot be served: answered with `__stat` 505.
    pub unsupported_version: Option<String>,
    /// When the answer is of no use any more.
    pub expires_at: Option<Instant>,
    /// Verb of the request.
    pub verb: Verb,
    /// The reply is an error.
    pub is_error: bool,
    /// The log knows nothing of it: the request, sent again, may be executed. The client must not hear of it before PUBACK.
    pub is_forgotten: bool,
    /// The key of a registration that has to be looked at.
    pub watched: Option<Bytes>,
    /// What a line about it shows, if it took long.
    pub key: Option<Bytes>,
    /// From the request to this answer.
    pub took: Duration,
    /// If it is traced.
    pub trace: Option<Box<RequestTrace>>,
}

impl Pending {
    /// The memory of a request that waits, in bytes. Its topic and data are parts of the packet, which stays as a whole.
    pub fn memory(publish: &Publish) -> u64 {
        block(size_of::<Option<Self>>())
            + tree_entry::<(u128, u64), ()>()
            + block(publish.payload.len())
            + properties(&publish.properties)
    }

    /// The answer that goes back.
    pub(crate) fn answer(self, now: Now, reply: &Reply, version: Option<Version>) -> Answer {
        Answer {
            asking: self.asking,
            ack: self.ack,
            packet_id: self.packet_id,
            details: None,
            unsupported_version: None,
            response_topic: self.response_topic,
            correlation_data: self.correlation_data,
            payload: reply.encode(self.dialect),
            version,
            expires_at: self.expires_at,
            verb: self.verb,
            watched: self.watched,
            key: self.key,
            is_error: matches!(reply, Reply::Error(_)),
            is_forgotten: false,
            took: now.instant.saturating_duration_since(self.received_at),
            trace: self.trace,
        }
    }
}

impl Answer {
    /// A refusal for a reason that may be over when the request is sent again.
    pub(crate) fn forgotten(self) -> Self {
        Self {
            is_forgotten: true,
            ..self
        }
    }
}

/// Waiting writes by request number; numbers rise, and requests are mostly decided in order.
#[derive(Debug, Default)]
pub(crate) struct PendingCalls {
    first: u64,
    waiting: VecDeque<Option<Pending>>,
    count: usize,
    /// Identities of writes that wait, with their numbers.
    identities: BTreeSet<(u128, u64)>,
}

/// Places that an empty queue keeps for the next requests.
const CAPACITY_KEPT: usize = 1_024;

impl PendingCalls {
    /// Adds a request and gives it a number.
    pub(crate) fn push(&mut self, pending: Pending) -> u64 {
        self.count += 1;
        let identity = pending.identity;
        let request = self.place(Some(pending));
        self.identities
            .extend(identity.map(|identity| (identity, request)));
        request
    }

    /// A number for a command of the node itself, which nobody waits for.
    pub(crate) fn push_own(&mut self) -> u64 {
        self.place(None)
    }

    /// Takes the request with this number, if it still waits.
    pub(crate) fn take(&mut self, request: u64) -> Option<Pending> {
        let offset = usize::try_from(request.checked_sub(self.first)?).ok()?;
        let pending = self.waiting.get_mut(offset)?.take();
        while let Some(None) = self.waiting.front() {
            self.waiting.pop_front();
            self.first += 1;
        }
        if self.waiting.is_empty() && self.waiting.capacity() > CAPACITY_KEPT {
            self.waiting = VecDeque::new();
        }
        let pending = pending?;
        self.count -= 1;
        if let Some(identity) = pending.identity {
            self.identities.remove(&(identity, request));
        }
        Some(pending)
    }

    /// The trace of the request with this number, if it waits and is traced.
    pub(crate) fn trace_of(&mut self, request: u64) -> Option<&mut RequestTrace> {
        let offset = usize::try_from(request.checked_sub(self.first)?).ok()?;
        let pending = self.waiting.get_mut(offset)?.as_mut()?;
        pending.trace.as_deref_mut()
    }

    /// Takes all.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = Pending> {
        self.first += self.waiting.len() as u64;
        self.count = 0;
        self.identities.clear();
        std::mem::take(&mut self.waiting).into_iter().flatten()
    }

    /// Whether a write waits that is the same as this one.
    pub(crate) fn contains(&self, other: &Pending) -> bool {
        let Some(identity) = other.identity else {
            return false;
        };
        let mut same = self.identities.range((identity, 0)..=(identity, u64::MAX));
        same.next().is_some()
    }

    /// How many wait.
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// The memory of places without a request; the others count by their requests.
    pub(crate) fn spare(&self) -> u64 {
        places::<Option<Pending>>(self.waiting.capacity() - self.count)
    }

    fn place(&mut self, pending: Option<Pending>) -> u64 {
        let request = self.first + self.waiting.len() as u64;
        self.waiting.push_back(pending);
        request
    }
}
