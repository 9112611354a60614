//! Values of OTLP in JSON (<https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding>): ids are hexadecimal, numbers of 64 bits are text.

use serde::Serialize;

/// `ExportTraceServiceRequest`
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ExportRequest<'a> {
    pub(super) resource_spans: [ResourceSpans<'a>; 1],
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ResourceSpans<'a> {
    pub(super) resource: Attributes<'a>,
    pub(super) scope_spans: [ScopeSpans; 1],
    pub(super) schema_url: &'static str,
}

#[derive(Debug, Serialize)]
pub(super) struct Attributes<'a> {
    pub(super) attributes: &'a [Attribute],
}

#[derive(Debug, Serialize)]
pub(super) struct ScopeSpans {
    pub(super) scope: Scope,
    pub(super) spans: Vec<ExportedSpan>,
}

#[derive(Debug, Serialize)]
pub(super) struct Scope {
    pub(super) name: &'static str,
    pub(super) version: &'static str,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ExportedSpan {
    pub(super) trace_id: String,
    pub(super) span_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) parent_span_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) trace_state: Option<String>,
    pub(super) flags: u32,
    pub(super) name: String,
    pub(super) kind: u8,
    pub(super) start_time_unix_nano: String,
    pub(super) end_time_unix_nano: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) attributes: Vec<Attribute>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) status: Option<Status>,
}

#[derive(Debug, Serialize)]
pub(super) struct Status {
    pub(super) code: u8,
    pub(super) message: String,
}

/// `STATUS_CODE_ERROR`
pub(super) const STATUS_ERROR: u8 = 2;

/// `SPAN_KIND_*`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Internal = 1,
    Server = 2,
    Client = 3,
    Consumer = 5,
}

/// `KeyValue`
#[derive(Debug, Clone, Serialize)]
pub(super) struct Attribute {
    key: &'static str,
    value: Value,
}

/// `AnyValue`
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
enum Value {
    StringValue(String),
    IntValue(String),
}

impl Attribute {
    pub(super) fn text(key: &'static str, value: impl Into<String>) -> Self {
        let value = Value::StringValue(value.into());
        Self { key, value }
    }

    pub(super) fn number(key: &'static str, value: impl std::fmt::Display) -> Self {
        let value = Value::IntValue(value.to_string());
        Self { key, value }
    }
}
