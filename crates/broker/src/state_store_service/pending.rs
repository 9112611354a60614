//! Requests that wait for their decision, and what they become then.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use bytes::Bytes;
use protocol::Text;
use protocol::packet::PacketId;
use protocol::state_store::{Dialect, Reply, Request};
use store::{Details, Version};

use crate::acks::AckSequence;
use crate::authorization::Access;
use crate::now::Now;
use crate::responding::Asking;
use crate::scan_seal::ScanBinding;
use crate::traces::RequestTrace;

/// What a request asks for, for figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the protocol's verbs")]
pub enum Verb {
    Set,
    Get,
    Del,
    VDel,
    KeyNotify,
    Scan,
    Unknown,
}

impl Verb {
    /// How many there are.
    pub const COUNT: usize = 7;
    /// All, in the order of their numbers.
    pub const ALL: [Self; Self::COUNT] = [
        Self::Set,
        Self::Get,
        Self::Del,
        Self::VDel,
        Self::KeyNotify,
        Self::Scan,
        Self::Unknown,
    ];
}

/// A request that waits, with all that its answer needs.
#[derive(Debug)]
pub(crate) struct Pending {
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
}

/// A decided request.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) asking: Asking,
    pub(crate) ack: AckSequence,
    pub(crate) packet_id: PacketId,
    pub(crate) response_topic: Text,
    pub(crate) correlation_data: Bytes,
    pub(crate) payload: Bytes,
    /// `__ts` of the response.
    pub(crate) version: Option<Version>,
    /// What else is known of the key, if the request asks for it.
    pub(crate) details: Option<Box<Details>>,
    /// `__protVer` of a request that cannot be served: answered with `__stat` 505.
    pub(crate) unsupported_version: Option<String>,
    pub(crate) expires_at: Option<Instant>,
    pub(crate) verb: Verb,
    pub(crate) is_error: bool,
    /// The log knows nothing of it: the request, sent again, may be executed. The client must not hear of it before PUBACK.
    pub(crate) is_forgotten: bool,
    /// The key of a registration that has to be looked at.
    pub(crate) watched: Option<Bytes>,
    pub(crate) key: Option<Bytes>,
    pub(crate) took: Duration,
    pub(crate) trace: Option<Box<RequestTrace>>,
}

impl Pending {
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
}

impl PendingCalls {
    /// Adds a request and gives it a number.
    pub(crate) fn push(&mut self, pending: Pending) -> u64 {
        self.count += 1;
        self.place(Some(pending))
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
        self.count -= usize::from(pending.is_some());
        pending
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
        std::mem::take(&mut self.waiting).into_iter().flatten()
    }

    /// Whether a request waits that goes by the same name as another one.
    pub(crate) fn contains(&self, other: &Pending) -> bool {
        self.waiting.iter().flatten().any(|pending| {
            pending.correlation_data == other.correlation_data
                && pending.response_topic == other.response_topic
        })
    }

    /// How many wait.
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    fn place(&mut self, pending: Option<Pending>) -> u64 {
        let request = self.first + self.waiting.len() as u64;
        self.waiting.push_back(pending);
        request
    }
}
