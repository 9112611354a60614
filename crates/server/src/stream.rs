//! What bytes travel through: a plain socket, of TCP or of Unix, TLS on top of one, or WebSocket on top of either.
//!
//! This is the one place that knows the kinds. The driver writes at the end of a turn and cannot wait, so beside the
//! reading and writing of tokio there is [`Stream::try_write`], which says `WouldBlock` instead; then a task waits with
//! [`Stream::poll_writable`]. A layer may hold bytes back, so everything is out only after [`Stream::try_flush`].

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use rustls::pki_types::CertificateDer;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsStream;

use crate::websocket::{self, WebSocket};

/// A client's connection.
#[derive(Debug)]
pub(crate) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
    Tls(Box<TlsStream<Stream>>),
    WebSocket(Box<WebSocket<Stream>>),
}

impl Stream {
    /// Writes what is taken at once.
    pub(crate) fn try_write(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Self::Tcp(socket) => match slices {
                // The system does less for one slice.
                [slice] => socket.try_write(slice),
                slices => socket.try_write_vectored(slices),
            },
            Self::Unix(socket) => socket.try_write_vectored(slices),
            Self::Tls(layer) => at_once(Pin::new(layer).poll_write_vectored(&mut nobody(), slices)),
            Self::WebSocket(layer) => at_once(Pin::new(layer).poll_write_vectored(&mut nobody(), slices)),
        }
    }

    /// Hands on what a layer holds back.
    pub(crate) fn try_flush(&mut self) -> io::Result<()> {
        match self {
            Self::Tcp(_) | Self::Unix(_) => Ok(()),
            Self::Tls(layer) => at_once(Pin::new(layer).poll_flush(&mut nobody())),
            Self::WebSocket(layer) => at_once(Pin::new(layer).poll_flush(&mut nobody())),
        }
    }

    /// Ready when more is taken.
    pub(crate) fn poll_writable(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Tcp(socket) => socket.poll_write_ready(context),
            Self::Unix(socket) => socket.poll_write_ready(context),
            Self::Tls(layer) => Pin::new(layer).poll_flush(context),
            Self::WebSocket(layer) => Pin::new(layer).poll_flush(context),
        }
    }

    /// The first bytes that wait in a TCP socket, when there are some; none at the end of the connection. Nothing is known of others.
    pub(crate) async fn first_bytes<'a>(&self, buffer: &'a mut [u8]) -> io::Result<Option<&'a [u8]>> {
        match self {
            Self::Tcp(socket) => {
                let count = socket.peek(buffer).await?;
                Ok(Some(&buffer[..count]))
            }
            Self::Unix(_) | Self::Tls(_) | Self::WebSocket(_) => Ok(None),
        }
    }

    /// Bytes of a WebSocket message that has not arrived whole.
    pub(crate) fn unfinished(&self) -> usize {
        match self {
            Self::Tcp(_) | Self::Unix(_) | Self::Tls(_) => 0,
            Self::WebSocket(layer) => layer.unfinished(),
        }
    }

    /// Memory of the layers, whether anything is under way or not.
    pub(crate) fn overhead(&self) -> usize {
        match self {
            Self::Tcp(_) | Self::Unix(_) => 0,
            Self::Tls(layer) => TLS_OVERHEAD + layer.get_ref().0.overhead(),
            Self::WebSocket(layer) => websocket::OVERHEAD + layer.below().overhead(),
        }
    }

    /// What the client has shown in the handshake of TLS, its own certificate first; empty without one.
    pub(crate) fn peer_certificates(&self) -> &[CertificateDer<'static>] {
        match self {
            Self::Tcp(_) | Self::Unix(_) => &[],
            Self::Tls(layer) => layer.get_ref().1.peer_certificates().unwrap_or_default(),
            Self::WebSocket(layer) => layer.below().peer_certificates(),
        }
    }

    /// The TCP socket under all layers, if it is one.
    #[cfg(target_os = "linux")]
    pub(crate) fn tcp(&self) -> Option<&TcpStream> {
        match self {
            Self::Tcp(socket) => Some(socket),
            Self::Unix(_) => None,
            Self::Tls(layer) => layer.get_ref().0.tcp(),
            Self::WebSocket(layer) => layer.below().tcp(),
        }
    }
}

/// Memory of a layer of TLS: its keys, and its buffers of one record each way.
const TLS_OVERHEAD: usize = 24 * 1024;

/// Who asks and does not wait: a task that waits asks again for itself.
fn nobody() -> Context<'static> {
    Context::from_waker(Waker::noop())
}

fn at_once<T>(polled: Poll<io::Result<T>>) -> io::Result<T> {
    match polled {
        Poll::Ready(result) => result,
        Poll::Pending => Err(io::ErrorKind::WouldBlock.into()),
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(socket) => Pin::new(socket).poll_read(context, buffer),
            Self::Unix(socket) => Pin::new(socket).poll_read(context, buffer),
            Self::Tls(layer) => Pin::new(layer).poll_read(context, buffer),
            Self::WebSocket(layer) => Pin::new(layer).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(socket) => Pin::new(socket).poll_write(context, bytes),
            Self::Unix(socket) => Pin::new(socket).poll_write(context, bytes),
            Self::Tls(layer) => Pin::new(layer).poll_write(context, bytes),
            Self::WebSocket(layer) => Pin::new(layer).poll_write(context, bytes),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(socket) => Pin::new(socket).poll_write_vectored(context, slices),
            Self::Unix(socket) => Pin::new(socket).poll_write_vectored(context, slices),
            Self::Tls(layer) => Pin::new(layer).poll_write_vectored(context, slices),
            Self::WebSocket(layer) => Pin::new(layer).poll_write_vectored(context, slices),
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(socket) => Pin::new(socket).poll_flush(context),
            Self::Unix(socket) => Pin::new(socket).poll_flush(context),
            Self::Tls(layer) => Pin::new(layer).poll_flush(context),
            Self::WebSocket(layer) => Pin::new(layer).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(socket) => Pin::new(socket).poll_shutdown(context),
            Self::Unix(socket) => Pin::new(socket).poll_shutdown(context),
            Self::Tls(layer) => Pin::new(layer).poll_shutdown(context),
            Self::WebSocket(layer) => Pin::new(layer).poll_shutdown(context),
        }
    }
}
