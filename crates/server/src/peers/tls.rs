//! TLS between nodes: each shows a certificate of the peers' authority, and wants to see one. Names do not matter: every node has to be
//! believed by every other one in any case.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, ServerConfig,
    SignatureScheme,
};
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_rustls::{TlsAcceptor, TlsConnector, TlsStream};

use super::Shared;
use super::meeting::MeetingError;
use crate::config;
use crate::stamp::{Stamp, stamp};
use crate::stream::Stream;
use crate::tls::{Tls, TlsError, files};

/// What connections between nodes are made with.
#[derive(Debug, Clone)]
pub(crate) struct PeerTls {
    accepting: watch::Receiver<Arc<ServerConfig>>,
    dialling: Arc<Mutex<Dialling>>,
}

/// For connections that this node makes: read again when the files have changed.
#[derive(Debug)]
struct Dialling {
    settings: config::PeerTls,
    current: Arc<ClientConfig>,
    used: [Stamp; 3],
}

/// How long a handshake may take.
const HANDSHAKE_MAX: Duration = Duration::from_secs(3);

/// Nobody looks at it, but there has to be one.
const NAME: &str = "node.statehold.invalid";

impl PeerTls {
    /// Reads the files; `None`: nodes talk in clear. The other half keeps what is asked of those who connect up to date.
    pub(crate) fn load(settings: &config::PeerTls) -> Result<Option<(Self, Tls)>, TlsError> {
        let Some(for_listener) = settings.for_listener() else {
            return Ok(None);
        };
        let tls = Tls::load("cluster.tls", &for_listener)?;
        let used = stamps(settings);
        let dialling = Dialling {
            current: Arc::new(client_config(settings)?),
            settings: settings.clone(),
            used,
        };
        let peer_tls = Self {
            accepting: tls.current(),
            dialling: Arc::new(Mutex::new(dialling)),
        };
        Ok(Some((peer_tls, tls)))
    }

    /// What holds at the moment.
    fn for_dialling(&self) -> Arc<ClientConfig> {
        let mut dialling = self.dialling.lock().unwrap_or_else(PoisonError::into_inner);
        let seen = stamps(&dialling.settings);
        if seen != dialling.used {
            dialling.used = seen;
            match client_config(&dialling.settings) {
                Ok(config) => dialling.current = Arc::new(config),
                Err(error) => {
                    tracing::error!(%error, "cannot take the files of TLS anew: the old ones stay in use");
                }
            }
        }
        Arc::clone(&dialling.current)
    }
}

/// Puts TLS on a connection that this node has made, where nodes talk by TLS.
pub(super) async fn connect(shared: &Shared, stream: Stream) -> Result<Stream, MeetingError> {
    let (Some(tls), Some(handle)) = (shared.tls.clone(), &shared.handshakes) else {
        return Ok(stream);
    };
    let shaken = handle.spawn(async move {
        let name = ServerName::try_from(NAME).expect("it is a name");
        TlsConnector::from(tls.for_dialling())
            .connect(name, stream)
            .await
            .map(TlsStream::from)
    });
    within(shaken).await
}

/// Puts TLS on a connection that another node has made, where nodes talk by TLS.
pub(super) async fn accept(shared: &Shared, stream: Stream) -> Result<Stream, MeetingError> {
    let (Some(tls), Some(handle)) = (&shared.tls, &shared.handshakes) else {
        return Ok(stream);
    };
    let config = Arc::clone(&tls.accepting.borrow());
    let shaken = handle.spawn(async move {
        let accepted = TlsAcceptor::from(config).accept(stream).await;
        accepted.map(TlsStream::from)
    });
    within(shaken).await
}

async fn within(
    shaken: tokio::task::JoinHandle<std::io::Result<TlsStream<Stream>>>,
) -> Result<Stream, MeetingError> {
    let stop = shaken.abort_handle();
    match timeout(HANDSHAKE_MAX, shaken).await {
        Ok(Ok(shaken)) => Ok(Stream::Tls(Box::new(shaken.map_err(MeetingError::Tls)?))),
        Ok(Err(_)) => Err(MeetingError::Closed),
        Err(_) => {
            stop.abort();
            Err(MeetingError::Silent(HANDSHAKE_MAX))
        }
    }
}

fn stamps(settings: &config::PeerTls) -> [Stamp; 3] {
    [&settings.cert, &settings.key, &settings.ca].map(|file| stamp(file))
}

fn client_config(settings: &config::PeerTls) -> Result<ClientConfig, TlsError> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let content = |setting: &str, file: &Path, cause| {
        let file = file.to_owned();
        crate::tls::TlsProblem::Content { file, cause }.at(setting)
    };
    let mut roots = RootCertStore::empty();
    for certificate in files::certificates("cluster.tls.ca", &settings.ca)? {
        roots
            .add(certificate)
            .map_err(|cause| content("cluster.tls.ca", &settings.ca, cause))?;
    }
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
        .build()
        .map_err(|cause| {
            let cause = Error::General(cause.to_string());
            content("cluster.tls.ca", &settings.ca, cause)
        })?;
    let chain = files::certificates("cluster.tls.cert", &settings.cert)?;
    let key = files::private_key("cluster.tls.key", &settings.key)?;
    ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .expect("the provider has suites for TLS 1.3")
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AnyName(verifier)))
        .with_client_auth_cert(chain, key)
        .map_err(|cause| content("cluster.tls.key", &settings.key, cause))
}

/// Checks everything of a certificate but its name.
#[derive(Debug)]
struct AnyName(Arc<WebPkiServerVerifier>);

impl ServerCertVerifier for AnyName {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let verified = self
            .0
            .verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
        match verified {
            // The name is looked at last: everything else was found in order.
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            other => other,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}
