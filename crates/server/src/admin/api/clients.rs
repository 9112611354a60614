//! `/api/clients` and `/api/subscriptions`.

use axum::body::Bytes;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, RawQuery, State};
use axum::http::StatusCode;
use axum::response::Response;
use broker::Administration;
use broker::inspection::{
    Client, ClientConnection, ClientSeen, ClientsAsked, HeldSession, SubscriptionSeen, SubscriptionsAsked,
};
use cluster::NodeId;
use protocol::Text;
use protocol::packet::ProtocolVersion;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::paging::page;
use super::parameters::{Parameters, wrong};
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
    let from = parameters.after(0, |text| text.parse().ok())?;
    let question = |from, limit| {
        Question::Clients(ClientsAsked {
            search: search.to_owned(),
            is_connected,
            from,
            limit,
        })
    };
    let read = |said| match said {
        Said::Clients(piece) => Some(piece),
        _ => None,
    };
    let page = page(pages, (from, parameters.limit()?), question, read).await?;
    let clients = page.found.iter();
    let clients = clients.map(|(client, place)| Value::Object(of_client(client, place.as_ref())));
    let mut said = json!({
        "node": page.node.to_string(),
        "clients": clients.collect::<Vec<_>>(),
        "total": page.total,
    });
    if let Some(next) = page.next {
        said["next"] = next.to_string().into();
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
    let (
        ClientSeen {
            session,
            held_by,
            near,
        },
        place,
    ) = *seen;
    let mut said = match session {
        Some(session) => of_session(&session, place.as_ref()),
        None => elsewhere(&client_id, near.as_ref(), place.as_ref()),
    };
    said.insert("node".to_owned(), answered.node.to_string().into());
    // Whoever is not in a cluster holds what it has.
    let held_by = held_by.unwrap_or(answered.node);
    said.insert("held_by".to_owned(), held_by.to_string().into());
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
        Said::Done(false) => Err(failure(
            StatusCode::NOT_FOUND,
            "no client of that name is connected to this node",
        )),
        _ => Err(beside_the_point()),
    }
}

/// What a client is told has to fit into its DISCONNECT.
const REASON_BYTES_MAX: usize = 1_024;

pub(super) async fn subscriptions(State(pages): State<Pages>, RawQuery(query): RawQuery) -> Response {
    respond(subscriptions_listed(&pages, query.as_deref()).await)
}

async fn subscriptions_listed(pages: &Pages, query: Option<&str>) -> Result<Value, Failure> {
    let parameters = Parameters::of(query, &["filter", "limit", "after"])?;
    let search = parameters.get("filter").unwrap_or_default();
    let from = parameters.after((0, 0), |text| {
        let (session, subscription) = text.split_once('.')?;
        Some((session.parse().ok()?, subscription.parse().ok()?))
    })?;
    let question = |from, limit| {
        Question::Subscriptions(SubscriptionsAsked {
            search: search.to_owned(),
            from,
            limit,
        })
    };
    let read = |said| match said {
        Said::Subscriptions(piece) => Some(piece),
        _ => None,
    };
    let page = page(pages, (from, parameters.limit()?), question, read).await?;
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
    if let Some((session, subscription)) = page.next {
        said["next"] = format!("{session}.{subscription}").into();
    }
    Ok(said)
}

fn nobody(client_id: &str) -> Failure {
    let why = format!("this node has no session of a client `{client_id}`; another one may have it");
    failure(StatusCode::NOT_FOUND, &why)
}

fn of_client(client: &Client, place: Option<&Place>) -> Map<String, Value> {
    let mut said = of_connection(client.connection.as_ref(), place);
    let mut tell = |name: &str, value: Value| said.insert(name.to_owned(), value);
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
    let at = connection.and_then(|connection| connection.at);
    let version = connection.map(|connection| match connection.version {
        ProtocolVersion::V311 => "3.1.1",
        ProtocolVersion::V5 => "5",
    });
    let mut said = Map::new();
    let mut tell = |name: &str, value: Value| said.insert(name.to_owned(), value);
    tell("connected", connection.is_some().into());
    tell("connected_to", json!(at.map(|node| node.to_string())));
    tell("address", json!(place.map(|place| place.address.as_str())));
    tell("listener", json!(place.map(|place| place.listener.as_str())));
    tell("protocol", json!(version));
    let since = connection.filter(|connection| connection.since > 0);
    tell(
        "connected_since",
        json!(since.map(|connection| rfc3339(connection.since))),
    );
    tell(
        "keep_alive_s",
        json!(connection.map(|connection| connection.keep_alive)),
    );
    said
}

fn of_session(session: &HeldSession, place: Option<&Place>) -> Map<String, Value> {
    let subscriptions = session.subscriptions.iter().map(|(filter, how)| {
        let options = how.options;
        json!({
            "filter": filter.filter.as_str(),
            "share": filter.share.as_ref().map(|share| share.as_str()),
            "qos": options.qos as u8,
            "no_local": options.no_local,
            "retain_as_published": options.retain_as_published,
            "retain_handling": options.retain_handling as u8,
            "identifier": how.id.map(|id| id.get()),
        })
    });
    let subscriptions: Vec<_> = subscriptions.collect();
    let will = session.will.as_ref().map(|will| {
        json!({
            "topic": will.topic.as_str(),
            "qos": will.qos as u8,
            "retain": will.retain,
            "delay_s": will.delay,
            "bytes": will.bytes,
        })
    });
    let copies: Vec<_> = session.copies_at.iter().map(NodeId::to_string).collect();
    let mut said = of_client(&session.client, place);
    said.insert("subscriptions_list".to_owned(), subscriptions.into());
    said.insert("will".to_owned(), json!(will));
    said.insert("copies_at".to_owned(), copies.into());
    said
}

/// What is known here of a client whose session another node has.
fn elsewhere(client_id: &str, near: Option<&ClientConnection>, place: Option<&Place>) -> Map<String, Value> {
    let mut said = of_connection(near, place);
    said.insert("client_id".to_owned(), client_id.into());
    said
}
