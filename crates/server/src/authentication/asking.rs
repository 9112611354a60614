//! Questions for the tests of methods.

use std::sync::Arc;

use bytes::Bytes;
use mqtt::authentication::{Credentials, Question};
use mqtt::ids::ConnectionId;
use protocol::Text;

use super::{Asked, Policy};
use crate::client_address::ClientAddress;
use crate::config::{self, AuthenticationMethod};

/// What a client with user name and password says, to a listener with these methods.
pub(super) fn with_password(methods: &[AuthenticationMethod], name: &str, password: &[u8]) -> Asked {
    let mut asked = anonymous(methods);
    let credentials = asked.question.credentials.as_mut().expect("the first question");
    credentials.username = Some(Text::new(name).expect("short"));
    credentials.password = Some(Bytes::copy_from_slice(password));
    asked
}

/// What a client says that says nothing.
pub(super) fn anonymous(methods: &[AuthenticationMethod]) -> Asked {
    let listener = config::Listener {
        authentication: methods.to_vec(),
        ..config::Listener::default()
    };
    Asked {
        connection: ConnectionId(1),
        policy: Policy::of(&listener, &listener.address).expect("methods"),
        question: Question {
            method: None,
            data: None,
            credentials: Some(Credentials {
                client_id: Text::from_static("c"),
                username: None,
                password: None,
            }),
            continuation: None,
            principal: None,
        },
        peer: ClientAddress::Ip(([192, 0, 2, 1], 4_711).into()),
        certificates: Vec::new(),
    }
}

/// What a client says, to a listener that lets in who says nothing as well.
pub(super) fn allowing_anonymous(mut asked: Asked) -> Asked {
    let policy = Arc::get_mut(&mut asked.policy).expect("nobody else has it");
    policy.allow_anonymous = true;
    asked
}

/// Runs one question to its end.
pub(super) fn run<T>(asking: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime")
        .block_on(asking)
}
