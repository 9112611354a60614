//! `statehold certs`, and the page that shows it.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use tempfile::TempDir;

use crate::configured::Configured;
use crate::harness::{Ran, run, statehold};

const PAGE: &str = include_str!("../../../../docs/transports.md");

fn run_in(directory: &Path, arguments: &[&str]) -> Ran {
    let mut command = statehold(arguments);
    command.current_dir(directory);
    run(command)
}

/// The blocks of the section that shows it, each with its language.
fn blocks() -> Vec<(&'static str, &'static str)> {
    let section = PAGE.split("### Trying it out").nth(1).expect("the section");
    let section = section.split("\n### ").next().expect("split has a first part");
    let fenced = section.split("```").skip(1).step_by(2);
    fenced
        .map(|block| block.split_once('\n').expect("a language"))
        .collect()
}

#[test]
fn what_the_page_says_works() {
    let directory = TempDir::new().expect("a directory");
    let [("sh", making), ("toml", settings), ("sh", connecting)] = blocks()[..] else {
        panic!("{:?}", blocks());
    };
    for line in making.lines() {
        let words: Vec<_> = line.split(' ').skip(1).collect();
        run_in(directory.path(), &words).expect(0);
    }
    let inside = |text: &str| text.replace("certs/", &format!("{}/certs/", directory.path().display()));
    let mut server = Configured::start(&inside(settings).replace(":8883", ":0"));
    let line = inside(connecting);
    let words: Vec<_> = line.split_whitespace().skip(1).collect();
    server.run("mqtts", &words).expect(0);
    let without: Vec<_> = words
        .iter()
        .copied()
        .take_while(|word| *word != "--cert")
        .collect();
    server.run("mqtts", &without).expect(4);
    assert!(
        server
            .logged("rejected handshake")
            .contains("the client has no certificate")
    );
}

#[test]
fn files_are_for_their_owner_say_what_they_are_and_are_not_replaced() {
    let directory = TempDir::new().expect("a directory");
    let certs = |arguments: &[&str]| {
        let mut all = vec!["certs"];
        all.extend_from_slice(arguments);
        run_in(directory.path(), &all)
    };
    let missing = certs(&["server", "localhost"]).expect(5);
    assert!(
        missing.stderr.contains("statehold certs ca --out certs"),
        "{missing:?}"
    );
    certs(&["ca"]).expect(0);
    certs(&["client", "pump-7", "--unit", "north", "--valid", "2d"]).expect(0);
    for name in ["ca.pem", "ca.key", "pump-7.pem", "pump-7.key"] {
        let file = directory.path().join("certs").join(name);
        let mode = std::fs::metadata(&file).expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
        let text = std::fs::read_to_string(&file).expect("text");
        assert!(text.starts_with("# Statehold test: "), "{text}");
    }
    let again = certs(&["client", "pump-7"]).expect(3);
    assert!(again.stderr.contains("--force"), "{again:?}");
    let again = certs(&["ca"]).expect(3);
    assert!(again.stderr.contains("ca.pem is there already"), "{again:?}");
    certs(&["client", "pump-7", "--force"]).expect(0);
    certs(&["client", "../pump"]).expect(3);
    certs(&["server", "no name"]).expect(3);
}

#[test]
fn each_certificate_is_for_its_purpose() {
    let directory = TempDir::new().expect("a directory");
    for arguments in [
        ["certs", "ca"].as_slice(),
        &["certs", "server", "localhost"],
        &["certs", "node", "node-a", "127.0.0.1"],
    ] {
        run_in(directory.path(), arguments).expect(0);
    }
    let at = |name: &str| format!("{}/certs/{name}", directory.path().display());
    let mut server = Configured::start(&format!(
        "[[listeners]]\naddress = \"127.0.0.1:0\"\n[listeners.tls]\ncert = {:?}\nkey = {:?}\nclient_ca = {:?}\n",
        at("localhost.pem"),
        at("localhost.key"),
        at("ca.pem")
    ));
    let set = |server: &Configured, name: &str| {
        let (cafile, cert, key) = (
            at("ca.pem"),
            at(&format!("{name}.pem")),
            at(&format!("{name}.key")),
        );
        server.run(
            "mqtts",
            &[
                "set", "k", "v", "--cafile", &cafile, "--cert", &cert, "--key", &key,
            ],
        )
    };
    set(&server, "node-a").expect(0);
    set(&server, "localhost").expect(4);
    assert!(server.logged("rejected handshake").contains("extended key usage"));
    let expiry = crate::harness::admin_page(server.at("admin"), "/metrics");
    assert!(
        expiry.contains("subject=\"CN=localhost, O=Statehold test\""),
        "{expiry}"
    );
}
