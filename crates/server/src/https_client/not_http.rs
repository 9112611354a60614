//! A connection with TLS to a server that does not speak HTTP, with the files that requests over HTTP are made with.
//!
//! What may be wrong with TLS is told apart here as far as somebody who has given those files can do something about it.

use std::io;
use std::sync::Arc;

use rustls::pki_types::ServerName;
use rustls::{AlertDescription, CertificateError, Error, InvalidMessage};
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::client_tls::{ClientTlsError, TlsFiles, client_config};

/// Why there is no connection with TLS.
#[derive(Debug, Error)]
pub enum ConnectTlsError {
    /// A file cannot be used.
    #[error(transparent)]
    Files(#[from] ClientTlsError),
    /// It is neither a name nor an address.
    #[error("no certificate can be for the name {0:?}")]
    Name(String),
    /// The handshake has failed; [`TlsFault::of`] may know why.
    #[error("{0}")]
    Handshake(io::Error),
}

/// Begins with TLS on a connection to `host`, whose certificate has to be for that name or address.
///
/// It has no limit of time of its own.
pub async fn connect_tls(
    files: &TlsFiles,
    host: &str,
    stream: TcpStream,
) -> Result<impl AsyncRead + AsyncWrite + Send + Unpin + 'static, ConnectTlsError> {
    let config = client_config(files, &[])?;
    let name = ServerName::try_from(host.to_owned()).map_err(|_| ConnectTlsError::Name(host.to_owned()))?;
    let connecting = TlsConnector::from(Arc::new(config)).connect(name, stream);
    connecting.await.map_err(ConnectTlsError::Handshake)
}

/// What is wrong with TLS, of that which a user can mend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TlsFault {
    /// The server's certificate is of no authority that is believed.
    Issuer,
    /// The server's certificate is good, and for other names.
    Name,
    /// The server wants a certificate, or not the one that it got.
    Wanted,
    /// The server does not speak TLS at all.
    NotTls,
}

impl TlsFault {
    /// Of what a connection has failed with, at its beginning or, where a server looks at certificates afterwards, later.
    pub fn of(error: &io::Error) -> Option<Self> {
        match error.get_ref()?.downcast_ref()? {
            Error::InvalidCertificate(CertificateError::UnknownIssuer | CertificateError::BadSignature) => {
                Some(Self::Issuer)
            }
            Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            ) => Some(Self::Name),
            Error::AlertReceived(
                AlertDescription::CertificateRequired
                | AlertDescription::BadCertificate
                | AlertDescription::HandshakeFailure
                | AlertDescription::UnknownCA,
            ) => Some(Self::Wanted),
            Error::InvalidMessage(InvalidMessage::InvalidContentType) => Some(Self::NotTls),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_that_can_be_mended_are_told_apart_and_others_are_none() {
        let of = |error: Error| TlsFault::of(&io::Error::other(error));
        let name = Error::InvalidCertificate(CertificateError::NotValidForName);
        assert_eq!(of(name), Some(TlsFault::Name));
        let wanted = Error::AlertReceived(AlertDescription::CertificateRequired);
        assert_eq!(of(wanted), Some(TlsFault::Wanted));
        assert_eq!(of(Error::InvalidCertificate(CertificateError::Expired)), None);
        assert_eq!(TlsFault::of(&io::ErrorKind::UnexpectedEof.into()), None);
    }
}
