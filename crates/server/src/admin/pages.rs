//! The pages, and what is asked of every request before one of them answers.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::{Extension, Request, State};
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use tokio::sync::{Mutex, Semaphore, mpsc, oneshot};

use super::access::{Access, Refusal};
use super::connections::Peer;
use super::tokens::Scope;
use super::{AdminRequest, Health, api, cluster, dashboard, host, origin};
use crate::audit::{Audit, Happened, Shown, Source};
use crate::clock;
use crate::tls::Expiries;

/// What the pages know.
#[derive(Debug, Clone)]
pub(super) struct Pages {
    pub(super) node: NodeThread,
    pub(super) access: Arc<Access>,
    pub(super) host_names: Arc<[String]>,
    /// What the node does not know.
    pub(super) expiries: Expiries,
    pub(super) about: Arc<About>,
    /// For those who read parts of a backup, or put them back.
    pub(super) backups: Arc<Semaphore>,
}

/// What of a server does not change.
#[derive(Debug)]
pub(super) struct About {
    /// As in its settings.
    pub(super) limits: serde_json::Value,
    /// When it was started, by both clocks.
    pub(super) since: Instant,
    pub(super) since_wall: u64,
}

/// The way to the node's thread.
#[derive(Debug, Clone)]
pub(super) struct NodeThread {
    pub(super) requests: mpsc::Sender<AdminRequest>,
    pub(super) answer_within: Duration,
    pub(super) recovered: Arc<AtomicBool>,
    /// The last answer about its health, and when that was asked for.
    pub(super) health: Arc<Mutex<Option<HealthAnswer>>>,
}

/// When the node was asked for its health, and what it said.
type HealthAnswer = (Instant, Result<Health, Silence>);

/// Why the node's thread was not heard.
#[derive(Debug, Clone)]
pub(super) enum Silence {
    Starting,
    Busy,
    Late(Duration),
    Gone,
}

impl Pages {
    pub(super) fn router(self) -> Router {
        Router::new()
            .route("/healthz", get(healthz))
            .route("/readyz", get(readyz))
            .route("/metrics", get(metrics))
            .route("/reload", post(reload))
            .route("/cluster", get(cluster::show))
            .route("/cluster/add", post(cluster::add))
            .route("/cluster/remove", post(cluster::remove))
            .route("/cluster/transfer", post(cluster::transfer))
            .merge(api::routes())
            .merge(dashboard::routes())
            .with_state(self.clone())
            .layer(middleware::from_fn_with_state(self, guard))
    }

    /// Whether a request is answered.
    fn check(&self, Peer(from): Peer, request: &Request) -> Result<(), Refusal> {
        let headers = request.headers();
        let host = headers
            .get(header::HOST)
            .map(|host| host.to_str().unwrap_or_default());
        if host.is_some_and(|host| !host::is_ours(host, &self.host_names)) {
            return Err(Refusal::Host);
        }
        let (method, path) = (request.method(), request.uri().path());
        let is_asset = matches!(*method, Method::GET | Method::HEAD) && dashboard::is_asset(path);
        let is_link = is_asset && origin::is_link_followed(headers);
        if origin::is_cross_site(headers) && !is_link {
            return Err(Refusal::CrossSite);
        }
        let scope = match (method, path) {
            // Who looks whether a server lives has no token.
            (&Method::GET | &Method::HEAD, "/healthz" | "/readyz") => return Ok(()),
            _ if is_asset => return Ok(()),
            (&Method::GET | &Method::HEAD, path) if is_backup(path) => Scope::Backup,
            (&Method::GET | &Method::HEAD, _) => Scope::Read,
            _ => Scope::Write,
        };
        let token = self.access.check(from, headers, scope)?;
        let content_type = headers.get(header::CONTENT_TYPE).map(HeaderValue::as_bytes);
        if scope == Scope::Write {
            let is_right = match request.uri().path() {
                "/api/restore" => content_type == Some(BYTES),
                _ => content_type == Some(JSON),
            };
            if !is_right {
                return Err(Refusal::ContentType);
            }
        }
        if scope >= Scope::Backup {
            let path = request.uri().path();
            let what = match scope {
                Scope::Write => "a change",
                _ => "a part of a backup",
            };
            tracing::info!(peer = %from, token, path, "{what} was asked for at the admin pages");
            audit(
                from,
                Happened::AdminChange {
                    token: token.as_ref().map(Shown::from),
                    path: path.into(),
                },
            );
        }
        Ok(())
    }
}

const JSON: &[u8] = b"application/json";

/// No form of a web page can send this, either.
const BYTES: &[u8] = b"application/octet-stream";

/// What says everything that the server has.
fn is_backup(path: &str) -> bool {
    path == "/api/backup" || path.starts_with("/api/backup/")
}

/// Whether a request to this page may last for as long as its connection: parts of backups have places of their own.
pub(super) fn is_long(path: &str) -> bool {
    is_backup(path) || path == "/api/restore"
}

/// What every answer says to browsers, where it does not say it itself: keep it nowhere, take it for nothing else, load nothing for it, show it in no frame.
const TO_BROWSERS: [(header::HeaderName, HeaderValue); 4] = [
    (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
    (
        header::X_CONTENT_TYPE_OPTIONS,
        HeaderValue::from_static("nosniff"),
    ),
    (
        header::CONTENT_SECURITY_POLICY,
        HeaderValue::from_static("default-src 'none'; frame-ancestors 'none'"),
    ),
    (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
];

/// Tells the audit log of a request.
fn audit(peer: IpAddr, happened: Happened) {
    let source = Source {
        peer: (&peer.to_string()).into(),
        ip: Some(peer),
        listener: "admin".into(),
    };
    Audit::of_thread().tell(happened, Some(source));
}

async fn guard(
    State(pages): State<Pages>,
    Extension(peer): Extension<Peer>,
    request: Request,
    next: Next,
) -> Response {
    let is_api = request.uri().path().starts_with("/api/");
    let mut response = match pages.check(peer, &request) {
        Ok(()) => next.run(request).await,
        Err(refusal) => {
            pages.access.count(refusal);
            // From whom many come, one after the other would fill the log.
            if refusal != Refusal::TooMany {
                let path = request.uri().path();
                tracing::info!(peer = %peer.0, path, cause = refusal.name(), "refused a request to the admin pages");
            }
            audit(
                peer.0,
                Happened::AdminRefused {
                    path: request.uri().path().into(),
                    cause: refusal.name(),
                },
            );
            let mut response = if is_api {
                let why = refusal.words().trim_end();
                api::answer(refusal.status(), &serde_json::json!({ "error": why }))
            } else {
                (refusal.status(), refusal.words()).into_response()
            };
            if response.status() == StatusCode::UNAUTHORIZED {
                let bearer = HeaderValue::from_static("Bearer");
                response.headers_mut().insert(header::WWW_AUTHENTICATE, bearer);
            }
            response
        }
    };
    for (name, value) in TO_BROWSERS {
        response.headers_mut().entry(name).or_insert(value);
    }
    response
}

/// 200 while the process does its work, if only to recover.
async fn healthz(State(pages): State<Pages>) -> Response {
    match pages.node.health().await {
        Ok(_) => "ok\n".into_response(),
        Err(Silence::Starting) => "starting\n".into_response(),
        Err(silence) => silence.into_response(),
    }
}

/// 200 while clients should be sent here.
async fn readyz(State(pages): State<Pages>) -> Response {
    match pages.node.health().await {
        Ok(health) if health.not_ready.is_empty() => "ready\n".into_response(),
        Ok(health) => (
            StatusCode::SERVICE_UNAVAILABLE,
            health.not_ready.join("\n") + "\n",
        )
            .into_response(),
        Err(silence) => silence.into_response(),
    }
}

async fn metrics(State(pages): State<Pages>) -> Response {
    match pages.node.ask(AdminRequest::Metrics).await {
        Ok(mut figures) => {
            pages.expiries.show(&mut figures);
            figures.admin_refused = pages.access.refused();
            let content_type = "text/plain; version=0.0.4; charset=utf-8";
            ([(header::CONTENT_TYPE, content_type)], figures.render()).into_response()
        }
        Err(silence) => silence.into_response(),
    }
}

/// Does what SIGHUP does, by sending it: whoever has files to take anew hears it already.
async fn reload() -> Response {
    let own = rustix::process::getpid();
    match rustix::process::kill_process(own, rustix::process::Signal::HUP) {
        Ok(()) => (
            StatusCode::ACCEPTED,
            "files are taken anew; the log says what came of it\n",
        )
            .into_response(),
        Err(error) => {
            tracing::error!(%error, "the server cannot send a signal to itself");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}

impl NodeThread {
    pub(super) async fn ask<T>(
        &self,
        request: impl FnOnce(oneshot::Sender<T>) -> AdminRequest,
    ) -> Result<T, Silence> {
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
        self.answer(answered).await
    }

    /// Whether the node does its work. All who ask at the same time share one question, which waits for its turn: no number of other
    /// requests makes a node look dead.
    pub(super) async fn health(&self) -> Result<Health, Silence> {
        if !self.recovered.load(Ordering::Acquire) {
            return Err(Silence::Starting);
        }
        let wanted = clock::instant();
        let mut last = self.health.lock().await;
        if let Some((asked, health)) = &*last
            && *asked >= wanted
        {
            return health.clone();
        }
        let asked = clock::instant();
        let (answer, answered) = oneshot::channel();
        let health = self.answer(async {
            let asking = self.requests.send(AdminRequest::Health(answer));
            // The receiver goes with the node's thread; then nobody answers, either.
            let _ = asking.await;
            answered.await
        });
        let health = health.await;
        *last = Some((asked, health.clone()));
        health
    }

    async fn answer<T>(
        &self,
        answered: impl Future<Output = Result<T, oneshot::error::RecvError>>,
    ) -> Result<T, Silence> {
        match tokio::time::timeout(self.answer_within, answered).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(_)) => Err(Silence::Gone),
            Err(_) => Err(Silence::Late(self.answer_within)),
        }
    }
}

impl Silence {
    /// For who asked.
    pub(super) fn words(&self) -> String {
        match self {
            Self::Starting => "starting: what is on disk is being read\n".to_owned(),
            Self::Busy => "too many requests are waiting\n".to_owned(),
            Self::Late(waited) => format!("the node did not answer within {waited:?}\n"),
            Self::Gone => "stopping\n".to_owned(),
        }
    }
}

impl IntoResponse for Silence {
    fn into_response(self) -> Response {
        (StatusCode::SERVICE_UNAVAILABLE, self.words()).into_response()
    }
}
