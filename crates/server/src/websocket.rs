//! MQTT over WebSocket: the bytes of binary messages, one after the other.
//!
//! The library does what RFC 6455 asks for: masks, fragments, pings, the closing handshake. Here messages become a stream of
//! bytes, in which packets begin and end wherever they do [MQTT-6.0.0-2], and whatever is no binary message ends it
//! [MQTT-6.0.0-1].

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes, BytesMut};
use futures_util::{Sink, Stream as _};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_tungstenite::tungstenite::handshake::server::{ErrorResponse, Request, Response};
use tokio_tungstenite::tungstenite::http::{HeaderValue, StatusCode, header};
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, WebSocketConfig};
use tokio_tungstenite::tungstenite::{self, Message};
use tokio_tungstenite::{WebSocketStream, accept_hdr_async_with_config};

use crate::config;

/// What a client has to ask for.
#[derive(Debug)]
pub(crate) struct Endpoint {
    path: String,
    allowed_origins: Vec<String>,
    message_bytes_max: usize,
}

/// MQTT's name in the opening handshake.
const SUBPROTOCOL: &str = "mqtt";

/// Clients may put many small packets in one message: it may be so large even where a packet may not.
const MESSAGE_BYTES_LEAST: usize = 64 * 1024;

/// Bytes read at once. Kept for as long as the connection lasts, so no more than what most messages need.
const READ_SIZE: usize = 4 * 1024;

/// The largest message to a client. More bytes are more messages, so that one is never copied whole.
const SENT_BYTES_MAX: usize = 64 * 1024;

impl Endpoint {
    pub(crate) fn new(settings: &config::WebSocket, packet_size_max: u32) -> Self {
        Self {
            path: settings.path.clone(),
            allowed_origins: settings.allowed_origins.clone(),
            message_bytes_max: MESSAGE_BYTES_LEAST.max(packet_size_max as usize),
        }
    }

    fn config(&self) -> WebSocketConfig {
        WebSocketConfig::default()
            .read_buffer_size(READ_SIZE)
            // A message is written when it is sent; what the socket does not take waits, and nothing is added to it.
            .write_buffer_size(0)
            .max_write_buffer_size(4 * SENT_BYTES_MAX)
            .max_message_size(Some(self.message_bytes_max))
            .max_frame_size(Some(self.message_bytes_max))
    }

    /// Why a client may not open a WebSocket.
    fn refusal(&self, request: &Request) -> Option<(StatusCode, &'static str)> {
        if request.uri().path() != self.path {
            return Some((StatusCode::NOT_FOUND, "there is no MQTT at this path"));
        }
        if !self.is_allowed(request) {
            return Some((StatusCode::FORBIDDEN, "pages of this origin may not connect"));
        }
        // [MQTT-6.0.0-3]
        (!offers_mqtt(request)).then_some((StatusCode::BAD_REQUEST, "the subprotocol has to be `mqtt`"))
    }

    /// What is not a browser tells no origin, or any that it likes.
    fn is_allowed(&self, request: &Request) -> bool {
        let Some(origin) = request.headers().get(header::ORIGIN) else {
            return true;
        };
        self.allowed_origins.is_empty()
            || self
                .allowed_origins
                .iter()
                .any(|allowed| origin == allowed.as_str())
    }
}

fn offers_mqtt(request: &Request) -> bool {
    request
        .headers()
        .get_all(header::SEC_WEBSOCKET_PROTOCOL)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .any(|offered| offered.trim() == SUBPROTOCOL)
}

/// A connection on which both sides have agreed to speak MQTT.
#[derive(Debug)]
pub(crate) struct WebSocket<S> {
    messages: WebSocketStream<S>,
    /// What is left of the last message.
    rest: Bytes,
    /// The client broke the protocol: what it sends is not looked at any more.
    is_refused: bool,
}

impl<S: AsyncRead + AsyncWrite + Unpin> WebSocket<S> {
    /// Shakes hands.
    pub(crate) async fn accept(stream: S, endpoint: &Endpoint) -> Result<Self, tungstenite::Error> {
        #[expect(clippy::result_large_err, reason = "the library asks for this type")]
        let answer = |request: &Request, mut response: Response| {
            if let Some((status, why)) = endpoint.refusal(request) {
                let mut refusal = ErrorResponse::new(Some(format!("{why}\n")));
                *refusal.status_mut() = status;
                return Err(refusal);
            }
            // [MQTT-6.0.0-4]
            response.headers_mut().insert(
                header::SEC_WEBSOCKET_PROTOCOL,
                HeaderValue::from_static(SUBPROTOCOL),
            );
            Ok(response)
        };
        Ok(Self {
            messages: accept_hdr_async_with_config(stream, answer, Some(endpoint.config())).await?,
            rest: Bytes::new(),
            is_refused: false,
        })
    }

    /// What it runs over.
    pub(crate) fn below(&self) -> &S {
        self.messages.get_ref()
    }

    /// Says why it closes.
    fn refuse(&mut self, code: CloseCode, why: &'static str) -> io::Error {
        let close = Message::Close(Some(CloseFrame {
            code,
            reason: why.into(),
        }));
        self.is_refused = true;
        // Whoever breaks the protocol may also have gone.
        let _ = Pin::new(&mut self.messages).start_send(close);
        io::Error::new(io::ErrorKind::InvalidData, why)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for WebSocket<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.is_refused {
            return Pin::new(self.messages.get_mut()).poll_read(context, buffer);
        }
        while self.rest.is_empty() {
            match ready!(Pin::new(&mut self.messages).poll_next(context)) {
                Some(Ok(Message::Binary(bytes))) => self.rest = bytes,
                Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => {}
                // [MQTT-6.0.0-1]
                Some(Ok(Message::Text(_))) => {
                    return Poll::Ready(Err(self.refuse(CloseCode::Unsupported, "MQTT is binary")));
                }
                Some(Err(tungstenite::Error::Capacity(_))) => {
                    return Poll::Ready(Err(self.refuse(CloseCode::Size, "the message is too large")));
                }
                Some(Err(error)) => return Poll::Ready(Err(io_error(error))),
                Some(Ok(Message::Close(_))) | None => return Poll::Ready(Ok(())),
            }
        }
        let count = self.rest.len().min(buffer.remaining());
        buffer.put_slice(&self.rest[..count]);
        self.rest.advance(count);
        if self.rest.is_empty() {
            // It would keep the memory of the message.
            self.rest = Bytes::new();
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for WebSocket<S> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(context, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut messages = Pin::new(&mut self.messages);
        ready!(messages.as_mut().poll_ready(context)).map_err(io_error)?;
        let all: usize = slices.iter().map(|slice| slice.len()).sum();
        let count = all.min(SENT_BYTES_MAX);
        let mut message = BytesMut::with_capacity(count);
        for slice in slices {
            let taken = slice.len().min(count - message.len());
            message.extend_from_slice(&slice[..taken]);
        }
        messages
            .start_send(Message::Binary(message.freeze()))
            .map_err(io_error)?;
        Poll::Ready(Ok(count))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.messages).poll_flush(context).map_err(io_error)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.messages).poll_close(context)).map_err(io_error)?;
        if self.is_refused {
            return Pin::new(self.messages.get_mut()).poll_shutdown(context);
        }
        // The client answers with a closing frame of its own, then the connection is closed.
        Poll::Ready(Ok(()))
    }
}

fn io_error(error: tungstenite::Error) -> io::Error {
    match error {
        tungstenite::Error::Io(error) => error,
        other => io::Error::other(other),
    }
}
