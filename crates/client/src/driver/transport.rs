//! The byte stream below a session: TCP, or TLS over it.

use std::io;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::tls::Tls;

/// What packets travel over.
pub(super) trait Transport: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Transport for T {}

/// Connects to `address`, trying all that its name resolves to.
pub(super) async fn open(address: String, tls: Option<Tls>) -> io::Result<Box<dyn Transport>> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    match tls {
        None => Ok(Box::new(stream)),
        Some(tls) => {
            let connector = TlsConnector::from(tls.config);
            Ok(Box::new(connector.connect(tls.server_name, stream).await?))
        }
    }
}
