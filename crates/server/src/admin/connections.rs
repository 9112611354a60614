//! Accepts connections to the admin pages and serves requests on them: TLS where it is set, and a bound on everything that a client can
//! draw out or pile up.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio_rustls::TlsAcceptor;

/// Connections to the pages at once; a further one waits until another has ended.
const CONNECTIONS_MAX: usize = 64;

/// Connections of one address at once, if it is not this machine; a further one is closed.
const CONNECTIONS_OF_ADDRESS_MAX: usize = 16;

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

/// Serves until it is dropped.
pub(super) async fn serve(listener: TcpListener, tls: CurrentTls, router: Router) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let addresses = Addresses::default();
    while let Ok(place) = Arc::clone(&places).acquire_owned().await {
        let Ok((stream, peer)) = listener.accept().await else {
            tokio::time::sleep(PAUSE_WITHOUT_DESCRIPTORS).await;
            continue;
        };
        let Some(counted) = addresses.count(peer) else {
            continue;
        };
        let tls = tls
            .as_ref()
            .map(|tls| TlsAcceptor::from(Arc::clone(&tls.borrow())));
        let connection = Connection {
            peer: Peer(peer.ip()),
            router: router.clone(),
            _place: place,
            _counted: counted,
        };
        tokio::spawn(tokio::time::timeout(
            CONNECTION_LASTS,
            connection.run(stream, tls),
        ));
    }
}

struct Connection {
    peer: Peer,
    router: Router,
    _place: OwnedSemaphorePermit,
    _counted: Counted,
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
        let (peer, router) = (self.peer, self.router.clone());
        let answer = service_fn(move |mut request: hyper::Request<hyper::body::Incoming>| {
            request.extensions_mut().insert(peer);
            let router = TowerToHyperService::new(router.clone());
            async move {
                let answered: Result<axum::response::Response, Infallible> =
                    hyper::service::Service::call(&router, request.map(Body::new)).await;
                answered
            }
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
}

/// How many connections each address has.
#[derive(Debug, Clone, Default)]
struct Addresses(Arc<Mutex<BTreeMap<IpAddr, usize>>>);

/// Counts a connection until it is dropped.
struct Counted {
    address: IpAddr,
    addresses: Addresses,
}

impl Addresses {
    fn count(&self, peer: SocketAddr) -> Option<Counted> {
        let address = peer.ip();
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = all.entry(address).or_default();
        if *count >= CONNECTIONS_OF_ADDRESS_MAX && !address.is_loopback() {
            return None;
        }
        *count += 1;
        Some(Counted {
            address,
            addresses: self.clone(),
        })
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let mut all = self.addresses.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = all.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                all.remove(&self.address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_only_so_many_connections_and_this_machine_more() {
        let addresses = Addresses::default();
        let other = SocketAddr::from(([192, 0, 2, 1], 1));
        let mut counted: Vec<_> = (0..20).filter_map(|_| addresses.count(other)).collect();
        assert_eq!(counted.len(), CONNECTIONS_OF_ADDRESS_MAX);
        counted.pop();
        assert!(addresses.count(other).is_some());
        let own = SocketAddr::from(([127, 0, 0, 1], 1));
        let own: Vec<_> = (0..20).filter_map(|_| addresses.count(own)).collect();
        assert_eq!(own.len(), 20);
        drop((counted, own));
        assert!(addresses.0.lock().expect("whole").is_empty());
    }
}
