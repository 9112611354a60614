//! Reason codes that a server sends because of its settings, or because of who decides for it.

use std::collections::BTreeSet;
use std::time::Duration;

use client::protocol::{ReasonCode, Text};

use super::{Code, check_line, codes_of, refused_connect};
use crate::admin::Tokens;
use crate::asked_server::{AskedServer, Below, Heard, Reply};
use crate::configured::Configured;
use crate::harness::{run, statehold};
use crate::issuer::rfc3339;
use crate::passwords::Passwords;
use crate::raw::{Raw, connect};

/// A server whose client is told a code.
struct Case {
    code: ReasonCode,
    settings: fn(&Around) -> String,
    /// Provokes it.
    provoke: fn(&Configured, &Around) -> Vec<Raw>,
    /// Texts of the line, beside code and address.
    says: &'static [&'static str],
}

/// Parts that settings name.
struct Around {
    asked: AskedServer,
    passwords: Passwords,
    tokens: Tokens,
}

/// Verdict about a user name, of the server that is asked.
fn verdict(heard: &Heard) -> Reply {
    let facts: serde_json::Value = serde_json::from_str(&heard.body).expect("JSON");
    match facts["username"].as_str() {
        Some("nameless") => Reply::Status(403, "{\"reason\":128}".to_owned()),
        Some("banned") => Reply::Status(403, "{\"reason\":138}".to_owned()),
        Some("brief") => {
            let expiry = rfc3339(Duration::from_secs(1));
            Reply::Status(200, format!("{{\"expiry\":\"{expiry}\",\"attributes\":{{}}}}"))
        }
        _ => Reply::Status(503, String::new()),
    }
}

/// Settings of a server that asks another one about its clients.
fn asks(around: &Around) -> String {
    format!(
        "{LISTENER}authentication = [\"custom\"]\n[authentication.custom]\nurl = \"{}\"\nca = \"{}\"\n",
        around.asked.url("https", "/"),
        around.asked.authority().ca_file()
    )
}

/// A CONNECT with a user name and a password, up to its answer.
fn login(server: &Configured, client_id: &str, name: &'static str) -> Raw {
    let mut packet = connect(client_id);
    packet.username = Some(Text::from_static(name));
    packet.password = Some(b"a password".as_slice().into());
    refused_connect(server.at("mqtt"), packet).remove(0)
}

fn opened(server: &Configured, client_id: &str) -> Raw {
    Raw::begin(server.at("mqtt"), connect(client_id))
}

const WHY_DENIED: &str = "rejected CONNECT: the server that knows who clients are says no";

const LISTENER: &str = "[[listeners]]\naddress = \"127.0.0.1:0\"\n";

const CASES: &[Case] = &[
    Case {
        code: ReasonCode::UnspecifiedError,
        settings: asks,
        provoke: |server, _| vec![login(server, "c-80", "nameless")],
        says: &[WHY_DENIED, "client_id=c-80"],
    },
    Case {
        code: ReasonCode::Banned,
        settings: asks,
        provoke: |server, _| vec![login(server, "c-8a", "banned")],
        says: &[WHY_DENIED, "client_id=c-8a"],
    },
    Case {
        code: ReasonCode::ServerUnavailable,
        settings: asks,
        provoke: |server, _| vec![login(server, "c-88", "pump")],
        says: &[
            "rejected CONNECT: the server that knows who clients are does not answer",
            "client_id=c-88",
        ],
    },
    Case {
        code: ReasonCode::MaximumConnectTime,
        settings: asks,
        provoke: |server, _| vec![login(server, "c-a0", "brief")],
        says: &[
            "closed connection: the authentication has expired",
            "client_id=c-a0",
        ],
    },
    Case {
        code: ReasonCode::BadUserNameOrPassword,
        settings: |around| around.passwords.settings(""),
        provoke: |server, _| vec![login(server, "c-86", "pump")],
        says: &[
            "rejected CONNECT: the user name or the password is wrong",
            "client_id=c-86",
        ],
    },
    Case {
        code: ReasonCode::ConnectionRateExceeded,
        settings: |around| around.passwords.settings("") + "[authentication]\nfailures_max = 1\n",
        provoke: |server, _| {
            let guesses = ["c-86", "c-9f"];
            guesses.map(|client_id| login(server, client_id, "pump")).into()
        },
        says: &[
            "rejected CONNECT: too many attempts from this address have failed",
            "client_id=c-9f",
        ],
    },
    Case {
        code: ReasonCode::ServerBusy,
        settings: |_| format!("[limits]\nconnections_max = 1\n{LISTENER}"),
        provoke: |server, _| {
            let first = Raw::connect(server.at("mqtt"), connect("first"));
            vec![first, opened(server, "c-89")]
        },
        says: &[
            "rejected CONNECT: the limit of connections is reached",
            "client_id=c-89",
        ],
    },
    Case {
        code: ReasonCode::AdministrativeAction,
        settings: |around| around.tokens.settings() + LISTENER,
        provoke: |server, around| {
            let client = Raw::connect(server.at("mqtt"), connect("c-98"));
            let mut command = statehold(&["clients", "disconnect", "c-98", "--reason", "replaced"]);
            command
                .env("STATEHOLD_ADMIN", format!("http://{}", server.at("admin")))
                .env("STATEHOLD_ADMIN_TOKEN", &around.tokens.write);
            run(command).expect(0);
            vec![client]
        },
        says: &["closed connection: replaced", "client_id=c-98"],
    },
    Case {
        code: ReasonCode::UseAnotherServer,
        settings: |_| format!("[redirect]\nserver = \"b.example\"\n{LISTENER}"),
        provoke: |server, _| {
            let client = Raw::connect(server.at("mqtt"), connect("c-9c"));
            server.signal("TERM");
            vec![client]
        },
        says: &[
            "closed connection: the server is shutting down; use another one",
            "client_id=c-9c",
        ],
    },
    Case {
        code: ReasonCode::ServerMoved,
        settings: |_| {
            let redirect = "[redirect]\nserver = \"b.example\"\npermanent = true\nnew_clients = true\n";
            format!("{redirect}{LISTENER}")
        },
        provoke: |server, _| vec![opened(server, "c-9d")],
        says: &[
            "rejected CONNECT: clients of this server use another one",
            "client_id=c-9d",
        ],
    },
];

#[test]
fn every_code_that_settings_cause_has_a_line_that_says_to_whom_and_why() {
    let around = Around {
        asked: AskedServer::start(Below::Tls, verdict),
        passwords: Passwords::of("pump", "pencil"),
        tokens: Tokens::new(),
    };
    let mut provoked = BTreeSet::new();
    for case in CASES {
        let mut server = Configured::start(&(case.settings)(&around));
        let clients = (case.provoke)(&server, &around);
        check_line(&mut server, &clients, case.code, case.says);
        provoked.insert(case.code);
    }
    assert_eq!(provoked, codes_of(&Code::Settings));
}
