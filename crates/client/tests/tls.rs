//! TLS with certificates made for the test: whom the client trusts, and as whom it appears.
#![cfg(feature = "tokio")]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::BytesMut;
use protocol::ReasonCode;
use protocol::packet::{ConnAck, ConnAckProperties, Decoder, Packet, ProtocolVersion, encode};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::pki_types::PrivateKeyDer;
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use statehold_client::{Client, ConnectError, Options, TlsOptions};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

/// A certificate authority with a directory for PEM files.
struct Authority {
    directory: TempDir,
    issuer: Issuer<'static, KeyPair>,
    certificate: rcgen::Certificate,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        let certificate = params.self_signed(&key).expect("a certificate");
        let directory = TempDir::new().expect("a directory");
        std::fs::write(directory.path().join("ca.pem"), certificate.pem()).expect("written");
        Self {
            directory,
            issuer: Issuer::new(params, key),
            certificate,
        }
    }

    fn ca_file(&self) -> PathBuf {
        self.directory.path().join("ca.pem")
    }

    fn issue(&self, name: &str) -> (rcgen::Certificate, KeyPair) {
        let key = KeyPair::generate().expect("a key");
        let params = CertificateParams::new(vec![name.to_owned()]).expect("a name");
        (params.signed_by(&key, &self.issuer).expect("signed"), key)
    }

    /// Files with a certificate for `name` and its key.
    fn identity(&self, name: &str) -> (PathBuf, PathBuf) {
        let (certificate, key) = self.issue(name);
        let file = |end: &str, text: String| {
            let file = self.directory.path().join(format!("{name}.{end}"));
            std::fs::write(&file, text).expect("written");
            file
        };
        (file("pem", certificate.pem()), file("key", key.serialize_pem()))
    }

    /// A server for one connection: TLS, then CONNACK for CONNECT. Its address.
    async fn serve(&self, wants_identity: bool) -> String {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider));
        let builder = builder.with_safe_default_protocol_versions().expect("versions");
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate.der().clone()).expect("a root");
        let builder = if wants_identity {
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
            builder.with_client_cert_verifier(verifier.expect("a verifier"))
        } else {
            builder.with_no_client_auth()
        };
        let (certificate, key) = self.issue("localhost");
        let key = PrivateKeyDer::try_from(key.serialize_der()).expect("a key");
        let config = builder
            .with_single_cert(vec![certificate.der().clone()], key)
            .expect("an identity");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("bound");
        let address = listener.local_addr().expect("an address");
        tokio::spawn(answer(listener, TlsAcceptor::from(Arc::new(config))));
        format!("localhost:{}", address.port())
    }
}

async fn answer(listener: TcpListener, acceptor: TlsAcceptor) {
    let (stream, _) = listener.accept().await.expect("accepted");
    // A handshake that fails is what some tests are about.
    let Ok(mut stream) = acceptor.accept(stream).await else {
        return;
    };
    let mut received = BytesMut::new();
    let mut decoder = Decoder::for_server(1024);
    while !matches!(decoder.decode(&mut received), Ok(Some(Packet::Connect(_)))) {
        if stream.read_buf(&mut received).await.unwrap_or(0) == 0 {
            return;
        }
    }
    let properties = ConnAckProperties::default();
    let connack = ConnAck {
        session_present: false,
        reason: ReasonCode::Success,
        properties,
    };
    let mut reply = BytesMut::new();
    encode(
        &Packet::ConnAck(Box::new(connack)),
        ProtocolVersion::V5,
        1024,
        &mut reply,
    )
    .expect("small enough");
    stream.write_all(&reply).await.expect("written");
    // Until the client goes.
    while stream.read_buf(&mut received).await.unwrap_or(0) > 0 {}
}

async fn connect(address: &str, tls: TlsOptions) -> Result<Client, ConnectError> {
    Client::connect(Options::new(address).tls(tls)).await
}

fn trusting(file: impl AsRef<Path>) -> TlsOptions {
    TlsOptions::new().ca_file(file.as_ref())
}

#[tokio::test]
async fn a_server_whose_authority_is_given_is_trusted_and_another_is_not() {
    let (authority, other) = (Authority::new(), Authority::new());
    let client = connect(&authority.serve(false).await, trusting(authority.ca_file())).await;
    client.expect("trusted").disconnect().await;
    let refused = connect(&authority.serve(false).await, trusting(other.ca_file())).await;
    assert!(
        matches!(refused, Err(ConnectError::Transport { .. })),
        "{refused:?}"
    );
}

#[tokio::test]
async fn a_certificate_for_another_name_is_refused() {
    let authority = Authority::new();
    let tls = trusting(authority.ca_file()).server_name("other.example");
    let refused = connect(&authority.serve(false).await, tls).await;
    assert!(
        matches!(refused, Err(ConnectError::Transport { .. })),
        "{refused:?}"
    );
}

#[tokio::test]
async fn a_client_appears_with_its_certificate_where_one_is_wanted() {
    let authority = Authority::new();
    let (certificate, key) = authority.identity("pump");
    let tls = trusting(authority.ca_file()).identity(&certificate, &key);
    connect(&authority.serve(true).await, tls)
        .await
        .expect("known")
        .disconnect()
        .await;
    assert!(
        connect(&authority.serve(true).await, trusting(authority.ca_file()))
            .await
            .is_err(),
        "nobody"
    );
}

#[tokio::test]
async fn files_that_cannot_be_used_are_named() {
    let authority = Authority::new();
    let error = connect("localhost:1", trusting("/no/such/file"))
        .await
        .expect_err("no file");
    assert!(error.to_string().contains("/no/such/file"), "{error}");
    let (_, key) = authority.identity("pump");
    let error = connect("localhost:1", trusting(&key))
        .await
        .expect_err("no certificate in it");
    assert!(error.to_string().contains("pump.key"), "{error}");
}
