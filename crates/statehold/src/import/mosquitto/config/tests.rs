use super::*;

/// A directory with these files, and the settings that its `mosquitto.conf` becomes.
fn settings(files: &[(&str, &str)]) -> Settings {
    let directory = tempfile::TempDir::new().expect("a directory");
    for (name, text) in files {
        let text = text.replace("DIR", directory.path().to_str().expect("text"));
        std::fs::write(directory.path().join(name), text).expect("written");
    }
    let directives = directives::read(&directory.path().join("mosquitto.conf")).expect("read");
    let mut settings = translate::translate(&directives, Path::new("/etc/statehold"));
    let files = settings.files();
    check(&files, &mut settings).expect("checked");
    for finding in &mut settings.findings {
        finding.place = finding.place.rsplit('/').next().unwrap_or_default().to_owned();
    }
    settings
}

fn of(text: &str) -> Settings {
    settings(&[("mosquitto.conf", text)])
}

fn places(settings: &Settings) -> Vec<&str> {
    settings
        .findings
        .iter()
        .map(|finding| finding.place.as_str())
        .collect()
}

#[test]
fn without_a_listener_the_own_machine_is_let_in() {
    let settings = of("# nothing\n\n");
    assert!(settings.findings.is_empty(), "{:?}", settings.findings);
    let listener = &settings.listeners[0];
    assert_eq!(
        (listener.address.as_str(), listener.allow_anonymous),
        ("127.0.0.1:1883", true)
    );
}

#[test]
fn listeners_become_listeners() {
    let settings = of("\
listener 1883 ::1
allow_anonymous true
max_connections 7
listener 8883
certfile c.pem
keyfile k.pem
cafile ca.pem
require_certificate true
crlfile crl.pem
listener 9001 localhost
protocol websockets
listener 0 /run/m.sock
");
    let text = settings.files().settings;
    for expected in [
        "address = \"[::1]:1883\"\nallow_anonymous = true\nconnections_max = 7\n",
        "address = \"0.0.0.0:8883\"\n",
        "[listeners.tls]\ncert = \"c.pem\"\nclient_ca = \"ca.pem\"\ncrl = [\"crl.pem\"]\nkey = \"k.pem\"\n",
        "address = \"127.0.0.1:9001\"\nallow_anonymous = true\n[listeners.websocket]\n",
        "address = \"unix:/run/m.sock\"\n",
    ] {
        assert!(text.contains(expected), "{expected}in\n{text}");
    }
    // Only the path of WebSocket is another one.
    assert_eq!(places(&settings), ["mosquitto.conf:11"]);
}

#[test]
fn security_is_of_all_listeners_or_of_each() {
    let security = "listener 1\nallow_anonymous true\nlistener 2\npassword_file DIR/pw\nacl_file DIR/acl\n";
    let files = |text| {
        [
            ("mosquitto.conf", text),
            ("pw", "ann:$7$x\n"),
            ("acl", "user ann\ntopic a/#\n"),
        ]
    };
    let all = settings(&files(security));
    let open: Vec<_> = all
        .listeners
        .iter()
        .map(|listener| listener.allow_anonymous)
        .collect();
    assert_eq!(open, [true, true]);
    assert!(
        all.listeners
            .iter()
            .all(|listener| listener.methods == ["password"] && listener.policy.is_some())
    );
    assert_eq!(all.users, ["ann"]);

    let each = format!("per_listener_settings true\n{security}");
    let each = settings(&files(&each));
    assert!(each.listeners[0].allow_anonymous && each.listeners[0].methods.is_empty());
    assert!(!each.listeners[1].allow_anonymous && each.listeners[1].methods == ["password"]);
    assert_eq!(each.listeners[0].policy, None);
    assert_eq!(each.policies.len(), 1);
}

#[test]
fn limits_become_limits() {
    let settings = of("\
max_inflight_messages 20
max_queued_messages 0
max_packet_size 100000
max_keepalive 60
persistent_client_expiration 2w
sys_interval 0
persistence_location /var/lib/mosquitto/
");
    let text = settings.files().settings;
    for expected in [
        "inflight_max = 20\n",
        "queue_messages_max = 1000\n",
        "packet_size_max = \"100000 B\"\n",
        "keep_alive_max = \"60s\"\n",
        "session_expiry_max = \"14d\"\n",
        "sys_interval = \"none\"\n",
        "data_dir = \"/var/lib/mosquitto/statehold\"\n",
    ] {
        assert!(text.contains(expected), "{expected}in\n{text}");
    }
    assert!(settings.findings.is_empty(), "{:?}", settings.findings);
}

#[test]
fn everything_else_is_told_with_its_line() {
    let settings = of("\
listener 1883 broker.example
mount_point x/
max_qos 1
max_qos 2
retain_available true
upgrade_outgoing_qos false
pid_file /run/m.pid
plugin /usr/lib/p.so
plugin_opt_file x
frobnicate
connection cloud
address cloud.example
topic # both
bridge_cafile ca.pem
psk_file psk
message_size_limit 400000000
");
    let expected = [1, 2, 3, 8, 10, 11, 15].map(|line| format!("mosquitto.conf:{line}"));
    assert_eq!(places(&settings)[..7], expected);
    // A packet of that size there is not: the server says so itself.
    assert_eq!(places(&settings)[7..], ["statehold.toml"]);
}

#[test]
fn included_files_are_read_in_the_order_of_their_names() {
    let directory = tempfile::TempDir::new().expect("a directory");
    let included = directory.path().join("conf.d");
    std::fs::create_dir(&included).expect("made");
    for (name, text) in [
        ("b.conf", "listener 3"),
        ("a.conf", "listener 2"),
        ("c.txt", "listener 4"),
    ] {
        std::fs::write(included.join(name), text).expect("written");
    }
    let main = directory.path().join("mosquitto.conf");
    let text = format!("listener 1\ninclude_dir {}\nlistener 5\n", included.display());
    std::fs::write(&main, text).expect("written");
    let ports = directives::read(&main)
        .expect("read")
        .into_iter()
        .map(|directive| directive.value);
    assert_eq!(ports.collect::<Vec<_>>(), ["1", "2", "3", "5"]);

    std::fs::write(included.join("d.conf"), "include_dir /").expect("written");
    let refused = directives::read(&main).expect_err("one level only").to_string();
    assert!(refused.contains("d.conf:1"), "{refused}");
}

#[test]
fn a_closed_listener_stays_closed() {
    let settings = of("listener 1883\n");
    let listener = &settings.listeners[0];
    assert!(!listener.allow_anonymous && listener.methods == ["password"]);
    assert!(settings.findings.is_empty(), "{:?}", settings.findings);
}

/// The policy of the only listener.
fn policy_of(settings: &Settings) -> Option<&str> {
    let [listener] = &settings.listeners[..] else {
        panic!("{:?}", settings.listeners);
    };
    listener.policy.as_deref()
}

#[test]
fn what_restricts_clients_and_cannot_be_carried_over_lets_nobody_in() {
    for (directive, finding) in [
        ("acl_file DIR/missing", "mosquitto.conf:3"),
        ("mount_point x/", "mosquitto.conf:3"),
        ("clientid_prefixes pump-", "mosquitto.conf:3"),
        (
            "plugin /usr/lib/mosquitto_dynamic_security.so",
            "mosquitto.conf:3",
        ),
        ("auth_plugin /usr/lib/a.so", "mosquitto.conf:3"),
        ("psk_hint a", "mosquitto.conf:3"),
    ] {
        let text = format!("listener 1883\nallow_anonymous true\n{directive}\n");
        let settings = settings(&[("mosquitto.conf", &text)]);
        assert_eq!(policy_of(&settings), Some("nobody"), "{directive}");
        assert_eq!(places(&settings), [finding], "{directive}");
        assert!(settings.findings[0].what.contains("nobody may connect"));
        let (name, policy) = &settings.policies[0];
        assert_eq!(name, "nobody");
        assert!(policy.ends_with("rules: []\n"), "{policy}");
    }
}

#[test]
fn an_access_file_beside_a_plugin_is_carried_over() {
    let settings = settings(&[
        (
            "mosquitto.conf",
            "listener 1883\npassword_file DIR/pw\nacl_file DIR/acl\nplugin /usr/lib/persist.so\n",
        ),
        ("pw", ""),
        ("acl", "user ann\ntopic a/#\n"),
    ]);
    assert_eq!(policy_of(&settings), Some("policy"));
}

#[test]
fn certificates_of_authorities_in_a_directory_let_nobody_in() {
    let settings = of("listener 8883\ncertfile c\nkeyfile k\ncapath /etc/ssl\nrequire_certificate true\n");
    assert_eq!(policy_of(&settings), Some("nobody"));
}

#[test]
fn a_listener_that_cannot_be_bound_as_there_is_for_this_machine() {
    for text in [
        "listener 1883\nbind_interface eth0\nallow_anonymous true\n",
        "port 1883\nbind_address broker.example\nallow_anonymous true\n",
    ] {
        let settings = of(text);
        assert_eq!(settings.listeners[0].address, "127.0.0.1:1883", "{text}");
        assert_eq!(settings.findings.len(), 1, "{:?}", settings.findings);
    }
}

#[test]
fn anonymous_clients_of_one_listener_are_let_in_there_alone() {
    let settings = of("listener 1\nlistener 2\nlistener_allow_anonymous true\n");
    let open: Vec<_> = settings
        .listeners
        .iter()
        .map(|listener| listener.allow_anonymous)
        .collect();
    assert_eq!(open, [false, true]);
}
