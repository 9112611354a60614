//! The PROXY protocol, versions 1 and 2: what a load balancer says of a client before the client's own bytes.
//!
//! The header is required where a listener asks for it, and never looked for elsewhere: a client that could choose would
//! claim any address. What follows it is not touched: no byte after the header is read.

mod header;
#[cfg(test)]
mod tests;

use std::io;
use std::net::SocketAddr;

use thiserror::Error;
use tokio::io::{AsyncRead, AsyncReadExt};

use self::header::{Malformed, Progress};

/// Why a connection does not begin with a header.
#[derive(Debug, Error)]
pub(crate) enum ProxyError {
    #[error(transparent)]
    Malformed(#[from] Malformed),
    #[error("the connection ended before the header did")]
    Ended,
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Reads a header. `None` if the proxy speaks for itself, or does not say an address that clients of this server can have.
pub(crate) async fn read<S: AsyncRead + Unpin>(stream: &mut S) -> Result<Option<SocketAddr>, ProxyError> {
    let mut header = Vec::new();
    loop {
        match header::parse(&header)? {
            Progress::Complete(client) => return Ok(client),
            Progress::Missing(count) => {
                let mut missing = (&mut *stream).take(count as u64);
                if missing.read_buf(&mut header).await? == 0 {
                    return Err(ProxyError::Ended);
                }
            }
        }
    }
}
