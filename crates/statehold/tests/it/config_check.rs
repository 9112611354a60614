//! `config check` refuses what `serve` refuses, with the same words.

use std::path::Path;

use tempfile::TempDir;

use crate::authority::Authority;
use crate::configured::Configured;
use crate::harness::{Ran, run, statehold};

const LISTENER: &str = "[[listeners]]\naddress = \"127.0.0.1:0\"\n";

/// Settings with a mistake in a file that they name, and words that have to be in what is said. `FILES` stands for a directory.
const MISTAKES: &[(&str, &str)] = &[
    (
        "[listeners.tls]\ncert = \"FILES/missing\"\nkey = \"FILES/good.key\"\n",
        "listeners[0].tls.cert",
    ),
    // A directory: a file that cannot be read, by root either.
    (
        "[listeners.tls]\ncert = \"FILES/good.pem\"\nkey = \"FILES\"\n",
        "listeners[0].tls.key",
    ),
    (
        "[listeners.tls]\ncert = \"FILES/good.pem\"\nkey = \"FILES/other.key\"\n",
        "listeners[0].tls",
    ),
    (
        "[listeners.tls]\ncert = \"FILES/good.pem\"\nkey = \"FILES/good.key\"\nclient_ca = \"FILES/text\"\n",
        "listeners[0].tls.client_ca",
    ),
    (
        "[listeners.tls]\ncert = \"FILES/good.pem\"\nkey = \"FILES/good.key\"\nclient_ca = \"FILES/ca.pem\"\ncrl = [\"FILES/missing\"]\n",
        "listeners[0].tls.crl[0]",
    ),
    (
        "authentication = [\"password\"]\n[authentication.password]\nfile = \"FILES/missing\"\n",
        "authentication.password.file",
    ),
    (
        "authentication = [\"password\"]\n[authentication.password]\nfile = \"FILES/text\"\n",
        "text:1: not a line",
    ),
    (
        "authentication = [\"scram\"]\n[authentication.scram]\nfile = \"FILES/text\"\n",
        "text:1: not a line",
    ),
    (
        "authentication = [\"jwt\"]\n[authentication.jwt]\nissuer = \"https://issuer.example\"\naudiences = [\"mqtt\"]\nkeys_file = \"FILES/missing\"\n",
        "authentication.jwt.keys_file",
    ),
    (
        "authorization = \"fleet\"\n[authorization.fleet]\nfile = \"FILES/missing.yaml\"\n",
        "authorization.fleet.file",
    ),
    (
        "authorization = \"fleet\"\n[authorization.fleet]\nfile = \"FILES/text\"\n",
        "authorization.fleet.file",
    ),
    ("[admin]\ntokens = \"FILES/missing\"\n", "admin.tokens"),
    (
        "[admin.tls]\ncert = \"FILES/good.pem\"\nkey = \"FILES/other.key\"\n",
        "admin.tls",
    ),
    ("[encryption]\nkey_file = \"FILES/missing\"\n", "FILES/missing"),
    (
        "[otlp]\nendpoint = \"https://127.0.0.1:4318\"\nca = \"FILES/missing\"\n",
        "otlp",
    ),
    ("[audit]\nfile = \"FILES/missing/audit.log\"\n", "audit.file"),
    (
        "[cluster]\npeer_listen = \"127.0.0.1:0\"\nsize = 1\n\
         tls = { cert = \"FILES/good.pem\", key = \"FILES/other.key\", ca = \"FILES/ca.pem\" }\n",
        "cluster.tls",
    ),
    (
        "[[listeners]]\naddress = \"0.0.0.0:18853\"\nallow_anonymous = true\n[[listeners]]\naddress = \"127.0.0.1:18853\"\n",
        "`listeners[2].address`: 127.0.0.1:18853 is taken by `listeners[1].address` = 0.0.0.0:18853",
    ),
    (
        "[[listeners]]\naddress = \"unix:/tmp/a.sock\"\n[[listeners]]\naddress = \"unix:/tmp/a.sock\"\n",
        "`listeners[2].address`: unix:/tmp/a.sock is taken by `listeners[1].address`",
    ),
    (
        "[[listeners]]\naddress = \"127.0.0.1:18854\"\n\
         [cluster]\npeer_listen = \"127.0.0.1:18854\"\nsize = 1\ninsecure_peers = true\n",
        "`cluster.peer_listen`: 127.0.0.1:18854 is taken by `listeners[1].address`",
    ),
];

/// Files that are right, and some that are not.
fn files() -> TempDir {
    let authority = Authority::new();
    let directory = TempDir::new().expect("a directory");
    let put = |from: &Path, name: &str| {
        std::fs::copy(from, directory.path().join(name)).expect("copied");
    };
    let (good, other) = (authority.issue("good"), authority.issue("other"));
    put(&good.cert, "good.pem");
    put(&good.key, "good.key");
    put(&other.key, "other.key");
    put(Path::new(&authority.ca_file()), "ca.pem");
    std::fs::write(directory.path().join("text"), "nothing that any setting takes\n").expect("written");
    directory
}

fn check(settings: &str) -> Ran {
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), settings).expect("written");
    let name = file.path().to_str().expect("text");
    let options = ["--admin", "127.0.0.1:0", "--data-dir", "/no/such/directory"];
    let mut command = statehold(&[&["config", "check", name], &options[..]].concat());
    command.env_remove("STATEHOLD_LOG");
    run(command)
}

/// A line without the name of the settings' file, which is another one each time.
fn without_file(line: &str) -> &str {
    let line = line.trim_start_matches("statehold: ");
    let place = line.find(".toml:").map(|at| at + ".toml".len());
    let place = place.or_else(|| line.starts_with("/tmp/").then(|| line.find(':')).flatten());
    place.map_or(line, |at| &line[at..])
}

#[test]
fn a_file_that_serve_refuses_is_refused_with_the_same_words() {
    let directory = files();
    let path = directory.path().to_str().expect("text");
    for (mistake, named) in MISTAKES {
        let settings = format!("{LISTENER}{mistake}").replace("FILES", path);
        let checked = check(&settings).expect(3);
        assert!(
            checked.stderr.contains(&named.replace("FILES", path)),
            "{settings}\n{checked:?}"
        );
        let served = Configured::refused(&settings);
        for line in checked.stderr.lines().map(without_file) {
            assert!(
                served.stderr.contains(line),
                "{settings}\n{line}\n{}",
                served.stderr
            );
        }
    }
}

#[test]
fn all_mistakes_are_said_at_once_and_nothing_is_made() {
    let directory = files();
    let path = directory.path().to_str().expect("text");
    let settings = format!(
        "{LISTENER}authentication = [\"password\"]\n[listeners.tls]\ncert = \"{path}/a\"\nkey = \"{path}/b\"\n\
         [authentication.password]\nfile = \"{path}/c\"\n[audit]\nfile = \"{path}/audit.log\"\n"
    );
    let checked = check(&settings).expect(3);
    assert_eq!(checked.stderr.lines().count(), 2, "{checked:?}");
    assert!(!directory.path().join("audit.log").exists());
}

#[test]
fn what_serve_takes_is_valid() {
    let directory = files();
    let path = directory.path().to_str().expect("text");
    let settings = format!(
        "{LISTENER}[listeners.tls]\ncert = \"{path}/good.pem\"\nkey = \"{path}/good.key\"\n\
         [[listeners]]\naddress = \"127.0.0.1:0\"\n[[listeners]]\naddress = \"127.0.0.1:0\"\n"
    );
    check(&settings).expect(0);
    Configured::start(&settings).terminate();
}

#[test]
fn files_with_a_byte_order_mark_are_taken() {
    let directory = TempDir::new().expect("a directory");
    let path = directory.path().to_str().expect("text");
    let put = |name: &str, text: &str| {
        let file = directory.path().join(name);
        std::fs::write(&file, format!("\u{feff}{text}")).expect("written");
        file.to_str().expect("text").to_owned()
    };
    let secret = put("secret", "pencil");
    let scram = run(statehold(&["scram", "pump", "--password-file", &secret])).expect(0);
    put("clients.scram", scram.text());
    let passwords = directory.path().join("clients.passwd");
    let passwords = passwords.to_str().expect("text");
    run(statehold(&[
        "passwd",
        passwords,
        "pump",
        "--password-file",
        &secret,
    ]))
    .expect(0);
    let text = std::fs::read_to_string(passwords).expect("readable");
    put("clients.passwd", &text);
    // The mark is not taken for a part of the first name.
    run(statehold(&[
        "passwd",
        passwords,
        "pump",
        "--password-file",
        &secret,
    ]))
    .expect(0);
    let text = std::fs::read_to_string(passwords).expect("readable");
    assert_eq!(text.matches("pump").count(), 1, "{text:?}");
    put("clients.passwd", &text);
    let token = run(statehold(&["admin-token", "ops", "--scope", "read"])).expect(0);
    put("admin.tokens", token.text());
    put("policy.yaml", "rules: []\n");
    put("policy.json", "{\"rules\": []}\n");
    put("policy.toml", "rules = []\n");
    let settings = format!(
        "\u{feff}[[listeners]]\naddress = \"127.0.0.1:0\"\nauthentication = [\"password\", \"scram\"]\nauthorization = \"yaml\"\n\
         [admin]\ntokens = \"{path}/admin.tokens\"\n[authentication]\npassword = {{ file = \"{passwords}\" }}\n\
         scram = {{ file = \"{path}/clients.scram\" }}\n[authorization]\nyaml = {{ file = \"{path}/policy.yaml\" }}\n\
         json = {{ file = \"{path}/policy.json\" }}\ntoml = {{ file = \"{path}/policy.toml\" }}\n"
    );
    check(&settings).expect(0);
    let server = Configured::start(&settings);
    let with_password = ["--username", "pump", "--password-file", &secret];
    let ran = server.run("mqtt", &[&["get", "k"][..], &with_password].concat());
    assert!(!ran.stderr.contains("not authorized to connect"), "{ran:?}");
    server.terminate();
}
