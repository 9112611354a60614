//! The pages `/healthz`, `/readyz` and `/metrics`, on a thread of their own.
//!
//! The pages know nothing themselves: they ask the node's thread through a bounded channel and wait for a bounded time, so a
//! node that hangs shows as 503 and a flood of requests does not reach it. The address is a loopback one (`config`
//! sees to that), and a request has to name it by an address or a known name, so that a web page cannot read the figures of
//! the machine that shows it.

mod bounded;
mod host;

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use thiserror::Error;
use tokio::sync::{mpsc, oneshot};

use self::bounded::Bounded;
use crate::config;
use crate::metrics::Figures;
use crate::tls::Expiries;

/// What the pages ask the node's thread.
#[derive(Debug)]
pub enum AdminRequest {
    /// For `/metrics`.
    Metrics(oneshot::Sender<Box<Figures>>),
    /// For `/healthz` and `/readyz`.
    Health(oneshot::Sender<Health>),
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
    /// There is no room for another thread, or for its poll.
    #[error("cannot start the admin thread: {0}")]
    Thread(io::Error),
}

/// The pages while they are served; they end when it is dropped.
#[derive(Debug)]
pub struct Admin {
    address: SocketAddr,
    recovered: Arc<AtomicBool>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// Requests that wait for the node's thread; one more is answered with 503.
pub const REQUESTS_WAITING_MAX: usize = 16;

impl Admin {
    /// Serves the pages from here on. Until [`Admin::recovered`] they say that the server is starting.
    ///
    /// The receiver is for the node's thread, which answers each request as soon as it can.
    pub(crate) fn start(
        settings: &config::Admin,
        expiries: Expiries,
    ) -> Result<(Self, mpsc::Receiver<AdminRequest>), AdminError> {
        let bind_error = |error| AdminError::Bind {
            address: settings.address,
            error,
        };
        let listener = TcpListener::bind(settings.address).map_err(bind_error)?;
        listener.set_nonblocking(true).map_err(bind_error)?;
        let address = listener.local_addr().map_err(bind_error)?;
        let (requests, received) = mpsc::channel(REQUESTS_WAITING_MAX);
        let recovered = Arc::new(AtomicBool::new(false));
        let node = NodeThread {
            requests,
            answer_within: settings.answer_within,
            recovered: Arc::clone(&recovered),
            expiries,
        };
        let router = router(node, settings.host_names.clone());
        let (stop, stopped) = oneshot::channel();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(AdminError::Thread)?;
        let serve = move || runtime.block_on(serve(listener, router, stopped));
        let thread = std::thread::Builder::new()
            .name("admin".to_owned())
            .spawn(serve)
            .map_err(AdminError::Thread)?;
        Ok((
            Self {
                address,
                recovered,
                stop: Some(stop),
                thread: Some(thread),
            },
            received,
        ))
    }

    /// Where the pages are: the port is known also when the settings say 0.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// From here on the node's thread is asked.
    pub fn recovered(&self) {
        self.recovered.store(true, Ordering::Release);
    }
}

impl Drop for Admin {
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

async fn serve(listener: TcpListener, router: Router, stopped: oneshot::Receiver<()>) {
    let listener = match tokio::net::TcpListener::from_std(listener) {
        Ok(listener) => Bounded::new(listener, CONNECTIONS_MAX),
        Err(error) => return tracing::error!(%error, "the admin pages cannot be served"),
    };
    // A page is written at once or not at all: nothing is worth waiting for.
    tokio::select! {
        _ = axum::serve(listener, router) => {}
        _ = stopped => {}
    }
}

fn router(node: NodeThread, host_names: Vec<String>) -> Router {
    let names: Arc<[String]> = host_names.into();
    let refuse_other_hosts = move |request: Request, next: Next| {
        let names = Arc::clone(&names);
        async move {
            let host = request
                .headers()
                .get(header::HOST)
                .map(|host| host.to_str().unwrap_or_default());
            if host.is_none_or(|host| host::is_ours(host, &names)) {
                return next.run(request).await;
            }
            let why = "this server is not known by that name; see the setting admin.host_names\n";
            (StatusCode::MISDIRECTED_REQUEST, why).into_response()
        }
    };
    Router::new()
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics))
        .with_state(node)
        .layer(middleware::from_fn(refuse_other_hosts))
}

/// 200 while the process does its work, if only to recover.
async fn healthz(State(node): State<NodeThread>) -> Response {
    match node.ask(AdminRequest::Health).await {
        Ok(_) => "ok\n".into_response(),
        Err(Silence::Starting) => "starting\n".into_response(),
        Err(silence) => silence.into_response(),
    }
}

/// 200 while clients should be sent here.
async fn readyz(State(node): State<NodeThread>) -> Response {
    match node.ask(AdminRequest::Health).await {
        Ok(health) if health.not_ready.is_empty() => "ready\n".into_response(),
        Ok(health) => (
            StatusCode::SERVICE_UNAVAILABLE,
            health.not_ready.join("\n") + "\n",
        )
            .into_response(),
        Err(silence) => silence.into_response(),
    }
}

async fn metrics(State(node): State<NodeThread>) -> Response {
    match node.ask(AdminRequest::Metrics).await {
        Ok(mut figures) => {
            node.expiries.show(&mut figures);
            let content_type = "text/plain; version=0.0.4; charset=utf-8";
            ([(header::CONTENT_TYPE, content_type)], figures.render()).into_response()
        }
        Err(silence) => silence.into_response(),
    }
}

/// The way to the node's thread.
#[derive(Clone)]
struct NodeThread {
    requests: mpsc::Sender<AdminRequest>,
    answer_within: Duration,
    recovered: Arc<AtomicBool>,
    /// What the node does not know.
    expiries: Expiries,
}

/// Why the node's thread was not heard.
enum Silence {
    Starting,
    Busy,
    Late(Duration),
    Gone,
}

impl NodeThread {
    async fn ask<T>(&self, request: impl FnOnce(oneshot::Sender<T>) -> AdminRequest) -> Result<T, Silence> {
        if !self.recovered.load(Ordering::Acquire) {
            return Err(Silence::Starting);
        }
        let (answer, answered) = oneshot::channel();
        self.requests
            .try_send(request(answer))
            .map_err(|refused| match refused {
                mpsc::error::TrySendError::Full(_) => Silence::Busy,
                mpsc::error::TrySendError::Closed(_) => Silence::Gone,
            })?;
        match tokio::time::timeout(self.answer_within, answered).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(_)) => Err(Silence::Gone),
            Err(_) => Err(Silence::Late(self.answer_within)),
        }
    }
}

impl IntoResponse for Silence {
    fn into_response(self) -> Response {
        let why = match self {
            Self::Starting => "starting: what is on disk is being read\n".to_owned(),
            Self::Busy => "too many requests are waiting\n".to_owned(),
            Self::Late(waited) => format!("the node did not answer within {waited:?}\n"),
            Self::Gone => "stopping\n".to_owned(),
        };
        (StatusCode::SERVICE_UNAVAILABLE, why).into_response()
    }
}

/// Connections to the pages at once; a further one waits until another has ended.
const CONNECTIONS_MAX: usize = 64;

#[cfg(test)]
mod tests;
