//! The pages over real sockets, with a thread that answers as a node would.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use broker::ClusterChange;

use super::*;

/// A node that answers each request with `health`.
pub(super) fn start(health: Health) -> Admin {
    start_with(&settings(), health)
}

pub(super) fn start_with(settings: &config::Admin, health: Health) -> Admin {
    let (admin, mut requests) = start_pages(settings).expect("port 0 is free");
    std::thread::spawn(move || {
        while let Some(request) = requests.blocking_recv() {
            match request {
                AdminRequest::Metrics(answer) => {
                    let _ = answer.send(Box::default());
                }
                AdminRequest::Health(answer) => {
                    let _ = answer.send(health.clone());
                }
                AdminRequest::Cluster(asks, answer) => {
                    let _ = answer.send(ClusterAnswered {
                        answer: cluster_answer(&asks),
                        clocks_ahead_ms: BTreeMap::new(),
                        conditions: Vec::new(),
                    });
                }
                AdminRequest::Api(question, answer) => {
                    let _ = answer.send(api::tests::answered(question));
                }
            }
        }
    });
    admin.recovered();
    admin
}

fn start_pages(settings: &config::Admin) -> Result<(Admin, mpsc::Receiver<AdminRequest>), AdminError> {
    let files = AdminFiles::load(settings)?;
    Admin::start(settings, files, Expiries::default(), serde_json::Value::Null)
}

pub(super) fn settings() -> config::Admin {
    config::Admin {
        address: SocketAddr::from(([127, 0, 0, 1], 0)),
        answer_within: Duration::from_secs(30),
        ..config::Admin::default()
    }
}

/// Status and body of a page.
pub(super) fn get(admin: &Admin, path: &str) -> (u16, String) {
    ask(
        admin,
        &format!(
            "GET {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n",
            admin.address()
        ),
    )
}

pub(super) fn ask(admin: &Admin, request: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(admin.address()).expect("the pages are served");
    stream
        .write_all(request.as_bytes())
        .expect("the request is short");
    let mut response = String::new();
    stream
        .read_to_string(&mut response)
        .expect("the response is text");
    let status = response
        .split(' ')
        .nth(1)
        .and_then(|status| status.parse().ok())
        .expect("a status line");
    assert!(!response.to_lowercase().contains("access-control-"), "{response}");
    assert!(!response.to_lowercase().contains("set-cookie"), "{response}");
    (
        status,
        response.split_once("\r\n\r\n").expect("a body").1.to_owned(),
    )
}

#[test]
fn a_node_that_works_is_healthy_and_ready() {
    let admin = start(Health::default());
    assert_eq!(get(&admin, "/healthz"), (200, "ok\n".to_owned()));
    assert_eq!(get(&admin, "/readyz"), (200, "ready\n".to_owned()));
    let (status, page) = get(&admin, "/metrics");
    assert_eq!(status, 200);
    assert!(page.contains("\nstatehold_connections 0\n"), "{page}");
    assert_eq!(get(&admin, "/elsewhere").0, 404);
}

#[test]
fn the_dashboard_is_open_and_what_it_shows_is_not() {
    let (_directory, settings, _) = with_tokens();
    let admin = start_with(&settings, Health::default());
    for path in ["/", "/ui/app.js", "/ui/mqtt/client.js"] {
        let (status, body) = get(&admin, path);
        assert_eq!(status, 200, "{path}");
        assert!(!body.is_empty(), "{path}");
    }
    assert_eq!(get(&admin, "/ui/../metrics").0, 404);
    assert_eq!(get(&admin, "/ui/elsewhere").0, 404);
    assert_eq!(get(&admin, "/metrics").0, 401);
    assert_eq!(status(&admin, "POST /ui/app.js", &[]), 401);
    assert_eq!(status(&admin, "GET /", &["Origin: https://evil.example"]), 403);
    // Somebody follows a link in a page of another site.
    let link = [
        "Sec-Fetch-Site: cross-site",
        "Sec-Fetch-Mode: navigate",
        "Sec-Fetch-Dest: document",
    ];
    assert_eq!(status(&admin, "GET /", &link), 200);
    assert_eq!(status(&admin, "GET /metrics", &link), 403);
}

#[test]
fn a_node_that_is_not_ready_says_why() {
    let admin = start(Health {
        not_ready: vec!["the disk is full".to_owned(), "stopping".to_owned()],
    });
    assert_eq!(get(&admin, "/healthz").0, 200);
    assert_eq!(
        get(&admin, "/readyz"),
        (503, "the disk is full\nstopping\n".to_owned())
    );
}

#[test]
fn a_node_that_recovers_is_healthy_and_not_ready() {
    let (admin, _requests) = start_pages(&settings()).expect("port 0 is free");
    assert_eq!(get(&admin, "/healthz"), (200, "starting\n".to_owned()));
    assert_eq!(get(&admin, "/readyz").0, 503);
    assert_eq!(get(&admin, "/metrics").0, 503);
}

#[test]
fn a_node_that_hangs_is_not_waited_for() {
    let settings = config::Admin {
        answer_within: Duration::from_millis(1),
        ..settings()
    };
    let (admin, _requests) = start_pages(&settings).expect("port 0 is free");
    admin.recovered();
    assert_eq!(
        get(&admin, "/healthz"),
        (503, "the node did not answer within 1ms\n".to_owned())
    );
    assert_eq!(get(&admin, "/readyz").0, 503);
}

#[test]
fn more_requests_than_can_wait_are_refused() {
    let settings = config::Admin {
        answer_within: Duration::from_millis(1),
        ..settings()
    };
    let (admin, _requests) = start_pages(&settings).expect("port 0 is free");
    admin.recovered();
    // Nobody takes the requests, so each stays in the channel when its page has given up.
    for _ in 0..REQUESTS_WAITING_MAX {
        assert_eq!(get(&admin, "/metrics").1, "the node did not answer within 1ms\n");
    }
    assert_eq!(
        get(&admin, "/metrics"),
        (503, "too many requests are waiting\n".to_owned())
    );
    // A probe waits for its turn.
    assert_eq!(get(&admin, "/healthz").1, "the node did not answer within 1ms\n");
}

#[test]
fn a_node_that_has_ended_is_not_waited_for() {
    let (admin, requests) = start_pages(&settings()).expect("port 0 is free");
    admin.recovered();
    drop(requests);
    assert_eq!(get(&admin, "/healthz"), (503, "stopping\n".to_owned()));
}

#[test]
fn another_host_is_refused() {
    let admin = start(Health::default());
    let request = "GET /metrics HTTP/1.1\r\nHost: attacker.example\r\nConnection: close\r\n\r\n";
    let (status, body) = ask(&admin, request);
    assert_eq!(status, 421);
    assert!(body.contains("admin.host_names"), "{body}");
    assert_eq!(ask(&admin, "GET /healthz HTTP/1.0\r\n\r\n").0, 200);
}

/// The file of tokens in a directory, and what is in it.
pub(super) fn with_tokens() -> (tempfile::TempDir, config::Admin, [String; 2]) {
    let directory = tempfile::TempDir::new().expect("a directory");
    let file = directory.path().join("tokens");
    let (read, read_line) = new_token("prometheus", Scope::Read).expect("a name");
    let (write, write_line) = new_token("ops", Scope::Write).expect("a name");
    std::fs::write(&file, format!("{read_line}\n{write_line}\n")).expect("written");
    let settings = config::Admin {
        tokens: file,
        ..settings()
    };
    (directory, settings, [read, write])
}

/// The status of a request with these header lines.
pub(super) fn status(admin: &Admin, request: &str, headers: &[&str]) -> u16 {
    let mut text = format!(
        "{request} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n",
        admin.address()
    );
    for header in headers {
        text.push_str(header);
        text.push_str("\r\n");
    }
    ask(admin, &(text + "\r\n")).0
}

#[test]
fn with_tokens_a_page_needs_one_of_its_scope_and_probes_need_none() {
    let (_directory, settings, [read, write]) = with_tokens();
    let admin = start_with(&settings, Health::default());
    let bearer = |token: &str| format!("Authorization: Bearer {token}");
    let json = "Content-Type: application/json";
    assert_eq!(status(&admin, "GET /healthz", &[]), 200);
    assert_eq!(status(&admin, "GET /readyz", &[]), 200);
    assert_eq!(status(&admin, "GET /metrics", &[]), 401);
    assert_eq!(status(&admin, "GET /metrics", &[&bearer("sth_wrong")]), 401);
    assert_eq!(status(&admin, "GET /metrics", &[&bearer(&read)]), 200);
    assert_eq!(status(&admin, "GET /metrics", &[&bearer(&write)]), 200);
    assert_eq!(status(&admin, "POST /reload", &[json]), 401);
    assert_eq!(status(&admin, "POST /reload", &[json, &bearer(&read)]), 403);
    assert_eq!(status(&admin, "POST /reload", &[&bearer(&write)]), 415);
    assert_eq!(status(&admin, "POST /reload", &[json, &bearer(&write)]), 202);
    assert_eq!(status(&admin, "GET /reload", &[&bearer(&write)]), 405);
    assert_eq!(status(&admin, "PUT /metrics", &[json, &bearer(&write)]), 405);
    assert_eq!(status(&admin, "OPTIONS /reload", &[]), 401);
}

#[test]
fn without_tokens_nothing_can_be_changed() {
    let admin = start(Health::default());
    assert_eq!(
        status(&admin, "POST /reload", &["Content-Type: application/json"]),
        403
    );
}

#[test]
fn a_new_file_of_tokens_is_taken() {
    let (_directory, settings, [read, _]) = with_tokens();
    let admin = start_with(&settings, Health::default());
    let bearer = format!("Authorization: Bearer {read}");
    assert_eq!(status(&admin, "GET /metrics", &[&bearer]), 200);
    let (other, line) = new_token("other", Scope::Read).expect("a name");
    std::fs::write(&settings.tokens, line).expect("written");
    let other = format!("Authorization: Bearer {other}");
    let deadline = crate::clock::instant() + Duration::from_secs(60);
    while status(&admin, "GET /metrics", &[&other]) != 200 {
        assert!(crate::clock::instant() < deadline, "the file is not read again");
    }
    assert_ne!(status(&admin, "GET /metrics", &[&bearer]), 200);
}

#[test]
fn wrong_tokens_are_counted_and_too_many_say_so_while_a_right_one_is_let_in() {
    let (_directory, settings, [read, _]) = with_tokens();
    let admin = start_with(&settings, Health::default());
    let wrong = || status(&admin, "GET /metrics", &["Authorization: Bearer sth_wrong"]);
    let answers: Vec<_> = std::iter::repeat_with(wrong).take(20).collect();
    assert!(answers.contains(&401), "{answers:?}");
    assert!(answers.contains(&429), "{answers:?}");
    let request = format!(
        "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Bearer {read}\r\n\r\n"
    );
    let (status, page) = ask(&admin, &request);
    assert_eq!(status, 200);
    assert!(
        page.contains("statehold_admin_refused_total{cause=\"too_many\"} "),
        "{page}"
    );
}

#[test]
fn a_page_of_another_origin_is_refused_and_browsers_are_told_to_keep_nothing() {
    let admin = start(Health::default());
    assert_eq!(
        status(&admin, "GET /metrics", &["Origin: https://evil.example"]),
        403
    );
    assert_eq!(
        status(&admin, "GET /healthz", &["Sec-Fetch-Site: cross-site"]),
        403
    );
    let own = format!("Origin: http://{}", admin.address());
    assert_eq!(status(&admin, "GET /metrics", &[&own]), 200);
    let mut stream = TcpStream::connect(admin.address()).expect("the pages are served");
    write!(
        stream,
        "GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    )
    .expect("sent");
    let mut response = String::new();
    stream.read_to_string(&mut response).expect("text");
    for header in [
        "cache-control: no-store",
        "x-content-type-options: nosniff",
        "content-security-policy: default-src 'none'; frame-ancestors 'none'",
    ] {
        assert!(response.contains(header), "{header} is not in {response}");
    }
}

#[test]
fn a_head_that_is_too_long_is_refused() {
    let admin = start(Health::default());
    let long = format!("X-Long: {}", "x".repeat(20_000));
    assert_eq!(status(&admin, "GET /healthz", &[&long]), 431);
    let many: Vec<_> = (0..100).map(|number| format!("X-{number}: 1")).collect();
    let many: Vec<_> = many.iter().map(String::as_str).collect();
    assert_eq!(status(&admin, "GET /healthz", &many), 431);
}

#[test]
fn an_address_in_use_is_named_with_its_setting() {
    let first = start(Health::default());
    let settings = config::Admin {
        address: first.address(),
        ..settings()
    };
    let message = start_pages(&settings).expect_err("the port is taken").to_string();
    assert!(
        message.starts_with(&format!("cannot listen on {} (admin.address): ", first.address())),
        "{message}"
    );
}

fn cluster_answer(asks: &ClusterQuestion) -> ClusterAnswer {
    match asks {
        ClusterQuestion::Status => ClusterAnswer::NoCluster,
        ClusterQuestion::Add { who } => ClusterAnswer::Taken(format!("add {who}")),
        ClusterQuestion::Change(change @ ClusterChange::Transfer { .. }) => {
            ClusterAnswer::Open(format!("{change:?}"))
        }
        ClusterQuestion::Change(change) => ClusterAnswer::Refused(format!("{change:?}")),
    }
}

#[test]
fn a_cluster_is_changed_by_what_is_asked_and_told_what_came_of_it() {
    let (_directory, settings, [read, write]) = with_tokens();
    let admin = start_with(&settings, Health::default());
    let bearer = |token: &str| format!("Authorization: Bearer {token}");
    let json = "Content-Type: application/json";
    let shown = status(&admin, "GET /cluster", &[&bearer(&read)]);
    assert_eq!(shown, 404, "there is none");
    assert_eq!(status(&admin, "POST /cluster/add", &[json, &bearer(&read)]), 403);
    let post = |path: &str, body: &str| {
        ask(
            &admin,
            &format!(
                "POST {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n{json}\r\n{}\r\n\
                 Content-Length: {}\r\n\r\n{body}",
                admin.address(),
                bearer(&write),
                body.len()
            ),
        )
    };
    let added = post("/cluster/add", r#"{"node": "10.0.0.4:7000"}"#);
    assert_eq!(added, (200, r#"{"taken":"add 10.0.0.4:7000"}"#.to_owned()));
    let (status, said) = post("/cluster/remove", r#"{"node": "2a"}"#);
    assert_eq!(status, 409);
    assert!(
        said.contains("Remove { node: NodeId(42), is_forced: false }"),
        "{said}"
    );
    let (status, said) = post("/cluster/transfer", r#"{"group": "control", "to": "2a"}"#);
    assert_eq!(status, 503, "it may be asked again");
    assert!(said.contains("GroupId(4294967295)"), "{said}");
    for body in [
        r#"{"node": "0"}"#,
        r#"{"node": "no"}"#,
        r#"{"node": "11112222333344445"}"#,
    ] {
        assert_eq!(post("/cluster/remove", body).0, 400, "{body}");
    }
    assert_eq!(post("/cluster/remove", r#"{"nodes": "2a"}"#).0, 400);
    assert_eq!(
        post("/cluster/transfer", r#"{"group": 5000000000, "to": "2a"}"#).0,
        400
    );
}
