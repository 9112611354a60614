//! Accepts connections to the admin pages and serves requests on them: TLS where it is set, and a bound on everything that a client can
//! draw out or pile up.

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

use super::pages;
use crate::client_address::SourceNetwork;
use crate::clock;
use crate::strangers::{Place, PoolLimits, Strangers};

/// Connections to the pages, all of them and those of one address. One without a request under way gives way to a newcomer at once:
/// it waits for its client, and a probe of `/healthz` is answered within milliseconds.
const PLACES: PoolLimits = PoolLimits {
    places: 64,
    of_network: 32,
};

/// How long the body of a request may take, besides the answer of the node's thread. Parts of backups have places of their own.
pub(super) const BODY_WITHIN: Duration = Duration::from_secs(10);

/// How long a client that reads its answer does not give way.
const ANSWER_READ_WITHIN: Duration = Duration::from_secs(1);

/// How long a client may take for its handshake of TLS, and for the head of each request.
const HEAD_WITHIN: Duration = Duration::from_secs(10);

/// How long a connection lasts, whatever is done on it: a client that reads no answer has a place no longer.
const CONNECTION_LASTS: Duration = Duration::from_secs(300);

/// Bytes of the head of a request.
const HEAD_BYTES_MAX: usize = 16 * 1024;

/// Header lines of a request.
const HEADERS_MAX: usize = 64;

/// How long to wait when the system has no descriptor left.
const PAUSE_WITHOUT_DESCRIPTORS: Duration = Duration::from_millis(50);

/// From where a request came.
#[derive(Debug, Clone, Copy)]
pub(super) struct Peer(pub(super) IpAddr);

/// What is spoken below HTTP.
pub(super) type CurrentTls = Option<watch::Receiver<Arc<ServerConfig>>>;

/// What is served to connections, and where they are counted.
#[derive(Debug, Clone)]
pub(super) struct Served {
    pub(super) router: Router,
    pub(super) strangers: Strangers,
    /// For each request, parts of backups apart.
    pub(super) request_within: Duration,
}

/// Places of connections to the pages.
pub(super) fn strangers() -> Strangers {
    Strangers::new("admin", PLACES)
}

/// Serves until it is dropped.
pub(super) async fn serve(listener: TcpListener, tls: CurrentTls, served: Served) {
    loop {
        let Ok((stream, peer)) = listener.accept().await else {
            tokio::time::sleep(PAUSE_WITHOUT_DESCRIPTORS).await;
            continue;
        };
        let now = clock::instant();
        let network = SourceNetwork::of_ip(peer.ip());
        let Ok((place, mut gave_way)) = served.strangers.enter(network, now, now) else {
            continue;
        };
        let tls = tls
            .as_ref()
            .map(|tls| TlsAcceptor::from(Arc::clone(&tls.borrow())));
        let connection = Connection {
            peer: Peer(peer.ip()),
            served: served.clone(),
            place: Arc::new(place),
        };
        tokio::spawn(async move {
            let lasting = tokio::time::timeout(CONNECTION_LASTS, connection.run(stream, tls));
            tokio::select! {
                _ = lasting => {}
                () = gave_way.happened() => {
                    tracing::debug!(peer = %peer.ip(), "closed a connection to the admin pages: its place was needed for another one");
                }
            }
        });
    }
}

struct Connection {
    peer: Peer,
    served: Served,
    place: Arc<Place>,
}

impl Connection {
    async fn run(self, stream: TcpStream, tls: Option<TlsAcceptor>) {
        let Some(acceptor) = tls else {
            return self.requests(stream).await;
        };
        let peer = self.peer.0;
        match tokio::time::timeout(HEAD_WITHIN, acceptor.accept(stream)).await {
            Ok(Ok(stream)) => self.requests(stream).await,
            Ok(Err(error)) => tracing::debug!(%peer, %error, "a handshake with the admin pages failed"),
            Err(_) => tracing::debug!(%peer, "a handshake with the admin pages took too long"),
        }
    }

    async fn requests(self, stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) {
        let (peer, connection) = (self.peer, Arc::new(self));
        let answer = service_fn(move |mut request: hyper::Request<hyper::body::Incoming>| {
            request.extensions_mut().insert(peer);
            let connection = Arc::clone(&connection);
            async move { Ok::<_, Infallible>(connection.answer(request.map(Body::new)).await) }
        });
        let served = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_WITHIN)
            .max_header_size(HEAD_BYTES_MAX)
            .max_headers(HEADERS_MAX)
            .serve_connection(TokioIo::new(stream), answer);
        if let Err(error) = served.await {
            tracing::debug!(peer = %peer.0, %error, "a connection to the admin pages ended");
        }
    }

    /// Answers one request within its time.
    async fn answer(&self, request: hyper::Request<Body>) -> Response {
        let is_long = pages::is_long(request.uri().path());
        let within = if is_long {
            CONNECTION_LASTS
        } else {
            self.served.request_within
        };
        self.place.protect_until(clock::instant() + within);
        let router = TowerToHyperService::new(self.served.router.clone());
        let answering = hyper::service::Service::call(&router, request);
        let response = match tokio::time::timeout(within, answering).await {
            Ok(Ok(response)) => response,
            Err(_) => (StatusCode::REQUEST_TIMEOUT, "the request took too long\n").into_response(),
        };
        let is_stream = is_long && response.status().is_success();
        let read_within = if is_stream {
            CONNECTION_LASTS
        } else {
            ANSWER_READ_WITHIN
        };
        self.place.protect_until(clock::instant() + read_within);
        response
    }
}
