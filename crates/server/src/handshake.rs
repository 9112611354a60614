//! What comes before MQTT on a connection: the header of a proxy, then TLS, then WebSocket.
//!
//! Handshakes run on a thread of their own ([`crate::handshake_thread`]): their arithmetic takes longer than most of what
//! the node does.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use rustls::ServerConfig;
use thiserror::Error;
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;
use tokio_tungstenite::tungstenite;

use crate::client_address::ClientAddress;
use crate::proxy_protocol::{self, ProxyError};
use crate::stream::Stream;
use crate::tls::explanation;
use crate::websocket::{Endpoint, WebSocket};

/// What a listener puts between its sockets and MQTT.
#[derive(Debug, Clone, Default)]
pub(crate) struct Layers {
    /// Connections begin with a header of the PROXY protocol.
    pub(crate) proxy_protocol: bool,
    pub(crate) tls: Option<watch::Receiver<Arc<ServerConfig>>>,
    pub(crate) websocket: Option<Arc<Endpoint>>,
}

/// Why a connection ended before MQTT began.
#[derive(Debug, Error)]
pub(crate) enum HandshakeError {
    #[error("it took longer than limits.connect_timeout")]
    TooSlow,
    #[error("PROXY protocol: {0}")]
    Proxy(#[from] ProxyError),
    #[error("TLS: {}", explanation::of_handshake(.0))]
    Tls(io::Error),
    #[error("WebSocket: {0}")]
    WebSocket(tungstenite::Error),
}

impl Layers {
    /// Whether MQTT begins with the first byte.
    pub(crate) fn is_none(&self) -> bool {
        !self.proxy_protocol && self.tls.is_none() && self.websocket.is_none()
    }

    /// Puts the layers on a connection. Gives up after `within`. The address is the one that a proxy names, if it came to that.
    pub(crate) async fn put_on(
        self,
        stream: Stream,
        mut peer: ClientAddress,
        within: Duration,
    ) -> (ClientAddress, Result<Stream, HandshakeError>) {
        let shaken = tokio::time::timeout(within, self.shake_hands(stream, &mut peer)).await;
        (peer, shaken.unwrap_or(Err(HandshakeError::TooSlow)))
    }

    async fn shake_hands(
        self,
        mut stream: Stream,
        peer: &mut ClientAddress,
    ) -> Result<Stream, HandshakeError> {
        if self.proxy_protocol
            && let Some(client) = proxy_protocol::read(&mut stream).await?
        {
            *peer = ClientAddress::Ip(client);
        }
        if let Some(tls) = self.tls {
            let config = Arc::clone(&tls.borrow());
            let accepted = TlsAcceptor::from(config).accept(stream).await;
            stream = Stream::Tls(Box::new(accepted.map_err(HandshakeError::Tls)?.into()));
        }
        if let Some(endpoint) = self.websocket {
            let accepted = WebSocket::accept(stream, &endpoint).await;
            stream = Stream::WebSocket(Box::new(accepted.map_err(HandshakeError::WebSocket)?));
        }
        Ok(stream)
    }
}
