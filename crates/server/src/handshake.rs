//! What comes before MQTT on a connection: TLS, then WebSocket.
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
use crate::stream::Stream;
use crate::websocket::{Endpoint, WebSocket};

/// What a listener puts between its sockets and MQTT.
#[derive(Debug, Clone, Default)]
pub(crate) struct Layers {
    pub(crate) tls: Option<watch::Receiver<Arc<ServerConfig>>>,
    pub(crate) websocket: Option<Arc<Endpoint>>,
}

/// Why a connection ended before MQTT began.
#[derive(Debug, Error)]
pub(crate) enum HandshakeError {
    #[error("it took longer than limits.connect_timeout")]
    TooSlow,
    #[error("TLS: {0}")]
    Tls(io::Error),
    #[error("WebSocket: {0}")]
    WebSocket(tungstenite::Error),
}

impl Layers {
    /// Whether MQTT begins with the first byte.
    pub(crate) fn is_none(&self) -> bool {
        self.tls.is_none() && self.websocket.is_none()
    }

    /// Puts the layers on a connection. Gives up after `within`.
    pub(crate) async fn put_on(
        self,
        stream: Stream,
        peer: ClientAddress,
        within: Duration,
    ) -> Result<(Stream, ClientAddress), HandshakeError> {
        match tokio::time::timeout(within, self.shake_hands(stream)).await {
            Ok(stream) => Ok((stream?, peer)),
            Err(_) => Err(HandshakeError::TooSlow),
        }
    }

    async fn shake_hands(self, mut stream: Stream) -> Result<Stream, HandshakeError> {
        if let Some(tls) = self.tls {
            let config = Arc::clone(&tls.borrow());
            let accepted = TlsAcceptor::from(config).accept(stream).await;
            stream = Stream::Tls(Box::new(accepted.map_err(HandshakeError::Tls)?));
        }
        if let Some(endpoint) = self.websocket {
            let accepted = WebSocket::accept(stream, &endpoint).await;
            stream = Stream::WebSocket(Box::new(accepted.map_err(HandshakeError::WebSocket)?));
        }
        Ok(stream)
    }
}
