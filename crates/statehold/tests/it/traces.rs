//! Traces, as a collector of OpenTelemetry gets them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use client::protocol::Text;
use client::protocol::packet::{Packet, PacketId};
use client::protocol::properties::UserProperties;
use serde_json::Value;

use crate::asked_server::{AskedServer, Below, Heard, Reply};
use crate::configured::Configured;
use crate::raw::{Raw, connect, packet_id, publish};

const LISTENER: &str = "[[listeners]]\naddress = \"127.0.0.1:0\"\n";

/// Where spans go, and what came.
pub(crate) struct Collector {
    server: AskedServer,
    seen: Vec<Seen>,
}

/// A span as it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) node: String,
    pub(crate) name: String,
    pub(crate) trace: String,
    pub(crate) id: String,
    pub(crate) parent: Option<String>,
    pub(crate) error: Option<String>,
    pub(crate) attributes: BTreeMap<String, String>,
    pub(crate) nanos: u64,
}

impl Collector {
    /// It takes everything.
    pub(crate) fn start() -> Self {
        Self::answering(Below::Tcp, |_| Reply::Status(200, "{}".to_owned()))
    }

    fn answering(below: Below, answer: impl Fn(&Heard) -> Reply + Send + Sync + 'static) -> Self {
        Self {
            server: AskedServer::start(below, answer),
            seen: Vec::new(),
        }
    }

    /// Settings of a server that sends its spans here, the table last.
    pub(crate) fn settings(&self, more: &str) -> String {
        let endpoint = self.server.url("http", "");
        format!("{LISTENER}[otlp]\nendpoint = \"{endpoint}\"\ninterval = \"100ms\"\n{more}")
    }

    /// What a request brought is among what was seen.
    fn hear(&mut self) -> Heard {
        let heard = self.server.heard();
        self.seen.extend(read(&heard));
        heard
    }

    /// Waits for spans until there is what is looked for.
    pub(crate) fn wait<T>(&mut self, find: impl Fn(&[Seen]) -> Option<T>) -> T {
        loop {
            if let Some(found) = find(&self.seen) {
                return found;
            }
            self.hear();
        }
    }

    /// Waits for a span of a trace; of whichever by an empty name.
    pub(crate) fn span(&mut self, trace: &str, name: &str) -> Seen {
        self.wait(|seen| {
            let is_it = |span: &&Seen| (trace.is_empty() || span.trace == trace) && span.name == name;
            seen.iter().find(is_it).cloned()
        })
    }
}

/// The spans of one request.
fn read(heard: &Heard) -> Vec<Seen> {
    let body: Value = serde_json::from_str(&heard.body).expect("JSON");
    let of_resource = &body["resourceSpans"][0];
    let node = attributes(&of_resource["resource"])["service.instance.id"].clone();
    let spans = of_resource["scopeSpans"][0]["spans"].as_array();
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let number = |value: &Value| value.as_str().and_then(|text| text.parse::<u64>().ok());
    let read = |span: &Value| Seen {
        node: node.clone(),
        name: text(&span["name"]).expect("a name"),
        trace: text(&span["traceId"]).expect("a trace"),
        id: text(&span["spanId"]).expect("an id"),
        parent: text(&span["parentSpanId"]),
        error: text(&span["status"]["message"]),
        attributes: attributes(span),
        nanos: number(&span["endTimeUnixNano"]).expect("an end")
            - number(&span["startTimeUnixNano"]).expect("a start"),
    };
    spans.expect("spans").iter().map(read).collect()
}

fn attributes(of: &Value) -> BTreeMap<String, String> {
    let attributes = of["attributes"].as_array().into_iter().flatten();
    let read = |attribute: &Value| {
        let value = attribute["value"].as_object().expect("a value");
        let value = value.values().next().expect("one").as_str().expect("text");
        (
            attribute["key"].as_str().expect("a key").to_owned(),
            value.to_owned(),
        )
    };
    attributes.map(read).collect()
}

/// A client's place in a trace of this number, and the id of the trace.
pub(crate) fn traceparent(number: u8, flags: &str) -> (String, String) {
    let trace = format!("4bf92f3577b34da6a3ce929d0e0e47{number:02x}");
    (format!("00-{trace}-{CLIENT_SPAN}-{flags}"), trace)
}

/// The span of clients.
pub(crate) const CLIENT_SPAN: &str = "00f067aa0ba902b7";

/// A message with these user properties.
pub(crate) fn publish_with(topic: &'static str, id: PacketId, properties: &[(&str, &str)]) -> Packet {
    let mut packet = publish(topic, Some(id), b"x");
    if let Packet::Publish(publish) = &mut packet {
        let properties = UserProperties::from_pairs(properties.iter().copied());
        publish.properties.user_properties = properties.expect("short");
    }
    packet
}

/// Sends a SET that belongs to a trace, and waits for its PUBACK.
pub(crate) fn set(client: &mut Raw, number: u16, key: &str, traceparent: &str) {
    let topic = "statestore/v1/FA9AE35F-2F64-47CD-9BFF-08E2B32A0FE8/command/invoke";
    let properties = [("__ts", "1700000000000:0:c"), ("traceparent", traceparent)];
    let mut packet = publish_with(topic, packet_id(number), &properties);
    if let Packet::Publish(publish) = &mut packet {
        let command = format!("*3\r\n$3\r\nSET\r\n${}\r\n{key}\r\n$1\r\nv\r\n", key.len());
        publish.payload = command.into_bytes().into();
        publish.properties.response_topic = Some(Text::from_static("clients/c/answers"));
        publish.properties.correlation_data = Some(number.to_be_bytes().to_vec().into());
    }
    client.send(&packet);
    match client.receive() {
        Packet::PubAck(ack) => assert!(!ack.reason.is_error(), "{ack:?}"),
        other => panic!("no acknowledgement: {other:?}"),
    }
}

#[test]
fn a_request_is_traced_where_its_client_says_so() {
    let mut collector = Collector::start();
    let server = Configured::start(&collector.settings("sample_ratio = 0\n"));
    let mut client = Raw::connect(server.at("mqtt"), connect("pump"));
    // One that is not sampled, and one that cannot be read, come first: they are not traced.
    let (unsampled, _) = traceparent(1, "00");
    set(&mut client, 1, "a", &unsampled);
    set(&mut client, 2, "b", "00-no-context-01");
    let (sampled, trace) = traceparent(3, "01");
    set(&mut client, 3, "pump/7", &sampled);

    let request = collector.span(&trace, "SET");
    assert_eq!(request.parent.as_deref(), Some(CLIENT_SPAN));
    let said = |name: &str| request.attributes.get(name).map(String::as_str);
    assert_eq!(said("messaging.client.id"), Some("pump"));
    assert_eq!(said("statehold.key"), Some("pump/7"));
    assert_eq!(said("db.operation.name"), Some("SET"));
    let replicated = collector.span(&trace, "replicate");
    assert_eq!(replicated.parent.as_ref(), Some(&request.id));
    let synced = collector.span(&trace, "sync");
    assert_eq!(synced.parent.as_ref(), Some(&replicated.id));
    assert!(synced.nanos > 0 && synced.nanos <= replicated.nanos && replicated.nanos <= request.nanos);
    assert!(
        collector.seen.iter().all(|span| span.trace == trace),
        "{:?}",
        collector.seen
    );
    drop(client);
    // The last ones are sent when the server stops.
    server.stop();
}

#[test]
fn a_part_of_the_rest_begins_traces_of_its_own() {
    let mut collector = Collector::start();
    let server = Configured::start(&collector.settings("sample_ratio = 1\nservice_name = \"plant\"\n"));
    let arguments = ["pub", "plant/1", "on", "--qos", "1", "--client-id", "pump"];
    server.run("mqtt", &arguments).expect(0);
    let message = collector.span("", "publish");
    assert_eq!(message.parent, None);
    assert_eq!(message.attributes["messaging.destination.name"], "plant/1");
    server.run("mqtt", &["get", "nothing"]);
    let read = collector.span("", "GET");
    assert_ne!(read.trace, message.trace);
    let refused = ["set", "a", "b", "--fencing-token", "99999999999999:0:x"];
    server.run("mqtt", &refused);
    let refused = collector.span("", "SET");
    assert!(refused.error.is_some(), "{refused:?}");
    // What was sent is counted when the collector has answered.
    while server.figure("statehold_otlp_spans_total{result=\"exported\"}") < 3.0 {}
    assert_eq!(
        server.figure("statehold_otlp_spans_total{result=\"dropped\"}"),
        0.0
    );
}

#[test]
fn a_collector_with_trouble_gets_the_same_spans_again() {
    let asked = Arc::new(AtomicUsize::new(0));
    let mut collector =
        Collector::answering(Below::Tcp, move |_| match asked.fetch_add(1, Ordering::SeqCst) {
            0 => Reply::Bytes(b"HTTP/1.1 503 No\r\nretry-after: 0\r\ncontent-length: 0\r\n\r\n".to_vec()),
            1 => Reply::Bytes(Vec::new()),
            _ => Reply::Status(200, String::new()),
        });
    let mut server = Configured::start(&collector.settings("sample_ratio = 1\n"));
    server.run("mqtt", &["set", "k", "v"]).expect(0);
    let first = collector.hear();
    for _ in 1..3 {
        assert_eq!(collector.hear().body, first.body);
    }
    server.logged("has trouble: it is tried again");
    server.logged("answers again");
}

#[test]
fn spans_that_a_collector_refuses_are_counted_and_not_sent_again() {
    let mut collector = Collector::answering(Below::Tcp, |heard| {
        let is_set = heard.body.contains("\"SET\"");
        let partly = r#"{"partialSuccess":{"rejectedSpans":"1","errorMessage":"too old"}}"#;
        let (status, said) = if is_set { (400, "no SET") } else { (200, partly) };
        Reply::Status(status, said.to_owned())
    });
    let mut server = Configured::start(&collector.settings("sample_ratio = 1\n"));
    server.run("mqtt", &["set", "k", "v"]).expect(0);
    server.logged("status 400 no SET");
    let sets = collector.hear();
    server.run("mqtt", &["get", "k"]).expect(0);
    assert_ne!(collector.hear().body, sets.body);
    server.logged("too old");
}

#[test]
fn nobody_waits_for_a_collector_that_does_not_answer() {
    let collector = Collector::answering(Below::Tcp, |_| Reply::Silence);
    let settings = collector.settings("sample_ratio = 1\nspans_max = 512\ntimeout = \"1h\"\n");
    let server = Configured::start(&settings);
    let mut client = Raw::connect(server.at("mqtt"), connect("pump"));
    let mut number = 0;
    while server.figure("statehold_otlp_spans_total{result=\"dropped\"}") == 0.0 {
        for _ in 0..100 {
            number += 1;
            client.send(&publish_with("plant/1", packet_id(number), &[]));
            assert!(matches!(client.receive(), Packet::PubAck(_)));
        }
    }
    drop(client);
    // Nor does its end.
    let log = server.stop();
    assert!(log.contains("did not take the last spans"), "{log}");
}

#[test]
fn secrets_go_to_the_collector_and_nowhere_else() {
    let mut collector = Collector::answering(Below::Tls, |_| Reply::Status(200, String::new()));
    let directory = tempfile::TempDir::new().expect("a directory");
    let file = directory.path().join("token");
    std::fs::write(&file, "Bearer s3cret\n").expect("written");
    let (endpoint, ca) = (
        collector.server.url("https", "/otel/"),
        collector.server.authority().ca_file(),
    );
    let server = Configured::start(&format!(
        "{LISTENER}[otlp]\nendpoint = \"{endpoint}\"\nca = \"{}\"\nsample_ratio = 1\n\
         [otlp.headers]\nx-tenant = \"plant\"\n[otlp.header_files]\nauthorization = \"{}\"\n",
        ca,
        file.display()
    ));
    server.run("mqtt", &["set", "k", "secret value"]).expect(0);
    let heard = collector.hear();
    assert_eq!(heard.what, "POST /otel/v1/traces");
    assert_eq!(heard.headers["authorization"], "Bearer s3cret");
    assert_eq!(heard.headers["x-tenant"], "plant");
    assert_eq!(heard.headers["content-type"], "application/json");
    assert!(!heard.body.contains("secret value"), "{}", heard.body);
    let log = server.stop();
    assert!(!log.contains("s3cret"), "{log}");
}

#[test]
fn settings_that_cannot_be_are_named() {
    for (settings, named) in [
        ("endpoint = \"collector:4318\"", "otlp.endpoint"),
        ("endpoint = \"http://user@collector\"", "otlp.endpoint"),
        ("endpoint = \"http://collector/?a=b\"", "otlp.endpoint"),
        (
            "endpoint = \"http://collector\"\nsample_ratio = 1.5",
            "otlp.sample_ratio",
        ),
        (
            "endpoint = \"http://collector\"\ninterval = \"1ms\"",
            "otlp.interval",
        ),
        (
            "endpoint = \"http://collector\"\ntimeout = \"0s\"",
            "otlp.timeout",
        ),
        ("endpoint = \"http://collector\"\nspans_max = 1", "otlp.spans_max"),
        ("endpoint = \"http://collector\"\ncert = \"a.pem\"", "otlp.cert"),
        (
            "endpoint = \"http://collector\"\nheaders = { host = \"x\" }",
            "otlp.headers",
        ),
        (
            "endpoint = \"https://collector\"\nheader_files = { a = \"none\" }",
            "otlp.header_files",
        ),
        (
            "endpoint = \"http://collector\"\nheader_files = { authorization = \"token\" }",
            "`http` is for loopback addresses only",
        ),
    ] {
        let ran = Configured::refused(&format!("{LISTENER}[otlp]\n{settings}\n"));
        assert!(ran.stderr.contains(named), "{settings}: {}", ran.stderr);
    }
}
