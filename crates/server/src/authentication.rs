//! Finds out who clients are, for the listeners that ask: on a thread of its own, so that the node never waits for it.
//!
//! The rules of an exchange are the node's (`broker::authentication`); here are the methods. What they need is read from files
//! when the server starts, on SIGHUP, and after a change; a file that cannot be used then changes nothing.

mod scram;
mod secret;
mod secrets_file;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use broker::{Answer, ConnectionId, Question};
use protocol::ReasonCode;
use thiserror::Error;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{mpsc, oneshot};
use tokio::time::MissedTickBehavior;

use self::scram::Scram;
use self::secrets_file::Secrets;
use crate::config::{self, AuthenticationMethod, Config};
use crate::stamp::{Stamp, stamp};

pub use self::secret::{ITERATIONS, Secret, SecretError};
pub use self::secrets_file::{SecretsError, entry};

/// What a method needs cannot be used.
#[derive(Debug, Error)]
pub enum AuthenticationError {
    /// The file of SCRAM.
    #[error("`authentication.scram.file`: {0}")]
    Scram(SecretsError),
}

/// How the clients of one listener say who they are.
#[derive(Debug)]
pub(crate) struct Policy {
    methods: Vec<AuthenticationMethod>,
    /// Whoever names no method is let in as nobody.
    allow_anonymous: bool,
}

/// What came up at a listener with this policy.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) connection: ConnectionId,
    pub(crate) policy: Arc<Policy>,
    pub(crate) question: Question,
}

/// The thread while it runs; it ends when this is dropped.
#[derive(Debug)]
pub(crate) struct AuthenticationThread {
    questions: mpsc::Sender<Asked>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// How often files are looked at. A change counts when two looks have found the same.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// Answers that the node has not taken yet; beyond it the thread waits.
const ANSWERS_MAX: usize = 256;

impl Policy {
    /// `None` for a listener that asks nobody.
    pub(crate) fn of(listener: &config::Listener) -> Option<Arc<Self>> {
        (!listener.authentication.is_empty()).then(|| {
            Arc::new(Self {
                methods: listener.authentication.clone(),
                allow_anonymous: listener.allow_anonymous,
            })
        })
    }
}

impl AuthenticationThread {
    /// Starts the thread; its answers come out of the receiver.
    pub(crate) fn start(
        methods: Methods,
        questions_max: usize,
    ) -> io::Result<(Self, mpsc::Receiver<(ConnectionId, Answer)>)> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let (questions, asked) = mpsc::channel(questions_max);
        let (answers, answered) = mpsc::channel(ANSWERS_MAX);
        let (stop, stopped) = oneshot::channel();
        // From here on: who asks for a reload while the server starts does not end it.
        let hangup = {
            let _within = runtime.enter();
            signal(SignalKind::hangup())?
        };
        let work = move || {
            runtime.block_on(async {
                tokio::select! {
                    () = run(methods, asked, answers, hangup) => {}
                    _ = stopped => {}
                }
            });
        };
        let thread = std::thread::Builder::new()
            .name("authentication".to_owned())
            .spawn(work)?;
        let started = Self {
            questions,
            stop: Some(stop),
            thread: Some(thread),
        };
        Ok((started, answered))
    }

    /// Hands over a question; it comes back as an answer if there is no room for it.
    pub(crate) fn ask(&self, asked: Asked) -> Result<(), Answer> {
        self.questions.try_send(asked).map_err(|_| Answer::Refuse {
            reason: ReasonCode::ServerBusy,
            why: "too many clients say who they are".into(),
        })
    }
}

impl Drop for AuthenticationThread {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            // It may have ended already.
            let _ = stop.send(());
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

async fn run(
    mut methods: Methods,
    mut asked: mpsc::Receiver<Asked>,
    answers: mpsc::Sender<(ConnectionId, Answer)>,
    mut hangup: Signal,
) {
    let mut look = tokio::time::interval(LOOK_EVERY);
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            Some(asked) = asked.recv() => {
                let answer = methods.answer(&asked.policy, &asked.question);
                if answers.send((asked.connection, answer)).await.is_err() {
                    return;
                }
            }
            Some(()) = hangup.recv() => methods.reload(),
            _ = look.tick() => methods.look(),
        }
    }
}

/// All methods, and what they know.
#[derive(Debug)]
pub(crate) struct Methods {
    scram: Scram,
    /// Where `secrets` are from.
    file: PathBuf,
    secrets: Secrets,
    /// What the file looked like when `secrets` were made, or tried.
    used: Stamp,
    /// At the last look.
    seen: Stamp,
}

impl Methods {
    /// Reads the files. `None` if no listener asks.
    pub(crate) fn load(config: &Config) -> Result<Option<Self>, AuthenticationError> {
        let mut methods = config
            .listeners
            .iter()
            .flat_map(|listener| &listener.authentication);
        if methods.all(|method| *method != AuthenticationMethod::Scram) {
            return Ok(None);
        }
        let file = config.authentication.scram.file.clone();
        let used = stamp(&file);
        let secrets = Secrets::read(&file).map_err(AuthenticationError::Scram)?;
        Ok(Some(Self {
            scram: Scram::new(),
            file,
            secrets,
            used,
            seen: used,
        }))
    }

    /// Tries the listener's methods in their order.
    fn answer(&self, policy: &Policy, question: &Question) -> Answer {
        let Some(method) = &question.method else {
            return if policy.allow_anonymous {
                Answer::Accept {
                    principal: None,
                    data: None,
                    expires_in: None,
                }
            } else {
                refused(ReasonCode::NotAuthorized, "the client does not say who it is")
            };
        };
        for known in &policy.methods {
            match known {
                AuthenticationMethod::Scram if &**method == scram::METHOD => {
                    return self.scram.answer(&self.secrets, question);
                }
                AuthenticationMethod::Scram => {}
            }
        }
        let why = "the Authentication Method is not supported";
        refused(ReasonCode::BadAuthenticationMethod, why)
    }

    /// Reads the file again if it has changed and no longer does.
    fn look(&mut self) {
        let before = std::mem::replace(&mut self.seen, stamp(&self.file));
        if self.seen != self.used && self.seen == before {
            self.reload();
        }
    }

    fn reload(&mut self) {
        self.used = stamp(&self.file);
        match Secrets::read(&self.file) {
            Ok(secrets) => {
                self.secrets = secrets;
                tracing::info!(
                    names = self.secrets.len(),
                    "took the file of authentication.scram anew"
                );
            }
            Err(error) => {
                tracing::error!(%error, "cannot take the file of authentication.scram anew: what was in it holds");
            }
        }
    }
}

fn refused(reason: ReasonCode, why: &'static str) -> Answer {
    Answer::Refuse {
        reason,
        why: why.into(),
    }
}
