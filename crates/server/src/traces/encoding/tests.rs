use cluster::GroupId;
use protocol::packet::QoS;
use protocol::state_store::Verb;
use protocol::trace_context::TraceContext;
use protocol::{ReasonCode, Text};

use super::*;

const WALL: Duration = Duration::from_nanos(1_700_000_000_123_456_789);

/// One of each kind; each takes a millisecond, and ends a second before the next.
fn all(end: Instant) -> Vec<Span> {
    let context = TraceContext::parse("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01");
    let context = context.expect("it is an example");
    let text = Text::from_static;
    let request = |group, error: Option<&'static str>| SpanOf::Request {
        client_id: text("pump"),
        verb: Verb::Set,
        key: Some(Bytes::from_static(b"pump/7 \xff")),
        group,
        error: error.map(|error| Bytes::from_static(error.as_bytes())),
    };
    let message = |reason| SpanOf::Message {
        client_id: text("pump"),
        topic: text("plant/1"),
        qos: QoS::ExactlyOnce,
        bytes: 100,
        reason,
    };
    let node = NodeId(0xa1);
    let kinds = [
        request(Some(GroupId(2)), None),
        request(None, Some("-ERR the request could not be authorized\r\n")),
        message(ReasonCode::Success),
        message(ReasonCode::QuotaExceeded),
        SpanOf::Command {
            of: node,
            group: GroupId(2),
        },
        SpanOf::Queued,
        SpanOf::Forwarded { to: node },
        SpanOf::Barrier,
        SpanOf::Replicated,
        SpanOf::Synced,
        SpanOf::Stored,
        SpanOf::InOrder,
    ];
    let span = |(number, what): (u32, SpanOf)| {
        let ended = end - number * Duration::from_secs(1);
        Span {
            context,
            parent: (number > 0).then_some(context.span),
            state: (number == 0).then(|| text("vendor=1")),
            began: ended - Duration::from_millis(1),
            ended,
            what,
        }
    };
    (0..).zip(kinds).map(span).collect()
}

/// What a collector gets. Changes have to be ones that collectors understand.
#[test]
fn a_request_is_written_as_ever() {
    let now = crate::clock::instant();
    let moment = Moment {
        instant: now,
        wall: WALL,
    };
    let body = request(&Resource::new("statehold", NodeId(0xa2)), &all(now), moment);
    let written: serde_json::Value = serde_json::from_slice(&body).expect("JSON");
    let mut written = serde_json::to_string_pretty(&written).expect("JSON");
    written = written.replace(env!("CARGO_PKG_VERSION"), "VERSION");
    written.push('\n');
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/src/traces/encoding/request.golden.json"
    );
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(path, &written).expect("written");
    }
    let golden = std::fs::read_to_string(path).expect("it is there");
    assert!(
        written == golden,
        "not as ever: if that is meant, run `UPDATE=1 cargo test -p server traces`\n{written}"
    );
}

#[test]
fn moments_before_and_after_are_told_by_the_wall_clock() {
    let now = crate::clock::instant();
    let moment = Moment {
        instant: now,
        wall: WALL,
    };
    assert_eq!(moment.nanos(now), "1700000000123456789");
    assert_eq!(moment.nanos(now - Duration::from_nanos(9)), "1700000000123456780");
    assert_eq!(moment.nanos(now + Duration::from_nanos(1)), "1700000000123456790");
}
