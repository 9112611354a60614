//! The pages `/healthz`, `/readyz`, `/metrics` and `/cluster`, `/reload`, what is below `/api`, and the dashboard, on a thread of their own.
//!
//! The pages know nothing themselves: they ask the node's thread through a bounded channel and wait for a bounded time, so a
//! node that hangs shows as 503 and a flood of requests does not reach it. On an address that other machines reach there are TLS and
//! tokens (`config` sees to that). A request has to name the server by an address or a known name, and no web page of another
//! origin is answered: a browser shall not be a way around.

mod access;
pub(crate) mod api;
mod cluster;
mod connections;
mod dashboard;
mod host;
mod origin;
mod pages;
mod tokens;

use std::collections::BTreeMap;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ::cluster::NodeId;
use broker::{ClusterAnswer, ClusterQuestion};
use thiserror::Error;
use tokio::sync::{Semaphore, mpsc, oneshot, watch};

use self::access::Access;
use self::connections::{CurrentTls, Served};
use self::pages::{About, NodeThread, Pages};
use self::tokens::Tokens;
pub use self::tokens::{Scope, TokensError, new_token};
use crate::clock;
use crate::condition::Condition;
use crate::config;
use crate::metrics::Figures;
use crate::side_thread::{Look, Looks, SideThread};
use crate::strangers::Strangers;
use crate::tls::{Expiries, Tls, TlsError};
use crate::watched_file::WatchedFile;

/// What the pages ask the node's thread.
#[derive(Debug)]
pub enum AdminRequest {
    /// For `/metrics`.
    Metrics(oneshot::Sender<Box<Figures>>),
    /// For `/healthz` and `/readyz`.
    Health(oneshot::Sender<Health>),
    /// For `/cluster`.
    Cluster(ClusterQuestion, oneshot::Sender<ClusterAnswered>),
    /// For `/api`.
    Api(api::Question, oneshot::Sender<api::Answered>),
}

/// The answer to a question about the cluster.
#[derive(Debug)]
pub struct ClusterAnswered {
    /// What the node says.
    pub answer: ClusterAnswer,
    /// By how many milliseconds the clocks of connected nodes are ahead of this one's.
    pub clocks_ahead_ms: BTreeMap<NodeId, i64>,
    /// Conditions that keep the node from serving, or from talking to another node.
    pub(crate) conditions: Vec<Condition>,
}

/// Whether the node does its work.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Health {
    /// Why no client should be sent here, in words for an operator; empty when the node is ready.
    pub not_ready: Vec<String>,
}

/// The pages could not be started.
#[derive(Debug, Error)]
pub enum AdminError {
    /// The address is in use, or not one of this machine.
    #[error("cannot listen on {address} (admin.address): {error}")]
    Bind {
        /// As in the settings.
        address: SocketAddr,
        /// Why.
        error: io::Error,
    },
    /// A file of `admin.tls` cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The file of `admin.tokens` cannot be used.
    #[error(transparent)]
    Tokens(#[from] TokensError),
    /// There is no room for another thread, or for its poll.
    #[error("cannot start the admin thread: {0}")]
    Thread(io::Error),
}

/// The pages while they are served; they end when it is dropped.
#[derive(Debug)]
pub struct Admin {
    address: SocketAddr,
    recovered: Arc<AtomicBool>,
    strangers: Strangers,
    _thread: SideThread,
}

/// Parts of backups that are read or put back at the same time; one more is answered with 503. Each may hold back the memory of what a group had.
pub const BACKUPS_MAX: usize = 4;

/// Requests that wait for the node's thread; one more is answered with 503.
pub const REQUESTS_WAITING_MAX: usize = 16;

impl Admin {
    /// Serves the pages from here on. Until [`Admin::recovered`] they say that the server is starting.
    ///
    /// The receiver is for the node's thread, which answers each request as soon as it can. `limits`: to be shown.
    pub(crate) fn start(
        settings: &config::Admin,
        files: AdminFiles,
        mut expiries: Expiries,
        limits: serde_json::Value,
    ) -> Result<(Self, mpsc::Receiver<AdminRequest>), AdminError> {
        if let Some(tls) = &files.tls {
            expiries.extend(tls.expiries());
        }
        let bind_error = |error| AdminError::Bind {
            address: settings.address,
            error,
        };
        let listener = TcpListener::bind(settings.address).map_err(bind_error)?;
        listener.set_nonblocking(true).map_err(bind_error)?;
        let address = listener.local_addr().map_err(bind_error)?;
        let (requests, received) = mpsc::channel(REQUESTS_WAITING_MAX);
        let recovered = Arc::new(AtomicBool::new(false));
        let pages = Pages {
            node: NodeThread {
                requests,
                answer_within: settings.answer_within,
                recovered: Arc::clone(&recovered),
                health: Arc::default(),
            },
            access: Arc::new(Access::new(files.current_tokens())),
            host_names: settings.host_names.clone().into(),
            expiries,
            about: Arc::new(About {
                limits,
                since: clock::instant(),
                since_wall: clock::wall(),
            }),
            backups: Arc::new(Semaphore::new(BACKUPS_MAX)),
        };
        let strangers = connections::strangers();
        let served = Served {
            router: pages.router(),
            strangers: strangers.clone(),
            request_within: settings.answer_within + connections::BODY_WITHIN,
        };
        let thread = spawn(listener, files, served).map_err(AdminError::Thread)?;
        let admin = Self {
            address,
            recovered,
            strangers,
            _thread: thread,
        };
        Ok((admin, received))
    }

    /// Where the pages are: the port is known also when the settings say 0.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Places of connections to the pages.
    pub(crate) fn strangers(&self) -> &Strangers {
        &self.strangers
    }

    /// From here on the node's thread is asked.
    pub fn recovered(&self) {
        self.recovered.store(true, Ordering::Release);
    }
}

fn spawn(listener: TcpListener, files: AdminFiles, served: Served) -> io::Result<SideThread> {
    let prepared = SideThread::prepare()?;
    let listener = prepared.listen(listener)?;
    let tls = files.current_tls();
    // A page is written at once or not at all: nothing is worth waiting for.
    prepared.start("admin", |looks| async move {
        tokio::select! {
            () = connections::serve(listener, tls, served) => {}
            () = files.keep_current(looks) => {}
        }
    })
}

/// The files of the pages, taken anew on SIGHUP and after they have changed.
#[derive(Debug)]
pub(crate) struct AdminFiles {
    tls: Option<Tls>,
    tokens: Option<TokensFile>,
}

#[derive(Debug)]
struct TokensFile {
    file: WatchedFile<Tokens, TokensError>,
    current: watch::Sender<Arc<Tokens>>,
}

impl AdminFiles {
    pub(crate) fn load(settings: &config::Admin) -> Result<Self, AdminError> {
        let tls = settings.tls.for_listener();
        let tls = tls.map(|tls| Tls::load("admin.tls", &tls)).transpose()?;
        let has_tokens = !settings.tokens.as_os_str().is_empty();
        let tokens = has_tokens.then(|| WatchedFile::load("admin.tokens", &settings.tokens, Tokens::read));
        let tokens = tokens.transpose()?.map(|file| {
            let current = watch::Sender::new(file.current());
            TokensFile { file, current }
        });
        Ok(Self { tls, tokens })
    }

    fn current_tls(&self) -> CurrentTls {
        self.tls.as_ref().map(Tls::current)
    }

    fn current_tokens(&self) -> Option<watch::Receiver<Arc<Tokens>>> {
        Some(self.tokens.as_ref()?.current.subscribe())
    }

    async fn keep_current(mut self, mut looks: Looks) {
        loop {
            let is_asked = looks.next().await == Look::Reload;
            if let Some(tls) = &mut self.tls {
                if is_asked { tls.reload() } else { tls.look() }
            }
            if let Some(TokensFile { file, current }) = &self.tokens
                && (if is_asked { file.reload() } else { file.look() })
            {
                current.send_replace(file.current());
            }
        }
    }
}

#[cfg(test)]
mod tests;
