use std::time::Duration;

use super::file::Source;
use super::*;

/// The settings of a file, checked; or the lines that an operator sees.
fn check(text: &str) -> Result<Config, String> {
    let source = Source::of_text(text);
    let config = source.parse().map_err(|error| error.to_string())?;
    let violations = config.violations();
    if violations.is_empty() {
        Ok(config)
    } else {
        Err(source.locate(violations).to_string())
    }
}

fn error(text: &str) -> String {
    check(text).expect_err("the file has a mistake")
}

#[test]
fn an_empty_file_says_the_defaults() {
    assert_eq!(check(""), Ok(Config::default()));
    assert!(Config::default().check().is_ok());
}

#[test]
fn every_kind_of_value_is_read() {
    let config = check(
        r#"
        data_dir = "/var/lib/statehold"
        durability = "memory"
        [[listeners]]
        address = "[::1]:1883"
        [[listeners]]
        address = "0.0.0.0:1884"
        allow_anonymous = true
        [state_store]
        dialect = "sdk"
        bytes_max = "1.5 GiB"
        [limits]
        session_expiry_max = "none"
        keep_alive_max = "5min"
        packet_size_max = 2048
        queue_full = "drop-newest"
        [shared_subscriptions]
        strategy = "hash-topic"
        [admin]
        answer_within = "250ms"
        host_names = ["statehold.example"]
        "#,
    )
    .expect("the file is right");
    assert_eq!(config.durability, Durability::Memory);
    assert_eq!(config.listeners.len(), 2);
    assert_eq!(config.state_store.dialect, DialectChoice::Sdk);
    assert_eq!(config.shared_subscriptions.strategy, ShareStrategy::HashTopic);
    assert_eq!(config.state_store.bytes_max, QuotaMax::At(3 << 29));
    assert_eq!(config.state_store.keys_max, QuotaMax::Auto);
    assert_eq!(config.limits.session_expiry_max, None);
    assert_eq!(config.limits.keep_alive_max, Some(Duration::from_secs(300)));
    assert_eq!(config.limits.packet_size_max, 2048);
    assert_eq!(config.admin.answer_within, Duration::from_millis(250));
}

#[test]
fn memory_is_a_size_a_profile_or_a_word_and_quotas_follow_it() {
    let quota_of = |text: &str| {
        let config = check(text).expect("the file is right");
        let memory = config.limits.memory_max.for_quotas(Some(8 << 30));
        let quota = config.state_store.quota(memory);
        (quota.keys_max, quota.bytes_max)
    };
    for (memory, keys_max, bytes_max) in [
        ("\"tiny\"", 204_800, 100 << 20),
        ("\"low\"", 819_200, 400 << 20),
        ("\"medium\"", 3_670_016, 1_792 << 20),
        ("\"high\"", 11_534_336, 5_632 << 20),
        ("\"64 MiB\"", 65_536, 32 << 20),
        ("\"auto\"", 4_194_304, 2 << 30),
        ("\"none\"", 4_194_304, 2 << 30),
    ] {
        let text = format!("[limits]\nmemory_max = {memory}\n");
        assert_eq!(quota_of(&text), (keys_max, bytes_max), "{memory}");
    }
    let named = "[limits]\nmemory_max = \"tiny\"\n[state_store]\nkeys_max = 7\nbytes_max = \"1 GiB\"\n";
    assert_eq!(quota_of(named), (7, 1 << 30));
    let half = "[state_store]\nkeys_max = \"auto\"\nbytes_max = 9\n";
    assert_eq!(quota_of(half), (4_194_304, 9));
    assert!(error("[limits]\nmemory_max = \"huge\"\n").contains("`huge` is not a size"));
    assert!(error("[state_store]\nkeys_max = \"many\"\n").contains("`many` is not a number"));
    assert!(error("[state_store]\nkeys_max = -1\n").contains("`-1` is negative"));
}

#[test]
fn packets_may_have_all_sizes_of_the_products_memory_profiles() {
    for (text, bytes) in [
        ("4 MiB", 4 << 20),
        ("16 MiB", 16 << 20),
        ("64 MiB", 64 << 20),
        ("256 MiB", 256 << 20),
    ] {
        let config = check(&format!("[limits]\npacket_size_max = \"{text}\"\n")).expect("the file is right");
        assert_eq!(config.limits.packet_size_max, bytes);
        assert_eq!(config.limits.for_broker(None).packet_size_max, bytes);
    }
}

#[test]
fn an_unknown_setting_names_its_place_and_what_is_near() {
    assert_eq!(
        error("durability = \"disk\"\n\n[limits]\nrecieve_maximum = 5\n"),
        "statehold.toml:4:1: `limits.recieve_maximum`: there is no such setting; did you mean `limits.receive_maximum`?"
    );
    assert_eq!(
        error("receive_maximum = 5\n"),
        "statehold.toml:1:1: `receive_maximum`: there is no such setting; did you mean `limits.receive_maximum`?"
    );
    assert_eq!(
        error("[colour]\nred = 1\n"),
        "statehold.toml:1:2: `colour`: there is no such setting"
    );
    assert_eq!(
        error("[[listeners]]\naddress = \"127.0.0.1:1\"\nadress = 1\n"),
        "statehold.toml:3:1: `listeners[0].adress`: there is no such setting; did you mean `listeners[].address`?"
    );
}

#[test]
fn a_table_of_text_has_names_of_its_own() {
    let text = "[authentication.jwt.attributes]\nsite = \"site\"\n\"a.b\" = \"https://example.com/c\"\n";
    let attributes = check(text)
        .expect("the file is right")
        .authentication
        .jwt
        .attributes;
    assert_eq!(attributes.len(), 2);
    assert!(
        error("[authentication.jwt]\nattributes = { site = 1 }\n")
            .contains("authentication.jwt.attributes.site")
    );
}

#[test]
fn a_listener_has_a_policy_by_name() {
    let fleet = "[[listeners]]\naddress = \"127.0.0.1:1883\"\nauthorization = \"fleet\"\n";
    let config = check(&format!(
        "{fleet}[authorization.fleet]\nfile = \"fleet.yaml\"\n[authorization.a-1]\nfile = \"a\""
    ));
    let config = config.expect("the file is right");
    assert_eq!(config.authorization["fleet"].file, Path::new("fleet.yaml"));
    let id = authorization::policy_id(&config.authorization, &config.listeners[0]);
    assert_eq!(id, Some(mqtt::policies::PolicyId(1)));
    assert_eq!(
        authorization::policy_id(&config.authorization, &Listener::default()),
        None
    );

    for (text, expected) in [
        (
            fleet,
            "statehold.toml:3:1: `listeners[0].authorization`: there is no `[authorization.fleet]`",
        ),
        ("[authorization.fleet]", "missing field `file`"),
        (
            "[authorization.fleet]\nfile = \"\"",
            "2:1: `authorization.fleet.file`: a file is needed",
        ),
        (
            "[authorization.fleet]\nfiles = \"a\"",
            "2:1: `authorization.fleet.files`: there is no such setting; did you mean `authorization.NAME.file`?",
        ),
        ("[authorization]\nfile = \"a\"", "`authorization.file`"),
        (
            "[authorization.\"a b\"]\nfile = \"a\"",
            "a name is 1 to 64 letters",
        ),
    ] {
        let error = error(text);
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn an_address_is_taken_once() {
    let listeners = |addresses: &[&str]| {
        let one = |address| format!("[[listeners]]\nallow_anonymous = true\naddress = \"{address}\"\n");
        addresses.iter().map(one).collect::<String>()
    };
    for fine in [
        &["127.0.0.1:0", "127.0.0.1:0", "0.0.0.0:0"][..],
        &["127.0.0.1:1883", "127.0.0.2:1883", "127.0.0.1:1884"],
        &["0.0.0.0:1883", "[::]:1883", "unix:/tmp/a", "unix:/tmp/b"],
    ] {
        check(&listeners(fine)).expect("each has an address of its own");
    }
    for twice in [
        ["127.0.0.1:1883", "127.0.0.1:1883"],
        ["127.0.0.1:1883", "0.0.0.0:1883"],
        ["[::]:1883", "[::1]:1883"],
        ["unix:/tmp/a", "unix:/tmp/a"],
    ] {
        let error = error(&listeners(&twice));
        let expected = format!(
            "statehold.toml:6:1: `listeners[1].address`: {} is taken by `listeners[0].address` = {}: each needs an address of its own",
            twice[1], twice[0]
        );
        assert_eq!(error, expected);
    }
    let admin = format!(
        "{}[admin]\naddress = \"127.0.0.1:1883\"\n",
        listeners(&["0.0.0.0:1883"])
    );
    assert!(error(&admin).contains("`admin.address`: 127.0.0.1:1883 is taken by `listeners[0].address`"));
}

#[test]
fn all_unknown_settings_are_named_at_once() {
    assert_eq!(error("a_setting = 1\nanother = 2\n").lines().count(), 2);
}

#[test]
fn a_bad_value_names_its_setting_and_its_place() {
    assert_eq!(
        error("durability = \"dsk\"\n"),
        "statehold.toml:1:14: `durability`: unknown variant `dsk`, expected `disk` or `memory`"
    );
    assert_eq!(
        error("[limits]\n  connect_timeout = 30\n"),
        "statehold.toml:2:21: `limits.connect_timeout`: invalid type: integer `30`, expected a string"
    );
    assert_eq!(
        error("[limits]\nqueue_bytes_max = \"a lot\"\n"),
        "statehold.toml:2:19: `limits.queue_bytes_max`: `a lot` is not a size; write for example \"64 KiB\", \"256 MiB\""
    );
    assert_eq!(
        error("[[listeners]]\naddress = \"127.0.0.1:1\"\n[[listeners]]\naddress = \"localhost\"\n"),
        "statehold.toml:4:11: `listeners[1].address`: `localhost` is not an address; write for example \"127.0.0.1:1883\", \"[::1]:1883\", \"unix:/run/statehold.sock\""
    );
    let zero = error("[limits]\nreceive_maximum = 0\n");
    assert!(
        zero.starts_with("statehold.toml:2:19: `limits.receive_maximum`: invalid value: integer `0`"),
        "{zero}"
    );
}

#[test]
fn text_that_is_not_toml_names_its_place() {
    let message = error("durability = \"disk\"\n[limits\n");
    assert!(message.starts_with("statehold.toml:2:8: "), "{message}");
}

#[test]
fn values_that_do_not_fit_together_name_their_place() {
    assert_eq!(
        error("\n[[listeners]]\naddress = \"0.0.0.0:1883\"\n"),
        "statehold.toml:2:3: `listeners[0].allow_anonymous`: 0.0.0.0:1883 can be reached by other machines, and clients are \
         not asked who they are: set `allow_anonymous = true` to accept that, or listen on a loopback address"
    );
    let admin = error("[admin]\naddress = \"10.0.0.1:8080\"\n");
    assert!(
        admin.starts_with("statehold.toml:2:1: `admin.address`: 10.0.0.1:8080 can be reached"),
        "{admin}"
    );
    let open = "[admin]\naddress = \"0.0.0.0:8080\"\n";
    let (tokens, tls) = ("tokens = \"t\"\n", "[admin.tls]\ncert = \"c\"\nkey = \"k\"\n");
    for text in [format!("{open}{tokens}"), format!("{open}{tls}")] {
        assert!(error(&text).contains("`admin.address`: 0.0.0.0:8080"), "{text}");
    }
    assert!(check(&format!("{open}{tokens}{tls}")).is_ok());
    assert!(error("[admin.tls]\nkey = \"k\"\n").contains("`admin.tls`: a certificate and its key"));
    for text in [
        "data_dir = \"\"\n",
        "[admin]\nanswer_within = \"0s\"\n",
        "[snapshot]\nlog_bytes_min = 10\n",
    ] {
        assert!(error(text).starts_with("statehold.toml:"), "{text}");
    }
    assert!(error("listeners = []\n").contains("at least one listener is needed"));
    assert!(error("[limits]\npacket_size_max = 5\n").contains("between 1 KiB and 268435460 bytes"));
    for bytes in [255, 65_528] {
        let message = error(&format!("[limits]\ntopic_bytes_max = {bytes}\n"));
        assert!(message.contains("between 256 and 65527 bytes"), "{message}");
    }
    assert!(error("[log]\nlevel = \"loud=very\"\n").contains("`log.level`"));
}

#[test]
fn whoever_can_be_reached_by_others_asks_who_they_are() {
    let tls = "[listeners.tls]\ncert = \"c\"\nkey = \"k\"\n";
    let refused = |rest: &str| {
        let text = format!("[[listeners]]\n{rest}");
        let message = error(&text);
        assert!(
            message.contains("`listeners[0].allow_anonymous`"),
            "{rest}: {message}"
        );
        assert!(
            check(&text.replacen("\n", "\nallow_anonymous = true\n", 1)).is_ok(),
            "{rest}"
        );
    };
    for address in [
        "0.0.0.0:1",
        "[::]:1",
        "10.0.0.1:1",
        "[2001:db8::1]:1",
        "[fe80::1]:1",
        "169.254.0.1:1",
    ] {
        let address = format!("address = \"{address}\"\n");
        refused(&address);
        refused(&format!("{address}{tls}"));
        refused(&format!(
            "{address}{tls}client_ca = \"a\"\nclient_cert = \"optional\"\n"
        ));
        refused(&format!("{address}[listeners.websocket]\n"));
        refused(&format!(
            "{address}[listeners.websocket]\nallowed_origins = [\"https://a.example\"]\n"
        ));
        refused(&format!("{address}{tls}[listeners.websocket]\n"));
        refused(&format!("{address}proxy_protocol = true\n"));
        let asks = format!("[[listeners]]\n{address}{tls}client_ca = \"a\"\n");
        assert!(check(&asks).is_ok(), "{asks}");
    }
    // A web page and a proxy bring in others, wherever they are.
    refused("address = \"127.0.0.1:1\"\n[listeners.websocket]\n");
    refused("address = \"127.0.0.1:1\"\nproxy_protocol = true\n");
    refused("address = \"unix:/run/s\"\nproxy_protocol = true\n");
    for local in ["127.0.0.1:1", "127.9.9.9:1", "[::1]:1", "unix:/run/s"] {
        assert!(
            check(&format!("[[listeners]]\naddress = \"{local}\"\n")).is_ok(),
            "{local}"
        );
    }
    for mapped in ["[::ffff:127.0.0.1]:1", "[::ffff:10.0.0.1]:1"] {
        let message = error(&format!(
            "[[listeners]]\naddress = \"{mapped}\"\nallow_anonymous = true\n"
        ));
        assert!(message.contains("is an address of version 4"), "{message}");
    }
    // A name could mean anything tomorrow.
    assert!(error("[[listeners]]\naddress = \"localhost:1\"\n").contains("is not an address"));
}

#[test]
fn settings_of_tls_that_mean_nothing_are_refused() {
    let tls = |rest: &str| {
        error(&format!(
            "[[listeners]]\naddress = \"127.0.0.1:1\"\n[listeners.tls]\ncert = \"c\"\nkey = \"k\"\n{rest}\n"
        ))
    };
    assert!(tls("crl = [\"l\"]").contains("`listeners[0].tls.crl`: without `client_ca`"));
    assert!(
        tls("client_cert = \"optional\"").contains("`listeners[0].tls.client_cert`: without `client_ca`")
    );
    assert!(tls("client_rsa_bits_min = 1024").contains("between 2048 and 8192"));
    assert!(tls("client_ec_bits_min = 192").contains("between 256 and 521"));
    assert!(tls("min_version = \"1.1\"").contains("unknown variant `1.1`"));
}

#[test]
fn a_unix_socket_is_local_and_alone_has_a_mode() {
    let unix = "[[listeners]]\naddress = \"unix:/run/statehold.sock\"\n";
    // No web page reaches it either.
    let config =
        check(&format!("{unix}mode = \"0600\"\n[listeners.websocket]\n")).expect("the file is right");
    assert_eq!(
        config.listeners[0].address.to_string(),
        "unix:/run/statehold.sock"
    );
    assert_eq!(
        error(&format!("{unix}mode = \"0999\"\n")),
        "statehold.toml:3:8: `listeners[0].mode`: `0999` is not a mode; write for example \"0660\""
    );
    assert_eq!(
        error("[[listeners]]\naddress = \"127.0.0.1:1\"\nmode = \"0600\"\n"),
        "statehold.toml:3:1: `listeners[0].mode`: only a Unix socket has a mode"
    );
}

#[test]
fn the_command_line_goes_before_the_file() {
    let overrides = Overrides {
        listen: vec!["127.0.0.1:0".parse().expect("an address")],
        admin: Some("127.0.0.1:0".parse().expect("an address")),
        data_dir: Some(PathBuf::from("elsewhere")),
        durability: Some(Durability::Memory),
        ..Overrides::default()
    };
    let config = Config::load(None, &overrides).expect("loopback addresses are accepted");
    assert_eq!(config.listeners, [Listener::at(overrides.listen[0].clone())]);
    assert_eq!(config.data_dir, PathBuf::from("elsewhere"));
    assert_eq!(config.durability, Durability::Memory);
}

#[test]
fn an_open_listener_of_the_command_line_is_refused_too() {
    let mut overrides = Overrides {
        listen: vec!["0.0.0.0:1883".parse().expect("an address")],
        ..Overrides::default()
    };
    let message = Config::load(None, &overrides)
        .expect_err("other machines can reach it")
        .to_string();
    assert!(message.contains("allow_anonymous"), "{message}");
    overrides.allow_anonymous = true;
    assert!(Config::load(None, &overrides).is_ok());
}

#[test]
fn a_missing_file_is_named() {
    let message = Config::load(Some(Path::new("/nowhere/statehold.toml")), &Overrides::default());
    let message = message.expect_err("there is no such file").to_string();
    assert!(
        message.starts_with("cannot read the settings file /nowhere/statehold.toml: "),
        "{message}"
    );
}

#[test]
fn the_example_file_says_the_defaults_with_and_without_its_comment_signs() {
    let example = Config::default_toml();
    assert_eq!(check(&example), Ok(Config::default()), "{example}");
    let uncommented: String = example.lines().map(uncomment).collect();
    assert_eq!(check(&uncommented), Ok(Config::default()), "{uncommented}");
}

/// A setting is commented out by a sign without a space; prose has a space.
fn uncomment(line: &str) -> String {
    let prose = line.starts_with("# ");
    format!("{}\n", if prose { line } else { line.trim_start_matches('#') })
}

#[test]
fn every_setting_is_described() {
    for setting in settings::all() {
        assert!(
            setting.description.len() > 10,
            "`{}` has no description",
            setting.path
        );
        let has_default = !setting.default.is_null() || setting.is_table() || !setting.is_always_there();
        assert!(has_default, "`{}` has no default", setting.path);
    }
}

#[test]
fn the_pages_in_docs_are_current() {
    check_page("../../docs/configuration.md", &Config::reference_markdown());
    check_page("../../docs/configuration.schema.json", &Config::schema_json());
    check_page("../../docs/statehold.example.toml", &Config::default_toml());
}

fn check_page(path: &str, expected: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, expected).expect("docs/ can be written");
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        found == expected,
        "{} is not current: run `UPDATE=1 cargo test -p server config`",
        path.display()
    );
}

#[test]
fn the_limits_of_the_settings_are_those_of_the_broker() {
    assert_eq!(
        Limits::default().for_broker(None),
        mqtt::limits::Limits::default()
    );
}
