//! Why a handshake failed, in words for an operator.

use std::io;

use rustls::{AlertDescription, CertificateError, Error, InvalidMessage, OtherError};

/// Of the error that a handshake ended with.
pub(crate) fn of_handshake(error: &io::Error) -> String {
    let cause = error.get_ref().and_then(|cause| cause.downcast_ref());
    match cause {
        Some(cause) => of_error(cause),
        None if error.kind() == io::ErrorKind::UnexpectedEof => {
            "the client left in the middle of it; perhaps it does not trust the server's certificate"
                .to_owned()
        }
        None => error.to_string(),
    }
}

/// Of what `rustls` says.
pub(crate) fn of_error(error: &Error) -> String {
    let words = match error {
        Error::InvalidCertificate(CertificateError::Other(OtherError(why)))
            if why.downcast_ref() == Some(&webpki::Error::UnsupportedCertVersion) =>
        {
            "a certificate of the client is of X.509 version 1, which cannot say what it is for; issue it as version 3 \
             (openssl x509 -req with -extfile, or statehold certs)"
        }
        Error::InvalidCertificate(CertificateError::Other(OtherError(why))) => return why.to_string(),
        Error::InvalidCertificate(CertificateError::UnknownIssuer) => {
            "the client's certificate is of no authority in client_ca"
        }
        Error::InvalidCertificate(CertificateError::Revoked) => "the client's certificate is revoked",
        Error::InvalidCertificate(CertificateError::UnknownRevocationStatus) => {
            "crl has no list of the authority of the client's certificate"
        }
        Error::NoCertificatesPresented => "the client has no certificate",
        Error::InvalidMessage(InvalidMessage::InvalidContentType) => {
            "the client does not speak TLS; perhaps MQTT without it"
        }
        Error::AlertReceived(AlertDescription::UnknownCA | AlertDescription::BadCertificate) => {
            "the client does not trust the server's certificate"
        }
        Error::PeerIncompatible(why) => {
            return format!("the client offers nothing that is spoken here: {why:?}");
        }
        other => return other.to_string(),
    };
    words.to_owned()
}
