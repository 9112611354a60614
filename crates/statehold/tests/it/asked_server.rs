//! A small server of HTTP, over TLS or not, that answers as a test says and tells what it was asked.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, ServerConnection, StreamOwned};

use crate::authority::Authority;

/// The server; its threads end with the process.
pub(crate) struct AskedServer {
    address: SocketAddr,
    authority: Authority,
    heard: mpsc::Receiver<Heard>,
    is_down: Arc<AtomicBool>,
    connections: Arc<AtomicUsize>,
}

/// One request.
#[derive(Debug, Clone)]
pub(crate) struct Heard {
    /// As in `POST /path?query`.
    pub(crate) what: String,
    /// By name in small letters.
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: String,
    /// Whether the client has shown a certificate.
    pub(crate) is_certified: bool,
}

/// How a request is answered.
pub(crate) enum Reply {
    /// With a status and a body.
    Status(u16, String),
    /// With these bytes, and the end of the connection.
    Bytes(Vec<u8>),
    /// Not at all.
    Silence,
}

/// What is spoken below HTTP.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Below {
    Tcp,
    Tls,
    /// Clients have to show a certificate of the server's authority.
    MutualTls,
}

/// Longer than any request needs to come on a machine that has much else to do.
const WITHIN: Duration = Duration::from_secs(60);

impl AskedServer {
    pub(crate) fn start(below: Below, answer: impl Fn(&Heard) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("bound");
        let authority = Authority::new();
        let tls = (below != Below::Tcp).then(|| Arc::new(server_config(&authority, below)));
        let (hears, heard) = mpsc::channel();
        let is_down = Arc::new(AtomicBool::new(false));
        let connections = Arc::new(AtomicUsize::new(0));
        let (down, counted) = (Arc::clone(&is_down), Arc::clone(&connections));
        let answer = Arc::new(answer);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if down.load(Ordering::SeqCst) {
                    continue;
                }
                counted.fetch_add(1, Ordering::SeqCst);
                let (tls, hears, answer) = (tls.clone(), hears.clone(), Arc::clone(&answer));
                let down = Arc::clone(&down);
                std::thread::spawn(move || {
                    let tell = |heard: &Heard| {
                        // The test may have seen enough.
                        let _ = hears.send(heard.clone());
                        if down.load(Ordering::SeqCst) {
                            return Reply::Bytes(Vec::new());
                        }
                        answer(heard)
                    };
                    // It ends when the other side has had enough.
                    let _ = match tls {
                        None => converse(stream, |_| false, tell),
                        Some(config) => {
                            let connection = ServerConnection::new(config).expect("a configuration");
                            let stream = StreamOwned::new(connection, stream);
                            converse(stream, |stream| stream.conn.peer_certificates().is_some(), tell)
                        }
                    };
                });
            }
        });
        Self {
            address,
            authority,
            heard,
            is_down,
            connections,
        }
    }

    /// Where it is, with a path.
    pub(crate) fn url(&self, scheme: &str, path: &str) -> String {
        format!("{scheme}://{}{path}", self.address)
    }

    /// Whom it is certified by.
    pub(crate) fn authority(&self) -> &Authority {
        &self.authority
    }

    /// The next request that came.
    pub(crate) fn heard(&self) -> Heard {
        self.heard.recv_timeout(WITHIN).expect("it was asked")
    }

    /// Whether there is a request that was not looked at.
    pub(crate) fn has_heard_more(&self) -> bool {
        self.heard.try_recv().is_ok()
    }

    /// Closes connections without an answer from now on, or no longer.
    pub(crate) fn set_down(&self, is_down: bool) {
        self.is_down.store(is_down, Ordering::SeqCst);
    }

    /// Connections that were made.
    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

fn server_config(authority: &Authority, below: Below) -> ServerConfig {
    let identity = authority.issue("127.0.0.1");
    let chain = CertificateDer::pem_file_iter(&identity.cert).expect("readable");
    let chain = chain.collect::<Result<Vec<_>, _>>().expect("certificates");
    let key = PrivateKeyDer::from_pem_file(&identity.key).expect("a key");
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .expect("versions");
    let builder = if below == Below::MutualTls {
        let mut roots = RootCertStore::empty();
        let ca = CertificateDer::from_pem_file(authority.ca_file()).expect("a certificate");
        roots.add(ca).expect("an authority");
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
        builder.with_client_cert_verifier(verifier.build().expect("a verifier"))
    } else {
        builder.with_no_client_auth()
    };
    builder
        .with_single_cert(chain, key)
        .expect("a certificate and its key")
}

/// Answers requests as long as they come.
fn converse<S: Read + Write>(
    stream: S,
    is_certified: impl Fn(&S) -> bool,
    answer: impl Fn(&Heard) -> Reply,
) -> io::Result<()> {
    let mut stream = BufReader::new(stream);
    loop {
        let Some(mut heard) = read_request(&mut stream)? else {
            return Ok(());
        };
        heard.is_certified = is_certified(stream.get_ref());
        let reply = answer(&heard);
        let out = stream.get_mut();
        match reply {
            Reply::Status(status, body) => {
                let length = body.len();
                write!(
                    out,
                    "HTTP/1.1 {status} Said\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
                )?;
                out.flush()?;
            }
            Reply::Bytes(bytes) => {
                out.write_all(&bytes)?;
                return out.flush();
            }
            Reply::Silence => {
                // Until the other side gives up.
                return io::copy(&mut stream, &mut io::sink()).map(|_| ());
            }
        }
    }
}

fn read_request(stream: &mut impl BufRead) -> io::Result<Option<Heard>> {
    let mut line = || {
        let mut line = String::new();
        stream.read_line(&mut line)?;
        io::Result::Ok(line.trim_end().to_owned())
    };
    let first = line()?;
    let Some(what) = first.strip_suffix(" HTTP/1.1") else {
        return Ok(None);
    };
    let mut headers = BTreeMap::new();
    loop {
        let header = line()?;
        let Some((name, value)) = header.split_once(": ") else {
            break;
        };
        headers.insert(name.to_ascii_lowercase(), value.to_owned());
    }
    let length = headers
        .get("content-length")
        .map_or(0, |length| length.parse().expect("a length"));
    let mut body = vec![0; length];
    stream.read_exact(&mut body)?;
    Ok(Some(Heard {
        what: what.to_owned(),
        headers,
        body: String::from_utf8(body).expect("text"),
        is_certified: false,
    }))
}
