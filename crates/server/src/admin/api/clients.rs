//! `/api/clients` and `/api/subscriptions`.

use axum::body::Bytes;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, RawQuery, State};
use axum::http::StatusCode;
use axum::response::Response;
use broker::Administration;
use broker::inspection::{
    Client, ClientConnection, ClientSeen, ClientsAsked, SubscriptionOfClient, SubscriptionPlace,
    SubscriptionSeen, SubscriptionsAsked, WillSeen,
};
use cluster::NodeId;
use protocol::Text;
use protocol::packet::ProtocolVersion;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::paging::page;
use super::parameters::{Parameters, from_hex, to_hex, wrong};
use super::{Failure, Place, Question, Said, ask, beside_the_point, failure, respond, unreadable};
use crate::admin::pages::Pages;
use crate::audit::rfc3339;

pub(super) async fn list(State(pages): State<Pages>, RawQuery(query): RawQuery) -> Response {
    respond(listed(&pages, query.as_deref()).await)
}

async fn listed(pages: &Pages, query: Option<&str>) -> Result<Value, Failure> {
    let parameters = Parameters::of(query, &["search", "connected", "limit", "after"])?;
    let search = parameters.get("search").unwrap_or_default();
    let is_connected = parameters.truth("connected")?;
    let after = parameters.after(String::new(), |text| String::from_utf8(from_hex(text)?).ok())?;
    let question = |after, limit| {
        Question::Clients(ClientsAsked {
            search: search.to_owned(),
            is_connected,
            after,
            limit,
        })
    };
    let read = |said| match said {
        Said::Clients(piece) => Some(piece),
        _ => None,
    };
    let page = page(pages, (after, parameters.limit()?), question, read).await?;
    let clients = page.found.iter();
    let clients = clients.map(|(client, place)| Value::Object(of_client(client, place.as_ref())));
    let mut said = json!({
        "node": page.node.to_string(),
        "clients": clients.collect::<Vec<_>>(),
        "total": page.total,
    });
    if let Some(next) = page.next {
        said["next"] = to_hex(next.as_bytes()).into();
    }
    Ok(said)
}

pub(super) async fn show(
    State(pages): State<Pages>,
    client_id: Result<Path<String>, PathRejection>,
) -> Response {
    respond(shown(&pages, client_id).await)
}

async fn shown(pages: &Pages, client_id: Result<Path<String>, PathRejection>) -> Result<Value, Failure> {
    let Path(client_id) = client_id.map_err(|rejection| unreadable(&rejection))?;
    let answered = ask(pages, Question::Client(client_id.clone())).await?;
    let Said::Client(seen) = answered.said else {
        return Err(beside_the_point());
    };
    let Some(seen) = seen else {
        return Err(nobody(&client_id));
    };
    let (seen, place) = *seen;
    let mut said = of_seen(&seen, place.as_ref());
    said.insert("node".to_owned(), answered.node.to_string().into());
    Ok(Value::Object(said))
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Disconnect {
    reason: Option<String>,
}

pub(super) async fn disconnect(
    State(pages): State<Pages>,
    client_id: Result<Path<String>, PathRejection>,
    body: Bytes,
) -> Response {
    respond(disconnected(&pages, client_id, &body).await)
}

async fn disconnected(
    pages: &Pages,
    client_id: Result<Path<String>, PathRejection>,
    body: &Bytes,
) -> Result<Value, Failure> {
    let Path(client_id) = client_id.map_err(|rejection| unreadable(&rejection))?;
    let asked = if body.is_empty() {
        Ok(Disconnect::default())
    } else {
        serde_json::from_slice(body)
    };
    let Disconnect { reason } =
        asked.map_err(|error| wrong(&format!("what was asked cannot be read: {error}")))?;
    let why = reason.unwrap_or_else(|| "an operator has ended the connection".to_owned());
    if why.len() > REASON_BYTES_MAX || Text::new(why.as_str()).is_err() {
        let why =
            format!("`reason` is a text of at most {REASON_BYTES_MAX} bytes without control characters");
        return Err(wrong(&why));
    }
    let Ok(named) = Text::new(client_id.as_str()) else {
        return Err(nobody(&client_id));
    };
    let wanted = Administration::Disconnect {
        client_id: named,
        why,
    };
    let answered = ask(pages, Question::Administer(wanted)).await?;
    match answered.said {
        Said::Done(true) => Ok(json!({ "node": answered.node.to_string(), "disconnected": true })),
        Said::Done(false) => Err(not_connected(pages, client_id).await),
        _ => Err(beside_the_point()),
    }
}

/// Refusal to disconnect a client that has no connection to this node. It names the node that the client is connected to.
async fn not_connected(pages: &Pages, client_id: String) -> Failure {
    let seen = match ask(pages, Question::Client(client_id)).await {
        Ok(answered) => answered.said,
        Err(failure) => return failure,
    };
    let node = match seen {
        Said::Client(Some(seen)) => seen.0.client.connected_to,
        _ => None,
    };
    let why = match node {
        Some(node) => format!("the client is connected to node {node}: ask that one"),
        None => "no client of that name is connected to this node".to_owned(),
    };
    failure(StatusCode::NOT_FOUND, &why)
}

/// What a client is told has to fit into its DISCONNECT.
const REASON_BYTES_MAX: usize = 1_024;

pub(super) async fn subscriptions(State(pages): State<Pages>, RawQuery(query): RawQuery) -> Response {
    respond(subscriptions_listed(&pages, query.as_deref()).await)
}

async fn subscriptions_listed(pages: &Pages, query: Option<&str>) -> Result<Value, Failure> {
    let parameters = Parameters::of(query, &["filter", "limit", "after"])?;
    let search = parameters.get("filter").unwrap_or_default();
    let after = parameters.after(SubscriptionPlace::default(), |text| {
        let (client, subscriptions) = text.split_once('.')?;
        Some(SubscriptionPlace {
            client: from_hex(client)?,
            subscriptions: subscriptions.parse().ok()?,
        })
    })?;
    let question = |after, limit| {
        Question::Subscriptions(SubscriptionsAsked {
            search: search.to_owned(),
            after,
            limit,
        })
    };
    let read = |said| match said {
        Said::Subscriptions(piece) => Some(piece),
        _ => None,
    };
    let page = page(pages, (after, parameters.limit()?), question, read).await?;
    let found = page.found.iter().map(|seen| {
        let SubscriptionSeen {
            client_id,
            filter,
            qos,
        } = seen;
        json!({
            "filter": filter.filter.as_str(),
            "share": filter.share.as_ref().map(|share| share.as_str()),
            "client_id": client_id.as_str(),
            "qos": *qos as u8,
        })
    });
    let mut said = json!({
        "node": page.node.to_string(),
        "subscriptions": found.collect::<Vec<_>>(),
        "total": page.total,
    });
    if let Some(next) = page.next {
        said["next"] = format!("{}.{}", to_hex(&next.client), next.subscriptions).into();
    }
    Ok(said)
}

fn nobody(client_id: &str) -> Failure {
    let why = format!("no client `{client_id}` has a session");
    failure(StatusCode::NOT_FOUND, &why)
}

fn of_client(client: &Client, place: Option<&Place>) -> Map<String, Value> {
    let mut said = of_connection(client.connection.as_ref(), place);
    let mut tell = |name: &str, value: Value| said.insert(name.to_owned(), value);
    let node = client.connected_to.map(|node| node.to_string());
    tell("connected", node.is_some().into());
    tell("connected_to", json!(node));
    tell("client_id", client.client_id.as_str().into());
    tell("principal", json!(client.principal.as_ref().map(Text::as_str)));
    tell("session_expiry_s", client.session_expiry.into());
    tell("subscriptions", client.subscriptions.into());
    tell("queued_messages", client.queued_messages.into());
    tell("queued_bytes", client.queued_bytes.into());
    tell("in_flight", client.inflight.into());
    said
}

fn of_connection(connection: Option<&ClientConnection>, place: Option<&Place>) -> Map<String, Value> {
    let version = connection.map(|connection| match connection.version {
        ProtocolVersion::V311 => "3.1.1",
        ProtocolVersion::V5 => "5",
    });
    let mut said = Map::new();
    let mut tell = |name: &str, value: Value| said.insert(name.to_owned(), value);
    tell("address", json!(place.map(|place| place.address.as_str())));
    tell("listener", json!(place.map(|place| place.listener.as_str())));
    tell("protocol", json!(version));
    tell(
        "connected_since",
        json!(connection.map(|connection| rfc3339(connection.since))),
    );
    tell(
        "keep_alive_s",
        json!(connection.map(|connection| connection.keep_alive)),
    );
    said
}

fn of_seen(seen: &ClientSeen, place: Option<&Place>) -> Map<String, Value> {
    let subscriptions: Vec<_> = seen.subscriptions.iter().map(of_subscription).collect();
    let owners: Vec<_> = seen.owners.iter().map(NodeId::to_string).collect();
    let mut said = of_client(&seen.client, place);
    said.insert("subscriptions_list".to_owned(), subscriptions.into());
    said.insert("will".to_owned(), json!(seen.will.as_ref().map(of_will)));
    said.insert("owners".to_owned(), owners.into());
    said
}

fn of_subscription(seen: &SubscriptionOfClient) -> Value {
    let SubscriptionOfClient { filter, subscription } = seen;
    let options = subscription.options;
    json!({
        "filter": filter.filter.as_str(),
        "share": filter.share.as_ref().map(|share| share.as_str()),
        "qos": options.qos as u8,
        "no_local": options.no_local,
        "retain_as_published": options.retain_as_published,
        "retain_handling": options.retain_handling as u8,
        "identifier": subscription.id.map(|id| id.get()),
    })
}

fn of_will(will: &WillSeen) -> Value {
    json!({
        "topic": will.topic.as_str(),
        "qos": will.qos as u8,
        "retain": will.retain,
        "delay_s": will.delay,
        "bytes": will.bytes,
    })
}
