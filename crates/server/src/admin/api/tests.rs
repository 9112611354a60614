//! The pages below `/api` over real sockets, with a thread that answers as a node would.

use broker::inspection::{ClientSeen, Piece};
use protocol::Text;
use serde_json::Value;

use super::*;
use crate::admin::tests::{ask, get, start, start_with, status, with_tokens};
use crate::admin::{Admin, Health};

/// A node with 250 clients, of which one piece has ten places, and each second one is empty.
const CLIENTS: u32 = 500;

pub(in crate::admin) fn answered(question: Question) -> Answered {
    let said = match question {
        Question::Clients(asked) if asked.search == "unformed" => Said::NotFormed("no others".to_owned()),
        Question::Clients(asked) => {
            let until = (asked.from + 10).min(CLIENTS);
            let (mut found, mut next) = (Vec::new(), asked.from);
            while next < until && found.len() < asked.limit {
                if next % 2 == 0 {
                    found.push((client(&format!("client{next}")), None));
                }
                next += 1;
            }
            let next = (next < CLIENTS).then_some(next);
            let total = CLIENTS as usize / 2;
            Said::Clients(Piece { found, next, total })
        }
        Question::Client(client_id) if client_id == "a/b c" => {
            let seen = ClientSeen {
                session: None,
                held_by: Some(NodeId(2)),
                near: None,
            };
            Said::Client(Some(Box::new((seen, None))))
        }
        Question::Client(_) => Said::Client(None),
        Question::Administer(Administration::Disconnect { client_id, why }) => {
            Said::Done(client_id.as_str() == "pump" && why == "stop it")
        }
        Question::Administer(Administration::RemoveRetained { topic }) => {
            Said::Done(topic.as_str() == "/a/b")
        }
        Question::RetainedMessage(_) => Said::RetainedMessage(None),
        Question::Rings => Said::Rings(Some(Box::new((Ring::new([NodeId(1), NodeId(2)]), Ring::new([]))))),
        Question::SelfTest => Said::SelfTest(None),
        Question::Subscriptions(_) | Question::Retained(_) | Question::Node => Said::Node(NodeSaid {
            state: None,
            not_ready: Vec::new(),
            listeners: Vec::new(),
        }),
    };
    let node = NodeId(1);
    Answered { node, said }
}

fn client(client_id: &str) -> Client {
    Client {
        client_id: Text::new(client_id).expect("short"),
        principal: None,
        connection: None,
        session_expiry: 60,
        subscriptions: 0,
        queued_messages: 0,
        queued_bytes: 0,
        inflight: 0,
    }
}

fn json_of(admin: &Admin, path: &str) -> (u16, Value) {
    let (status, body) = get(admin, path);
    (status, serde_json::from_str(&body).expect("JSON"))
}

#[test]
fn pages_are_full_and_the_last_one_says_so() {
    let admin = start(Health::default());
    let (mut after, mut found) = (String::new(), Vec::new());
    for expected in [100, 100, 50] {
        let (status, page) = json_of(&admin, &format!("/api/clients?after={after}"));
        assert_eq!((status, &page["total"]), (200, &json!(250)));
        let clients = page["clients"].as_array().expect("a list");
        assert_eq!(clients.len(), expected);
        found.extend(clients.iter().map(|client| client["client_id"].to_string()));
        after = page["next"].as_str().unwrap_or_default().to_owned();
    }
    assert_eq!(after, "");
    found.dedup();
    assert_eq!(found.len(), 250);
    // Nothing is behind the last client, though the node has places left.
    let (_, page) = json_of(&admin, "/api/clients?after=490&limit=5");
    assert_eq!(page["clients"].as_array().map(Vec::len), Some(5));
    assert_eq!(page.get("next"), None);
    // A page of more pieces than it may have ends before it is full.
    let (_, page) = json_of(&admin, "/api/clients?limit=1000");
    assert_eq!(page["clients"].as_array().map(Vec::len), Some(160));
    assert_eq!(page["next"], "320");
}

#[test]
fn what_cannot_be_answered_is_told_as_json() {
    let admin = start(Health::default());
    for (path, expected, part) in [
        ("/api/clients?limit=0", 400, "from 1 to 1000"),
        ("/api/clients?serch=a", 400, "there is no parameter `serch`"),
        ("/api/clients?after=x", 400, "`next`"),
        ("/api/clients?search=unformed", 503, "no others"),
        ("/api/clients/nobody", 404, "no session of a client `nobody`"),
        ("/api/clients/%ff", 400, "UTF-8"),
        ("/api/retained?filter=a/%23/b", 400, "a topic filter"),
        ("/api/retained/a/+", 400, "no topic name"),
        ("/api/retained/a/b", 404, "no message is retained"),
        ("/api/subscriptions?after=1", 400, "`next`"),
        ("/api/self-test", 404, "self_test.interval"),
        ("/api/subscriptions", 500, "something else"),
    ] {
        let (status, said) = json_of(&admin, path);
        assert_eq!(status, expected, "{path}");
        let error = said["error"].as_str().unwrap_or_default();
        assert!(error.contains(part), "{path}: {error}");
    }
}

#[test]
fn names_in_paths_are_decoded() {
    let admin = start(Health::default());
    let (status, said) = json_of(&admin, "/api/clients/a%2Fb%20c");
    assert_eq!(status, 200);
    assert_eq!(said["client_id"], "a/b c");
    assert_eq!(said["held_by"], "0000000000000002");
    assert_eq!(said["connected"], false);
}

#[test]
fn rings_have_shares() {
    let admin = start(Health::default());
    let (status, said) = json_of(&admin, "/api/rings");
    assert_eq!(status, 200);
    let primary = said["rings"][0]["nodes"].as_array().expect("a list");
    let shares: f64 = primary.iter().filter_map(|node| node["share"].as_f64()).sum();
    assert!((shares - 1.0).abs() < 1e-9, "{shares}");
    assert_eq!(primary[0]["virtual_nodes"], 500);
    assert_eq!(said["rings"][1], json!({ "name": "minority", "nodes": [] }));
}

#[test]
fn changes_need_a_token_that_may_write() {
    let (_directory, settings, [read, write]) = with_tokens();
    let admin = start_with(&settings, Health::default());
    let json = "Content-Type: application/json";
    let bearer = |token: &str| format!("Authorization: Bearer {token}");
    let disconnect = "POST /api/clients/pump/disconnect";
    assert_eq!(status(&admin, "GET /api/clients", &[]), 401);
    assert_eq!(status(&admin, "GET /api/clients", &[&bearer(&read)]), 200);
    assert_eq!(status(&admin, disconnect, &[json, &bearer(&read)]), 403);
    assert_eq!(status(&admin, disconnect, &[&bearer(&write)]), 415);
    assert_eq!(
        status(&admin, "DELETE /api/retained/a", &[json, &bearer(&read)]),
        403
    );
    let change = |request: &str, body: &str| {
        let text = format!(
            "{request} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n{json}\r\n{}\r\nContent-Length: {}\r\n\r\n{body}",
            admin.address(),
            bearer(&write),
            body.len()
        );
        ask(&admin, &text)
    };
    let (status, said) = change(disconnect, r#"{"reason": "stop it"}"#);
    assert_eq!(
        (status, said.as_str()),
        (200, r#"{"disconnected":true,"node":"0000000000000001"}"#)
    );
    assert_eq!(change(disconnect, "").0, 404, "for another reason");
    assert_eq!(change(disconnect, r#"{"why": "x"}"#).0, 400);
    assert_eq!(change(disconnect, r#"{"reason": "\u0000"}"#).0, 400);
    assert_eq!(change("DELETE /api/retained/%2Fa%2Fb", "").0, 200);
    assert_eq!(change("DELETE /api/retained//a/b", "").0, 200);
    assert_eq!(change("DELETE /api/retained/other", "").0, 404);
    assert_eq!(change("DELETE /api/retained/$SYS/broker/version", "").0, 400);
}

#[test]
fn who_has_no_token_is_told_so_as_json() {
    let (_directory, settings, _) = with_tokens();
    let admin = start_with(&settings, Health::default());
    let (status, said) = json_of(&admin, "/api/node");
    assert_eq!(status, 401);
    assert_eq!(said["error"], "a token is needed: Authorization: Bearer TOKEN");
}
