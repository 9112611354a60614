//! A listener that keeps so many connections open and no more.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::serve::Listener;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// A listener that accepts only while fewer than its maximum of connections are open.
pub(super) struct Bounded {
    listener: TcpListener,
    permits: Arc<Semaphore>,
}

/// A connection, and its place among those that may be open.
pub(super) struct Counted {
    stream: TcpStream,
    /// `None` only when the semaphore was closed, which nobody does.
    _permit: Option<OwnedSemaphorePermit>,
}

impl Bounded {
    pub(super) fn new(listener: TcpListener, connections_max: usize) -> Self {
        Self {
            listener,
            permits: Arc::new(Semaphore::new(connections_max)),
        }
    }
}

impl Listener for Bounded {
    type Io = Counted;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Counted, SocketAddr) {
        let permit = Arc::clone(&self.permits).acquire_owned().await.ok();
        // The implementation for `TcpListener` waits out errors such as too many open files.
        let (stream, address) = Listener::accept(&mut self.listener).await;
        (
            Counted {
                stream,
                _permit: permit,
            },
            address,
        )
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

impl AsyncRead for Counted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        task: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(task, into)
    }
}

impl AsyncWrite for Counted {
    fn poll_write(mut self: Pin<&mut Self>, task: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(task, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(task)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(task)
    }
}
