//! The pages over real sockets, with a thread that answers as a node would.

use std::io::{Read, Write};
use std::net::TcpStream;

use super::*;

/// A node that answers each request with `health`.
fn start(health: Health) -> Admin {
    let (admin, mut requests) = Admin::start(&settings(), Expiries::default()).expect("port 0 is free");
    std::thread::spawn(move || {
        while let Some(request) = requests.blocking_recv() {
            match request {
                AdminRequest::Metrics(answer) => {
                    let _ = answer.send(Box::default());
                }
                AdminRequest::Health(answer) => {
                    let _ = answer.send(health.clone());
                }
            }
        }
    });
    admin.recovered();
    admin
}

fn settings() -> config::Admin {
    config::Admin {
        address: SocketAddr::from(([127, 0, 0, 1], 0)),
        host_names: Vec::new(),
        answer_within: Duration::from_secs(30),
    }
}

/// Status and body of a page.
fn get(admin: &Admin, path: &str) -> (u16, String) {
    ask(
        admin,
        &format!(
            "GET {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n",
            admin.address()
        ),
    )
}

fn ask(admin: &Admin, request: &str) -> (u16, String) {
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
    assert_eq!(get(&admin, "/").0, 404);
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
    let (admin, _requests) = Admin::start(&settings(), Expiries::default()).expect("port 0 is free");
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
    let (admin, _requests) = Admin::start(&settings, Expiries::default()).expect("port 0 is free");
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
    let (admin, _requests) = Admin::start(&settings, Expiries::default()).expect("port 0 is free");
    admin.recovered();
    // Nobody takes the requests, so each stays in the channel when its page has given up.
    for _ in 0..REQUESTS_WAITING_MAX {
        assert_eq!(get(&admin, "/healthz").1, "the node did not answer within 1ms\n");
    }
    assert_eq!(
        get(&admin, "/healthz"),
        (503, "too many requests are waiting\n".to_owned())
    );
}

#[test]
fn a_node_that_has_ended_is_not_waited_for() {
    let (admin, requests) = Admin::start(&settings(), Expiries::default()).expect("port 0 is free");
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

#[test]
fn an_address_in_use_is_named_with_its_setting() {
    let first = start(Health::default());
    let settings = config::Admin {
        address: first.address(),
        ..settings()
    };
    let message = Admin::start(&settings, Expiries::default())
        .expect_err("the port is taken")
        .to_string();
    assert!(
        message.starts_with(&format!("cannot listen on {} (admin.address): ", first.address())),
        "{message}"
    );
}
