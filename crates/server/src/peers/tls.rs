//! TLS between nodes: each shows a certificate of the peers' authority, and wants to see one that is not revoked. Names do not matter:
//! every node has to be believed by every other one in any case.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, ServerName, UnixTime};
use rustls::{
    AlertDescription, CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore,
    ServerConfig, SignatureScheme,
};
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::timeout;
use tokio_rustls::{TlsAcceptor, TlsConnector, TlsStream};

use super::Shared;
use super::meeting::MeetingError;
use crate::clock;
use crate::config;
use crate::stamp::{Stamp, stamp};
use crate::stream::Stream;
use crate::tls::{ClientVerifier, Tls, TlsError, TlsProblem, explanation, files, is_doubt};

/// What connections between nodes are made with.
#[derive(Debug, Clone)]
pub(crate) struct PeerTls {
    accepting: watch::Receiver<Arc<ServerConfig>>,
    /// What is asked of the certificates of nodes that connect.
    verifier: watch::Receiver<Option<Arc<ClientVerifier>>>,
    dialling: Arc<Mutex<Dialling>>,
}

/// For connections that this node makes: read again when the files have changed.
#[derive(Debug)]
struct Dialling {
    settings: config::PeerTls,
    current: Loaded,
    used: Vec<Stamp>,
}

/// What is made of the files.
#[derive(Debug, Clone)]
struct Loaded {
    config: Arc<ClientConfig>,
    verifier: Arc<AnyName>,
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
        let used = stamps(settings);
        let tls = Tls::load("cluster.tls", &for_listener)?;
        let dialling = Dialling {
            current: load(settings)?,
            settings: settings.clone(),
            used,
        };
        let peer_tls = Self {
            accepting: tls.current(),
            verifier: tls.verifier().expect("nodes are asked for certificates"),
            dialling: Arc::new(Mutex::new(dialling)),
        };
        Ok(Some((peer_tls, tls)))
    }

    /// What is asked of the certificates of nodes that connect.
    pub(super) fn verifier(&self) -> watch::Receiver<Option<Arc<ClientVerifier>>> {
        self.verifier.clone()
    }

    /// Why a node that has connected with these certificates has to go; `None` if it may stay.
    pub(super) fn objection_to_accepted(&self, chain: &[CertificateDer<'_>]) -> Option<Error> {
        self.verifier.borrow().as_ref()?.objection(chain)
    }

    /// Why a node that was dialled and has shown these certificates has to go; `None` if it may stay.
    pub(super) fn objection_to_dialled(&self, chain: &[CertificateDer<'_>]) -> Option<Error> {
        let (own, between) = chain.split_first()?;
        let now = UnixTime::since_unix_epoch(Duration::from_millis(clock::wall()));
        let verifier = self.for_dialling().verifier;
        let error = verifier
            .verify_server_cert(own, between, &name(), &[], now)
            .err()?;
        (!is_doubt(&error)).then_some(error)
    }

    /// What holds at the moment.
    fn for_dialling(&self) -> Loaded {
        let mut dialling = self.dialling.lock().unwrap_or_else(PoisonError::into_inner);
        let seen = stamps(&dialling.settings);
        if seen != dialling.used {
            dialling.used = seen;
            match load(&dialling.settings) {
                Ok(loaded) => dialling.current = loaded,
                Err(error) => {
                    tracing::error!(%error, "cannot take the files of TLS anew: the old ones stay in use");
                }
            }
        }
        dialling.current.clone()
    }
}

/// Why there is no TLS with a node, in words for an operator.
pub(super) fn explain(error: &io::Error) -> String {
    let cause = error.get_ref().and_then(|cause| cause.downcast_ref());
    cause.map_or_else(|| explanation::of_handshake(error), explain_error)
}

/// The same, of what `rustls` says.
pub(super) fn explain_error(error: &Error) -> String {
    let words = match error {
        Error::InvalidCertificate(CertificateError::Revoked) => "the node's certificate is revoked",
        Error::InvalidCertificate(CertificateError::UnknownIssuer) => {
            "the node's certificate is of no authority in cluster.tls.ca"
        }
        Error::InvalidCertificate(CertificateError::UnknownRevocationStatus) => {
            "cluster.tls.crl has no list of the authority of the node's certificate"
        }
        Error::InvalidCertificate(_) if is_doubt(error) => "a list of cluster.tls.crl has expired",
        Error::NoCertificatesPresented => "the node has no certificate",
        Error::AlertReceived(AlertDescription::CertificateRevoked) => {
            "the other node says that this node's certificate is revoked"
        }
        other => return explanation::of_error(other),
    };
    words.to_owned()
}

/// Puts TLS on a connection that this node has made, where nodes talk by TLS.
pub(super) async fn connect(shared: &Shared, stream: Stream) -> Result<Stream, MeetingError> {
    let (Some(tls), Some(handle)) = (shared.tls.clone(), &shared.handshakes) else {
        return Ok(stream);
    };
    let shaken = handle.spawn(async move {
        TlsConnector::from(tls.for_dialling().config)
            .connect(name(), stream)
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
    let _stop = Stop(shaken.abort_handle());
    match timeout(HANDSHAKE_MAX, shaken).await {
        Ok(Ok(shaken)) => Ok(Stream::Tls(Box::new(shaken.map_err(MeetingError::Tls)?))),
        Ok(Err(_)) => Err(MeetingError::Closed),
        Err(_) => Err(MeetingError::Silent(HANDSHAKE_MAX)),
    }
}

/// Ends a handshake that nobody waits for any more.
struct Stop(AbortHandle);

impl Drop for Stop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

fn name() -> ServerName<'static> {
    ServerName::try_from(NAME).expect("it is a name")
}

fn stamps(settings: &config::PeerTls) -> Vec<Stamp> {
    let files = [&settings.cert, &settings.key, &settings.ca];
    let files = files.into_iter().chain(&settings.crl);
    files.map(|file| stamp(file)).collect()
}

fn load(settings: &config::PeerTls) -> Result<Loaded, TlsError> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let content = |setting: &str, file: &Path, cause| {
        let file = file.to_owned();
        TlsProblem::Content { file, cause }.at(setting)
    };
    let mut roots = RootCertStore::empty();
    for certificate in files::certificates("cluster.tls.ca", &settings.ca)? {
        roots
            .add(certificate)
            .map_err(|cause| content("cluster.tls.ca", &settings.ca, cause))?;
    }
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
        .with_crls(revocation_lists(&settings.crl)?)
        .enforce_revocation_expiration()
        .build()
        .map_err(|cause| {
            let file = settings.ca.clone();
            TlsProblem::Authorities { file, cause }.at("cluster.tls.ca")
        })?;
    let verifier = Arc::new(AnyName(verifier));
    let chain = files::certificates("cluster.tls.cert", &settings.cert)?;
    let key = files::private_key("cluster.tls.key", &settings.key)?;
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .expect("the provider has suites for TLS 1.3")
        .dangerous()
        .with_custom_certificate_verifier(Arc::clone(&verifier) as _)
        .with_client_auth_cert(chain, key)
        .map_err(|cause| content("cluster.tls.key", &settings.key, cause))?;
    // A handshake that goes on with an old session looks at no certificate.
    config.resumption = Resumption::disabled();
    Ok(Loaded {
        config: Arc::new(config),
        verifier,
    })
}

fn revocation_lists(files: &[PathBuf]) -> Result<Vec<CertificateRevocationListDer<'static>>, TlsError> {
    let mut lists = Vec::new();
    for (index, file) in files.iter().enumerate() {
        lists.extend(files::revocation_lists(
            &format!("cluster.tls.crl[{index}]"),
            file,
        )?);
    }
    Ok(lists)
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
