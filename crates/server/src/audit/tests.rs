use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use broker::{Principal, Right};
use protocol::Text;
use serde_json::Value;
use tempfile::TempDir;

use super::*;

fn text(text: &str) -> Text {
    Text::new(text).expect("text")
}

fn denied(is_withdrawn: bool) -> Happened {
    Happened::Denied(Box::new(Denied {
        connection: None,
        client_id: text("pump-7"),
        principal: Some(Principal::named(text("pumps"))),
        right: Right::Publish,
        resource: text("hall/7/light"),
        is_withdrawn,
    }))
}

fn every_kind() -> Vec<Happened> {
    let (client_id, principal) = ("pump-7".to_owned(), Some("pumps".to_owned()));
    let setting = "authentication.password".to_owned();
    let (before, after) = ("3a7b…".to_owned(), "91c0…".to_owned());
    vec![
        Happened::Started,
        Happened::Connected {
            client_id: client_id.clone(),
            principal,
            session_present: true,
        },
        Happened::Refused {
            client_id: Some(client_id.clone()),
            reason: "0x87 Not authorized".to_owned(),
            why: "not authorized".to_owned(),
        },
        denied(false),
        denied(true),
        Happened::Disconnected {
            client_id,
            reason: "0x8E Session taken over".to_owned(),
            why: "another connection has the client id".to_owned(),
        },
        Happened::Reloaded {
            setting: setting.clone(),
            before: before.clone(),
            after,
        },
        Happened::NotReloaded {
            setting,
            error: "/etc/statehold/passwords:3: not a line as `statehold passwd` writes it".to_owned(),
            digest: before,
        },
        Happened::AdminChange {
            token: Some("ops".to_owned()),
            path: "/reload".to_owned(),
        },
        Happened::AdminRefused {
            path: "/metrics".to_owned(),
            cause: "no_token",
        },
        Happened::Stopped,
    ]
}

fn source() -> Source {
    Source {
        peer: "10.0.0.7:50110".to_owned(),
        ip: Some(IpAddr::from([10, 0, 0, 7])),
        listener: "0.0.0.0:8883".to_owned(),
    }
}

fn settings(file: PathBuf) -> config::Audit {
    config::Audit {
        file,
        ..config::Audit::default()
    }
}

/// Lines of a file, each a JSON object with the next number.
fn lines(file: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(file).expect("written");
    let lines: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).expect("an object"))
        .collect();
    lines
}

/// Runs a log that is told this, to its end.
fn run(settings: &config::Audit, tell: impl FnOnce(&Audit)) {
    let (audit, thread) = Audit::start(settings).expect("started");
    tell(&audit);
    drop(thread);
}

#[test]
fn the_page_shows_every_kind_of_line() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/audit.md");
    let page = std::fs::read_to_string(page).expect("the page");
    for (happened, sequence) in every_kind().into_iter().zip(1..) {
        let is_of_a_client = !matches!(
            happened,
            Happened::Started | Happened::Stopped | Happened::Reloaded { .. } | Happened::NotReloaded { .. }
        );
        let mut line = String::new();
        Line::begin(1_795_281_330_007, sequence, line::kind(&happened))
            .happened(&happened)
            .source(is_of_a_client.then(source).as_ref())
            .end(&mut line);
        let version = format!("\"version\":\"{}\"", env!("CARGO_PKG_VERSION"));
        let line = line.replace(&version, "\"version\":\"…\"");
        assert!(page.contains(&line), "docs/audit.md does not have\n{line}");
    }
}

#[test]
fn what_happened_is_written_in_order_to_a_file_that_is_its_owners() {
    let dir = TempDir::new().expect("a directory");
    let file = dir.path().join("audit.log");
    run(&settings(file.clone()), |audit| {
        audit.tell(denied(false), Some(source()));
        audit.tell(denied(true), None);
    });
    let lines = lines(&file);
    let kinds: Vec<_> = lines.iter().map(|line| line["kind"].as_str()).collect();
    let expected = ["started", "denied", "withdrawn", "stopped"];
    assert_eq!(kinds, expected.map(Some));
    let numbers: Vec<_> = lines.iter().map(|line| line["sequence"].as_u64()).collect();
    assert_eq!(numbers, [1, 2, 3, 4].map(Some));
    let mode = std::fs::metadata(&file).expect("there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn what_one_address_does_too_often_is_counted_and_said() {
    let dir = TempDir::new().expect("a directory");
    let file = dir.path().join("audit.log");
    let settings = config::Audit {
        rate_max: 5,
        ..settings(file.clone())
    };
    run(&settings, |audit| {
        (0..1_000).for_each(|_| audit.tell(denied(false), Some(source())));
    });
    let lines = lines(&file);
    let of = |kind: &str| {
        lines
            .iter()
            .filter(|line| line["kind"] == kind)
            .collect::<Vec<_>>()
    };
    // A window may end while the test runs.
    let left_out: u64 = of("left_out")
        .iter()
        .filter_map(|line| line["count"].as_u64())
        .sum();
    assert_eq!(of("denied").len() as u64 + left_out, 1_000);
    assert!(of("denied").len() <= 10);
    assert_eq!(of("left_out")[0]["ip"], "10.0.0.7");
    assert_eq!(of("left_out")[0]["of"], "denied");
}

#[test]
fn what_does_not_fit_into_the_channel_is_counted_and_said() {
    let (records, _told) = mpsc::channel(2);
    let lost = Arc::new(AtomicU64::new(0));
    let audit = Audit(Some(Arc::new(Teller {
        records,
        lost: Arc::clone(&lost),
    })));
    (0..7).for_each(|_| audit.tell(Happened::Started, None));
    let dir = TempDir::new().expect("a directory");
    let file = dir.path().join("audit.log");
    let mut writer = Writer {
        file: AuditFile::open(&settings(file.clone()))
            .expect("opened")
            .expect("wanted"),
        rates: Rates::new(5),
        lost,
        sequence: 0,
        text: String::new(),
    };
    writer.say_left_out(0);
    writer.write();
    assert_eq!(lines(&file)[0]["count"], 5);
    assert_eq!(lines(&file)[0]["of"], "any");
}

#[test]
fn a_large_file_gets_another_name_and_the_oldest_one_goes() {
    let dir = TempDir::new().expect("a directory");
    let path = dir.path().join("audit.log");
    let settings = config::Audit {
        file_bytes_max: 100,
        files_max: 2,
        ..settings(path.clone())
    };
    let mut file = AuditFile::open(&settings).expect("opened").expect("wanted");
    for number in 0..5 {
        file.write(&format!("{number}{}\n", "x".repeat(80)));
    }
    let first = |name: &str| {
        std::fs::read_to_string(dir.path().join(name))
            .ok()?
            .chars()
            .next()
    };
    assert_eq!(
        ["audit.log", "audit.log.1", "audit.log.2", "audit.log.3"].map(first),
        [Some('4'), Some('3'), Some('2'), None]
    );
    // Somebody else has renamed it.
    std::fs::rename(&path, dir.path().join("taken")).expect("renamed");
    file.write("5\n");
    assert!(!path.exists());
    file.reopen();
    file.write("6\n");
    assert_eq!(first("audit.log"), Some('6'));
}

#[test]
fn while_the_file_cannot_be_written_lines_are_counted() {
    let dir = TempDir::new().expect("a directory");
    let path = dir.path().join("logs/audit.log");
    std::fs::create_dir(dir.path().join("logs")).expect("made");
    let mut file = AuditFile::open(&settings(path.clone()))
        .expect("opened")
        .expect("wanted");
    std::fs::remove_dir_all(dir.path().join("logs")).expect("removed");
    file.reopen();
    file.write("1\n2\n");
    assert_eq!(file.take_lost(), 0, "it is said when it can be said");
    std::fs::create_dir(dir.path().join("logs")).expect("made");
    file.write("3\n");
    assert_eq!(file.take_lost(), 2);
    assert_eq!(std::fs::read_to_string(&path).expect("written"), "3\n");
}

#[test]
fn text_of_clients_cannot_end_a_line_and_a_long_one_is_marked() {
    let mut line = String::new();
    let happened = Happened::Refused {
        client_id: Some("a\n{\"kind\":\"connected\"}\u{7}".to_owned()),
        reason: String::new(),
        why: "ä".repeat(2_000),
    };
    Line::begin(0, 1, "refused").happened(&happened).end(&mut line);
    assert_eq!(line.lines().count(), 1);
    let value: Value = serde_json::from_str(&line).expect("an object");
    assert_eq!(value["client_id"], "a\n{\"kind\":\"connected\"}\u{7}");
    let why = value["why"].as_str().expect("text");
    assert!(why.ends_with("ä…") && why.len() < 1_100, "{} bytes", why.len());
}

#[test]
fn a_digest_is_that_of_sha256sum() {
    let dir = TempDir::new().expect("a directory");
    let file = dir.path().join("file");
    std::fs::write(&file, "abc").expect("written");
    let expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    assert_eq!(sha256([&*file]), expected);
    assert_eq!(sha256([dir.path().join("none").as_path()]), "");
}
