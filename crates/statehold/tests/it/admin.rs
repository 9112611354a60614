//! The admin pages of a server that runs: who gets to see them, and what can be changed there.

use std::io::{Read, Write};
use std::net::TcpStream;

use rustls::pki_types::ServerName;
use rustls::{ClientConnection, StreamOwned};
use tempfile::TempDir;

use crate::authority::Authority;
use crate::configured::Configured;
use crate::harness::{run, statehold};

/// A file with one token of each scope, and the tokens.
pub(crate) struct Tokens {
    directory: TempDir,
    pub(crate) read: String,
    pub(crate) write: String,
}

impl Tokens {
    pub(crate) fn new() -> Self {
        let directory = TempDir::new().expect("a directory");
        let make = |name: &str, scope: &str| {
            let made = run(statehold(&["admin-token", name, "--scope", scope])).expect(0);
            let token = made
                .stderr
                .trim_end()
                .rsplit_once(' ')
                .expect("a token")
                .1
                .to_owned();
            assert!(token.starts_with("sth_"), "{made:?}");
            (made.text().to_owned(), token)
        };
        let ((read_line, read), (write_line, write)) = (make("prometheus", "read"), make("ops", "write"));
        let lines = format!("{read_line}\n{write_line}\n");
        std::fs::write(directory.path().join("tokens"), lines).expect("written");
        Self {
            directory,
            read,
            write,
        }
    }

    pub(crate) fn settings(&self) -> String {
        format!(
            "[admin]\ntokens = \"{}/tokens\"\n",
            self.directory.path().display()
        )
    }
}

fn request(method_and_path: &str, token: &str) -> String {
    format!(
        "{method_and_path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n\
         Authorization: Bearer {token}\r\n\r\n"
    )
}

fn status(mut stream: impl Read + Write, request: &str) -> String {
    stream.write_all(request.as_bytes()).expect("sent");
    let mut answer = Vec::new();
    // Over TLS the end may come without a word.
    let _ = stream.read_to_end(&mut answer);
    let answer = String::from_utf8(answer).expect("text");
    answer.split(' ').nth(1).expect("a status line").to_owned()
}

#[test]
fn a_token_of_the_scope_write_has_files_taken_anew() {
    let (authority, tokens) = (Authority::new(), Tokens::new());
    let identity = authority.issue("localhost");
    let mut server = Configured::start(&format!(
        "[[listeners]]\naddress = \"127.0.0.1:0\"\n[listeners.tls]\n{}{}",
        identity.settings(),
        tokens.settings()
    ));
    let address = server.at("admin").to_owned();
    let ask = |request: &str| status(TcpStream::connect(&address).expect("connected"), request);
    assert_eq!(ask(&request("GET /metrics", "sth_wrong")), "401");
    assert_eq!(ask(&request("GET /metrics", &tokens.read)), "200");
    assert_eq!(ask(&request("POST /reload", &tokens.read)), "403");
    assert_eq!(ask(&request("POST /reload", &tokens.write)), "202");
    let line = server.logged("a change was asked for");
    assert!(line.contains("ops") && line.contains("/reload"), "{line}");
    server.logged("took the files of TLS anew");
}

#[test]
fn a_server_that_has_nothing_to_take_anew_lives_on() {
    let tokens = Tokens::new();
    let mut server = Configured::start(&format!(
        "[[listeners]]\naddress = \"127.0.0.1:0\"\n{}",
        tokens.settings()
    ));
    server.signal("HUP");
    server.logged("asked to take files anew");
    server.run("mqtt", &["set", "k", "v"]).expect(0);
}

#[test]
fn others_reach_the_pages_only_with_tls_and_a_token() {
    let (authority, tokens) = (Authority::new(), Tokens::new());
    let listener = "[[listeners]]\naddress = \"127.0.0.1:0\"\n";
    let refuse = |admin: &str| {
        let mut command = statehold(&["serve", "--config"]);
        let directory = TempDir::new().expect("a directory");
        let file = directory.path().join("statehold.toml");
        std::fs::write(&file, format!("{listener}{admin}")).expect("written");
        command
            .arg(&file)
            .args(["--admin", "0.0.0.0:0", "--data-dir"])
            .arg(directory.path().join("data"));
        let ran = run(command).expect(3);
        assert!(
            ran.stderr
                .contains("`admin.address`: 0.0.0.0:0 can be reached by other machines"),
            "{ran:?}"
        );
        assert!(ran.stderr.contains("admin.tokens"), "{ran:?}");
    };
    refuse("");
    refuse(&tokens.settings());

    let identity = authority.issue("localhost");
    let server = Configured::start(&format!(
        "{listener}{}[admin.tls]\n{}",
        tokens.settings(),
        identity.settings()
    ));
    let address = server.at("admin").to_owned();
    let ask = |request: &str| status(tls(&authority, &address), request);
    assert_eq!(ask(&request("GET /metrics", "sth_wrong")), "401");
    assert_eq!(ask(&request("GET /metrics", &tokens.read)), "200");
    assert_eq!(
        ask("GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"),
        "200"
    );
    // Without TLS nothing is said.
    let mut plain = TcpStream::connect(&address).expect("connected");
    plain
        .write_all(request("GET /metrics", &tokens.read).as_bytes())
        .expect("sent");
    let mut answer = Vec::new();
    let _ = plain.read_to_end(&mut answer);
    assert!(!answer.starts_with(b"HTTP"), "{answer:?}");
}

fn tls(authority: &Authority, address: &str) -> StreamOwned<ClientConnection, TcpStream> {
    let name = ServerName::try_from("localhost").expect("a name");
    let connection = ClientConnection::new(authority.client_config(), name).expect("a client");
    StreamOwned::new(connection, TcpStream::connect(address).expect("connected"))
}
