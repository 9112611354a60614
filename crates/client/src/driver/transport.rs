//! The byte stream below a session: TCP or a Unix socket, or TLS over it.

use std::io;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::tls::Tls;
use crate::options::unix_path;

/// What packets travel over.
pub(super) trait Transport: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Transport for T {}

/// Connects to `address`, trying all that its name resolves to.
pub(super) async fn open(address: String, tls: Option<Tls>) -> io::Result<Box<dyn Transport>> {
    if let Some(path) = unix_path(&address) {
        return with_tls(open_unix(path).await?, tls).await;
    }
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    with_tls(stream, tls).await
}

async fn with_tls<T: Transport + 'static>(stream: T, tls: Option<Tls>) -> io::Result<Box<dyn Transport>> {
    match tls {
        None => Ok(Box::new(stream)),
        Some(tls) => {
            let connector = TlsConnector::from(tls.config);
            Ok(Box::new(connector.connect(tls.server_name, stream).await?))
        }
    }
}

#[cfg(unix)]
async fn open_unix(path: &str) -> io::Result<impl Transport + 'static> {
    tokio::net::UnixStream::connect(path).await
}

#[cfg(not(unix))]
async fn open_unix(_path: &str) -> io::Result<TcpStream> {
    Err(io::ErrorKind::Unsupported.into())
}
