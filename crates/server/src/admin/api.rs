//! `/api/...`: what the dashboard and the command line see of one node, and do to it. `docs/admin-api.md` describes it for users.
//!
//! The node is asked for one piece of a list after the other, so that its thread is never held for long; a page is made of a few of them.

mod backup;
mod clients;
mod node;
mod paging;
mod parameters;
mod retained;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::extract::rejection::PathRejection;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use broker::Administration;
use broker::backups::{Contents, RetainedItem, SessionItem, Tally};
use broker::inspection::{
    Client, ClientSeen, ClientsAsked, Piece, Presence, RetainedAsked, RetainedSeen, SlotsOfNode,
    SubscriptionPlace, SubscriptionSeen, SubscriptionsAsked,
};
use cluster::NodeId;
use protocol::{Escaped, TopicName};
use serde_json::{Value, json};
use store::Image;

use super::AdminRequest;
use super::pages::{Pages, Silence};
use crate::backup::RESTORE_BYTES_MAX;
use crate::self_test::Round;
use crate::serve::Scheme;

/// What is asked of the node.
#[derive(Debug)]
pub enum Question {
    /// A piece of the list of clients.
    Clients(ClientsAsked),
    /// One client, by its id.
    Client(String),
    /// A piece of the list of subscriptions.
    Subscriptions(SubscriptionsAsked),
    /// A piece of the list of retained messages.
    Retained(RetainedAsked),
    /// The retained message of a topic.
    RetainedMessage(TopicName),
    /// How the node is.
    Node,
    /// Slots that each node owns.
    Rings,
    /// What the self-test has found.
    SelfTest,
    /// How much there is, for a backup.
    Contents,
    /// A piece of the sessions, behind this client id.
    SessionsForBackup(String),
    /// A piece of the retained messages, behind this place.
    RetainedForBackup(Vec<u8>),
    /// Something is to be done.
    Administer(Administration),
}

/// What the node says, and which it is.
#[derive(Debug)]
pub struct Answered {
    /// Who says it.
    pub node: NodeId,
    /// What.
    pub said: Said,
}

/// What a node says.
#[derive(Debug)]
pub enum Said {
    /// Why there is no node yet that could say anything.
    NotFormed(String),
    /// A piece of the list of clients, each with where it is connected.
    Clients(Piece<(Client, Option<Place>), String>),
    /// One client; `None`: the node does not know it.
    Client(Option<Box<(ClientSeen, Option<Place>)>>),
    /// A piece of the list of subscriptions.
    Subscriptions(Piece<SubscriptionSeen, SubscriptionPlace>),
    /// A piece of the list of retained messages.
    Retained(Piece<RetainedSeen, Vec<u8>>),
    /// A retained message; `None`: there is none.
    RetainedMessage(Option<Box<RetainedSeen>>),
    /// How the node is.
    Node(NodeSaid),
    /// Slots that each node owns; `None`: there is no cluster.
    Rings(Option<Vec<SlotsOfNode>>),
    /// The last round of the self-test; `None`: there was none.
    SelfTest(Option<Round>),
    /// How much there is.
    Contents(Contents),
    /// A piece of the sessions, as they are on disk.
    SessionsForBackup(Piece<SessionItem, String>),
    /// A piece of the retained messages, as they are on disk.
    RetainedForBackup(Piece<RetainedItem, Vec<u8>>),
    /// A group's store as of now; `None`: the node does not lead the group.
    Frozen(Option<Box<Image>>),
    /// What became of what was to be put back.
    Restored(Tally),
    /// Whether it could be done.
    Done(bool),
}

/// Where a client is connected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// Where it comes from.
    pub address: String,
    /// Where it came to: the address of a listener.
    pub listener: String,
}

/// How a node is.
#[derive(Debug, Clone)]
pub struct NodeSaid {
    /// How far it is in the session plane; `None`: there is no cluster.
    pub state: Option<OwnState>,
    /// Why no client should be sent here.
    pub not_ready: Vec<String>,
    /// Where clients are served.
    pub listeners: Vec<ServedAt>,
}

/// Stay of a node in the session plane.
#[derive(Debug, Clone, Copy)]
pub struct OwnState {
    /// Its state, and which stay it is.
    pub presence: Presence,
    /// Time since which the node is in this state, in Unix milliseconds.
    pub since: u64,
}

/// Where clients are served.
#[derive(Debug, Clone)]
pub struct ServedAt {
    /// What is spoken below MQTT.
    pub scheme: Scheme,
    /// As connections and the log have it.
    pub name: String,
    /// The address that it is.
    pub address: String,
    /// Where WebSockets are taken; `None` of a listener without.
    pub path: Option<String>,
}

/// The pages below `/api`.
pub(super) fn routes() -> Router<Pages> {
    Router::new()
        .route("/api/clients", get(clients::list))
        .route("/api/clients/{client_id}", get(clients::show))
        .route("/api/clients/{client_id}/disconnect", post(clients::disconnect))
        .route("/api/subscriptions", get(clients::subscriptions))
        .route("/api/retained", get(retained::list))
        .route(
            "/api/retained/{*topic}",
            get(retained::show).delete(retained::remove),
        )
        .route("/api/backup", get(backup::show))
        .route("/api/backup/groups/{group}", get(backup::group))
        .route("/api/backup/sessions", get(backup::sessions))
        .route("/api/backup/retained", get(backup::retained))
        .route(
            "/api/restore",
            post(backup::restore).layer(DefaultBodyLimit::max(RESTORE_BYTES_MAX)),
        )
        .route("/api/node", get(node::show))
        .route("/api/rings", get(node::rings))
        .route("/api/self-test", get(node::self_test))
}

/// An answer that is no success. In a box: it is large, and rare.
type Failure = Box<Response>;

/// Asks the node.
async fn ask(pages: &Pages, question: Question) -> Result<Answered, Failure> {
    let answered = pages.node.ask(|answer| AdminRequest::Api(question, answer)).await;
    let answered = answered.map_err(|silence| silent(&silence))?;
    match answered.said {
        Said::NotFormed(why) => Err(failure(StatusCode::SERVICE_UNAVAILABLE, &why)),
        _ => Ok(answered),
    }
}

fn silent(silence: &Silence) -> Failure {
    failure(StatusCode::SERVICE_UNAVAILABLE, silence.words().trim_end())
}

/// The node has answered another question than it was asked.
fn beside_the_point() -> Failure {
    failure(
        StatusCode::INTERNAL_SERVER_ERROR,
        "the node answered something else",
    )
}

/// What of the path could not be read.
fn unreadable(rejection: &PathRejection) -> Failure {
    failure(StatusCode::BAD_REQUEST, &rejection.body_text())
}

/// Whoever asks may find words of his own in it: they are escaped.
fn failure(status: StatusCode, why: &str) -> Failure {
    let why = Escaped::sentence(why).to_string();
    Box::new(answer(status, &json!({ "error": why })))
}

pub(super) fn answer(status: StatusCode, said: &Value) -> Response {
    let json = HeaderValue::from_static("application/json");
    (status, [(header::CONTENT_TYPE, json)], said.to_string()).into_response()
}

fn respond(said: Result<Value, Failure>) -> Response {
    match said {
        Ok(said) => answer(StatusCode::OK, &said),
        Err(failure) => *failure,
    }
}

#[cfg(test)]
pub(super) mod tests;
