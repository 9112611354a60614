use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use mqtt::authorization::Right;
use serde_json::Value;
use tempfile::TempDir;

use super::*;

fn denied(is_withdrawn: bool) -> Happened {
    Happened::Denied {
        client_id: "pump-7".into(),
        principal: Some("pumps".into()),
        right: Right::Publish,
        resource: "hall/7/light".into(),
        is_withdrawn,
    }
}

fn disconnected(reason: &str, why: &str, topic: Option<&str>) -> Happened {
    Happened::Disconnected {
        client_id: "pump-7".into(),
        principal: Some("pumps".into()),
        reason: reason.into(),
        why: why.into(),
        topic: topic.map(Shown::from),
    }
}

fn every_kind() -> Vec<Happened> {
    vec![
        Happened::Started,
        Happened::Connected {
            client_id: "pump-7".into(),
            principal: Some("pumps".into()),
            session_present: true,
        },
        Happened::Refused {
            client_id: Some("pump-7".into()),
            reason: "0x86 Bad User Name or Password".into(),
            why: "user name or password is wrong".into(),
        },
        denied(false),
        denied(true),
        disconnected(
            "0x8E Session taken over",
            "another connection uses this client id",
            None,
        ),
        disconnected(
            "0x90 Topic Name invalid",
            "the topic name is empty or has wildcards",
            Some("hall/+/light"),
        ),
        Happened::Reloaded {
            setting: "authentication.password".into(),
            before: "3a7b…".into(),
            after: "91c0…".into(),
        },
        Happened::NotReloaded {
            setting: "authentication.password".into(),
            error: "/etc/statehold/passwords:3: not a line as `statehold passwd` writes it".into(),
            digest: "3a7b…".into(),
        },
        Happened::AdminChange {
            token: Some("ops".into()),
            path: "/reload".into(),
        },
        Happened::AdminRefused {
            path: "/metrics".into(),
            cause: "no_token",
        },
        Happened::Stopped,
    ]
}

fn source() -> Source {
    Source {
        peer: "10.0.0.7:50110".into(),
        ip: Some(IpAddr::from([10, 0, 0, 7])),
        listener: "0.0.0.0:8883".into(),
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
    assert_eq!(of("left_out")[0]["principal"], "pumps");
    assert_eq!(of("left_out")[0]["of"], "denied");
}

#[test]
fn what_does_not_fit_into_the_channel_is_counted_and_said() {
    let (records, _told) = mpsc::channel(2);
    let lost = Arc::new(AtomicU64::new(0));
    let rates = Arc::new(Mutex::new(LineRates::new(100)));
    let audit = Audit(Some(Arc::new(Teller {
        records,
        lost: Arc::clone(&lost),
        rates: Arc::clone(&rates),
    })));
    (0..7).for_each(|_| audit.tell(Happened::Started, None));
    let dir = TempDir::new().expect("a directory");
    let file = dir.path().join("audit.log");
    let mut writer = Writer {
        file: AuditFile::open(&settings(file.clone()))
            .expect("opened")
            .expect("wanted"),
        rates,
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
fn text_of_clients_cannot_end_a_line_or_hide_and_a_long_one_is_marked() {
    let mut line = String::new();
    let happened = Happened::Refused {
        client_id: Some("a\n{\"kind\":\"connected\"}\u{7}\u{2028}\u{202e}".into()),
        reason: (&"ä".repeat(2_000)).into(),
        why: "".into(),
    };
    Line::begin(0, 1, "refused").happened(&happened).end(&mut line);
    assert_eq!(line.lines().count(), 1);
    let value: Value = serde_json::from_str(&line).expect("an object");
    assert_eq!(
        value["client_id"],
        "a\\n{\"kind\":\"connected\"}\\u{7}\\u{2028}\\u{202e}"
    );
    assert_eq!(value["reason"], format!("{}…(4000 bytes)", "ä".repeat(128)));
}

/// A clean client is found in a log that others flood: under its principal, also from the same address.
#[test]
fn a_client_that_is_well_is_found_in_a_flooded_log() {
    let dir = TempDir::new().expect("a directory");
    let file = dir.path().join("audit.log");
    let settings = config::Audit {
        rate_max: 2,
        ..settings(file.clone())
    };
    let connected = |client_id: &str, principal: Option<&str>| Happened::Connected {
        client_id: client_id.into(),
        principal: principal.map(Shown::from),
        session_present: false,
    };
    run(&settings, |audit| {
        // More than the channel has room for.
        for number in 0..10_000_u32 {
            audit.tell(connected(&format!("flood-{number}"), None), Some(source()));
            audit.tell(connected("intruder", Some("leaked")), Some(source()));
        }
        audit.tell(connected("pump-7", Some("pumps")), Some(source()));
    });
    let lines = lines(&file);
    let has = |name: &str, text: &str| lines.iter().any(|line| line[name] == text);
    assert!(has("client_id", "pump-7"), "{} lines", lines.len());
    let left_out = lines.iter().filter(|line| line["kind"] == "left_out");
    let of: Vec<_> = left_out.map(|line| (&line["principal"], &line["ip"])).collect();
    assert!(of.contains(&(&"leaked".into(), &Value::Null)), "{of:?}");
    assert!(of.contains(&(&Value::Null, &"10.0.0.7".into())), "{of:?}");
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
