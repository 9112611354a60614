//! Clients about whom a server of one's own is asked.

use std::sync::Mutex;
use std::time::Duration;

use bytes::Bytes;
use client::protocol::ReasonCode;
use client::protocol::packet::{ConnAck, Packet, ProtocolVersion};

use crate::asked_server::{AskedServer, Below, Heard, Reply};
use crate::authority::Authority;
use crate::configured::Configured;
use crate::enhanced::{self, connack};
use crate::issuer::rfc3339;
use crate::support::wire::{Wire, connect, text};

/// A listener that asks this server.
fn settings(asked: &AskedServer, further: &str) -> String {
    format!(
        "[[listeners]]\naddress = \"127.0.0.1:0\"\nauthentication = [\"custom\"]\n[log]\nlevel = \"trace\"\n\
         [authentication.custom]\nurl = \"{}\"\nca = \"{}\"\n{further}\n",
        asked.url("https", "/who?a=b"),
        asked.authority().ca_file()
    )
}

fn serve(asked: &AskedServer, further: &str) -> Configured {
    Configured::start(&settings(asked, further))
}

fn open(server: &Configured, username: &str, password: &str) -> (Wire, ConnAck) {
    let mut wire = Wire::open(server.at("mqtt").parse().expect("an address")).expect("open");
    let mut packet = connect("c-1", true);
    packet.username = Some(text(username));
    packet.password = Some(Bytes::copy_from_slice(password.as_bytes()));
    wire.send_connect(packet).expect("sent");
    let connack = connack(&mut wire);
    (wire, connack)
}

fn reason(server: &Configured, username: &str, password: &str) -> ReasonCode {
    open(server, username, password).1.reason
}

fn json(heard: &Heard) -> serde_json::Value {
    serde_json::from_str(&heard.body).expect("JSON")
}

/// As the sample of the Azure product does it: who is called `deny...` is denied.
fn sample(heard: &Heard) -> Reply {
    let name = json(heard)["username"].as_str().unwrap_or_default().to_owned();
    if name.starts_with("deny") {
        return Reply::Status(403, "{\"reason\":135}".to_owned());
    }
    Reply::Status(
        200,
        "{\"expiry\":null,\"attributes\":{\"example_key\":\"example_value\"}}".to_owned(),
    )
}

#[test]
fn the_server_is_told_the_facts_and_decides() {
    let asked = AskedServer::start(Below::Tls, sample);
    let secret = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(secret.path(), "Bearer hush-hush\n").expect("written");
    let further = format!(
        "headers = {{ X-Site = \"north\" }}\nheader_files = {{ Authorization = \"{}\" }}",
        secret.path().display()
    );
    let mut server = serve(&asked, &further);
    assert_eq!(reason(&server, "pump", "pencil-pencil"), ReasonCode::Success);
    let line = server.logged("connected client_id=c-1");
    assert!(line.contains("principal=pump"), "{line}");
    let heard = asked.heard();
    assert_eq!(heard.what, "POST /who?a=b&api-version=0.5.0");
    assert_eq!(heard.headers["content-type"], "application/json");
    assert_eq!(heard.headers["x-site"], "north");
    assert_eq!(heard.headers["authorization"], "Bearer hush-hush");
    let facts = json(&heard);
    assert_eq!(facts["type"], "connect");
    assert_eq!(facts["username"], "pump");
    assert_eq!(facts["password"], "cGVuY2lsLXBlbmNpbA==");
    assert_eq!(facts["clientId"], "c-1");
    assert_eq!(facts["address"], "127.0.0.1");
    assert_eq!(facts["listener"], server.at("mqtt"));
    assert_eq!(facts.get("certs"), None);

    assert_eq!(
        reason(&server, "deny-me", "pencil-pencil"),
        ReasonCode::NotAuthorized
    );
    asked.heard();
    assert_eq!(asked.connections(), 1, "the connection is used again");
    let log = server.stop();
    for secret in ["pencil-pencil", "cGVuY2ls", "hush-hush"] {
        assert!(!log.contains(secret), "{secret} in {log}");
    }
}

#[test]
fn the_same_credentials_are_not_asked_about_again_at_once() {
    let asked = AskedServer::start(Below::Tls, sample);
    let server = serve(&asked, "remember_denied = \"1h\"");
    for _ in 0..3 {
        assert_eq!(reason(&server, "pump", "pencil"), ReasonCode::Success);
        assert_eq!(reason(&server, "deny", "pencil"), ReasonCode::NotAuthorized);
    }
    asked.heard();
    asked.heard();
    assert!(!asked.has_heard_more());
    assert_eq!(reason(&server, "pump", "pencil "), ReasonCode::Success);
    asked.heard();
    server.signal("HUP");
    // Until it has taken the signal it remembers.
    while !asked.has_heard_more() {
        assert_eq!(reason(&server, "pump", "pencil"), ReasonCode::Success);
    }
}

#[test]
fn nothing_is_remembered_where_the_settings_say_so() {
    let asked = AskedServer::start(Below::Tls, sample);
    let server = serve(&asked, "remember = \"0s\"\nremember_denied = \"0s\"");
    for name in ["pump", "deny"] {
        for _ in 0..2 {
            reason(&server, name, "pencil");
            asked.heard();
        }
    }
}

#[test]
fn a_connection_ends_when_its_credentials_expire() {
    let asked = AskedServer::start(Below::Tls, |_| {
        let expiry = rfc3339(Duration::from_secs(2));
        Reply::Status(200, format!("{{\"expiry\":\"{expiry}\",\"attributes\":{{}}}}"))
    });
    let server = serve(&asked, "");
    let (mut wire, connack) = open(&server, "pump", "pencil");
    assert_eq!(connack.reason, ReasonCode::Success);
    match wire.receive().expect("told") {
        Packet::Disconnect(disconnect) => assert_eq!(disconnect.reason, ReasonCode::MaximumConnectTime),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_server_that_does_not_answer_refuses_for_the_moment() {
    let replies: Mutex<Vec<Reply>> = Mutex::new(vec![
        Reply::Status(200, "{}".to_owned()),
        Reply::Status(429, "{}".to_owned()),
        Reply::Status(200, "x".repeat(100_000)),
        Reply::Status(200, "pencil-pencil".to_owned()),
        Reply::Status(422, "{\"supportedVersions\":[\"1.0.0\"]}".to_owned()),
        Reply::Status(400, "pencil-pencil".to_owned()),
        Reply::Bytes(
            b"HTTP/1.1 307 Go\r\nlocation: https://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n".to_vec(),
        ),
        Reply::Bytes(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n{".to_vec()),
        Reply::Status(503, String::new()),
        Reply::Status(500, "pencil-pencil".to_owned()),
        Reply::Silence,
    ]);
    let asked = AskedServer::start(Below::Tls, move |_| {
        let mut replies = replies.lock().expect("nobody panicked");
        replies.pop().unwrap_or(Reply::Bytes(Vec::new()))
    });
    let mut server = serve(&asked, "timeout = \"1s\"\nremember = \"0s\"");
    for _ in 0..9 {
        assert_eq!(
            reason(&server, "pump", "pencil-pencil"),
            ReasonCode::ServerUnavailable
        );
    }
    let told = server.logged("does not answer: clients are refused");
    assert!(told.contains("no answer within 1s"), "{told}");
    assert_eq!(reason(&server, "pump", "pencil-pencil"), ReasonCode::ServerBusy);
    assert_eq!(reason(&server, "pump", "pencil-pencil"), ReasonCode::Success);
    asked.set_down(true);
    assert_eq!(
        reason(&server, "pump", "pencil-pencil"),
        ReasonCode::ServerUnavailable
    );
    let failures = "statehold_authentication_failures_total{method=\"custom\",cause=\"unavailable\"}";
    assert!(server.figure(failures) >= 10.0);
    let log = server.stop();
    assert!(log.contains("answers again"), "{log}");
    assert!(!log.contains("clients are refused"), "once in a minute: {log}");
    assert!(!log.contains("pencil-pencil"), "{log}");
}

#[test]
fn who_is_who_is_said_by_certificates() {
    let asked = AskedServer::start(Below::MutualTls, sample);
    let without = serve(&asked, "");
    assert_eq!(reason(&without, "pump", "pencil"), ReasonCode::ServerUnavailable);
    let identity = asked.authority().issue("broker");
    let server = serve(&asked, &identity.settings());
    assert_eq!(reason(&server, "pump", "pencil"), ReasonCode::Success);
    assert!(asked.heard().is_certified);

    let stranger = AskedServer::start(Below::Tls, sample);
    let believes = settings(&asked, "").replace(&asked.url("https", "/"), &stranger.url("https", "/"));
    let mut server = Configured::start(&believes);
    assert_eq!(reason(&server, "pump", "pencil"), ReasonCode::ServerUnavailable);
    let told = server.logged("does not answer");
    assert!(told.contains("certificate"), "{told}");
    assert!(!stranger.has_heard_more(), "nothing was said to a stranger");
}

#[test]
fn mqtt_4_12_1_2_a_method_of_ones_own_is_passed_through_and_again() {
    let asked = AskedServer::start(Below::Tls, |heard| {
        let facts = json(heard);
        assert_eq!(facts["authenticationMethod"], "EXAMPLE");
        match facts["authenticationData"].as_str() {
            Some("b25l") => Reply::Status(
                200,
                "{\"principal\":\"one\",\"authenticationData\":\"aGVsbG8=\"}".to_owned(),
            ),
            Some("dHdv") => Reply::Status(200, "{\"principal\":\"two\"}".to_owned()),
            _ => Reply::Status(403, "{\"reason\":140}".to_owned()),
        }
    });
    let server = serve(&asked, "enhanced_methods = [\"EXAMPLE\"]");
    assert_eq!(
        enhanced::open(&server, "OTHER", "one").1.reason,
        ReasonCode::BadAuthenticationMethod
    );
    assert_eq!(
        enhanced::open(&server, "EXAMPLE", "three").1.reason,
        ReasonCode::BadAuthenticationMethod
    );
    asked.heard();
    let (mut wire, connack) = enhanced::open(&server, "EXAMPLE", "one");
    assert_eq!(connack.reason, ReasonCode::Success);
    assert_eq!(
        connack.properties.authentication_data.as_deref(),
        Some(&b"hello"[..])
    );
    assert_eq!(json(&asked.heard())["type"], "connect");
    let mut again = |data: &str| enhanced::again(&mut wire, "EXAMPLE", data);
    assert!(matches!(again("one"), Packet::Auth(auth) if auth.reason == ReasonCode::Success));
    let facts = json(&asked.heard());
    assert_eq!(facts["type"], "auth");
    assert_eq!(facts["principal"], "one");
    assert!(matches!(again("two"), Packet::Disconnect(_)), "somebody else");
}

#[test]
fn the_server_is_shown_the_certificate_of_a_client() {
    let asked = AskedServer::start(Below::Tls, sample);
    let (authority, clients) = (Authority::new(), Authority::new());
    let tls = format!(
        "[listeners.tls]\n{}client_ca = \"{}\"\n[log]",
        authority.issue("localhost").settings(),
        clients.ca_file()
    );
    let mut server = Configured::start(&settings(&asked, "").replace("[log]", &tls));
    let pump = clients.issue_with("pump", |params| {
        params.distinguished_name.push(rcgen::DnType::CommonName, "pump");
    });
    authority.set(&server, &pump.options()).expect(0);
    let facts = json(&asked.heard());
    let shown = facts["certs"].as_str().expect("a certificate");
    let pump = std::fs::read_to_string(&pump.cert).expect("readable");
    let lines = |pem: &str| pem.lines().map(str::trim).collect::<String>();
    assert_eq!(lines(shown), lines(&pump));
    server.logged("principal=pump");
}

/// Who has a certificate chooses its User Name freely, and the server that is asked may look at the certificate alone.
#[test]
fn a_certificate_goes_before_a_user_name_where_nobody_is_named() {
    let asked = AskedServer::start(Below::Tls, sample);
    let clients = Authority::new();
    let tls = format!(
        "[listeners.tls]\n{}client_ca = \"{}\"\n",
        asked.authority().issue("localhost").settings(),
        clients.ca_file()
    );
    let all = settings(&asked, "").replace("[log]", &format!("{tls}[log]"));
    let mut server = Configured::start(&all);
    let pump = clients.issue_with("pump", |params| {
        params.distinguished_name.push(rcgen::DnType::CommonName, "pump");
    });
    let with_name = [&pump.options()[..], &["--username", "admin", "--password", "x"]].concat();
    asked.authority().set(&server, &with_name).expect(0);
    let line = server.logged("connected client_id=");
    assert!(line.contains("principal=pump"), "{line}");
}

#[test]
fn a_client_that_says_nothing_is_not_asked_about() {
    let asked = AskedServer::start(Below::Tls, sample);
    let server = serve(&asked, "");
    let mut wire = Wire::open(server.at("mqtt").parse().expect("an address")).expect("open");
    wire.send_connect(connect("c", true)).expect("sent");
    assert_eq!(connack(&mut wire).reason, ReasonCode::NotAuthorized);
    let mut wire = Wire::open(server.at("mqtt").parse().expect("an address")).expect("open");
    let mut packet = connect("c", true);
    packet.version = ProtocolVersion::V311;
    packet.username = Some(text("pump"));
    wire.send_connect(packet).expect("sent");
    assert_eq!(connack(&mut wire).reason, ReasonCode::Success);
    asked.heard();
    assert!(!asked.has_heard_more());
}

#[test]
fn settings_that_would_show_secrets_are_refused() {
    let refused = |settings: &str| {
        let listener = "[[listeners]]\naddress = \"127.0.0.1:0\"\nauthentication = [\"custom\"]\n[authentication.custom]\n";
        Configured::refused(&format!("{listener}{settings}")).stderr
    };
    for (settings, expected) in [
        ("", "write for example"),
        ("url = \"http://who.example/\"", "use `https`"),
        ("url = \"https://u:p@who.example/\"", "before `@`"),
        (
            "url = \"https://who.example/\"\ncert = \"a.pem\"",
            "belong together",
        ),
        (
            "url = \"https://who.example/\"\nheaders = { Host = \"a\" }",
            "authentication.custom.headers",
        ),
        (
            "url = \"https://who.example/\"\nca = \"/nowhere.pem\"",
            "/nowhere.pem",
        ),
    ] {
        let told = refused(settings);
        assert!(told.contains(expected), "{expected} in {told}");
    }
}

/// `examples/custom_authentication.py`, killed when dropped.
struct Example(std::process::Child);

impl Drop for Example {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn the_example_in_python_decides() {
    let authority = Authority::new();
    let identity = authority.issue("127.0.0.1");
    let file = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../examples/custom_authentication.py"
    );
    let child = std::process::Command::new("python3")
        .args([file, "0"])
        .args([&identity.cert, &identity.key])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::null())
        .spawn();
    let Ok(child) = child else {
        // A machine without Python.
        return;
    };
    let mut example = Example(child);
    let mut url = String::new();
    let stdout = example.0.stdout.take().expect("stdout is piped");
    std::io::BufRead::read_line(&mut std::io::BufReader::new(stdout), &mut url).expect("it says where it is");
    let server = Configured::start(&format!(
        "[[listeners]]\naddress = \"127.0.0.1:0\"\nauthentication = [\"custom\"]\n\
         [authentication.custom]\nurl = \"{}\"\nca = \"{}\"\ntimeout = \"15s\"\n",
        url.trim(),
        authority.ca_file()
    ));
    assert_eq!(reason(&server, "pump-7", "pencil"), ReasonCode::Success);
    for (name, password) in [("pump-7", "brush"), ("pump-8", "pencil"), ("pump-8", "")] {
        assert_eq!(reason(&server, name, password), ReasonCode::BadUserNameOrPassword);
    }
}
