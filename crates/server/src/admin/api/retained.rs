//! `/api/retained`.

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, RawQuery, State};
use axum::http::StatusCode;
use axum::response::Response;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use broker::Administration;
use broker::inspection::{RetainedAsked, RetainedSeen};
use protocol::{Text, TopicFilter, TopicName};
use serde_json::{Map, Value, json};

use super::paging::page;
use super::parameters::{Parameters, from_hex, to_hex, wrong};
use super::{Failure, Question, Said, ask, beside_the_point, failure, respond, unreadable};
use crate::admin::pages::Pages;
use crate::audit::rfc3339;

/// Bytes of a payload that are shown: more would be no help to anybody who looks at it.
const PAYLOAD_SHOWN_MAX: usize = 1 << 20;

pub(super) async fn list(State(pages): State<Pages>, RawQuery(query): RawQuery) -> Response {
    respond(listed(&pages, query.as_deref()).await)
}

async fn listed(pages: &Pages, query: Option<&str>) -> Result<Value, Failure> {
    let parameters = Parameters::of(query, &["filter", "limit", "after"])?;
    let filter = match parameters.get("filter") {
        None | Some("") => "#",
        Some(filter) => filter,
    };
    let filter = Text::new(filter)
        .ok()
        .and_then(|filter| TopicFilter::parse(filter).ok());
    let filter =
        filter.ok_or_else(|| wrong("`filter` is a topic filter of MQTT, as `plant/+/state` or `#`"))?;
    let from = parameters.after(Vec::new(), |text| {
        from_hex(text).filter(|place| !place.is_empty())
    })?;
    let question = |from, limit| {
        let filter = filter.clone();
        Question::Retained(RetainedAsked { filter, from, limit })
    };
    let read = |said| match said {
        Said::Retained(piece) => Some(piece),
        _ => None,
    };
    let page = page(pages, (from, parameters.limit()?), question, read).await?;
    let found = page.found.iter().map(|seen| Value::Object(of_message(seen)));
    let mut said = json!({
        "node": page.node.to_string(),
        "retained": found.collect::<Vec<_>>(),
        "total": page.total,
    });
    if let Some(next) = page.next {
        said["next"] = to_hex(&next).into();
    }
    Ok(said)
}

pub(super) async fn show(State(pages): State<Pages>, topic: Result<Path<String>, PathRejection>) -> Response {
    respond(shown(&pages, topic).await)
}

async fn shown(pages: &Pages, topic: Result<Path<String>, PathRejection>) -> Result<Value, Failure> {
    let answered = ask(pages, Question::RetainedMessage(topic_name(topic)?)).await?;
    let Said::RetainedMessage(seen) = answered.said else {
        return Err(beside_the_point());
    };
    let seen = seen.ok_or_else(nothing)?;
    let mut said = of_message(&seen);
    let message = &seen.message;
    let properties = &message.properties;
    let shown = &message.payload[..message.payload.len().min(PAYLOAD_SHOWN_MAX)];
    let mut tell = |name: &str, value: Value| said.insert(name.to_owned(), value);
    tell("node", answered.node.to_string().into());
    tell("payload_base64", STANDARD.encode(shown).into());
    tell("payload_truncated", (shown.len() < message.payload.len()).into());
    tell("payload_is_utf8", json!(properties.payload_is_utf8));
    let response_topic = properties.response_topic.as_ref();
    tell("response_topic", json!(response_topic.map(Text::as_str)));
    let correlation_data = properties.correlation_data.as_ref();
    let correlation_data = correlation_data.map(|data| STANDARD.encode(data));
    tell("correlation_data_base64", json!(correlation_data));
    let user_properties: Vec<_> = properties.user_properties.iter().collect();
    tell("user_properties", json!(user_properties));
    Ok(Value::Object(said))
}

pub(super) async fn remove(
    State(pages): State<Pages>,
    topic: Result<Path<String>, PathRejection>,
) -> Response {
    respond(removed(&pages, topic).await)
}

async fn removed(pages: &Pages, topic: Result<Path<String>, PathRejection>) -> Result<Value, Failure> {
    let topic = topic_name(topic)?;
    if mqtt::policies::is_servers_own(topic.as_str()) {
        return Err(wrong(
            "what the server says of itself below $SYS cannot be deleted",
        ));
    }
    let wanted = Administration::RemoveRetained { topic };
    let answered = ask(pages, Question::Administer(wanted)).await?;
    match answered.said {
        Said::Done(true) => Ok(json!({ "node": answered.node.to_string(), "deleted": true })),
        Said::Done(false) => Err(nothing()),
        _ => Err(beside_the_point()),
    }
}

fn topic_name(topic: Result<Path<String>, PathRejection>) -> Result<TopicName, Failure> {
    let Path(topic) = topic.map_err(|rejection| unreadable(&rejection))?;
    let topic = Text::new(topic)
        .ok()
        .and_then(|topic| TopicName::parse(topic).ok());
    topic.ok_or_else(|| wrong("that is no topic name; `?filter=` of the list takes wildcards"))
}

fn nothing() -> Failure {
    failure(StatusCode::NOT_FOUND, "no message is retained for that topic")
}

fn of_message(seen: &RetainedSeen) -> Map<String, Value> {
    let message = &seen.message;
    let content_type = message.properties.content_type.as_ref();
    let mut said = Map::new();
    let mut tell = |name: &str, value: Value| said.insert(name.to_owned(), value);
    tell("topic", message.topic.as_str().into());
    tell("bytes", message.payload.len().into());
    tell("qos", (message.qos as u8).into());
    tell("stored_at", json!(seen.stored_at.map(rfc3339)));
    tell("expires_at", json!(seen.expires_at.map(rfc3339)));
    tell("content_type", json!(content_type.map(Text::as_str)));
    said
}
