//! Clients with tokens of Kubernetes service accounts; the API server is a small one that answers as the real one does.

use std::time::Duration;

use client::protocol::ReasonCode;
use client::protocol::packet::Packet;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::asked_server::{AskedServer, Below, Heard, Reply};
use crate::configured::Configured;
use crate::enhanced::{again, open};
use crate::issuer::{Issuer, in_seconds};

const METHOD: &str = "K8S-SAT";

const HOUR: Duration = Duration::from_secs(3_600);

/// A server that asks an API server.
struct Cluster {
    api: AskedServer,
    directory: TempDir,
}

impl Cluster {
    fn new(answer: impl Fn(&Heard) -> Reply + Send + Sync + 'static) -> Self {
        let cluster = Self {
            api: AskedServer::start(Below::Tls, answer),
            directory: TempDir::new().expect("a directory"),
        };
        cluster.write_token("own-token-one");
        cluster
    }

    fn write_token(&self, token: &str) {
        std::fs::write(self.directory.path().join("token"), token).expect("written");
    }

    fn settings(&self, further: &str) -> String {
        format!(
            "[[listeners]]\naddress = \"127.0.0.1:0\"\nauthentication = [\"k8s-sat\"]\n[log]\nlevel = \"trace\"\n\
             [authentication.k8s_sat]\napi_server = \"{}\"\nca = \"{}\"\ntoken_file = \"{}\"\naudiences = [\"broker\"]\n{further}\n",
            self.api.url("https", ""),
            self.api.authority().ca_file(),
            self.directory.path().join("token").display()
        )
    }

    fn serve(&self, further: &str) -> Configured {
        Configured::start(&self.settings(further))
    }
}

/// As the kubelet has it. Who signs is the API server's business.
fn token(account: &str, lasts: Duration) -> String {
    let claims = json!({
        "aud": ["broker"],
        "exp": in_seconds(lasts),
        "iss": "https://kubernetes.default.svc.cluster.local",
        "kubernetes.io": {"namespace": "plant", "serviceaccount": {"name": account, "uid": "1"}},
        "sub": format!("system:serviceaccount:plant:{account}"),
    });
    Issuer::new("cluster").sign(&claims.to_string())
}

/// What the API server says of a token: it is right.
fn right(heard: &Heard) -> Reply {
    if heard.what.starts_with("GET ") {
        let account = json!({
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": "pump", "annotations": {"aio-broker-auth/group": "sensors", "other": "x"}},
        });
        return Reply::Status(200, account.to_string());
    }
    let mut review: Value = serde_json::from_str(&heard.body).expect("JSON");
    let token = review["spec"]["token"].as_str().expect("a token").to_owned();
    review["status"] = json!({
        "authenticated": true,
        "user": {"username": subject(&token), "uid": "1", "groups": ["system:serviceaccounts"]},
        "audiences": ["broker"],
    });
    Reply::Status(201, review.to_string())
}

fn subject(token: &str) -> String {
    use base64::Engine as _;
    let payload = token.split('.').nth(1).expect("three parts");
    let claims = base64::engine::general_purpose::URL_SAFE_NO_PAD
        .decode(payload)
        .expect("base64");
    let claims: Value = serde_json::from_slice(&claims).expect("JSON");
    claims["sub"].as_str().expect("a name").to_owned()
}

fn reason(server: &Configured, token: &str) -> ReasonCode {
    open(server, METHOD, token).1.reason
}

#[test]
fn the_api_server_is_asked_whose_token_it_is() {
    let cluster = Cluster::new(right);
    let mut server = cluster.serve("");
    let token = token("pump", HOUR);
    assert_eq!(reason(&server, &token), ReasonCode::Success);
    let line = server.logged("connected client_id=");
    assert!(
        line.contains("principal=system:serviceaccount:plant:pump"),
        "{line}"
    );
    let review = cluster.api.heard();
    assert_eq!(review.what, "POST /apis/authentication.k8s.io/v1/tokenreviews");
    assert_eq!(review.headers["authorization"], "Bearer own-token-one");
    let body: Value = serde_json::from_str(&review.body).expect("JSON");
    assert_eq!(body["kind"], "TokenReview");
    assert_eq!(body["apiVersion"], "authentication.k8s.io/v1");
    assert_eq!(body["spec"], json!({"token": token, "audiences": ["broker"]}));
    let account = cluster.api.heard();
    assert_eq!(account.what, "GET /api/v1/namespaces/plant/serviceaccounts/pump");
    assert_eq!(account.headers["authorization"], "Bearer own-token-one");

    assert_eq!(reason(&server, &token), ReasonCode::Success);
    assert!(
        !cluster.api.has_heard_more(),
        "the same token is not reviewed again at once"
    );
    let log = server.stop();
    for part in token.split('.').chain(["own-token-one"]) {
        assert!(!log.contains(part), "{part} in {log}");
    }
}

#[test]
fn what_is_no_token_of_a_service_account_asks_nobody() {
    let cluster = Cluster::new(right);
    let server = cluster.serve("");
    let of_user = Issuer::new("a").token("somebody", HOUR, "");
    let expired = token("pump", Duration::ZERO);
    for token in ["", "a.b.c", "opaque", &of_user, &expired] {
        assert_eq!(reason(&server, token), ReasonCode::NotAuthorized, "{token}");
    }
    assert!(!cluster.api.has_heard_more());
}

#[test]
fn what_the_api_server_says_no_to_is_refused() {
    for status in [
        json!({"user": {}, "error": "token is expired"}),
        json!({"authenticated": false, "user": {"username": "system:serviceaccount:plant:pump"}, "audiences": ["broker"]}),
        json!({"authenticated": true, "user": {"username": "system:serviceaccount:plant:pump"}, "audiences": ["other"]}),
        json!({"authenticated": true, "user": {"username": "system:serviceaccount:plant:pump"}}),
        json!({"authenticated": true, "user": {"username": "admin"}, "audiences": ["broker"]}),
    ] {
        let answer = json!({"status": status}).to_string();
        let cluster = Cluster::new(move |_| Reply::Status(201, answer.clone()));
        let server = cluster.serve("");
        assert_eq!(
            reason(&server, &token("pump", HOUR)),
            ReasonCode::NotAuthorized,
            "{status}"
        );
    }
}

#[test]
fn an_api_server_that_does_not_answer_refuses_for_the_moment() {
    let redirect = b"HTTP/1.1 307 Go\r\nlocation: https://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n";
    let replies: Vec<Box<dyn Fn() -> Reply + Send + Sync>> = vec![
        Box::new(|| Reply::Silence),
        Box::new(|| Reply::Status(500, "{\"status\":{\"authenticated\":true}}".to_owned())),
        Box::new(|| Reply::Status(401, "{}".to_owned())),
        Box::new(|| Reply::Status(201, "x".repeat(600_000))),
        Box::new(|| Reply::Status(201, "{}".to_owned())),
        Box::new(move || Reply::Bytes(redirect.to_vec())),
        Box::new(|| Reply::Bytes(Vec::new())),
    ];
    let replies = std::sync::Mutex::new(replies.into_iter());
    let cluster = Cluster::new(move |heard| {
        let reply = replies.lock().expect("nobody panicked").next();
        reply.map_or_else(|| right(heard), |reply| reply())
    });
    let mut server = cluster.serve("timeout = \"1s\"");
    let token = token("pump", HOUR);
    for _ in 0..6 {
        assert_eq!(reason(&server, &token), ReasonCode::ServerUnavailable);
    }
    let told = server.logged("clients are refused");
    assert!(told.contains("no answer within 1s"), "{told}");
    // The lost connection was made anew, or the next one is answered.
    let last = reason(&server, &token);
    assert!(
        matches!(last, ReasonCode::Success | ReasonCode::ServerUnavailable),
        "{last:?}"
    );
    assert_eq!(reason(&server, &token), ReasonCode::Success);
}

#[test]
fn without_the_right_to_read_annotations_there_are_none() {
    let cluster = Cluster::new(|heard| match heard.what.starts_with("GET ") {
        true => Reply::Status(403, "{\"kind\":\"Status\"}".to_owned()),
        false => right(heard),
    });
    let mut server = cluster.serve("remember = \"0s\"");
    for _ in 0..2 {
        assert_eq!(reason(&server, &token("pump", HOUR)), ReasonCode::Success);
    }
    server.logged("may not read the annotations of service accounts");
    assert!(!server.stop().contains("may not read"), "once");

    let cluster = Cluster::new(right);
    let server = cluster.serve("annotations = false");
    assert_eq!(reason(&server, &token("pump", HOUR)), ReasonCode::Success);
    cluster.api.heard();
    assert!(!cluster.api.has_heard_more());
}

#[test]
fn mqtt_4_12_1_2_the_next_token_of_the_account_extends_a_connection() {
    let cluster = Cluster::new(right);
    let server = cluster.serve("");
    let (mut wire, connack) = open(&server, METHOD, &token("pump", Duration::from_secs(4)));
    assert_eq!(connack.reason, ReasonCode::Success);
    let (mut other, connack) = open(&server, METHOD, &token("valve", Duration::from_secs(4)));
    assert_eq!(connack.reason, ReasonCode::Success);
    let done = again(&mut wire, METHOD, &token("pump", HOUR));
    assert!(matches!(done, Packet::Auth(auth) if auth.reason == ReasonCode::Success));
    match other.receive().expect("told") {
        Packet::Disconnect(disconnect) => assert_eq!(disconnect.reason, ReasonCode::MaximumConnectTime),
        other => panic!("{other:?}"),
    }
    wire.send(&Packet::PingReq).expect("sent");
    assert_eq!(wire.receive().expect("the connection lives"), Packet::PingResp);
    match again(&mut wire, METHOD, &token("valve", HOUR)) {
        Packet::Disconnect(disconnect) => assert_eq!(disconnect.reason, ReasonCode::NotAuthorized),
        other => panic!("{other:?}"),
    }
}

/// The kubelet writes a new one every hour or so.
#[test]
fn the_servers_own_token_is_read_again() {
    let cluster = Cluster::new(right);
    let mut server = cluster.serve("remember = \"0s\"\nannotations = false");
    assert_eq!(reason(&server, &token("pump", HOUR)), ReasonCode::Success);
    assert_eq!(
        cluster.api.heard().headers["authorization"],
        "Bearer own-token-one"
    );
    cluster.write_token("own-token-two\n");
    server.logged("took the file of authentication.k8s_sat anew");
    assert_eq!(reason(&server, &token("pump", HOUR)), ReasonCode::Success);
    assert_eq!(
        cluster.api.heard().headers["authorization"],
        "Bearer own-token-two"
    );
}

#[test]
fn what_is_missing_is_named_when_the_server_starts() {
    let cluster = Cluster::new(right);
    let told = Configured::refused(&cluster.settings("").replace("\"broker\"", "")).stderr;
    assert!(told.contains("without an audience"), "{told}");
    let told = Configured::refused(&cluster.settings("").replace("https://", "http://")).stderr;
    assert!(told.contains("an address of https is needed"), "{told}");
    std::fs::remove_file(cluster.directory.path().join("token")).expect("there");
    let told = Configured::refused(&cluster.settings("")).stderr;
    assert!(
        told.contains("`authentication.k8s_sat.token_file`: cannot read"),
        "{told}"
    );
}
