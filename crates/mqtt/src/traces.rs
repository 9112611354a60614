//! Traces: where the time of a single request or message went, as spans of OpenTelemetry.
//!
//! A client says in user properties that its request belongs to a trace (`protocol::trace_context`), or the node begins one for
//! so many of those that belong to none. Nothing is kept for others, and nothing at all where the operator wants no traces.
//!
//! What is below a span here, or at another node, has an id that follows from that of the span: nodes need not agree on them.

mod messages;

use std::time::Instant;

use bytes::Bytes;
use cluster::{GroupId, NodeId};
use protocol::packet::QoS;
use protocol::properties::UserProperties;
use protocol::state_store::Verb;
use protocol::trace_context::{Found, SpanId, TraceContext, TraceId};
use protocol::{ReasonCode, Text};
use xxhash_rust::xxh3::{xxh3_64_with_seed, xxh3_128_with_seed};

pub use self::messages::MessageTrace;

/// What is traced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TracesConfig {
    /// So many of [`SAMPLED_ALL`] requests and messages are that do not say themselves whether they are.
    pub sampled: u64,
    /// Makes ids that no other node makes.
    pub seed: u64,
}

/// See [`TracesConfig::sampled`].
pub const SAMPLED_ALL: u64 = 1 << 56;

/// Something that took its time, and is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    /// Where it is in its trace: the span in there is this one.
    pub context: TraceContext,
    /// Below which span; `None`: it begins the trace.
    pub parent: Option<SpanId>,
    /// `tracestate`, as the client sent it.
    pub state: Option<Text>,
    /// From then on.
    pub began: Instant,
    /// Until then.
    pub ended: Instant,
    /// What it was.
    pub what: SpanOf,
}

/// What a span is of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SpanOf {
    /// A client's state store request, until it was answered.
    Request {
        /// Whose.
        client_id: Text,
        /// What it asks for.
        verb: Verb,
        /// About which key, its beginning, if it is about one.
        key: Option<Bytes>,
        /// Of which group; `None`: it was refused before.
        group: Option<GroupId>,
        /// The error that it was answered with.
        error: Option<Bytes>,
    },
    /// A client's PUBLISH of QoS 1 or 2, until it was acknowledged.
    Message {
        /// Whose.
        client_id: Text,
        /// To which topic, its beginning.
        topic: Text,
        /// With which QoS.
        qos: QoS,
        /// Of its payload.
        bytes: usize,
        /// What the acknowledgement says.
        reason: ReasonCode,
    },
    /// A command of another node, at the leader.
    Command {
        /// For which node.
        of: NodeId,
        /// Of which group.
        group: GroupId,
    },
    /// It waited for earlier ones to be proposed, or sent.
    Queued,
    /// It was with the group's leader.
    Forwarded {
        /// Which.
        to: NodeId,
    },
    /// A read waited to be told how much it has to see.
    Barrier,
    /// From its proposal until a majority had it on disk, and it was executed.
    Replicated,
    /// Until it was on the disk of the node that proposed it.
    Synced,
    /// Until the owners of the sessions that a message is for have it on their disks.
    Stored,
    /// It was decided, and waited for the acknowledgements of earlier messages.
    InOrder,
}

/// A span that is not over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenSpan {
    /// Place in its trace: the span in there is this one.
    pub context: TraceContext,
    parent: Option<SpanId>,
    /// `tracestate`, as the client sent it.
    pub state: Option<Text>,
    /// When it began.
    pub began: Instant,
}

/// Decides what is traced.
#[derive(Debug, Default)]
pub struct Tracer {
    config: Option<TracesConfig>,
    begun: u64,
    /// The message that the present step is about.
    pub message: Option<Box<MessageTrace>>,
}

impl Tracer {
    /// Nothing is traced yet; nothing ever without a configuration.
    pub fn new(config: Option<TracesConfig>) -> Self {
        Self {
            config,
            ..Self::default()
        }
    }

    /// Whether anything may be traced.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.config.is_some()
    }

    /// The span of something that came with these properties, if it is to be traced.
    #[inline]
    pub fn begin(&mut self, now: Instant, properties: &UserProperties) -> Option<OpenSpan> {
        let config = self.config?;
        self.begin_of(config, now, properties)
    }

    fn begin_of(
        &mut self,
        config: TracesConfig,
        now: Instant,
        properties: &UserProperties,
    ) -> Option<OpenSpan> {
        let (parent, state) = match TraceContext::find(properties) {
            Found::Context(parent, state) if parent.is_sampled() => (Some(parent), state),
            Found::Context(..) => return None,
            Found::Nothing => (None, None),
        };
        self.begun += 1;
        let own = xxh3_128_with_seed(&self.begun.to_be_bytes(), config.seed).to_be_bytes();
        let (trace, span) = (TraceId::new(own)?, SpanId::new(*own.first_chunk()?)?);
        if parent.is_none() && !is_sampled(trace, config.sampled) {
            return None;
        }
        let root = TraceContext {
            trace,
            span,
            flags: RANDOM,
        };
        let context = parent.map_or(root, |parent| TraceContext { span, ..parent });
        Some(OpenSpan {
            context: context.sampled(),
            parent: parent.map(|parent| parent.span),
            state,
            began: now,
        })
    }
}

/// Bytes of a topic or key that a span keeps, in memory of its own: what was received is not kept for it.
const SHOWN_MAX: usize = 256;

/// As much of a topic as a span shows.
pub fn shown(text: &str) -> Text {
    Text::new(&text[..text.floor_char_boundary(SHOWN_MAX)]).unwrap_or_default()
}

/// As much of a key as a span shows.
pub fn shown_bytes(bytes: &[u8]) -> Bytes {
    Bytes::copy_from_slice(bytes.get(..SHOWN_MAX).unwrap_or(bytes))
}

/// `trace-flags`: the right part of the trace id is random.
const RANDOM: u8 = 2;

/// By the last seven bytes of the id, which are the random ones: others that sample the same part of all traces take the same.
fn is_sampled(trace: TraceId, sampled: u64) -> bool {
    let [.., _, a, b, c, d, e, f, g] = trace.bytes();
    u64::from_be_bytes([0, a, b, c, d, e, f, g]) < sampled
}

impl OpenSpan {
    /// One that is below another one, of another node perhaps. `kind` and `node`: there is one of this kind at this node.
    pub fn below(parent: TraceContext, kind: SpanKind, node: NodeId, began: Instant) -> Self {
        Self::of_several_below(parent, kind, node, &[], began)
    }

    /// The same where there are several, which these numbers tell apart.
    pub fn of_several_below(
        parent: TraceContext,
        kind: SpanKind,
        node: NodeId,
        which: &[u64],
        began: Instant,
    ) -> Self {
        let mut place = vec![kind as u8];
        let numbers = [node.0].into_iter().chain(which.iter().copied());
        place.extend(numbers.flat_map(u64::to_be_bytes));
        let seed = u64::from_be_bytes(parent.span.bytes());
        let id = xxh3_64_with_seed(&place, seed).max(1);
        let span = SpanId::new(id.to_be_bytes()).unwrap_or(parent.span);
        Self {
            context: TraceContext { span, ..parent },
            parent: Some(parent.span),
            state: None,
            began,
        }
    }

    /// It is over.
    pub fn end(self, ended: Instant, what: SpanOf) -> Span {
        Span {
            context: self.context,
            parent: self.parent,
            state: self.state,
            began: self.began,
            ended,
            what,
        }
    }
}

/// Spans below one span. The numbers are in ids, which nodes of all versions have to find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpanKind {
    /// [`SpanOf::Queued`]
    Queued = 1,
    /// [`SpanOf::Forwarded`]
    Forwarded = 2,
    /// [`SpanOf::Barrier`]
    Barrier = 3,
    /// [`SpanOf::Replicated`]
    Replicated = 4,
    /// [`SpanOf::Synced`]
    Synced = 5,
    /// [`SpanOf::Command`]
    Command = 6,
    /// [`SpanOf::Stored`]
    Stored = 7,
    /// [`SpanOf::InOrder`]
    InOrder = 9,
}
