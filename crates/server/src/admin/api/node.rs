//! `/api/node`, `/api/rings` and `/api/self-test`.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use broker::inspection::SlotsOfNode;
use serde_json::{Value, json};

use super::{Failure, NodeSaid, Question, Said, ask, beside_the_point, failure, respond};
use crate::admin::pages::Pages;
use crate::audit::rfc3339;
use crate::clock;

pub(super) async fn show(State(pages): State<Pages>) -> Response {
    respond(shown(&pages).await)
}

async fn shown(pages: &Pages) -> Result<Value, Failure> {
    let answered = ask(pages, Question::Node).await?;
    let Said::Node(NodeSaid {
        state,
        not_ready,
        listeners,
    }) = answered.said
    else {
        return Err(beside_the_point());
    };
    let about = &pages.about;
    let listeners = listeners.iter().map(|listener| {
        json!({
            "name": listener.name,
            "address": listener.address,
            "transport": listener.scheme.name(),
            "path": listener.path,
        })
    });
    let uptime = clock::instant().saturating_duration_since(about.since);
    // A node on its own is what it is from the start on.
    let (name, since, presence) = match state {
        Some(own) => (own.presence.state.to_string(), own.since, Some(own.presence)),
        None => ("RUNNING".to_owned(), about.since_wall, None),
    };
    let number = presence.map(|presence| json!({ "run": presence.run.0, "number": presence.number }));
    Ok(json!({
        "node": answered.node.to_string(),
        "version": env!("CARGO_PKG_VERSION"),
        "uptime_s": uptime.as_secs(),
        "state": name,
        "state_since": rfc3339(since),
        "state_number": number,
        "ready": not_ready.is_empty(),
        "not_ready": not_ready,
        "listeners": listeners.collect::<Vec<_>>(),
        "limits": about.limits,
    }))
}

pub(super) async fn self_test(State(pages): State<Pages>) -> Response {
    respond(self_test_shown(&pages).await)
}

async fn self_test_shown(pages: &Pages) -> Result<Value, Failure> {
    let answered = ask(pages, Question::SelfTest).await?;
    let Said::SelfTest(last) = answered.said else {
        return Err(beside_the_point());
    };
    let Some(last) = last else {
        let why =
            "there was no round of the self-test yet: set self_test.interval, or wait for the first one";
        return Err(failure(StatusCode::NOT_FOUND, why));
    };
    let steps = last.steps.iter().map(|result| {
        json!({
            "step": result.step.name(),
            "result": result.verdict.name(),
            "took_ms": result.took.as_secs_f64() * 1_000.0,
            "why": result.why,
        })
    });
    Ok(json!({
        "node": answered.node.to_string(),
        "ok": last.is_ok(),
        "began": rfc3339(last.began),
        "steps": steps.collect::<Vec<_>>(),
    }))
}

pub(super) async fn rings(State(pages): State<Pages>) -> Response {
    respond(rings_shown(&pages).await)
}

async fn rings_shown(pages: &Pages) -> Result<Value, Failure> {
    let answered = ask(pages, Question::Rings).await?;
    let Said::Rings(rings) = answered.said else {
        return Err(beside_the_point());
    };
    let Some(rings) = rings else {
        let why = "this server is not part of a cluster";
        return Err(failure(StatusCode::NOT_FOUND, why));
    };
    let slots: usize = rings.iter().map(|node| node.primary).sum();
    let nodes = rings.iter().map(|node| of_ring(node, slots));
    Ok(json!({
        "node": answered.node.to_string(),
        "slots": slots,
        "nodes": nodes.collect::<Vec<_>>(),
    }))
}

fn of_ring(node: &SlotsOfNode, slots: usize) -> Value {
    let share = |count: usize| count as f64 / slots.max(1) as f64;
    json!({
        "node": node.node.to_string(),
        "state": node.state.to_string(),
        "primary_slots": node.primary,
        "owned_slots": node.owned,
        "share": share(node.primary),
    })
}
