//! `/cluster`: how a cluster stands, and what changes it. `statehold cluster` is the client.
//!
//! ```text
//! GET  /cluster                                       how it stands
//! POST /cluster/add       {"node": "ID or ADDRESS"}
//! POST /cluster/remove    {"node": "ID", "force": false}
//! POST /cluster/transfer  {"group": 0, "to": "ID"}    `"control"` is a group as well
//! ```
//!
//! A change is answered when it is decided: 200 with `{"taken": "..."}`, or 409 with `{"refused": "..."}`. What follows takes its
//! time, and is seen in how the cluster stands. 503 with `{"refused": "..."}`: nobody decides at the moment, or nobody knows what was
//! decided. Then the same change may be asked for again.

use std::collections::BTreeSet;

use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use broker::{ClusterAnswer, ClusterChange, ClusterQuestion, ClusterStatus, GroupStatus};
use cluster::control::{CONTROL, NodeStage};
use cluster::peers::PeerAddress;
use cluster::{GroupId, NodeId};
use serde::Deserialize;
use serde_json::{Value, json};

use super::pages::Pages;
use super::{AdminRequest, ClusterAnswered};
use crate::condition::Condition;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Add {
    node: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Remove {
    node: String,
    #[serde(default)]
    force: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Transfer {
    group: Value,
    to: String,
}

/// How the cluster stands.
pub(super) async fn show(State(pages): State<Pages>) -> Response {
    ask(&pages, ClusterQuestion::Status).await
}

pub(super) async fn add(State(pages): State<Pages>, body: Bytes) -> Response {
    match read(&body) {
        Ok(Add { node }) => ask(&pages, ClusterQuestion::Add { who: node }).await,
        Err(refused) => *refused,
    }
}

pub(super) async fn remove(State(pages): State<Pages>, body: Bytes) -> Response {
    let asked = read(&body).and_then(|Remove { node, force }| {
        let is_forced = force;
        let node = node_id(&node).ok_or_else(malformed)?;
        Ok(ClusterChange::Remove { node, is_forced })
    });
    change(&pages, asked).await
}

pub(super) async fn transfer(State(pages): State<Pages>, body: Bytes) -> Response {
    let asked = read(&body).and_then(|Transfer { group, to }| {
        let group = group_id(&group).ok_or_else(malformed)?;
        let to = node_id(&to).ok_or_else(malformed)?;
        Ok(ClusterChange::Transfer { group, to })
    });
    change(&pages, asked).await
}

async fn change(pages: &Pages, asked: Result<ClusterChange, Box<Response>>) -> Response {
    match asked {
        Ok(change) => ask(pages, ClusterQuestion::Change(change)).await,
        Err(refused) => *refused,
    }
}

fn read<'a, T: Deserialize<'a>>(body: &'a Bytes) -> Result<T, Box<Response>> {
    serde_json::from_slice(body).map_err(|error| {
        let why = format!("what was asked cannot be read: {error}");
        Box::new(refuse(StatusCode::BAD_REQUEST, &why))
    })
}

async fn ask(pages: &Pages, asks: ClusterQuestion) -> Response {
    let request = |answer| AdminRequest::Cluster(asks, answer);
    let answered = match pages.node.ask(request).await {
        Ok(answered) => answered,
        Err(silence) => return silence.into_response(),
    };
    match &answered.answer {
        ClusterAnswer::Status(status) => {
            let status = of_status(status, &answered);
            answer(StatusCode::OK, &status)
        }
        ClusterAnswer::Taken(said) => answer(StatusCode::OK, &json!({ "taken": said })),
        ClusterAnswer::Refused(why) => refuse(StatusCode::CONFLICT, why),
        ClusterAnswer::Open(why) => refuse(StatusCode::SERVICE_UNAVAILABLE, why),
        ClusterAnswer::NoCluster => refuse(StatusCode::NOT_FOUND, "this server is not part of a cluster"),
    }
}

fn malformed() -> Box<Response> {
    let why = "a node is named by its id, 16 hexadecimal digits, a group by its number or \"control\"";
    Box::new(refuse(StatusCode::BAD_REQUEST, why))
}

fn answer(status: StatusCode, said: &Value) -> Response {
    let json = HeaderValue::from_static("application/json");
    (status, [(header::CONTENT_TYPE, json)], said.to_string()).into_response()
}

fn refuse(status: StatusCode, why: &str) -> Response {
    answer(status, &json!({ "refused": why }))
}

fn node_id(text: &str) -> Option<NodeId> {
    let node = u64::from_str_radix(text, 16).ok().filter(|node| *node != 0)?;
    (text.len() <= 16).then_some(NodeId(node))
}

fn group_id(group: &Value) -> Option<GroupId> {
    match group {
        Value::String(name) if name == "control" => Some(CONTROL),
        Value::Number(number) => Some(GroupId(u32::try_from(number.as_u64()?).ok()?)),
        _ => None,
    }
}

fn of_status(status: &ClusterStatus, answered: &ClusterAnswered) -> Value {
    let nodes = status.nodes.iter().map(|node| {
        let led = status
            .groups
            .iter()
            .filter(|group| group.leader == Some(node.node));
        json!({
            "node": node.node.to_string(),
            "address": node.address.as_str(),
            "stage": stage(node.stage),
            "since": (node.since != 0).then_some(node.since),
            "reachable": node.is_heard,
            "sessions": { "state": node.sessions.to_string() },
            "unmerged_slots": node.copies.as_ref().map(|copies| copies.under_replicated),
            "clock_ahead_ms": answered.clocks_ahead_ms.get(&node.node),
            "leads": led.map(|group| name(group.group)).collect::<Vec<_>>(),
        })
    });
    let waiting = status.callers.iter().map(|caller| {
        json!({
            "node": caller.node.to_string(),
            "address": caller.address.as_str(),
        })
    });
    json!({
        "cluster": status.cluster.to_string(),
        "node": status.node.to_string(),
        "nodes": nodes.collect::<Vec<_>>(),
        "groups": status.groups.iter().map(of_group).collect::<Vec<_>>(),
        "voters": status.voters_wanted,
        "waiting": waiting.collect::<Vec<_>>(),
        "conditions": conditions(status, &answered.conditions),
    })
}

/// Conditions of the node that is asked. A node that waits to be added is among `waiting`.
fn conditions(status: &ClusterStatus, all: &[Condition]) -> Vec<Value> {
    let waits = |address: &PeerAddress| status.callers.iter().any(|caller| caller.address == *address);
    let shown = all
        .iter()
        .filter(|condition| !matches!(condition, Condition::Refused { address, .. } if waits(address)));
    shown
        .map(|condition| json!({ "cause": condition.name(), "text": condition.line() }))
        .collect()
}

fn of_group(group: &GroupStatus) -> Value {
    let ids = |nodes: &BTreeSet<NodeId>| -> Vec<String> { nodes.iter().map(NodeId::to_string).collect() };
    let replicas = group.report.iter().flat_map(|report| {
        let last = report.last.0;
        report.members.iter().map(move |member| {
            json!({
                "node": member.node.to_string(),
                "lacks": last.saturating_sub(member.matched.0),
                "active": member.is_active,
                "rolled_back": member.is_rolled_back,
            })
        })
    });
    json!({
        "group": name(group.group),
        "leader": group.leader.map(|leader| leader.to_string()),
        "term": group.term.0,
        "last": group.report.as_ref().map(|report| report.last.0),
        "voters": ids(&group.members.voters),
        "outgoing": ids(&group.members.outgoing),
        "learners": ids(&group.members.learners),
        "replicas": replicas.collect::<Vec<_>>(),
    })
}

fn name(group: GroupId) -> Value {
    if group == CONTROL {
        json!("control")
    } else {
        json!(group.0)
    }
}

fn stage(stage: NodeStage) -> &'static str {
    match stage {
        NodeStage::Joining => "joining",
        NodeStage::Member => "member",
        NodeStage::Leaving => "leaving",
    }
}

#[cfg(test)]
mod tests {
    use cluster::ClusterId;
    use cluster::forming::Founder;
    use cluster::peers::{Refusal, RefusalCode};

    use super::*;

    fn refused(address: &str, text: &str) -> Condition {
        Condition::Refused {
            address: address.parse().expect("an address"),
            refusal: Refusal::new(RefusalCode::NotAMember, text),
        }
    }

    #[test]
    fn a_node_that_waits_to_be_added_is_no_condition() {
        let caller = Founder {
            node: NodeId(4),
            address: "10.0.0.4:7000".parse().expect("an address"),
        };
        let status = ClusterStatus {
            cluster: ClusterId(1),
            node: NodeId(1),
            nodes: Vec::new(),
            groups: Vec::new(),
            callers: BTreeSet::from([caller]),
            voters_wanted: 3,
        };
        let all = [
            refused("10.0.0.4:7000", "add it"),
            refused("10.0.0.5:7000", "removed"),
        ];
        let shown = json!([{ "cause": "not_a_member", "text": "removed" }]);
        assert_eq!(Value::from(conditions(&status, &all)), shown);
    }
}
