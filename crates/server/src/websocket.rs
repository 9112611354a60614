//! MQTT over WebSocket: the bytes of binary messages, one after the other.
//!
//! The library does what RFC 6455 asks for: masks, fragments, pings, the closing handshake. Here messages become a stream of
//! bytes, in which packets begin and end wherever they do [MQTT-6.0.0-2], and whatever is no binary message ends it
//! [MQTT-6.0.0-1].

mod opening;

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes, BytesMut};
use futures_util::{Sink, Stream as _};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{self, Message};

pub(crate) use self::opening::{Endpoint, OpeningError};

/// Frames without a byte of MQTT that are taken before others have their turn: each is a few microseconds at most.
const EMPTY_FRAMES_MAX: usize = 8;

/// Bytes read at once. Kept for as long as the connection lasts, so no more than what most messages need.
const READ_SIZE: usize = 4 * 1024;

/// Memory of this layer without what is under way.
pub(crate) const OVERHEAD: usize = READ_SIZE + 2 * 1024;

/// The largest message to a client. More bytes are more messages, so that one is never copied whole.
const SENT_BYTES_MAX: usize = 64 * 1024;

/// A connection on which both sides have agreed to speak MQTT.
#[derive(Debug)]
pub(crate) struct WebSocket<S> {
    messages: WebSocketStream<Metered<S>>,
    /// What is left of the last message.
    rest: Bytes,
    /// The client broke the protocol: what it sends is not looked at any more.
    is_refused: bool,
}

impl<S: AsyncRead + AsyncWrite + Unpin> WebSocket<S> {
    /// Shakes hands.
    pub(crate) async fn accept(
        mut stream: S,
        endpoint: &Endpoint,
        objection: impl FnOnce(&S) -> Option<String>,
    ) -> Result<Self, OpeningError> {
        let rest = endpoint.open(&mut stream, objection).await?;
        let config = Some(config(endpoint.message_bytes_max));
        Ok(Self {
            messages: WebSocketStream::from_partially_read(Metered::new(stream), rest, Role::Server, config)
                .await,
            rest: Bytes::new(),
            is_refused: false,
        })
    }

    /// What it runs over.
    pub(crate) fn below(&self) -> &S {
        &self.messages.get_ref().stream
    }

    /// Bytes of a message that has not arrived whole, and those of one that was not taken yet.
    pub(crate) fn unfinished(&self) -> usize {
        self.messages.get_ref().since_message + self.rest.len()
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
        let mut empty_frames = 0;
        while self.rest.is_empty() {
            if empty_frames == EMPTY_FRAMES_MAX {
                // Others have their turn, however many more of them have come.
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            empty_frames += 1;
            let next = ready!(Pin::new(&mut self.messages).poll_next(context));
            // What the library has read beyond the message is less than it reads at once.
            self.messages.get_mut().since_message = 0;
            match next {
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

fn config(message_bytes_max: usize) -> WebSocketConfig {
    WebSocketConfig::default()
        .read_buffer_size(READ_SIZE)
        // A message is written when it is sent; what the socket does not take waits, and nothing is added to it.
        .write_buffer_size(0)
        .max_write_buffer_size(4 * SENT_BYTES_MAX)
        .max_message_size(Some(message_bytes_max))
        .max_frame_size(Some(message_bytes_max))
}

fn io_error(error: tungstenite::Error) -> io::Error {
    match error {
        tungstenite::Error::Io(error) => error,
        other => io::Error::other(other),
    }
}

/// A stream that counts what is read from it: the library does not say how much of a message it holds.
#[derive(Debug)]
struct Metered<S> {
    stream: S,
    /// Bytes read since a message was complete.
    since_message: usize,
}

impl<S> Metered<S> {
    fn new(stream: S) -> Self {
        Self {
            stream,
            since_message: 0,
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Metered<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        self.since_message += buffer.filled().len() - before;
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Metered<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
