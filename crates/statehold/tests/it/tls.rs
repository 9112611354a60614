//! TLS listeners: certificates, authorities of clients, and new files while connections live.

use std::io::{Read, Write};
use std::net::TcpStream;

use crate::authority::{Authority, Identity};
use crate::configured::Configured;

fn listener(identity: &Identity, further: &str) -> String {
    format!(
        "[[listeners]]\naddress = \"127.0.0.1:0\"\n[listeners.tls]\n{}{further}",
        identity.settings()
    )
}

#[test]
fn a_client_that_trusts_the_authority_connects_and_another_does_not() {
    let (authority, other) = (Authority::new(), Authority::new());
    let server = Configured::start(&listener(&authority.issue("localhost"), ""));
    authority.set(&server, &[]).expect(0);
    other.set(&server, &[]).expect(4);
    authority
        .set(&server, &["--server-name", "other.example"])
        .expect(4);
}

#[test]
fn large_values_go_through_both_ways() {
    let authority = Authority::new();
    let server = Configured::start(&listener(
        &authority.issue("localhost"),
        "min_version = \"1.3\"\n",
    ));
    let ca_file = authority.ca_file();
    let value = "x".repeat(120_000);
    server
        .run("mqtts", &["set", "k", &value, "--cafile", &ca_file])
        .expect(0);
    let got = server.run("mqtts", &["get", "k", "--cafile", &ca_file]).expect(0);
    assert_eq!(got.stdout, value.as_bytes());
}

#[test]
fn a_client_is_asked_for_a_certificate_where_an_authority_of_clients_is_set() {
    let (authority, clients) = (Authority::new(), Authority::new());
    let asks = format!("client_ca = \"{}\"\n", clients.ca_file());
    let mut server = Configured::start(&listener(&authority.issue("localhost"), &asks));
    authority.set(&server, &clients.issue("pump").options()).expect(0);
    authority.set(&server, &[]).expect(4);
    let line = server.logged("rejected handshake");
    assert!(line.contains("peer"), "{line}");
    authority
        .set(&server, &authority.issue("stranger").options())
        .expect(4);
}

#[test]
fn who_asks_clients_for_a_certificate_may_be_reached_by_others() {
    let authority = Authority::new();
    let open =
        |further: &str| listener(&authority.issue("localhost"), further).replace("127.0.0.1", "0.0.0.0");
    let refused = Configured::refused(&open(""));
    assert!(
        refused.stderr.contains("`listeners[0].allow_anonymous`"),
        "{refused:?}"
    );
    let asks = format!("client_ca = \"{}\"\n", authority.ca_file());
    let server = Configured::start(&open(&asks));
    authority
        .set(&server, &authority.issue("pump").options())
        .expect(0);
}

#[test]
fn a_client_gets_the_certificate_for_the_name_that_it_asks_for() {
    let (one, two) = (Authority::new(), Authority::new());
    let further = format!(
        "[[listeners.tls.certificates]]\n{}",
        two.issue("two.example").settings()
    );
    let server = Configured::start(&listener(&one.issue("one.example"), &further));
    two.set(&server, &["--server-name", "two.example"]).expect(0);
    one.set(&server, &["--server-name", "one.example"]).expect(0);
    two.set(&server, &["--server-name", "one.example"]).expect(4);
}

#[test]
fn new_files_are_taken_on_sighup_and_connections_stay() {
    let (old, new) = (Authority::new(), Authority::new());
    let identity = old.issue("localhost");
    let mut server = Configured::start(&listener(&identity, ""));
    old.set(&server, &[]).expect(0);
    let ca_file = old.ca_file();
    let mut watch = server.spawn("mqtts", &["watch", "k", "--initial", "--cafile", &ca_file]);
    assert!(watch.line().starts_with("set k "));

    new.issue("localhost").replace(&identity);
    server.signal("HUP");
    server.logged("took the files of TLS anew");
    old.set(&server, &[]).expect(4);
    new.set(&server, &[]).expect(0);
    assert!(watch.line().starts_with("set k "), "the connection lives");
}

#[test]
fn changed_files_are_found_and_broken_ones_change_nothing() {
    let (old, new) = (Authority::new(), Authority::new());
    let identity = old.issue("localhost");
    let mut server = Configured::start(&listener(&identity, ""));

    std::fs::write(&identity.cert, "nothing").expect("written");
    let line = server.logged("the old ones stay in use");
    assert!(line.contains("`listeners[0].tls.cert`"), "{line}");
    assert!(line.contains("localhost.pem contains no certificate"), "{line}");
    old.set(&server, &[]).expect(0);

    new.issue("localhost").replace(&identity);
    server.logged("took the files of TLS anew");
    new.set(&server, &[]).expect(0);
}

#[test]
fn a_file_that_cannot_be_used_is_named_with_its_setting_and_listener() {
    let authority = Authority::new();
    let (one, two) = (authority.issue("one"), authority.issue("two"));
    let check = |identity: &Identity, further: &str, expected: &str| {
        let settings = format!(
            "[[listeners]]\naddress = \"127.0.0.1:0\"\n{}",
            listener(identity, further)
        );
        let ran = Configured::refused(&settings);
        assert!(ran.stderr.contains(expected), "{} has no {expected}", ran.stderr);
    };
    let missing = Identity {
        cert: "/nowhere/server.pem".into(),
        key: one.key.clone(),
    };
    check(
        &missing,
        "",
        "`listeners[1].tls.cert`: cannot use /nowhere/server.pem",
    );
    let strange = Identity {
        cert: one.cert.clone(),
        key: two.key,
    };
    check(&strange, "", "two.key: ");
    check(
        &one,
        "client_ca = \"/nowhere/ca.pem\"\n",
        "`listeners[1].tls.client_ca`",
    );
}

#[test]
fn who_does_not_shake_hands_in_time_is_closed_and_stops_nobody_else() {
    let authority = Authority::new();
    let settings = format!(
        "{}[limits]\nconnect_timeout = \"2s\"\n",
        listener(&authority.issue("localhost"), "")
    );
    let mut server = Configured::start(&settings);
    let mut silent = TcpStream::connect(server.at("mqtts")).expect("connected");
    silent.write_all(b"\x16\x03").expect("sent");
    authority.set(&server, &[]).expect(0);
    // Closed with unread bytes it is reset.
    assert_eq!(silent.read(&mut [0; 16]).unwrap_or(0), 0);
    server.logged("it took longer than limits.connect_timeout");
}

#[test]
fn a_silent_handshake_gives_way_to_one_that_goes_on() {
    let authority = Authority::new();
    let settings = format!(
        "{}[limits]\nstrangers_max = 1\nconnect_timeout = \"2s\"\n",
        listener(&authority.issue("localhost"), "")
    );
    let server = Configured::start(&settings);
    let _silent = TcpStream::connect(server.at("mqtts")).expect("connected");
    // It is closed while the silent one has its time.
    while authority.set(&server, &[]).code != Some(0) {}
}
