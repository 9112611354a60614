//! The byte stream to a Redis that runs: TCP, or TLS over it.

use server::{ConnectTlsError, TlsFiles, connect_tls};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

use super::address::Address;
use crate::import::tls::advice;

/// What requests and answers travel over.
pub(super) trait Transport: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Transport for T {}

/// Connects; with TLS where there are files for it, whose paths may all be empty.
pub(super) async fn open(address: &Address, tls: Option<&TlsFiles>) -> anyhow::Result<Box<dyn Transport>> {
    let stream = TcpStream::connect((address.host.as_str(), address.port)).await?;
    stream.set_nodelay(true)?;
    let Some(files) = tls else {
        return Ok(Box::new(stream));
    };
    match connect_tls(files, &address.host, stream).await {
        Ok(stream) => Ok(Box::new(stream)),
        Err(ConnectTlsError::Handshake(error)) => {
            let told = format!("{error}{}", advice(&error));
            Err(anyhow::Error::new(error).context(told))
        }
        Err(error) => Err(error.into()),
    }
}
