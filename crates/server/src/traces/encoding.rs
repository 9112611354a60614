//! From a span of the node to one of OTLP, with the names of OpenTelemetry's semantic conventions where there are any.

use std::time::{Duration, Instant};

use bytes::Bytes;
use cluster::NodeId;
use mqtt::traces::{Span, SpanOf};

use super::values::{
    Attribute, Attributes, ExportRequest, ExportedSpan, Kind, ResourceSpans, STATUS_ERROR, Scope, ScopeSpans,
    Status,
};
use crate::observed::verb_name;

/// Whose spans they are.
#[derive(Debug)]
pub(super) struct Resource {
    attributes: Vec<Attribute>,
}

/// One moment by both clocks, to tell others by.
#[derive(Debug, Clone, Copy)]
pub(super) struct Moment {
    pub(super) instant: Instant,
    /// Since the Unix epoch.
    pub(super) wall: Duration,
}

/// The conventions that the names are of.
const SCHEMA: &str = "https://opentelemetry.io/schemas/1.37.0";

/// `SpanFlags`: it is known whether the parent is of another process, and it is.
const PARENT_KNOWN: u32 = 0x100;
const PARENT_REMOTE: u32 = 0x200;

impl Resource {
    pub(super) fn new(service: &str, node: NodeId) -> Self {
        Self {
            attributes: vec![
                Attribute::text("service.name", service),
                Attribute::text("service.instance.id", node.to_string()),
                Attribute::text("service.version", env!("CARGO_PKG_VERSION")),
            ],
        }
    }
}

impl Moment {
    /// Nanoseconds since the Unix epoch.
    fn nanos(self, at: Instant) -> String {
        let wall = if at >= self.instant {
            self.wall + (at - self.instant)
        } else {
            self.wall.saturating_sub(self.instant - at)
        };
        wall.as_nanos().to_string()
    }
}

/// The body of a request with these spans.
pub(super) fn request(resource: &Resource, spans: &[Span], moment: Moment) -> Bytes {
    let request = ExportRequest {
        resource_spans: [ResourceSpans {
            resource: Attributes {
                attributes: &resource.attributes,
            },
            scope_spans: [ScopeSpans {
                scope: Scope {
                    name: "statehold",
                    version: env!("CARGO_PKG_VERSION"),
                },
                spans: spans.iter().map(|span| exported(span, moment)).collect(),
            }],
            schema_url: SCHEMA,
        }],
    };
    let body = serde_json::to_vec(&request).expect("text and numbers only");
    Bytes::from(body)
}

fn exported(span: &Span, moment: Moment) -> ExportedSpan {
    let Named {
        name,
        kind,
        attributes,
        error,
    } = named(&span.what);
    let is_remote = span.parent.is_some() && kind != Kind::Internal && kind != Kind::Client;
    ExportedSpan {
        trace_id: span.context.trace.to_string(),
        span_id: span.context.span.to_string(),
        parent_span_id: span.parent.map(|parent| parent.to_string()),
        trace_state: span.state.as_ref().map(|state| state.as_str().to_owned()),
        flags: u32::from(span.context.flags) | PARENT_KNOWN | if is_remote { PARENT_REMOTE } else { 0 },
        name,
        kind: kind as u8,
        start_time_unix_nano: moment.nanos(span.began),
        end_time_unix_nano: moment.nanos(span.ended),
        attributes,
        status: error.map(|message| Status {
            code: STATUS_ERROR,
            message,
        }),
    }
}

/// What a span is called, and what is said of it.
struct Named {
    name: String,
    kind: Kind,
    attributes: Vec<Attribute>,
    error: Option<String>,
}

impl Named {
    fn new(name: impl Into<String>, kind: Kind, attributes: Vec<Attribute>) -> Self {
        Self {
            name: name.into(),
            kind,
            attributes,
            error: None,
        }
    }

    fn internal(name: &str) -> Self {
        Self::new(name, Kind::Internal, Vec::new())
    }
}

fn named(what: &SpanOf) -> Named {
    match what {
        SpanOf::Request { .. } => request_named(what),
        SpanOf::Message {
            client_id,
            topic,
            qos,
            bytes,
            reason,
        } => {
            let attributes = vec![
                Attribute::text("messaging.system", "mqtt"),
                Attribute::text("messaging.operation.name", "publish"),
                Attribute::text("messaging.destination.name", topic.as_str()),
                Attribute::text("messaging.client.id", client_id.as_str()),
                Attribute::number("messaging.message.body.size", bytes),
                Attribute::number("statehold.qos", *qos as u8),
            ];
            let mut named = Named::new("publish", Kind::Consumer, attributes);
            named.error = reason
                .is_error()
                .then(|| format!("0x{:02X} {reason:?}", *reason as u8));
            named
        }
        SpanOf::Command { of, group } => {
            let attributes = vec![
                Attribute::number("statehold.group", group.0),
                Attribute::text("statehold.from_node", of.to_string()),
            ];
            Named::new("lead", Kind::Server, attributes)
        }
        SpanOf::Forwarded { to } => {
            let attributes = vec![Attribute::text("statehold.to_node", to.to_string())];
            Named::new("forward", Kind::Client, attributes)
        }
        SpanOf::Queued => Named::internal("queue"),
        SpanOf::Barrier => Named::internal("read barrier"),
        SpanOf::Replicated => Named::internal("replicate"),
        SpanOf::Synced => Named::internal("sync"),
        SpanOf::Stored => Named::internal("store"),
        SpanOf::InOrder => Named::internal("wait for order"),
    }
}

fn request_named(what: &SpanOf) -> Named {
    let SpanOf::Request {
        client_id,
        verb,
        key,
        group,
        error,
    } = what
    else {
        return Named::internal("request");
    };
    let name = verb_name(*verb).to_uppercase();
    let mut attributes = vec![
        Attribute::text("db.system.name", "statehold"),
        Attribute::text("db.operation.name", name.as_str()),
        Attribute::text("messaging.client.id", client_id.as_str()),
    ];
    attributes.extend(group.map(|group| Attribute::number("statehold.group", group.0)));
    attributes.extend(
        key.as_deref()
            .map(|key| Attribute::text("statehold.key", String::from_utf8_lossy(key))),
    );
    let mut named = Named::new(name, Kind::Server, attributes);
    named.error = error.as_deref().map(|reply| {
        let text = String::from_utf8_lossy(reply);
        text.trim().trim_start_matches("-ERR ").to_owned()
    });
    if let Some(error) = &named.error {
        named
            .attributes
            .push(Attribute::text("error.type", error.as_str()));
    }
    named
}

#[cfg(test)]
mod tests;
