//! What is shown of two looks.

use serde_json::{Value, json};

use super::sample::Sample;
use crate::cluster::show::Cluster;
use crate::table::{bytes, cell, table};

/// Two looks at a node, one after the other.
#[derive(Debug)]
pub(super) struct Frame<'a> {
    before: &'a Sample,
    now: &'a Sample,
    seconds: f64,
}

/// A counter by the name under which it is shown: its metric, and the label that is meant.
type Rate = (&'static str, &'static str, &'static str);

/// What is shown as so many each second.
const RATES: [Rate; 9] = [
    ("messages_in", "statehold_messages_total", "direction=\"in\""),
    ("messages_out", "statehold_messages_total", "direction=\"out\""),
    ("bytes_in", "statehold_bytes_total", "direction=\"in\""),
    ("bytes_out", "statehold_bytes_total", "direction=\"out\""),
    ("messages_dropped", "statehold_messages_dropped_total", ""),
    ("connects", "statehold_connects_total", ""),
    ("disconnects", "statehold_disconnects_total", ""),
    ("store_requests", "statehold_store_requests_total", ""),
    ("store_refused", "statehold_store_requests_refused_total", ""),
];

/// What is shown as it stands.
const LEVELS: [(&str, &str); 15] = [
    ("connections", "statehold_connections"),
    ("sessions", "statehold_sessions"),
    ("sessions_connected", "statehold_sessions_connected"),
    ("subscriptions", "statehold_subscriptions"),
    ("retained_messages", "statehold_retained_messages"),
    ("waiting_messages", "statehold_waiting_messages"),
    ("waiting_bytes", "statehold_waiting_bytes"),
    ("in_flight", "statehold_inflight_messages"),
    ("store_keys", "statehold_store_keys"),
    ("store_bytes", "statehold_store_bytes"),
    ("memory_bytes", "statehold_memory_bytes"),
    ("memory_bytes_max", "statehold_memory_bytes_max"),
    ("unmerged_slots", "statehold_unmerged_slots"),
    ("open_events", "statehold_replication_open_events"),
    ("peers_connected", "statehold_peers_connected"),
];

/// How something of `RATES` or `LEVELS` is shown.
#[derive(Debug, Clone, Copy)]
enum Show {
    Rate(&'static str),
    BytesRate(&'static str),
    Level(&'static str),
    Bytes(&'static str),
}

/// What is shown, row by row.
const CELLS: [[(&str, Show); 3]; 7] = [
    [
        ("messages in", Show::Rate("messages_in")),
        ("out", Show::Rate("messages_out")),
        ("dropped", Show::Rate("messages_dropped")),
    ],
    [
        ("bytes in", Show::BytesRate("bytes_in")),
        ("out", Show::BytesRate("bytes_out")),
        ("open writes", Show::Level("open_events")),
    ],
    [
        ("connections", Show::Level("connections")),
        ("connects", Show::Rate("connects")),
        ("ends", Show::Rate("disconnects")),
    ],
    [
        ("sessions", Show::Level("sessions")),
        ("subscriptions", Show::Level("subscriptions")),
        ("retained", Show::Level("retained_messages")),
    ],
    [
        ("waiting", Show::Level("waiting_messages")),
        ("bytes", Show::Bytes("waiting_bytes")),
        ("in flight", Show::Level("in_flight")),
    ],
    [
        ("store requests", Show::Rate("store_requests")),
        ("refused", Show::Rate("store_refused")),
        ("keys", Show::Level("store_keys")),
    ],
    [
        ("memory", Show::Bytes("memory_bytes")),
        ("of", Show::Bytes("memory_bytes_max")),
        ("unmerged slots", Show::Level("unmerged_slots")),
    ],
];

impl<'a> Frame<'a> {
    pub(super) fn between(before: &'a Sample, now: &'a Sample) -> Self {
        let seconds = now.at.saturating_duration_since(before.at).as_secs_f64();
        Self {
            before,
            now,
            seconds: seconds.max(0.001),
        }
    }

    /// For people; `width`: columns of the terminal.
    pub(super) fn text(&self, width: Option<usize>) -> String {
        let node = &self.now.said["node"];
        let is_ready = if node["ready"] == true {
            "ready"
        } else {
            "NOT READY"
        };
        let mut text = format!(
            "node {}  statehold {}  {}  {is_ready}  up {}\n",
            cell(&node["node"]),
            cell(&node["version"]),
            cell(&node["state"]),
            uptime(node["uptime_s"].as_u64().unwrap_or(0)),
        );
        for why in node["not_ready"].as_array().into_iter().flatten() {
            text += &format!("  {}\n", cell(why));
        }
        text += "\n";
        let rows = CELLS.map(|row| {
            let cells = row.iter();
            let cells = cells.flat_map(|(label, show)| [(*label).to_owned(), self.shown(*show)]);
            cells.collect::<Vec<_>>()
        });
        text += &table(&rows, width);
        let cluster = &self.now.said["cluster"];
        if !cluster.is_null() {
            let lag = number(self.now.max("statehold_log_lag_entries"));
            text += &format!("\nlag at most {lag} entries\n\n");
            text += &Cluster(cluster).nodes_table();
            text += "\n";
            text += &Cluster(cluster).groups_table();
        }
        text
    }

    fn shown(&self, show: Show) -> String {
        match show {
            Show::Rate(name) => format!("{}/s", number(self.rate(name))),
            Show::BytesRate(name) => format!("{}/s", bytes(&json!(self.rate(name) as u64))),
            Show::Level(name) => number(self.level(name)),
            Show::Bytes(name) => bytes(&json!(self.level(name) as u64)),
        }
    }

    /// For scripts.
    pub(super) fn json(&self) -> Value {
        let rates = RATES
            .iter()
            .map(|(name, ..)| ((*name).to_owned(), json!(self.rate(name))));
        let levels = LEVELS
            .iter()
            .map(|(name, _)| ((*name).to_owned(), json!(self.level(name))));
        json!({
            "node": self.now.said["node"]["node"],
            "ready": self.now.said["node"]["ready"],
            "seconds": self.seconds,
            "per_second": Value::Object(rates.collect()),
            "now": Value::Object(levels.collect()),
        })
    }

    fn rate(&self, name: &str) -> f64 {
        let found = RATES.iter().find(|(other, ..)| *other == name);
        let of = |sample: &Sample| found.map_or(0.0, |(_, metric, label)| sample.sum(metric, label));
        // After a restart it counts from nothing.
        (of(self.now) - of(self.before)).max(0.0) / self.seconds
    }

    fn level(&self, name: &str) -> f64 {
        let found = LEVELS.iter().find(|(other, _)| *other == name);
        found.map_or(0.0, |(_, metric)| self.now.sum(metric, ""))
    }
}

/// With commas between thousands, and a decimal where there is little else.
fn number(of: f64) -> String {
    if of > 0.0 && of < 10.0 && of.fract() > 0.0 {
        return format!("{of:.1}");
    }
    let digits = format!("{of:.0}");
    let count = digits.len();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (count - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn uptime(seconds: u64) -> String {
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3_600 % 24, seconds / 60 % 60);
    let seconds = seconds % 60;
    if days > 0 {
        format!("{days} d {hours:02}:{minutes:02}")
    } else {
        format!("{hours:02}:{minutes:02}:{seconds:02}")
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn rates_are_what_came_between_two_looks() {
        let at = server::clock::instant();
        let node = json!({"node": {"node": "a1", "version": "0.1.0", "state": "RUNNING", "ready": true, "uptime_s": 93_784, "not_ready": []}, "cluster": null});
        let page = |count: u64| {
            format!(
                "statehold_messages_total{{direction=\"in\",qos=\"0\"}} {count}\nstatehold_connections 1200\n"
            )
        };
        let before = Sample::new(at, &page(1_000), node.clone());
        let now = Sample::new(at + Duration::from_secs(2), &page(4_000), node);
        let frame = Frame::between(&before, &now);
        let text = frame.text(None);
        assert!(
            text.starts_with("node a1  statehold 0.1.0  RUNNING  ready  up 1 d 02:03\n\n"),
            "{text}"
        );
        assert!(text.contains("messages in     1,500/s"), "{text}");
        assert!(text.contains("connections     1,200"), "{text}");
        let json = frame.json();
        assert_eq!(json["per_second"]["messages_in"], 1_500.0);
        // A server that was started again.
        assert_eq!(
            Frame::between(&now, &before).json()["per_second"]["messages_in"],
            0.0
        );
    }

    #[test]
    fn numbers_are_read_easily() {
        let cases = [
            (0.0, "0"),
            (0.5, "0.5"),
            (9.96, "10.0"),
            (12.4, "12"),
            (999.0, "999"),
            (1_234_567.0, "1,234,567"),
        ];
        for (of, expected) in cases {
            assert_eq!(number(of), expected);
        }
    }
}
