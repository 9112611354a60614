//! What comes before MQTT on a connection: the header of a proxy, then TLS, then WebSocket.
//!
//! Handshakes run on a thread of their own ([`crate::handshake_thread`]): their arithmetic takes longer than most of what
//! the node does.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rustls::ServerConfig;
use rustls::pki_types::CertificateDer;
use thiserror::Error;
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

use crate::client_address::{ClientAddress, SourceNetwork};
use crate::clock;
use crate::proxy_protocol::{self, ProxyError};
use crate::spoken::{FIRST_BYTES, Spoken};
use crate::strangers::{NoPlace, Place};
use crate::stream::Stream;
use crate::tls::{ClientVerifier, explanation};
use crate::websocket::{Endpoint, OpeningError, WebSocket};

/// What a listener puts between its sockets and MQTT.
#[derive(Debug, Clone, Default)]
pub(crate) struct Layers {
    /// Connections begin with a header of the PROXY protocol.
    pub(crate) proxy_protocol: bool,
    pub(crate) tls: Option<watch::Receiver<Arc<ServerConfig>>>,
    /// What is asked of the certificates of clients, if they are asked for any.
    pub(crate) verifier: Option<watch::Receiver<Option<Arc<ClientVerifier>>>>,
    pub(crate) websocket: Option<Arc<Endpoint>>,
}

/// Memory of a handshake that is under way, at most: a message of TLS has up to 64 KiB, and the head of a request of WebSocket less.
pub(crate) const HANDSHAKE_BYTES: usize = 64 * 1024;

/// Why a connection ended before MQTT began.
#[derive(Debug, Error)]
pub(crate) enum HandshakeError {
    /// As a probe does that looks whether somebody listens.
    #[error("the client said nothing")]
    Silent,
    #[error("it took longer than limits.connect_timeout")]
    TooSlow,
    #[error("PROXY protocol: the header took longer than a fifth of limits.connect_timeout")]
    HeaderTooSlow,
    #[error("{0}")]
    Spoken(&'static str),
    #[error("PROXY protocol: {0}")]
    Proxy(#[from] ProxyError),
    #[error("TLS: {}", explanation::of_handshake(.0))]
    Tls(io::Error),
    #[error("WebSocket: {0}")]
    WebSocket(#[from] OpeningError),
    /// The address that the proxy names has too many already.
    #[error("no waiting place is free for the client's address ({})", .0.name())]
    NoPlace(NoPlace),
    /// Something else is asked of certificates than when its handshake began.
    #[error("TLS: {0}")]
    Revoked(String),
}

impl HandshakeError {
    /// Whether it is worth a line, and counts as a handshake that failed: who says nothing looks whether somebody listens.
    pub(crate) fn is_silent(&self) -> bool {
        matches!(self, Self::Silent)
    }

    fn without_header(has_spoken: bool) -> Self {
        if has_spoken {
            Self::HeaderTooSlow
        } else {
            Self::Silent
        }
    }
}

/// A connection on which MQTT may begin.
pub(crate) struct Shaken {
    pub(crate) stream: Stream,
    pub(crate) place: Place,
    pub(crate) verified: Option<Verified>,
}

/// What a client's certificate was held against, and what certificates are held against now: files may change between the
/// handshakes of TLS and WebSocket.
#[derive(Debug, Clone)]
pub(crate) struct Verified {
    by: Option<Arc<ClientVerifier>>,
    current: watch::Receiver<Option<Arc<ClientVerifier>>>,
}

impl Verified {
    fn new(current: &watch::Receiver<Option<Arc<ClientVerifier>>>) -> Self {
        Self {
            by: current.borrow().clone(),
            current: current.clone(),
        }
    }

    /// Whether nothing else is asked of certificates by now.
    pub(crate) fn is_current(&self) -> bool {
        match (&self.by, &*self.current.borrow()) {
            (Some(by), Some(current)) => Arc::ptr_eq(by, current),
            (_, None) => true,
            (None, Some(_)) => false,
        }
    }

    /// Why a client with these certificates has to go by what is asked now. Takes as long as checking signatures does.
    pub(crate) fn objection(&mut self, chain: &[CertificateDer<'_>]) -> Option<String> {
        while !self.is_current() {
            self.by = self.current.borrow().clone();
            let error = self.by.as_ref()?.objection(chain);
            if let Some(error) = error {
                let why = explanation::of_error(&error);
                return Some(format!("the certificate does not hold any more: {why}"));
            }
        }
        None
    }
}

impl Layers {
    /// Whether MQTT begins with the first byte.
    pub(crate) fn is_none(&self) -> bool {
        !self.proxy_protocol && self.tls.is_none() && self.websocket.is_none()
    }

    /// Puts the layers on a connection. Gives up after `within`. The address is the one that a proxy names, if it came to that; then
    /// the waiting place counts for that address.
    pub(crate) async fn put_on(
        self,
        stream: Stream,
        mut peer: ClientAddress,
        place: Place,
        within: Duration,
    ) -> (ClientAddress, Result<Shaken, HandshakeError>) {
        let mut has_spoken = false;
        let shaking = self.shake_hands(stream, &mut peer, (&place, within), &mut has_spoken);
        let shaken = match tokio::time::timeout(within, shaking).await {
            Ok(shaken) => shaken,
            Err(_) if has_spoken => Err(HandshakeError::TooSlow),
            Err(_) => Err(HandshakeError::Silent),
        };
        let shaken = shaken.map(|(stream, verified)| Shaken {
            stream,
            place,
            verified,
        });
        (peer, shaken)
    }

    async fn shake_hands(
        self,
        mut stream: Stream,
        peer: &mut ClientAddress,
        (place, within): (&Place, Duration),
        has_spoken: &mut bool,
    ) -> Result<(Stream, Option<Verified>), HandshakeError> {
        let mut first = [0; FIRST_BYTES];
        if self.proxy_protocol {
            let named = named_by_proxy(&mut stream, has_spoken);
            let named = tokio::time::timeout(within / HEADER_PART, named).await;
            let named = named.unwrap_or_else(|_| Err(HandshakeError::without_header(*has_spoken)));
            if let Some(client) = named? {
                *peer = ClientAddress::Ip(client);
            }
            let moved = place.move_to(SourceNetwork::of(*peer), clock::instant());
            moved.map_err(HandshakeError::NoPlace)?;
        }
        // Before the settings of TLS, so that a handshake by newer ones is looked at again and never the other way round.
        let mut verified = self.verifier.as_ref().map(Verified::new);
        if let Some(tls) = self.tls {
            let spoken = look(&stream, &mut first).await?;
            *has_spoken = true;
            let config = Arc::clone(&tls.borrow());
            let accepted = TlsAcceptor::from(config).accept(stream).await;
            let accepted = accepted.map_err(|error| match spoken {
                None | Some(Spoken::Tls) => HandshakeError::Tls(error),
                Some(other) => HandshakeError::Spoken(other.at_tls()),
            });
            stream = Stream::Tls(Box::new(accepted?.into()));
        }
        if let Some(endpoint) = self.websocket {
            if !*has_spoken {
                look(&stream, &mut first).await?;
                *has_spoken = true;
            }
            let objection = |stream: &Stream| verified.as_mut()?.objection(stream.peer_certificates());
            let accepted = WebSocket::accept(stream, &endpoint, objection).await?;
            stream = Stream::WebSocket(Box::new(accepted));
        }
        Ok((stream, verified))
    }
}

/// Part of the time for handshakes in which the header of a proxy has to be complete: a proxy sends it at once, and until then
/// nothing bounds the places of one client.
const HEADER_PART: u32 = 5;

/// Reads the header of a proxy.
async fn named_by_proxy(
    stream: &mut Stream,
    has_spoken: &mut bool,
) -> Result<Option<SocketAddr>, HandshakeError> {
    look(stream, &mut [0; FIRST_BYTES]).await?;
    *has_spoken = true;
    Ok(proxy_protocol::read(stream).await?)
}

/// What a connection begins with, which stays where it is.
async fn look(stream: &Stream, first: &mut [u8; FIRST_BYTES]) -> Result<Option<Spoken>, HandshakeError> {
    match stream.first_bytes(first).await {
        Ok(Some([])) | Err(_) => Err(HandshakeError::Silent),
        Ok(first) => Ok(first.and_then(Spoken::of)),
    }
}
