use std::io;

use tracing_subscriber::fmt::MakeWriter;

use super::*;

/// What was written.
#[derive(Clone, Default)]
struct Page(Arc<Mutex<Vec<u8>>>);

impl io::Write for Page {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Page {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

/// The lines of what is logged.
fn logged(format: LogFormat, log: impl FnOnce(&Limit)) -> Vec<String> {
    let (page, limit) = (Page::default(), Arc::new(Limit::new(3)));
    let subscriber = tracing_subscriber::fmt()
        .with_writer(page.clone())
        .with_ansi(false)
        .event_format(Lines {
            format,
            limit: Arc::clone(&limit),
        })
        .finish();
    tracing::subscriber::with_default(subscriber, || log(&limit));
    let text = String::from_utf8(page.0.lock().unwrap().clone()).unwrap();
    text.split_terminator('\n').map(str::to_owned).collect()
}

/// What follows the time.
fn text_lines(log: impl FnOnce(&Limit)) -> Vec<String> {
    let lines = logged(LogFormat::Text, log);
    let after_time = |line: String| line.split_once(' ').unwrap().1.trim_start().to_owned();
    lines.into_iter().map(after_time).collect()
}

/// What an attacker would write: colours, a line of its own, a field of its own, and what hides the rest.
const HOSTILE: &str = "x\u{1b}[2J\nERROR server: forged peer=\"10.0.0.1\"\u{2028}\u{202e}\u{200b}\u{9b}";

const HOSTILE_SHOWN: &str =
    "x\\u{1b}[2J\\nERROR server: forged peer=\\\"10.0.0.1\\\"\\u{2028}\\u{202e}\\u{200b}\\u{9b}";

#[test]
fn no_field_and_no_message_forges_a_line_or_a_field() {
    let lines = text_lines(|_| {
        let target = "t";
        tracing::info!(target: "t", client_id = HOSTILE, "closed connection");
        tracing::info!(target: "t", client_id = %HOSTILE, "closed connection");
        tracing::info!(target: "t", "{target} {HOSTILE}");
        tracing::info!(target: "t", why = %HOSTILE, count = 7, is = true, "closed connection");
    });
    let expected = [
        format!("INFO t: closed connection client_id=\"{HOSTILE_SHOWN}\""),
        format!("INFO t: closed connection client_id=\"{HOSTILE_SHOWN}\""),
        format!("INFO t: t {}", HOSTILE_SHOWN.replace("\\\"", "\"")),
        format!("INFO t: closed connection why=\"{HOSTILE_SHOWN}\" count=7 is=true"),
    ];
    assert_eq!(lines, expected);
}

#[test]
fn lines_of_json_are_escaped_as_those_of_text() {
    let lines = logged(LogFormat::Json, |_| {
        tracing::warn!(target: "t", client_id = %HOSTILE, count = 7_u64, "closed: {HOSTILE}");
    });
    assert_eq!(lines.len(), 1);
    assert!(lines[0].is_ascii(), "{}", lines[0]);
    let line: Value = serde_json::from_str(&lines[0]).expect("an object");
    let shown = HOSTILE_SHOWN.replace("\\\"", "\"");
    assert_eq!(line["client_id"], shown);
    assert_eq!(line["message"], format!("closed: {shown}"));
    let rest = (&line["level"], &line["target"], &line["count"]);
    assert_eq!(rest, (&Value::from("WARN"), &Value::from("t"), &Value::from(7)));
    assert!(line["timestamp"].as_str().unwrap().ends_with('Z'));
}

#[test]
fn one_word_stands_without_quotes_and_a_long_one_is_cut_with_its_length() {
    let long = "x".repeat(65_535);
    let lines = text_lines(|_| {
        tracing::info!(target: "t", client_id = "pump-7", topic = "a b", filter = "", key = "a\\b", "m");
        tracing::info!(target: "t", client_id = long, "m");
    });
    assert_eq!(
        lines[0],
        r#"INFO t: m client_id=pump-7 topic="a b" filter="" key="a\\b""#
    );
    let kept = &long[..256];
    assert_eq!(lines[1], format!("INFO t: m client_id=\"{kept}…(65535 bytes)\""));
}

/// As much as a client writes of one kind, and how much more it was when the window ends; other clients and kinds are not its concern.
#[test]
fn what_one_client_writes_too_often_is_counted_and_others_are_found() {
    let refuse = |peer: &str| tracing::info!(target: "t", peer, "rejected CONNECT: {}", peer.len());
    let lines = text_lines(|limit| {
        (1..=1_000).for_each(|port| refuse(&format!("10.0.0.1:{port}")));
        refuse("10.0.0.2:5");
        for pid in 0..10 {
            refuse(&format!("unix:uid=7,pid={pid}"));
        }
        for principal in ["a", "a", "a", "a", "b"] {
            tracing::info!(target: "t", principal, peer = "10.0.0.1:1", "closed connection");
        }
        (0..5).for_each(|_| tracing::info!(target: "t", "nobody's"));
        limit.end_window();
        refuse("10.0.0.1:1");
    });
    let count = |text: &str| lines.iter().filter(|line| line.contains(text)).count();
    assert_eq!(count("rejected CONNECT: "), 3 + 1 + 3 + 1, "{lines:#?}");
    assert_eq!(count("peer=10.0.0.2:5"), 1);
    assert_eq!((count("principal=a"), count("principal=b")), (3, 1));
    assert_eq!(count("nobody's"), 5);
    let left_out = |kind: &str, of: &str, count: u64| {
        let line = format!("left out lines: too many of one kind kind=\"{kind}\" of={of} left_out={count}");
        assert!(
            lines.iter().any(|found| found.ends_with(&line)),
            "{line}: {lines:#?}"
        );
    };
    left_out("rejected CONNECT", "10.0.0.1", 997);
    left_out("rejected CONNECT", "unix:uid=7", 7);
    left_out("closed connection", "a", 1);
    assert_eq!(count("left out lines"), 3);
}
