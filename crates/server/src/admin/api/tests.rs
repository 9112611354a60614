//! The pages below `/api` over real sockets, with a thread that answers as a node would.

use std::time::Duration;

use broker::ImageSource;
use broker::inspection::{ClientSeen, Piece};
use cluster::replica::record::LogPoint;
use cluster::session_plane::lifecycle::NodeState;
use protocol::Text;
use serde_json::Value;

use super::parameters::to_hex;
use super::*;
use crate::AdminClient;
use crate::admin::tests::{ask, get, start, start_with, status, with_tokens};
use crate::admin::{Admin, Health, Scope, new_token};
use crate::backup::{Decoder, Encoder, Record};

/// A node with 250 clients, of which one piece has ten places, and each second one is empty.
const CLIENTS: u32 = 500;

pub(in crate::admin) fn answered(question: Question) -> Answered {
    let said = match question {
        Question::Clients(asked) if asked.search == "unformed" => Said::NotFormed("no others".to_owned()),
        Question::Clients(asked) => Said::Clients(clients(&asked)),
        Question::Client(client_id) if client_id == "a/b c" => {
            let seen = ClientSeen {
                client: client(&client_id),
                subscriptions: Vec::new(),
                will: None,
                owners: vec![NodeId(2), NodeId(1)],
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
        Question::Administer(Administration::Freeze { group, source }) => {
            let image =
                (group.0 == 0 || source == ImageSource::Own).then(|| Box::new(store::Store::new().image()));
            Said::Frozen(image)
        }
        Question::Administer(Administration::Restore { items }) => Said::Restored(Tally {
            restored: items.len() as u64,
            ..Tally::default()
        }),
        Question::Contents => Said::Contents(Contents {
            groups: 1,
            keys: 2,
            retained: 3,
            sessions: 4,
            log_ends: vec![Some(LogPoint::START)],
        }),
        // Three pieces, of which the second is empty.
        Question::SessionsForBackup(after) => {
            let number = u32::try_from(after.len()).expect("short");
            Said::SessionsForBackup(Piece {
                found: (number != 1).then(|| session(number)).into_iter().collect(),
                next: (number < 2).then(|| "c".repeat(after.len() + 1)),
                total: 2,
            })
        }
        Question::RetainedForBackup(_) => Said::NotFormed("no others".to_owned()),
        Question::RetainedMessage(_) => Said::RetainedMessage(None),
        Question::Rings => Said::Rings(Some([(1, 3_000), (2, 1_096)].map(slots_of).to_vec())),
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

/// A piece of the clients, behind the one that is asked for.
fn clients(asked: &ClientsAsked) -> Piece<(Client, Option<Place>), String> {
    let from = asked.after.strip_prefix("client").map_or(0, |last| {
        let last: u32 = last.parse().expect("a number");
        last + 1
    });
    let until = (from + 10).min(CLIENTS);
    let (mut found, mut next) = (Vec::new(), from);
    while next < until && found.len() < asked.limit {
        if next % 2 == 0 {
            found.push((client(&format!("client{next}")), None));
        }
        next += 1;
    }
    let next = (next < CLIENTS).then(|| format!("client{}", next - 1));
    let total = CLIENTS as usize / 2;
    Piece { found, next, total }
}

fn session(number: u32) -> SessionItem {
    SessionItem {
        client_id: Text::new(format!("client{number}")).expect("short"),
        record: bytes::Bytes::from_static(b"a record"),
        parts: Vec::new(),
    }
}

fn slots_of((node, primary): (u64, usize)) -> SlotsOfNode {
    SlotsOfNode {
        node: NodeId(node),
        state: NodeState::Running,
        owned: 4_096,
        primary,
    }
}

fn client(client_id: &str) -> Client {
    Client {
        client_id: Text::new(client_id).expect("short"),
        principal: None,
        connection: None,
        connected_to: None,
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
    let (_, page) = json_of(
        &admin,
        &format!("/api/clients?after={}&limit=5", to_hex(b"client489")),
    );
    assert_eq!(page["clients"].as_array().map(Vec::len), Some(5));
    assert_eq!(page.get("next"), None);
    // A page of more pieces than it may have ends before it is full.
    let (_, page) = json_of(&admin, "/api/clients?limit=1000");
    assert_eq!(page["clients"].as_array().map(Vec::len), Some(160));
    assert_eq!(page["next"], to_hex(b"client319"));
}

#[test]
fn what_cannot_be_answered_is_told_as_json() {
    let admin = start(Health::default());
    for (path, expected, part) in [
        ("/api/clients?limit=0", 400, "from 1 to 1000"),
        ("/api/clients?serch=a", 400, "there is no parameter `serch`"),
        (
            "/api/clients?%1b%5b2J%e2%80%ae=a",
            400,
            "there is no parameter `\\u{1b}[2J\\u{202e}`",
        ),
        ("/api/clients?after=x", 400, "`next`"),
        ("/api/clients?search=unformed", 503, "no others"),
        ("/api/clients/nobody", 404, "no client `nobody` has a session"),
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
    assert_eq!(said["owners"], json!(["0000000000000002", "0000000000000001"]));
    assert_eq!(said["connected"], false);
}

#[test]
fn nodes_have_shares_of_the_slots() {
    let admin = start(Health::default());
    let (status, said) = json_of(&admin, "/api/rings");
    assert_eq!((status, &said["slots"]), (200, &json!(4_096)));
    let nodes = said["nodes"].as_array().expect("a list");
    let shares: f64 = nodes.iter().filter_map(|node| node["share"].as_f64()).sum();
    assert!((shares - 1.0).abs() < 1e-9, "{shares}");
    assert_eq!(nodes[0]["primary_slots"], 3_000);
    assert_eq!(nodes[0]["owned_slots"], 4_096);
    assert_eq!(nodes[1]["state"], "RUNNING");
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

/// The records of a part, and whether it has its end. One that is broken off at once may not even begin.
async fn part(client: &AdminClient, path: &str) -> (Vec<Record>, bool) {
    let Ok(mut stream) = client.stream(path).await else {
        return (Vec::new(), false);
    };
    let (mut decoder, mut records) = (Decoder::default(), Vec::new());
    while let Ok(Some(piece)) = stream.next().await {
        decoder.push(&piece);
        while let Some(record) = decoder.next().expect("right") {
            records.push(record);
        }
    }
    (records, decoder.finish().is_ok())
}

#[tokio::test]
async fn parts_of_a_backup_are_streams_and_come_back_the_same_way() {
    let (_directory, settings, [_, write]) = with_tokens();
    let admin = start_with(&settings, Health::default());
    let url = format!("http://{}", admin.address());
    let client = AdminClient::new(&url, None, Some(&write), Duration::from_secs(30)).expect("an address");
    let has = client.get("/api/backup").await.expect("an answer");
    assert_eq!((&has["keys"], &has["sessions"]), (&json!(2), &json!(4)));
    assert_eq!(has["log_ends"], json!([{ "term": 0, "index": 0 }]));

    let (records, is_whole) = part(&client, "/api/backup/groups/0").await;
    assert!(
        is_whole && matches!(records[..], [Record::Group(0, ..)]),
        "{records:?}"
    );
    let refused = client
        .stream("/api/backup/groups/1")
        .await
        .expect_err("not its leader");
    assert!(refused.to_string().contains("does not lead group 1"), "{refused}");
    let (records, is_whole) = part(&client, "/api/backup/groups/1?copy=own").await;
    assert!(
        is_whole && matches!(records[..], [Record::Group(1, ..)]),
        "{records:?}"
    );
    let refused = client.stream("/api/backup/groups/1?copy=any").await;
    assert!(refused.is_err_and(|error| error.to_string().contains("`copy`")));
    let (records, is_whole) = part(&client, "/api/backup/sessions").await;
    assert!(is_whole);
    assert_eq!(records, [0, 2].map(|number| Record::Session(session(number))));
    // The node has nothing to say: the stream is broken off, and that is seen.
    assert_eq!(part(&client, "/api/backup/retained").await, (Vec::new(), false));

    let (mut encoder, head) = Encoder::begin();
    let mut bytes = bytes::BytesMut::from(&head[..]);
    for record in &records {
        encoder.push(record, &mut bytes).expect("short");
    }
    let cut_off = bytes.clone().freeze();
    bytes.extend_from_slice(&encoder.end().1);
    let said = client
        .post_bytes("/api/restore", bytes.freeze())
        .await
        .expect("taken");
    assert_eq!((&said["restored"], &said["there"]), (&json!(2), &json!(0)));
    let refused = client
        .post_bytes("/api/restore", cut_off)
        .await
        .expect_err("no end");
    assert!(refused.to_string().contains("ends too soon"), "{refused}");
}

#[test]
fn a_backup_needs_a_token_that_may_read_everything() {
    let (directory, settings, [read, write]) = with_tokens();
    let (backup, line) = new_token("nightly", Scope::Backup).expect("a name");
    let file = directory.path().join("tokens");
    let lines = std::fs::read_to_string(&file).expect("read");
    std::fs::write(&file, format!("{lines}{line}\n")).expect("written");
    let admin = start_with(&settings, Health::default());
    let bearer = |token: &str| format!("Authorization: Bearer {token}");
    let (json, octets) = (
        "Content-Type: application/json",
        "Content-Type: application/octet-stream",
    );
    for (token, expected) in [(&read, 403), (&backup, 200), (&write, 200)] {
        assert_eq!(status(&admin, "GET /api/backup", &[&bearer(token)]), expected);
    }
    assert_eq!(status(&admin, "GET /api/clients", &[&bearer(&backup)]), 200);
    assert_eq!(
        status(&admin, "POST /api/restore", &[octets, &bearer(&backup)]),
        403
    );
    assert_eq!(status(&admin, "POST /api/restore", &[json, &bearer(&write)]), 415);
    assert_eq!(status(&admin, "POST /reload", &[octets, &bearer(&write)]), 415);
    assert_eq!(
        status(&start(Health::default()), "GET /api/backup/sessions", &[]),
        403
    );
}
