//! `config`

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;

use crate::authority::{Authority, Identity};
use crate::configured::Configured;
use crate::harness::{run, statehold};

#[test]
fn the_default_file_is_valid_and_a_mistake_is_named_with_its_line() {
    let default = run(statehold(&["config", "default"])).expect(0);
    let file = tempfile::NamedTempFile::new().expect("a file");
    let name = file.path().to_str().expect("text");
    std::fs::write(file.path(), &default.stdout).expect("written");
    run(statehold(&["config", "check", name])).expect(0);

    std::fs::write(file.path(), "durability = \"disk\"\nno_such_setting = 1\n").expect("written");
    let ran = run(statehold(&["config", "check", name])).expect(3);
    assert!(
        ran.stderr.contains("no_such_setting") && ran.stderr.contains('2'),
        "{}",
        ran.stderr
    );
    run(statehold(&["config", "check", "/no/such/file"])).expect(3);
}

#[test]
fn a_file_that_is_right_with_options_of_the_command_line_alone_is_checked_with_them() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    let name = file.path().to_str().expect("text");
    let authority = Authority::new();
    let Identity { cert, key } = authority.issue("a.example");
    let settings = format!(
        "[cluster]\npeer_listen = \"0.0.0.0:7000\"\njoin = [\"a.example:7000\"]\nsize = 3\n\
         tls = {{ cert = {cert:?}, key = {key:?}, ca = {:?} }}\n",
        authority.ca_file()
    );
    std::fs::write(file.path(), settings).expect("written");
    let ran = run(statehold(&["config", "check", name])).expect(3);
    assert!(ran.stderr.contains("--peer-advertise"), "{ran:?}");
    let options = ["--peer-advertise", "a.example:7000"];
    run(statehold(&[&["config", "check", name], &options[..]].concat())).expect(0);
}

#[test]
fn the_schema_is_json() {
    let schema = run(statehold(&["config", "schema"])).expect(0).json();
    assert!(schema["properties"]["durability"].is_object(), "{schema}");
}

#[test]
fn files_that_others_could_use_are_told_by_config_check_and_by_serve() {
    let directory = tempfile::tempdir().expect("a directory");
    let passwords = directory.path().join("clients.passwd");
    std::fs::write(&passwords, "").expect("written");
    let settings = format!(
        "[[listeners]]\naddress = \"127.0.0.1:0\"\nauthentication = [\"password\"]\n[authentication.password]\nfile = \"{}\"\n",
        passwords.display()
    );
    let file = directory.path().join("statehold.toml");
    std::fs::write(&file, &settings).expect("written");
    let check = || run(statehold(&["config", "check", file.to_str().expect("text")]));

    let set_mode = |mode| std::fs::set_permissions(&passwords, Permissions::from_mode(mode)).expect("ours");
    set_mode(0o644);
    let ran = check().expect(0);
    assert!(
        ran.stderr
            .contains("warning: `authentication.password.file`: every user"),
        "{ran:?}"
    );
    Configured::start(&settings).logged("authentication.password.file`: every user of this machine can read");
    set_mode(0o666);
    for ran in [check().expect(3), Configured::refused(&settings)] {
        assert!(
            ran.stderr
                .contains("`authentication.password.file`: every user of this machine can change"),
            "{ran:?}"
        );
    }
    set_mode(0o600);
    let ran = check().expect(0);
    assert!(!ran.stderr.contains("authentication.password"), "{ran:?}");
}
