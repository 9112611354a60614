//! `import`, from files that the real programs have saved. `interop/run import` does it with programs that run.

use std::path::PathBuf;

use client::protocol::packet::Packet;

use crate::admin_api::Asked;
use crate::harness::{Server, run, statehold};
use crate::raw::{Raw, connect_durably};

fn golden(name: &str) -> String {
    let path: PathBuf = [env!("CARGO_MANIFEST_DIR"), "tests/golden/import", name]
        .iter()
        .collect();
    path.to_str().expect("text").to_owned()
}

#[test]
fn an_rdb_file_becomes_keys_and_the_rest_is_reported() {
    let server = Server::start();
    let rdb = golden("redis-7.0.rdb");
    let import = ["import", "redis", "--rdb", &rdb, "--json"];

    let dry = server
        .run(&[&import[..], &["--dry-run"]].concat())
        .expect(1)
        .json();
    assert_eq!(
        (&dry["dry_run"], &dry["carried_over"]["keys"]["count"]),
        (&true.into(), &10.into())
    );
    server.run(&["scan", "*"]).expect(1);

    let directory = tempfile::TempDir::new().expect("a directory");
    let report = directory.path().join("report");
    let report = [
        "--report",
        report.to_str().expect("text"),
        "--prefix",
        "expires-=redis/",
        "--prefix",
        "not a =n/",
    ];
    let told = server.run(&[&import[..], &report].concat()).expect(1).json();
    assert_eq!(told["carried_over"]["keys"]["count"], 10);
    let reasons = told["left_out"].as_array().expect("a list").iter();
    let reasons: Vec<_> = reasons.map(|why| why["reason"].as_str().expect("text")).collect();
    let expected = [
        "a hash",
        "a list",
        "a set",
        "a sorted set",
        "a stream",
        "in database 3 (import it with --db 3)",
    ];
    assert_eq!(reasons, expected);
    let lines = std::fs::read_to_string(report[1]).expect("written");
    assert_eq!(lines.lines().count(), 9 + 1 + 1);

    assert_eq!(
        server.run(&["get", "raw"]).expect(0).stdout,
        b"a value with spaces"
    );
    assert_eq!(
        server.run(&["get", "n/32-bit number"]).expect(0).stdout,
        b"12345678901"
    );
    assert_eq!(server.run(&["get", "redis/late"]).expect(0).stdout, b"later");
    server.run(&["get", "expires-late"]).expect(1);
    server
        .run(&["import", "redis", "--rdb", &rdb, "--db", "3", "--only", "other"])
        .expect(0);
    assert_eq!(server.run(&["get", "other-database"]).expect(0).stdout, b"value");
}

#[test]
fn keys_that_are_there_stay_if_that_is_asked_for_and_an_import_can_be_run_again() {
    let server = Server::start();
    server.run(&["set", "raw", "mine"]).expect(0);
    let rdb = golden("redis-7.0.rdb");
    let import = ["import", "redis", "--rdb", &rdb, "--json", "--db", "0"];
    let told = server
        .run(&[&import[..], &["--if-absent"]].concat())
        .expect(1)
        .json();
    assert_eq!(told["carried_over"]["keys"]["count"], 9);
    assert_eq!(told["passed_over"][1]["count"], 1);
    assert_eq!(server.run(&["get", "raw"]).expect(0).stdout, b"mine");
    for _ in 0..2 {
        let told = server.run(&import).expect(1).json();
        assert_eq!(told["carried_over"]["keys"]["count"], 10);
    }
    assert_eq!(
        server.run(&["get", "raw"]).expect(0).stdout,
        b"a value with spaces"
    );
}

#[test]
fn a_snapshot_of_etcd_becomes_keys_with_their_leases() {
    let server = Server::start();
    let snapshot = golden("etcd-3.4.snapshot");
    let import = ["import", "etcd", "--snapshot", &snapshot, "--json"];
    let told = server.run(&import).expect(0).json();
    assert_eq!(told["carried_over"]["keys"]["count"], 47);
    assert_eq!(server.run(&["get", "overwritten"]).expect(0).stdout, b"second");
    assert_eq!(
        server.run(&["get", "many/040"]).expect(0).stdout,
        "value-40-".repeat(8).as_bytes()
    );
    assert_eq!(server.run(&["get", "large"]).expect(0).stdout.len(), 5_000);
    server.run(&["get", "deleted"]).expect(1);

    let without = ["--leased", "skip", "--only", "leased/"];
    let told = server.run(&[&import[..], &without].concat()).expect(0).json();
    assert_eq!(told["carried_over"], serde_json::json!({}));
}

#[test]
fn what_the_server_does_not_take_is_left_out_and_told() {
    let server = Server::start();
    let rdb = golden("redis-7.0.rdb");
    let small = [
        "import",
        "redis",
        "--rdb",
        &rdb,
        "--db",
        "0",
        "--value-bytes-max",
        "1000",
        "--json",
    ];
    let told = server.run(&small).expect(1).json();
    let reasons = told["left_out"].to_string();
    assert!(reasons.contains("of more than 1000 bytes"), "{reasons}");
    server.run(&["get", "compressed"]).expect(1);

    // Two names that would become one: whichever comes second is left out.
    let both = ["--prefix", "raw=same", "--prefix", "empty=same"];
    let told = server.run(&[&small[..], &both].concat()).expect(1).json();
    assert!(
        told["left_out"].to_string().contains("the same name by --prefix"),
        "{told}"
    );
}

#[test]
fn files_that_cannot_be_read_change_nothing() {
    let server = Server::start();
    let directory = tempfile::TempDir::new().expect("a directory");
    let damaged = directory.path().join("damaged.rdb");
    let mut bytes = std::fs::read(golden("redis-7.0.rdb")).expect("there");
    let last = bytes.len() - 20;
    bytes[last] ^= 1;
    std::fs::write(&damaged, bytes).expect("written");
    let damaged = damaged.to_str().expect("text");
    let refused = server.run(&["import", "redis", "--rdb", damaged]).expect(5);
    assert!(refused.stderr.contains("damaged"), "{}", refused.stderr);
    server.run(&["scan", "*"]).expect(1);

    let no_etcd = ["import", "etcd", "--from", &format!("http://{}", server.admin)];
    let refused = server.run(&no_etcd).expect(5);
    assert!(
        refused.stderr.contains("JSON gateway of etcd"),
        "{}",
        refused.stderr
    );
    let plain = run(statehold(&[
        "import",
        "etcd",
        "--from",
        "http://etcd.example:2379",
    ]))
    .expect(3);
    assert!(plain.stderr.contains("--from-http"), "{}", plain.stderr);
}

#[test]
fn a_database_of_mosquitto_becomes_retained_messages_and_sessions() {
    let server = Server::start();
    let database = golden("mosquitto-2.0.db");
    let import = ["import", "mosquitto", "--database", &database, "--json"];
    let dry = server
        .run(&[&import[..], &["--dry-run"]].concat())
        .expect(1)
        .json();
    assert_eq!(dry["carried_over"]["retained_messages"]["count"], 5);

    let told = server.run(&import).expect(1).json();
    assert_eq!(told["carried_over"]["retained_messages"]["count"], 5);
    let left_out = told["left_out"].to_string();
    assert!(
        left_out.contains("a durable session (--queues, or --sessions)"),
        "{left_out}"
    );
    let mut sub = server.spawn(&["sub", "plant/#", "--json", "--count", "5"]);
    let messages: Vec<serde_json::Value> = (0..5)
        .map(|_| serde_json::from_str(&sub.line()).expect("JSON"))
        .collect();
    let of = |topic: &str| {
        messages
            .iter()
            .find(|message| message["topic"] == topic)
            .expect(topic)
    };
    assert_eq!(of("plant/0")["payload"], "value 0");
    assert_eq!(of("plant/binary")["payload_hex"], "00ff0d0a");
    assert_eq!(of("plant/properties")["content_type"], "application/json");
    assert!(
        messages.iter().all(|message| message["retain"] == true),
        "{messages:?}"
    );

    let told = server
        .run(&[&import[..], &["--sessions"]].concat())
        .expect(1)
        .json();
    assert_eq!(told["carried_over"]["sessions"]["count"], 3, "{told}");
    // The messages that waited, and the one identifier.
    assert_eq!(told["left_out"].as_array().map(Vec::len), Some(2), "{told}");
    let clients = server.run(&[
        "clients",
        "show",
        "old-client",
        "--json",
        "--admin",
        &format!("http://{}", server.admin),
    ]);
    let client = clients.expect(0).json();
    let text = client.to_string();
    assert!(text.contains("plant/#") && text.contains("other/+"), "{text}");

    // What is published now waits for the client, which comes as an old one.
    server.run(&["pub", "other/news", "waits"]).expect(0);
    let told = server
        .run(&[&import[..], &["--sessions"]].concat())
        .expect(1)
        .json();
    assert!(told["left_out"].to_string().contains("here already"), "{told}");
}

#[test]
fn what_waits_for_the_clients_of_mosquitto_comes_to_them() {
    let asked = Asked::start();
    let database = golden("mosquitto-2.0.db");
    let import = |options: &[&str]| {
        let import = [
            "import",
            "mosquitto",
            "--database",
            &database,
            "--json",
            "--queues",
        ];
        let mut command = asked.command(&[&import[..], options].concat());
        let (host, port) = asked.server.at("mqtt").rsplit_once(':').expect("an address");
        command.env("STATEHOLD_HOST", host).env("STATEHOLD_PORT", port);
        run(command)
    };
    let dry = import(&["--dry-run"]).expect(1).json();
    let told = import(&[]).expect(1).json();
    assert_eq!(told["carried_over"], dry["carried_over"]);
    assert_eq!(told["carried_over"]["sessions"]["count"], 3, "{told}");
    assert_eq!(told["carried_over"]["waiting_messages"]["count"], 6, "{told}");
    let left_out = told["left_out"].as_array().expect("a list").iter();
    let left_out: Vec<_> = left_out.map(|why| (&why["reason"], &why["count"])).collect();
    assert_eq!(left_out, [(&"a message of QoS 0 that waits".into(), &1.into())]);

    let mut client = Raw::begin(asked.server.at("mqtt"), connect_durably("old-client"));
    assert!(client.accepted(), "it has its session");
    let received: Vec<_> = (0..6)
        .map(|_| match client.receive() {
            Packet::Publish(publish) => {
                let payload = String::from_utf8_lossy(&publish.payload).into_owned();
                (publish.topic.to_string(), payload, publish.retain)
            }
            other => panic!("{other:?}"),
        })
        .collect();
    let received: Vec<_> = received
        .iter()
        .map(|(topic, payload, retain)| (topic.as_str(), payload.as_str(), *retain))
        .collect();
    let expected = [
        ("plant/1", "value 1", true),
        ("plant/2", "value 2", true),
        ("plant/properties", r#"{"a":1}"#, true),
        ("other/queued", "waiting 1", false),
        ("other/queued", "waiting 2", false),
        ("other/queued", "waiting 3", false),
    ];
    assert_eq!(received, expected);
    // The identifier of a subscription, which nobody but its client can say again.
    asked.server.run("mqtt", &["pub", "ids/1", "news"]).expect(0);
    let mut identified = Raw::begin(asked.server.at("mqtt"), connect_durably("identified"));
    assert!(identified.accepted(), "it has its session");
    match identified.receive() {
        Packet::Publish(publish) => assert_eq!(publish.subscription_ids[0].get(), 7),
        other => panic!("{other:?}"),
    }

    let again = import(&[]).expect(1).json();
    assert_eq!(again["left_out"][1]["count"], 3, "{again}");
    let passed_over = import(&["--if-absent"]).expect(1).json();
    assert_eq!(passed_over["passed_over"][0]["count"], 8, "{passed_over}");
    let unknown = import(&["--token-file", "/nowhere"]).expect(5);
    assert!(unknown.stderr.contains("/nowhere"), "{unknown:?}");
}

#[test]
fn retained_messages_and_sessions_that_are_there_stay_if_that_is_asked_for() {
    let server = Server::start();
    // A large one takes longer than the answer to who looks for it.
    let mine = "mine".repeat(200_000);
    let directory = tempfile::TempDir::new().expect("a directory");
    let file = directory.path().join("mine");
    std::fs::write(&file, &mine).expect("written");
    let file = file.to_str().expect("text");
    server
        .run(&["pub", "plant/0", "--file", file, "--retain"])
        .expect(0);
    let database = golden("mosquitto-2.0.db");
    let import = [
        "import",
        "mosquitto",
        "--database",
        &database,
        "--json",
        "--sessions",
    ];
    let import = [&import[..], &["--if-absent"]].concat();
    let passed_over = |told: &serde_json::Value| {
        let reasons = told["passed_over"].as_array().expect("a list").iter();
        let mut present = reasons.filter(|why| why["reason"].to_string().contains("--if-absent"));
        present.next().map(|why| why["count"].clone())
    };
    let told = server.run(&import).expect(1).json();
    assert_eq!(told["carried_over"]["retained_messages"]["count"], 4, "{told}");
    assert_eq!(told["carried_over"]["sessions"]["count"], 3, "{told}");
    assert_eq!(passed_over(&told), Some(1.into()), "{told}");
    // Nothing is left of what looked.
    let told = server.run(&import).expect(1).json();
    assert_eq!(told["carried_over"], serde_json::json!({}), "{told}");
    assert_eq!(passed_over(&told), Some(8.into()), "{told}");
    let kept = server.run(&["sub", "plant/0", "--count", "1"]).expect(0);
    assert_eq!(kept.text().trim_end(), mine);
}

#[test]
fn a_config_of_mosquitto_becomes_settings_that_a_server_takes() {
    let directory = tempfile::TempDir::new().expect("a directory");
    let at = |name: &str| directory.path().join(name).to_str().expect("text").to_owned();
    let conf = format!(
        "listener 0 {}\npassword_file {}\nconnection cloud\n",
        at("socket"),
        at("pw")
    );
    std::fs::write(at("mosquitto.conf"), conf).expect("written");
    std::fs::write(at("pw"), "ann:$7$101$c2FsdA==$aGFzaA==\n").expect("written");
    let (conf, out) = (at("mosquitto.conf"), at("out"));
    let import = ["import", "mosquitto", "--config", &conf];
    run(statehold(&import)).expect(3);
    let dry = run(statehold(&[&import[..], &["--dry-run"]].concat())).expect(1);
    assert!(dry.text().contains("[[listeners]]"), "{dry:?}");

    let told = run(statehold(&[&import[..], &["--output", &out]].concat())).expect(1);
    let needs = format!("needs a password: statehold passwd {out}/clients.passwd 'ann'");
    assert!(told.text().contains(&needs), "{told:?}");
    assert!(
        told.text().contains(&format!("{conf}:3: bridge `cloud`")),
        "{told:?}"
    );
    let settings = format!("{out}/statehold.toml");
    run(statehold(&["config", "check", &settings])).expect(0);
    // What is there stays.
    let again = run(statehold(&[&import[..], &["--output", &out]].concat())).expect(3);
    assert!(again.stderr.contains("there already"), "{again:?}");
}

#[test]
fn wrong_options_end_as_those_of_all_commands() {
    for (options, named) in [
        (&["redis"][..], "--rdb"),
        (&["redis", "--rdb", "f", "--inflight", "0"], "--inflight"),
        (&["redis", "--from", "http://h"], "rediss://"),
        (
            &["redis", "--from", "redis://h", "--from-cafile", "f"],
            "--from-cafile is for TLS",
        ),
        (
            &["redis", "--from", "rediss://h", "--from-cert", "f"],
            "--from-key",
        ),
        (
            &["etcd", "--from", "http://127.0.0.1:1", "--from-cafile", "f"],
            "--from-cafile is for TLS",
        ),
        (&["etcd", "--from", "http://etcd.example"], "--from-http"),
        (&["mosquitto", "--config", "f"], "--output"),
    ] {
        let refused = run(statehold(&[&["import"][..], options].concat())).expect(3);
        assert!(refused.stderr.contains(named), "{}", refused.stderr);
    }
}

#[test]
fn an_import_without_a_server_says_so() {
    let mut server = Server::start();
    let rdb = golden("redis-7.0.rdb");
    server.kill();
    let refused = server.run(&["import", "redis", "--rdb", &rdb]).expect(4);
    assert!(refused.stderr.contains("cannot connect"), "{}", refused.stderr);
}
