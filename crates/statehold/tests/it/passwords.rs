//! Listeners that ask for user name and password, and those who try to guess them.

use std::net::Ipv4Addr;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use client::protocol::ReasonCode;
use client::protocol::packet::{Packet, ProtocolVersion};
use tempfile::TempDir;

use crate::configured::Configured;
use crate::enhanced::connack;
use crate::harness::{Ran, run, spawn, statehold};
use crate::steady::Steady;
use crate::support::wire::{Wire, connect, text};

/// The file of passwords.
pub(crate) struct Passwords {
    directory: TempDir,
}

/// Where clients of a test are.
const HERE: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 1);
const ELSEWHERE: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

impl Passwords {
    fn new() -> Self {
        Self {
            directory: TempDir::new().expect("a directory"),
        }
    }

    /// With one name in it.
    pub(crate) fn of(name: &str, password: &str) -> Self {
        let passwords = Self::new();
        passwords.set(name, password, &[]);
        passwords
    }

    fn file(&self) -> PathBuf {
        self.directory.path().join("clients.passwd")
    }

    fn content(&self) -> String {
        std::fs::read_to_string(self.file()).expect("there")
    }

    fn mode(&self) -> u32 {
        let found = std::fs::metadata(self.file()).expect("there");
        found.permissions().mode() & 0o777
    }

    fn passwd(&self, arguments: &[&str]) -> Ran {
        let file = self.file();
        let file = file.to_str().expect("text");
        run(statehold(&[&["passwd", file], arguments].concat()))
    }

    /// With the password on stdin; what the command says.
    fn set(&self, name: &str, password: &str, arguments: &[&str]) -> String {
        let file = self.file();
        let file = file.to_str().expect("text");
        let mut command = spawn(statehold(&[&["passwd", file, name], arguments].concat()));
        command.write_line(password);
        let said = command.line();
        assert_eq!(command.wait(), Some(0));
        said
    }

    pub(crate) fn settings(&self, of_listener: &str) -> String {
        format!(
            "[[listeners]]\naddress = \"127.0.0.1:0\"\nauthentication = [\"password\"]\n{of_listener}\n\
             [authentication.password]\nfile = \"{}\"\n",
            self.file().display()
        )
    }

    fn serve(&self, further: &str) -> Configured {
        Configured::start(&format!("{}{further}", self.settings("")))
    }
}

/// A CONNECT with these, and how it is answered; the connection stays if it is let in.
fn login(
    server: &Configured,
    from: Ipv4Addr,
    version: ProtocolVersion,
    name: &str,
    password: &str,
) -> (Wire, ReasonCode) {
    let address = server.at("mqtt").parse().expect("an address");
    let mut wire = Wire::open_from(from, address).expect("open");
    let mut packet = connect("", true);
    packet.version = version;
    packet.username = Some(text(name));
    packet.password = Some(password.to_owned().into());
    wire.send_connect(packet).expect("sent");
    let reason = connack(&mut wire).reason;
    (wire, reason)
}

fn reason(server: &Configured, name: &str, password: &str) -> ReasonCode {
    login(server, HERE, ProtocolVersion::V5, name, password).1
}

#[test]
fn a_file_is_made_changed_and_kept_as_it_is_otherwise() {
    let passwords = Passwords::new();
    assert_eq!(
        passwords.set("pump", "pencil", &["--attribute", "site=north hall"]),
        "added"
    );
    assert_eq!(passwords.mode(), 0o600);
    let first = passwords.content();
    assert!(
        first.starts_with("pump:$argon2id$v=19$m=19456,t=2,p=1$"),
        "{first}"
    );
    assert!(first.ends_with(" site=north%20hall\n"), "{first}");

    let commented = format!("# the hall\n{first}\n# the yard\n");
    std::fs::write(passwords.file(), &commented).expect("written");
    std::fs::set_permissions(passwords.file(), PermissionsExt::from_mode(0o644)).expect("changed");
    assert_eq!(passwords.set("valve", "brush", &[]), "added");
    assert!(
        passwords.content().starts_with(&commented),
        "{}",
        passwords.content()
    );
    assert_eq!(passwords.mode(), 0o640, "nobody else of the machine");

    assert_eq!(passwords.set("pump", "eraser", &[]), "replaced");
    let replaced = passwords.content();
    assert!(
        !replaced.contains("site=") && !replaced.contains(&first),
        "{replaced}"
    );
    assert_eq!(
        passwords.passwd(&["pump", "--delete"]).expect(0).text(),
        "deleted"
    );
    assert!(
        passwords
            .content()
            .starts_with("# the hall\n\n# the yard\nvalve:")
    );
    passwords.passwd(&["pump", "--delete"]).expect(3);
    let left = std::fs::read_dir(passwords.directory.path()).expect("a directory");
    assert_eq!(left.count(), 1, "nothing is left beside the file");
}

#[test]
fn what_cannot_be_in_the_file_is_refused_and_changes_nothing() {
    let passwords = Passwords::of("pump", "pencil");
    let before = passwords.content();
    passwords.passwd(&["valve"]).expect(3);
    let secret = passwords.directory.path().join("secret");
    std::fs::write(&secret, "brush\r\n").expect("written");
    let secret = secret.to_str().expect("text");
    for name in ["#valve", " valve", ""] {
        passwords.passwd(&[name, "--password-file", secret]).expect(3);
    }
    assert_eq!(passwords.content(), before);
    passwords.passwd(&["valve", "--password-file", secret]).expect(0);
    let server = passwords.serve("");
    assert_eq!(reason(&server, "valve", "brush"), ReasonCode::Success);

    std::fs::write(passwords.file(), "pump:pencil\n").expect("written");
    let told = passwords.passwd(&["pump", "--delete"]);
    assert!(told.stderr.contains("clients.passwd:1: not a line"), "{told:?}");
    assert_eq!(passwords.content(), "pump:pencil\n");
    let told = Configured::refused(&passwords.settings("")).stderr;
    assert!(told.contains("`authentication.password.file`: "), "{told}");
    assert!(!told.contains("pencil"), "{told}");
}

#[test]
fn who_knows_the_password_is_let_in_and_nobody_learns_which_names_there_are() {
    let server = Passwords::of("pump", "pencil").serve("");
    for version in [ProtocolVersion::V5, ProtocolVersion::V311] {
        let said = |name: &str, password: &str| login(&server, HERE, version, name, password).1;
        assert_eq!(said("pump", "pencil"), ReasonCode::Success);
        for (name, password) in [("pump", "pencil "), ("pump", ""), ("nobody", "pencil"), ("", "")] {
            assert_eq!(said(name, password), ReasonCode::BadUserNameOrPassword, "{name}");
        }
    }
    let failures = "statehold_authentication_failures_total{method=\"password\",cause=\"credentials\"}";
    assert_eq!(server.figure(failures), 8.0);
}

#[test]
fn a_changed_file_of_passwords_is_taken_and_a_broken_one_changes_nothing() {
    let passwords = Passwords::of("pump", "pencil");
    let mut server = passwords.serve("");
    let (mut wire, _) = login(&server, HERE, ProtocolVersion::V5, "pump", "pencil");
    passwords.passwd(&["pump", "--delete"]).expect(0);
    passwords.set("valve", "brush", &[]);
    server.signal("HUP");
    server.logged("took the file of authentication.password anew");
    assert_eq!(
        reason(&server, "pump", "pencil"),
        ReasonCode::BadUserNameOrPassword
    );
    assert_eq!(reason(&server, "valve", "brush"), ReasonCode::Success);
    wire.send(&Packet::PingReq).expect("sent");
    assert_eq!(wire.receive().expect("the connection lives"), Packet::PingResp);

    std::fs::write(passwords.file(), "valve\n").expect("written");
    let told = server.logged("what was in it holds");
    assert!(told.contains("clients.passwd:1: not a line"), "{told}");
    assert_eq!(reason(&server, "valve", "brush"), ReasonCode::Success);
}

#[test]
fn an_address_that_failed_too_often_waits_but_not_those_that_were_let_in_before() {
    let passwords = Passwords::of("pump", "pencil");
    passwords.set("valve", "brush", &[]);
    let server = passwords.serve("[authentication]\nfailures_max = 3\nfailures_within = \"1h\"\n");
    assert_eq!(reason(&server, "pump", "pencil"), ReasonCode::Success);
    for name in ["pump", "nobody", "pump"] {
        assert_eq!(reason(&server, name, "wrong"), ReasonCode::BadUserNameOrPassword);
    }
    for name in ["pump", "nobody"] {
        assert_eq!(reason(&server, name, "wrong"), ReasonCode::ConnectionRateExceeded);
    }
    assert_eq!(
        reason(&server, "valve", "brush"),
        ReasonCode::ConnectionRateExceeded,
        "it is not known here"
    );
    assert_eq!(reason(&server, "pump", "pencil"), ReasonCode::Success);
    let (_, elsewhere) = login(&server, ELSEWHERE, ProtocolVersion::V5, "valve", "brush");
    assert_eq!(elsewhere, ReasonCode::Success);
    assert_eq!(
        reason(&server, "valve", "brush"),
        ReasonCode::Success,
        "the password was verified, wherever that was"
    );
    let refused = "statehold_authentication_failures_total{method=\"password\",cause=\"attempts\"}";
    assert_eq!(server.figure(refused), 3.0);
    let log = server.stop();
    assert_eq!(log.matches("too many failed attempts").count(), 1, "{log}");
}

#[test]
fn the_first_method_that_credentials_are_for_decides() {
    let passwords = Passwords::of("pump", "pencil");
    let scram = passwords.directory.path().join("clients.scram");
    std::fs::write(&scram, "").expect("written");
    let server = Configured::start(&format!(
        "[[listeners]]\naddress = \"127.0.0.1:0\"\nauthentication = [\"scram\", \"password\"]\nallow_anonymous = true\n\
         [authentication.scram]\nfile = \"{}\"\n[authentication.password]\nfile = \"{}\"\n",
        scram.display(),
        passwords.file().display()
    ));
    assert_eq!(reason(&server, "pump", "pencil"), ReasonCode::Success);
    assert_eq!(
        reason(&server, "nobody", "pencil"),
        ReasonCode::BadUserNameOrPassword,
        "who says a name is not anonymous"
    );
    let address = server.at("mqtt").parse().expect("an address");
    assert!(Wire::connect(address, connect("c", true)).is_ok());
}

#[test]
fn no_password_is_in_any_log() {
    let secrets = ["Gr4phite-of-pump", "Gr4phite-of-nobody", "Gr4phite-wrong"];
    let passwords = Passwords::of("pump", secrets[0]);
    let server = passwords.serve("[log]\nlevel = \"trace\"\n");
    assert_eq!(reason(&server, "pump", secrets[0]), ReasonCode::Success);
    assert_eq!(
        reason(&server, "nobody", secrets[1]),
        ReasonCode::BadUserNameOrPassword
    );
    assert_eq!(
        reason(&server, "pump", secrets[2]),
        ReasonCode::BadUserNameOrPassword
    );
    let log = server.stop();
    assert!(log.contains("principal=pump"), "{log}");
    assert!(!log.contains("Gr4phite"), "{log}");
    assert!(!log.contains("argon2id"), "{log}");
}

/// From many addresses, so that most of them are computed, and from one, so that most are not.
#[test]
fn guessing_hurts_nobody_who_is_in() {
    const ADDRESSES: u8 = 8;
    const EACH: usize = 250;
    let passwords = Passwords::of("pump", "pencil");
    let server = Configured::start(&format!(
        "{}[authentication]\nfailures_max = 5\n[limits]\nstrangers_max = 100\n[log]\nlevel = \"error\"\n",
        passwords.settings("allow_anonymous = true")
    ));
    let mut steady = Steady::start(&server);
    std::thread::scope(|scope| {
        let server = &server;
        let guessing = (0..ADDRESSES).map(|number| {
            scope.spawn(move || {
                // Half of them are at one address.
                let last = if number.is_multiple_of(2) {
                    100
                } else {
                    101 + number
                };
                let from = Ipv4Addr::new(127, 0, 1, last);
                for guess in 0..EACH {
                    let name = if guess.is_multiple_of(2) { "pump" } else { "nobody" };
                    let (_, said) = login(server, from, ProtocolVersion::V5, name, &guess.to_string());
                    assert_ne!(said, ReasonCode::Success);
                }
            })
        });
        let guessing: Vec<_> = guessing.collect();
        steady.rounds(20);
        assert!(server.figure("statehold_connections_authenticating") <= 100.0);
        for one in guessing {
            one.join().expect("each guess is answered");
        }
    });
    steady.rounds(5);
    steady.end();
    let failures = |cause: &str| {
        let name =
            format!("statehold_authentication_failures_total{{method=\"password\",cause=\"{cause}\"}}");
        server.figure(&name)
    };
    let (computed, refused) = (failures("credentials"), failures("attempts"));
    assert_eq!(computed + refused, f64::from(ADDRESSES) * EACH as f64);
    assert!(refused > 4.0 * computed, "{computed} computed, {refused} not");
    let (_, said) = login(&server, ELSEWHERE, ProtocolVersion::V5, "pump", "pencil");
    assert_eq!(said, ReasonCode::Success, "who knows the password is let in");
}
