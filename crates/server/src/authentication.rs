//! Finds out who clients are, for the listeners that ask: on a thread of its own, so that the node never waits for it.
//!
//! The rules of an exchange are the node's (`mqtt::authentication`); here are the methods, each in a file, and the order in which
//! they are tried (`authentication/chain.rs`). Each question is a task, so that a method that waits for somebody delays nobody else. What methods need
//! is read from files when the server starts, on SIGHUP, and after a change; a file that cannot be used then changes nothing.

#[cfg(test)]
mod asking;
mod attempts;
mod chain;
mod custom;
mod jwt;
#[cfg(feature = "kubernetes")]
mod k8s_sat;
mod known_client;
mod outage;
mod password;
mod remembered;
mod rfc3339;
mod scram;
mod secret;
mod secrets_file;
mod verdict;
mod x509;

use std::io;
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use mqtt::authentication::{Answer, Question};
use mqtt::ids::ConnectionId;
use protocol::{ReasonCode, Text};
use rustls::DistinguishedName;
use rustls::pki_types::CertificateDer;
use thiserror::Error;
use tokio::sync::{mpsc, watch};
use tokio::task::{JoinSet, LocalSet};

use crate::client_address::ClientAddress;
use crate::config::{self, AuthenticationMethod, ListenAddress};
use crate::https_client::{ClientTlsError, HeadersError, UrlError};
use crate::side_thread::{Look, Looks, SideThread};

pub(crate) use self::chain::{Methods, Outcome};
pub use self::jwt::KeysFileError;
pub use self::password::{PasswordEntry, PasswordHash, PasswordsError, with_line};
pub use self::secret::{ITERATIONS, Secret, SecretError};
pub use self::secrets_file::{SecretsError, entry};
pub(crate) use self::verdict::Cause;
pub use self::x509::AttributesFileError;
pub use crate::https_client::header_file::HeaderFileError;
use crate::tls::ClientVerifier;

/// What a method needs cannot be used.
#[derive(Debug, Error)]
pub enum AuthenticationError {
    /// The file of SCRAM.
    #[error("`authentication.scram.file`: {0}")]
    Scram(SecretsError),
    /// The keys of an issuer of tokens.
    #[error("`authentication.jwt.keys_file`: {0}")]
    JwtKeys(KeysFileError),
    /// A header that no request can have.
    #[error(transparent)]
    Headers(HeadersError),
    /// The token of the server's own service account.
    #[error("`authentication.k8s_sat.token_file`: {0}")]
    K8sToken(HeaderFileError),
    /// A method that this binary was built without.
    #[error(
        "this build of the server has no authentication by service accounts of Kubernetes (feature `kubernetes`)"
    )]
    NoKubernetes,
    /// A server that is asked has an address that cannot be used.
    #[error("`{setting}`: {error}")]
    Address {
        /// As in `authentication.jwt.keys_url`.
        setting: &'static str,
        /// Why.
        error: UrlError,
    },
    /// The files of TLS to a server that is asked.
    #[error("`{setting}`: {error}")]
    Tls {
        /// As in `authentication.jwt.ca`.
        setting: &'static str,
        /// Why.
        error: ClientTlsError,
    },
    /// The file of passwords.
    #[error("`authentication.password.file`: {0}")]
    Password(PasswordsError),
    /// The file of attributes.
    #[error("`authentication.x509.attributes_file`: {0}")]
    X509(AttributesFileError),
    /// The threads that compute hashes.
    #[error("cannot start the threads for passwords: {0}")]
    Threads(io::Error),
}

/// How the clients of one listener say who they are.
#[derive(Debug)]
pub(crate) struct Policy {
    /// Where the listener is.
    pub(crate) listener: ListenAddress,
    /// In the order in which they are tried.
    methods: Vec<AuthenticationMethod>,
    /// What is asked of the certificates of clients, if they are asked for any.
    pub(crate) verifier: Option<watch::Receiver<Option<Arc<ClientVerifier>>>>,
    /// Whoever names no method is let in as nobody.
    allow_anonymous: bool,
}

/// What came up at a listener with this policy.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) connection: ConnectionId,
    pub(crate) policy: Arc<Policy>,
    pub(crate) question: Question,
    /// Where the client is.
    pub(crate) peer: ClientAddress,
    /// What the client has shown in the handshake of TLS, its own certificate first. That one has been verified; of the others only those
    /// that were needed for it.
    pub(crate) certificates: Vec<CertificateDer<'static>>,
}

/// What came of a question.
#[derive(Debug)]
pub(crate) struct Answered {
    pub(crate) connection: ConnectionId,
    pub(crate) outcome: Outcome,
}

/// The thread while it runs; it ends when this is dropped.
#[derive(Debug)]
pub(crate) struct AuthenticationThread {
    questions: mpsc::Sender<Asked>,
    _thread: SideThread,
}

/// Answers that the node has not taken yet; beyond it the thread waits.
const ANSWERS_MAX: usize = 256;

impl Policy {
    /// `None` for a listener that asks nobody; `address` is where it really is.
    pub(crate) fn of(listener: &config::Listener, address: &ListenAddress) -> Option<Arc<Self>> {
        (!listener.authentication.is_empty()).then(|| {
            Arc::new(Self {
                listener: address.clone(),
                methods: listener.authentication.clone(),
                verifier: None,
                allow_anonymous: listener.allow_anonymous,
            })
        })
    }
}

impl Policy {
    /// The subjects from a client's certificate to the authority that is trusted at the moment.
    fn issuers_of(&self, certificates: &[CertificateDer<'static>]) -> Option<Vec<DistinguishedName>> {
        let verifier = self.verifier.as_ref()?.borrow().clone();
        verifier?.path_of(certificates)
    }

    /// Whether an authority that vouches for a client's certificate may do so for some names only.
    fn has_name_constraints(&self, certificates: &[CertificateDer<'static>]) -> bool {
        let verifier = self
            .verifier
            .as_ref()
            .and_then(|verifier| verifier.borrow().clone());
        verifier.is_some_and(|verifier| verifier.has_name_constraints(certificates))
    }
}

impl AuthenticationThread {
    /// Starts the thread; its answers come out of the receiver.
    pub(crate) fn start(
        methods: Methods,
        questions_max: usize,
    ) -> io::Result<(Self, mpsc::Receiver<Answered>)> {
        let (questions, asked) = mpsc::channel(questions_max);
        let (answers, answered) = mpsc::channel(ANSWERS_MAX);
        let work = move |looks| async move {
            let answering = run(Rc::new(methods), asked, answers, looks);
            LocalSet::new().run_until(answering).await;
        };
        let started = Self {
            questions,
            _thread: SideThread::prepare()?.start("authentication", work)?,
        };
        Ok((started, answered))
    }

    /// Hands over a question; it comes back as an answer if there is no room for it.
    pub(crate) fn ask(&self, mut asked: Asked) -> Result<(), Answer> {
        detach(&mut asked.question);
        self.questions.try_send(asked).map_err(|_| Answer::Refuse {
            reason: ReasonCode::ServerBusy,
            why: "too many clients say who they are".into(),
        })
    }
}

/// Puts what the client says into memory of its own. It may wait for longer than its connection lives, and should then not keep
/// a whole CONNECT, with its will.
fn detach(question: &mut Question) {
    let own = |bytes: &mut Option<Bytes>| *bytes = bytes.as_deref().map(Bytes::copy_from_slice);
    own(&mut question.data);
    question.method = question.method.as_ref().map(Text::detached);
    if let Some(credentials) = &mut question.credentials {
        credentials.client_id = credentials.client_id.detached();
        credentials.username = credentials.username.as_ref().map(Text::detached);
        own(&mut credentials.password);
    }
}

async fn run(
    methods: Rc<Methods>,
    mut asked: mpsc::Receiver<Asked>,
    answers: mpsc::Sender<Answered>,
    mut looks: Looks,
) {
    let under_way_max = methods.under_way_max();
    let mut under_way = JoinSet::new();
    let keeper = Rc::clone(&methods);
    tokio::task::spawn_local(async move { keeper.keep().await });
    loop {
        tokio::select! {
            Some(asked) = asked.recv(), if under_way.len() < under_way_max => {
                under_way.spawn_local(answer(Rc::clone(&methods), asked, answers.clone()));
            }
            Some(_) = under_way.join_next() => {}
            look = looks.next() => match look {
                Look::Reload => methods.reload(),
                Look::ForChanges => methods.look(),
            },
        }
    }
}

async fn answer(methods: Rc<Methods>, asked: Asked, answers: mpsc::Sender<Answered>) {
    let outcome = methods.answer(&asked).await;
    let answered = Answered {
        connection: asked.connection,
        outcome,
    };
    // Nobody takes it when the server stops.
    let _ = answers.send(answered).await;
}
