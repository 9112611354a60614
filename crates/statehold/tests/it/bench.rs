//! `bench`: that it measures, not what.

use crate::harness::Server;

#[test]
fn kv_counts_what_it_did() {
    let server = Server::start();
    for operation in ["set", "get", "mix"] {
        let arguments = [
            "bench",
            "kv",
            "--connections",
            "3",
            "--inflight",
            "4",
            "--requests",
            "500",
        ];
        let further = [
            "--keys",
            "100",
            "--operation",
            operation,
            "--threads",
            "2",
            "--quiet",
            "--json",
        ];
        let report = server.run(&[&arguments[..], &further].concat()).expect(0).json();
        assert_eq!(report["operations"], 500, "{report}");
        assert_eq!(
            (&report["errors"], &report["missing"]),
            (&0.into(), &0.into()),
            "{report}"
        );
        assert!(report["p50_ms"].as_f64() <= report["max_ms"].as_f64(), "{report}");
        assert!(report["rate_per_second"].as_f64() > Some(0.0), "{report}");
    }
    let keys = server.run(&["scan", "bench:*"]).expect(0);
    assert_eq!(keys.text().lines().count(), 100);
}

#[test]
fn pubsub_receives_all_that_was_published() {
    let server = Server::start();
    for (qos, topics) in [("0", "fan-out"), ("1", "one-to-one"), ("2", "fan-in")] {
        let arguments = [
            "bench",
            "pubsub",
            "--publishers",
            "2",
            "--subscribers",
            "3",
            "--rate",
            "200",
        ];
        let further = [
            "--qos",
            qos,
            "--topics",
            topics,
            "--duration",
            "300ms",
            "--quiet",
            "--json",
        ];
        let report = server.run(&[&arguments[..], &further].concat()).expect(0).json();
        assert_eq!(
            (&report["errors"], &report["missing"]),
            (&0.into(), &0.into()),
            "{report}"
        );
        assert!(report["operations"].as_u64() >= Some(60), "{report}");
    }
}

#[test]
fn durable_subscribers_get_everything_and_leave_nothing_behind() {
    let server = Server::start();
    let arguments = [
        "bench",
        "pubsub",
        "--durable",
        "--rate",
        "200",
        "--duration",
        "300ms",
        "--quiet",
        "--json",
    ];
    let report = server.run(&arguments).expect(0).json();
    assert_eq!(report["missing"], 0, "{report}");
    while !server.admin_page("/metrics").contains("\nstatehold_sessions 0\n") {
        // A session that has ended counts for a moment. The harness ends what takes too long.
    }
}

#[test]
fn connections_are_opened_and_held() {
    let server = Server::start();
    let arguments = [
        "bench",
        "connections",
        "--count",
        "50",
        "--rate",
        "1000",
        "--hold",
        "0s",
        "--quiet",
        "--json",
    ];
    let report = server.run(&arguments).expect(0).json();
    assert_eq!(report["operations"], 50, "{report}");
}

#[test]
fn without_a_server_it_fails() {
    let mut server = Server::start();
    server.kill();
    server
        .run(&["bench", "kv", "--requests", "1", "--quiet"])
        .expect(5);
}

#[test]
fn history_writes_down_every_request_watch_and_lock() {
    let server = Server::start();
    let directory = tempfile::TempDir::new().expect("a directory");
    let file = directory.path().join("history.jsonl");
    let node = ["bench", "history", "--node", &server.mqtt, "--json", "--output"];
    let further = ["--duration", "1s", "--round", "400ms", "--seed", "1"];
    let file_name = file.to_str().expect("a path of text");
    let report = server
        .run(&[&node[..], &[file_name], &further].concat())
        .expect(0)
        .json();
    assert_eq!(
        (&report["errors"], &report["unknown"]),
        (&0.into(), &0.into()),
        "{report}"
    );
    let history = std::fs::read_to_string(&file).expect("it is there");
    let lines: Vec<serde_json::Value> = history
        .lines()
        .map(|line| serde_json::from_str(line).expect("a line of JSON"))
        .collect();
    let of_kind = |kind: &str| lines.iter().filter(|line| line["kind"] == kind).count() as u64;
    assert_eq!(Some(of_kind("request")), report["operations"].as_u64());
    assert!(of_kind("watch") > 0 && of_kind("held") > 0, "{history}");
    let is_told = |line: &&serde_json::Value| {
        line["changes"]
            .as_array()
            .is_some_and(|changes| !changes.is_empty())
    };
    assert!(lines.iter().any(|line| is_told(&line)), "{history}");
}

#[test]
fn kv_uses_all_nodes_that_it_is_told_of() {
    let (one, other) = (Server::start(), Server::start());
    let arguments = [
        "bench",
        "kv",
        "--requests",
        "100",
        "--keys",
        "1000",
        "--connections",
        "4",
    ];
    let nodes = ["--node", &one.mqtt, "--node", &other.mqtt, "--quiet", "--json"];
    let report = one.run(&[&arguments[..], &nodes].concat()).expect(0).json();
    assert_eq!(report["operations"], 100, "{report}");
    for server in [&one, &other] {
        let keys = server.run(&["scan", "bench:*"]).expect(0);
        assert!(keys.text().lines().count() > 10);
    }
}

#[test]
fn hostile_says_of_each_adversary_what_others_noticed_and_what_became_of_it() {
    let run = |arguments: &[&str]| {
        let ended = std::process::Command::new(env!("CARGO_BIN_EXE_statehold"))
            .args(["bench", "hostile"])
            .args(arguments)
            .output()
            .expect("the binary runs");
        let text = String::from_utf8(ended.stdout).expect("text");
        assert!(
            ended.status.success(),
            "{}",
            String::from_utf8_lossy(&ended.stderr)
        );
        text
    };
    let names = run(&["--list"]);
    assert!(names.contains("subscribe_repeats "), "{names}");
    let reports = run(&["--only", "subscribe_denied,user_properties", "--json"]);
    let outcomes: Vec<_> = reports
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).expect("JSON"))
        .inspect(|report| assert!(report["pings"].as_u64() > Some(0), "{report}"))
        .map(|report| format!("{} {}", report["adversary"], report["outcome"]).replace('"', ""))
        .collect();
    // More filters, and more user properties, than one packet may have.
    assert_eq!(
        outcomes,
        [
            "subscribe_denied DISCONNECT 0x97",
            "user_properties DISCONNECT 0x97"
        ]
    );
}
