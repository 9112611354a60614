//! Clients with JSON Web Tokens, as password and as Authentication Data.

use std::time::Duration;

use bytes::Bytes;
use client::protocol::ReasonCode;
use client::protocol::packet::{ConnAck, Packet, ProtocolVersion};
use tempfile::TempDir;

use crate::asked_server::{AskedServer, Below, Reply};
use crate::configured::Configured;
use crate::enhanced::{again, connack, open};
use crate::issuer::Issuer;
use crate::support::wire::{Wire, connect, text};

const HOUR: Duration = Duration::from_secs(3_600);

/// A listener that takes tokens whose keys are from here.
fn settings(keys: &str, further: &str) -> String {
    format!(
        "[[listeners]]\naddress = \"127.0.0.1:0\"\nauthentication = [\"jwt\"]\n[log]\nlevel = \"trace\"\n\
         [authentication.jwt]\n{keys}\nissuer = \"https://issuer.example\"\naudiences = [\"broker\"]\n{further}\n"
    )
}

/// With a file of keys, which stays as long as the directory.
fn serve(issuer: &Issuer, further: &str) -> (Configured, TempDir) {
    let directory = TempDir::new().expect("a directory");
    let file = directory.path().join("keys.json");
    std::fs::write(&file, Issuer::keys(&[issuer])).expect("written");
    let keys = format!("keys_file = \"{}\"", file.display());
    (Configured::start(&settings(&keys, further)), directory)
}

fn with_password(
    server: &Configured,
    version: ProtocolVersion,
    username: Option<&str>,
    token: &str,
) -> (Wire, ConnAck) {
    let mut wire = Wire::open(server.at("mqtt").parse().expect("an address")).expect("open");
    let mut packet = connect("c", true);
    packet.version = version;
    packet.username = username.map(text);
    packet.password = Some(Bytes::copy_from_slice(token.as_bytes()));
    wire.send_connect(packet).expect("sent");
    let connack = connack(&mut wire);
    (wire, connack)
}

/// How a token as password is answered.
fn reason(server: &Configured, token: &str) -> ReasonCode {
    with_password(server, ProtocolVersion::V5, Some("anybody"), token)
        .1
        .reason
}

#[test]
fn a_token_is_a_password() {
    let issuer = Issuer::new("a");
    let (mut server, _keys) = serve(&issuer, "attributes = { site = \"site\" }");
    let token = issuer.token("pump-7", HOUR, ",\"site\":\"north\"");
    for version in [ProtocolVersion::V5, ProtocolVersion::V311] {
        let (_, connack) = with_password(&server, version, Some("anybody"), &token);
        assert_eq!(connack.reason, ReasonCode::Success, "{connack:?}");
    }
    let line = server.logged("connected client_id=c");
    assert!(line.contains("principal=pump-7"), "{line}");
    assert_eq!(
        with_password(&server, ProtocolVersion::V5, None, &token).1.reason,
        ReasonCode::Success
    );
}

#[test]
fn what_is_no_token_of_the_issuer_is_refused_and_the_log_does_not_have_it() {
    let (issuer, other) = (Issuer::new("a"), Issuer::new("a"));
    let (server, _keys) = serve(&issuer, "leeway = \"0s\"");
    let foreign = other.token("pump-7", HOUR, "");
    let expired =
        issuer.sign("{\"iss\":\"https://issuer.example\",\"aud\":\"broker\",\"sub\":\"p\",\"exp\":1}");
    let for_others =
        issuer.sign("{\"iss\":\"https://issuer.example\",\"aud\":\"x\",\"sub\":\"p\",\"exp\":9e9}");
    let mut changed = issuer.token("pump-7", HOUR, "").into_bytes();
    changed[60] ^= 1;
    let changed = String::from_utf8_lossy(&changed).into_owned();
    let unsigned = {
        let token = issuer.token("pump-7", HOUR, "");
        let payload = token.split('.').nth(1).expect("three parts").to_owned();
        format!("eyJhbGciOiJub25lIn0.{payload}.")
    };
    let tokens = [
        foreign,
        expired,
        for_others,
        changed,
        unsigned,
        "x.y.z".to_owned(),
        String::new(),
    ];
    for token in &tokens {
        assert_eq!(reason(&server, token), ReasonCode::NotAuthorized, "{token}");
        let (_, connack) = open(&server, "JWT", token);
        assert_eq!(connack.reason, ReasonCode::NotAuthorized, "{token}");
    }
    let (_, connack) = open(&server, "JWS", &tokens[0]);
    assert_eq!(connack.reason, ReasonCode::BadAuthenticationMethod);
    let failures = "statehold_authentication_failures_total{method=\"jwt\",cause=\"credentials\"}";
    assert!(server.figure(failures) >= 12.0);
    let good = issuer.token("pump-7", HOUR, "");
    assert_eq!(reason(&server, &good), ReasonCode::Success);
    let log = server.stop();
    assert!(log.contains("the token has expired"), "{log}");
    for token in tokens.iter().chain([&good]) {
        for part in token.split('.').filter(|part| part.len() > 20) {
            assert!(!log.contains(part), "{part} in {log}");
        }
    }
}

#[test]
fn a_user_name_may_have_to_be_that_of_the_token() {
    let issuer = Issuer::new("a");
    let (server, _keys) = serve(&issuer, "username_is_name = true");
    let token = issuer.token("pump-7", HOUR, "");
    for (username, expected) in [
        (Some("pump-7"), ReasonCode::Success),
        (Some("pump-8"), ReasonCode::NotAuthorized),
        (None, ReasonCode::Success),
    ] {
        let (_, connack) = with_password(&server, ProtocolVersion::V5, username, &token);
        assert_eq!(connack.reason, expected, "{username:?}");
    }
}

#[test]
fn a_connection_ends_with_its_token() {
    let issuer = Issuer::new("a");
    let (server, _keys) = serve(&issuer, "leeway = \"0s\"");
    let token = issuer.token("pump-7", Duration::from_millis(1_500), "");
    let (mut wire, connack) = with_password(&server, ProtocolVersion::V5, None, &token);
    assert_eq!(connack.reason, ReasonCode::Success, "{connack:?}");
    match wire.receive().expect("told") {
        Packet::Disconnect(disconnect) => assert_eq!(disconnect.reason, ReasonCode::MaximumConnectTime),
        other => panic!("{other:?}"),
    }
    assert_eq!(reason(&server, &token), ReasonCode::NotAuthorized);
}

#[test]
fn mqtt_4_12_1_2_the_next_token_extends_a_connection() {
    let issuer = Issuer::new("a");
    let (server, _keys) = serve(&issuer, "leeway = \"0s\"");
    let first = issuer.token("pump-7", Duration::from_secs(3), "");
    let (mut wire, connack) = open(&server, "JWT", &first);
    assert_eq!(connack.reason, ReasonCode::Success, "{connack:?}");
    let next = issuer.token("pump-7", HOUR, "");
    let Packet::Auth(done) = again(&mut wire, "JWT", &next) else {
        panic!("no AUTH")
    };
    assert_eq!(done.reason, ReasonCode::Success);
    // Another connection with the first token ends when that expires, unless it has expired already.
    let (mut other, connack) = open(&server, "JWT", &first);
    if connack.reason == ReasonCode::Success {
        assert!(matches!(other.receive(), Ok(Packet::Disconnect(_))));
    }
    wire.send(&Packet::PingReq).expect("sent");
    assert_eq!(wire.receive().expect("the connection lives"), Packet::PingResp);
}

#[test]
fn the_next_token_has_to_be_of_the_same_principal() {
    let issuer = Issuer::new("a");
    let (server, _keys) = serve(&issuer, "");
    let (mut wire, _) = open(&server, "JWT", &issuer.token("pump-7", HOUR, ""));
    let Packet::Disconnect(disconnect) = again(&mut wire, "JWT", &issuer.token("pump-8", HOUR, "")) else {
        panic!("no DISCONNECT")
    };
    assert_eq!(disconnect.reason, ReasonCode::NotAuthorized);
}

#[test]
fn keys_are_fetched_and_new_ones_found() {
    let (first, second) = (Issuer::new("first"), Issuer::new("second"));
    let (of_first, of_both) = (Issuer::keys(&[&first]), Issuer::keys(&[&first, &second]));
    let asked = std::sync::atomic::AtomicUsize::new(0);
    let issuers = AskedServer::start(Below::Tls, move |_| {
        let before = asked.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        let keys = match before {
            0 => of_first.clone(),
            1 => "{\"keys\":[]}".to_owned(),
            _ => of_both.clone(),
        };
        Reply::Status(200, keys)
    });
    let keys = format!(
        "keys_url = \"{}\"\nca = \"{}\"",
        issuers.url("https", "/jwks.json?a=b"),
        issuers.authority().ca_file()
    );
    let mut server = Configured::start(&settings(&keys, ""));
    server.logged("fetched the keys of authentication.jwt keys=1");
    assert_eq!(issuers.heard().what, "GET /jwks.json?a=b");
    let (old, new) = (first.token("p", HOUR, ""), second.token("p", HOUR, ""));
    assert_eq!(reason(&server, &old), ReasonCode::Success);
    assert_eq!(reason(&server, &new), ReasonCode::NotAuthorized);
    assert!(
        !issuers.has_heard_more(),
        "an unknown key right after a fetch asks nobody"
    );

    // A set without keys changes nothing; it is tried again soon.
    server.signal("HUP");
    let told = server.logged("cannot fetch the keys of authentication.jwt");
    assert!(told.contains("the key set has no key"), "{told}");
    assert_eq!(reason(&server, &old), ReasonCode::Success);
    server.logged("fetched the keys of authentication.jwt keys=2");
    assert_eq!(reason(&server, &new), ReasonCode::Success);
}

#[test]
fn without_keys_tokens_are_refused_and_the_server_runs() {
    let issuer = Issuer::new("a");
    let keys = Issuer::keys(&[&issuer]);
    let issuers = AskedServer::start(Below::Tcp, move |_| Reply::Status(200, keys.clone()));
    issuers.set_down(true);
    let url = format!("keys_url = \"{}\"", issuers.url("http", "/"));
    let mut server = Configured::start(&settings(&url, ""));
    server.logged("cannot fetch the keys of authentication.jwt");
    let token = issuer.token("p", HOUR, "");
    assert_eq!(reason(&server, &token), ReasonCode::ServerUnavailable);
    issuers.set_down(false);
    server.logged("fetched the keys of authentication.jwt");
    assert_eq!(reason(&server, &token), ReasonCode::Success);
}

#[test]
fn keys_of_a_server_that_is_not_believed_do_not_count() {
    let issuer = Issuer::new("a");
    let keys = Issuer::keys(&[&issuer]);
    let issuers = AskedServer::start(Below::Tls, move |_| Reply::Status(200, keys.clone()));
    let stranger = AskedServer::start(Below::Tls, |_| Reply::Silence);
    let url = format!(
        "keys_url = \"{}\"\nca = \"{}\"",
        issuers.url("https", "/"),
        stranger.authority().ca_file()
    );
    let mut server = Configured::start(&settings(&url, ""));
    let told = server.logged("cannot fetch the keys of authentication.jwt");
    assert!(told.contains("certificate"), "{told}");
    assert_eq!(
        reason(&server, &issuer.token("p", HOUR, "")),
        ReasonCode::ServerUnavailable
    );
    assert!(!issuers.has_heard_more());
}

#[test]
fn settings_that_would_let_in_anybody_are_refused() {
    let refused = |settings: &str| {
        let listener =
            "[[listeners]]\naddress = \"127.0.0.1:0\"\nauthentication = [\"jwt\"]\n[authentication.jwt]\n";
        Configured::refused(&format!("{listener}{settings}")).stderr
    };
    let told = refused("");
    for missing in [
        "`keys_file` or `keys_url`",
        "whose tokens count",
        "without an audience",
    ] {
        assert!(told.contains(missing), "{missing} in {told}");
    }
    let complete = "issuer = \"i\"\naudiences = [\"a\"]\n";
    let told = refused(&format!("{complete}keys_url = \"http://issuer.example/\"\n"));
    assert!(told.contains("use `https`"), "{told}");
    let told = refused(&format!("{complete}keys_url = \"https://u:p@issuer.example/\"\n"));
    assert!(told.contains("before `@`"), "{told}");
    for algorithm in ["none", "HS256"] {
        let told = refused(&format!("{complete}algorithms = [\"{algorithm}\"]\n"));
        assert!(told.contains("unknown variant"), "{told}");
    }
    let told = refused(&format!("{complete}keys_file = \"/nowhere/keys.json\"\n"));
    assert!(
        told.contains("`authentication.jwt.keys_file`: cannot read"),
        "{told}"
    );
}
