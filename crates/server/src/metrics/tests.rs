use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

use super::*;
use crate::self_test::Round;

/// A page on which every family has a figure.
fn full() -> String {
    let mut figures = Figures {
        started_seconds: 1_700_000_000.5,
        ..Figures::default()
    };
    figures.connections.connects.insert(0x00, 3);
    figures.connections.disconnects.insert(0x8E, 1);
    figures.connections.malformed.insert("remaining_length", 2);
    figures.connections.turned_away.insert("listener_rate", 5);
    let failures = &mut figures.connections.authentication_failures;
    failures.insert(("password", "wrong_password"), 2);
    figures.connections.reauthentications.insert(0x00, 1);
    figures.sessions.denied.insert("publish", 3);
    figures.sessions.withdrawn.insert("subscription", 1);
    let node = "00000000000000a1".to_owned();
    figures.node_states.push((node, "RUNNING".to_owned()));
    figures.messages.dropped.insert("queue_full", 4);
    figures.messages.by_qos.received[1] = Traffic {
        messages: 10,
        bytes: 1_000,
    };
    figures.memory.bytes.insert("messages", 256);
    figures.state_store.requests.insert(("set", "stored"), 5);
    figures.state_store.latency.entry("set").or_default().record(250);
    figures.state_store.refused.insert("expired", 1);
    figures.log.snapshot_age_seconds = Some(60);
    let replica = figures.log.replicas.entry("0".to_owned()).or_default();
    replica.lags.insert("00000000000000a1".to_owned(), 3);
    figures.self_test.record(Round {
        began: 0,
        steps: Vec::new(),
    });
    figures.slow_operations.insert("disk", 1);
    figures.spans.insert("exported", 1);
    figures.admin_refused.insert("no_token", 1);
    figures.pools.push(PoolFigures {
        pool: "admin".to_owned(),
        refused: Counts::from([("pool", 1)]),
        ..PoolFigures::default()
    });
    figures.certificates.push(Expiry::default());
    figures.revocation_lists.push(Expiry::default());
    figures.peers = PeersFigures {
        peers: vec![PeerFigures {
            node: "0000000000000002".to_owned(),
            round_trip_seconds: Some(0.001),
            clock_ahead_seconds: Some(-0.002),
        }],
        dropped: Counts::from([("queue_full", 1)]),
        refused: Counts::from([("clock", 1)]),
        ..PeersFigures::default()
    };
    figures.render()
}

/// Name -> (kind, help, labels) of each family of a page.
fn families(page: &str) -> BTreeMap<String, (String, String, BTreeSet<String>)> {
    let mut families: BTreeMap<String, (String, String, BTreeSet<String>)> = BTreeMap::new();
    let mut current = String::new();
    for line in page.lines() {
        if let Some((name, help)) = line.strip_prefix("# HELP ").and_then(|rest| rest.split_once(' ')) {
            let replaced =
                families.insert(name.to_owned(), (String::new(), help.to_owned(), BTreeSet::new()));
            assert!(replaced.is_none(), "{name} is written twice");
            current = name.to_owned();
            continue;
        }
        let family = families.get_mut(&current).expect("a page begins with HELP");
        if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' ')) {
            assert_eq!(name, current);
            kind.clone_into(&mut family.0);
            continue;
        }
        assert!(line.starts_with(&current), "{line} is not of {current}");
        let labels = line
            .split_once('{')
            .map_or("", |(_, rest)| rest.split_once('}').expect("closed").0);
        let names = labels
            .split(',')
            .filter_map(|label| label.split_once('='))
            .map(|(name, _)| name.to_owned());
        family.2.extend(names.filter(|name| name != "le"));
    }
    families
}

#[test]
fn every_family_has_a_kind_and_a_unit_in_its_name() {
    for (name, (kind, help, _)) in families(&full()) {
        assert!(name.starts_with("statehold_"), "{name}");
        assert!(help.ends_with('.') || help.ends_with("_max."), "{name}: {help}");
        match kind.as_str() {
            "counter" => assert!(name.ends_with("_total"), "{name} is a counter"),
            "gauge" => assert!(!name.ends_with("_total"), "{name} is a gauge"),
            "histogram" => assert!(name.ends_with("_seconds"), "{name} is a histogram"),
            other => panic!("{name} is a {other}"),
        }
    }
}

#[test]
fn figures_are_written_with_their_labels() {
    let page = full();
    for line in [
        "statehold_connects_total{reason_code=\"0x00\"} 3",
        "statehold_disconnects_total{reason_code=\"0x8E\"} 1",
        "statehold_messages_total{direction=\"in\",qos=\"1\"} 10",
        "statehold_message_bytes_total{direction=\"in\",qos=\"1\"} 1000",
        "statehold_store_requests_total{verb=\"set\",result=\"stored\"} 5",
        "statehold_store_request_seconds_count{verb=\"set\"} 1",
        "statehold_start_time_seconds 1700000000.5",
        "statehold_snapshot_age_seconds 60",
        "statehold_log_leader{group=\"0\"} 0",
        "statehold_log_lag_entries{group=\"0\",node=\"00000000000000a1\"} 3",
    ] {
        assert!(
            page.lines().any(|found| found == line),
            "{line} is not in\n{page}"
        );
    }
}

#[test]
fn without_figures_the_families_stay() {
    let empty = families(&Figures::default().render());
    let full = families(&full());
    assert_eq!(empty.keys().collect::<Vec<_>>(), full.keys().collect::<Vec<_>>());
}

#[test]
fn the_page_in_docs_is_current() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/metrics.md");
    let expected = markdown();
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, &expected).expect("docs/ can be written");
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        found == expected,
        "docs/metrics.md is not current: run `UPDATE=1 cargo test -p server metrics`"
    );
}

fn markdown() -> String {
    let mut out = String::from(
        "# Metrics\n\n\
         `GET /metrics` on the admin address, in the text format of Prometheus. Counters begin at 0 when the server is \
         started. A family whose labels have seen no value yet has its `HELP` and `TYPE` lines only.\n\n\
         This page is made from the source: `UPDATE=1 cargo test -p server metrics` writes it anew.\n\n\
         | metric | kind | labels | |\n|---|---|---|---|\n",
    );
    for (name, (kind, help, labels)) in families(&full()) {
        let labels: Vec<_> = labels.iter().map(|label| format!("`{label}`")).collect();
        let _ = writeln!(out, "| `{name}` | {kind} | {} | {help} |", labels.join(" "));
    }
    out
}
