//! Asks other servers over HTTP/1.1: issuers for their keys, and those who know who clients are.
//!
//! It does little, and all of it has an end: no redirects are followed, no proxies are used, nothing is decompressed; there are
//! limits on the time, on requests under way, and on the size of an answer. Connections are used again. It is not for requests
//! that may not be sent twice: one that a used connection has lost is sent once more over a new one.

mod client_tls;
pub(crate) mod header_file;
mod headers;
mod not_http;
mod url;

use std::cell::RefCell;
use std::io;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::{
    ACCEPT, CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER, USER_AGENT,
};
use hyper::{Method, Request};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio_rustls::TlsConnector;

use self::client_tls::ClientTls;
use crate::clock;

pub use self::client_tls::{ClientTlsError, TlsFiles};
pub(crate) use self::headers::Headers;
pub use self::headers::HeadersError;
pub use self::not_http::{ConnectTlsError, TlsFault, connect_tls};
pub use self::url::{Url, UrlError};

/// One server, and the connections to it.
#[derive(Debug)]
pub struct HttpsClient {
    url: Url,
    limits: RequestLimits,
    tls: Option<RefCell<ClientTls>>,
    under_way: Semaphore,
    idle: RefCell<Vec<Idle>>,
}

/// How much a request may take.
#[derive(Debug, Clone, Copy)]
pub struct RequestLimits {
    /// For all of it, with the time that it waits for others. Then it has failed.
    pub timeout: Duration,
    /// Under way at once; one more waits.
    pub requests_max: u32,
    /// Of the body of an answer; a longer one is a failure.
    pub body_bytes_max: usize,
}

/// What came back.
#[derive(Debug)]
pub struct Response {
    /// As of HTTP.
    pub status: u16,
    /// All of it.
    pub body: Bytes,
    /// So long it should not be asked again, if it says so (`Retry-After`, in seconds).
    pub retry_after: Option<Duration>,
}

/// What comes back, piece by piece.
#[derive(Debug)]
pub(crate) struct Streamed {
    pub(crate) status: u16,
    body: Incoming,
    timeout: Duration,
    /// The connection lasts as long as it.
    _sender: SendRequest<Full<Bytes>>,
}

impl Streamed {
    /// The next piece; `None`: that was all.
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>, HttpError> {
        loop {
            let frame = tokio::time::timeout(self.timeout, self.body.frame()).await;
            let frame = frame.map_err(|_| HttpError::Timeout(self.timeout))?;
            match frame.transpose().map_err(HttpError::Http)? {
                None => return Ok(None),
                Some(frame) => {
                    if let Ok(piece) = frame.into_data() {
                        return Ok(Some(piece));
                    }
                }
            }
        }
    }
}

/// Why nothing came back. Says nothing of what was sent.
#[derive(Debug, Error)]
pub enum HttpError {
    /// It takes too long.
    #[error("no answer within {0:?}")]
    Timeout(Duration),
    /// Nobody is there, or its certificate is not believed.
    #[error("cannot connect: {0}")]
    Connect(io::Error),
    /// The connection failed, or what came was not HTTP.
    #[error("{}", with_cause(.0))]
    Http(hyper::Error),
    /// There was more than wanted, or it ended early.
    #[error("the answer cannot be read, or is longer than {0} bytes")]
    Body(usize),
}

/// A connection that waits for the next request.
#[derive(Debug)]
struct Idle {
    sender: SendRequest<Full<Bytes>>,
    since: Instant,
}

/// For the connection with TLS; the rest of the time is for the answer.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Many servers close a connection after so long; a request should not run into that.
const IDLE_FOR: Duration = Duration::from_secs(15);

/// Bytes of the head of an answer.
const HEAD_BYTES_MAX: usize = 16 * 1_024;

/// Headers of an answer.
const HEADERS_MAX: usize = 64;

impl HttpsClient {
    /// Reads the files; connects to nobody.
    pub fn new(url: Url, files: TlsFiles, limits: RequestLimits) -> Result<Self, ClientTlsError> {
        let tls = url.is_tls().then(|| ClientTls::load(files)).transpose()?;
        Ok(Self {
            tls: tls.map(RefCell::new),
            under_way: Semaphore::new(limits.requests_max as usize),
            idle: RefCell::default(),
            url,
            limits,
        })
    }

    /// Asks for what is at the address.
    pub async fn get(&self) -> Result<Response, HttpError> {
        self.get_at(self.url.path(), &[]).await
    }

    /// Asks for what is at another path of the server.
    pub async fn get_at(
        &self,
        path: &str,
        headers: &[(HeaderName, HeaderValue)],
    ) -> Result<Response, HttpError> {
        self.send(self.request(Method::GET, path, headers, Bytes::new()))
            .await
    }

    /// Sends JSON to a path of the server.
    pub async fn post_json(
        &self,
        path: &str,
        headers: &[(HeaderName, HeaderValue)],
        body: Bytes,
    ) -> Result<Response, HttpError> {
        let at = (Method::POST, path, headers);
        self.send_as("application/json", at, body).await
    }

    /// Sends bytes to a path of the server.
    pub(crate) async fn post_bytes(
        &self,
        path: &str,
        headers: &[(HeaderName, HeaderValue)],
        body: Bytes,
    ) -> Result<Response, HttpError> {
        let at = (Method::POST, path, headers);
        self.send_as("application/octet-stream", at, body).await
    }

    /// Asks for what is at a path of the server, to be read as it comes. The limit on the size of an answer is not for it; that on the time is for its
    /// head, and for each piece.
    pub(crate) async fn stream_at(
        &self,
        path: &str,
        headers: &[(HeaderName, HeaderValue)],
    ) -> Result<Streamed, HttpError> {
        let request = self.request(Method::GET, path, headers, Bytes::new());
        let timeout = self.limits.timeout;
        let begun = tokio::time::timeout(timeout, async {
            let mut sender = self.connect().await?;
            sender.ready().await.map_err(HttpError::Http)?;
            let response = sender.send_request(request).await.map_err(HttpError::Http)?;
            Ok(Streamed {
                status: response.status().as_u16(),
                body: response.into_body(),
                timeout,
                _sender: sender,
            })
        });
        begun.await.unwrap_or(Err(HttpError::Timeout(timeout)))
    }

    /// Asks for something to be deleted.
    pub async fn delete(
        &self,
        path: &str,
        headers: &[(HeaderName, HeaderValue)],
    ) -> Result<Response, HttpError> {
        let at = (Method::DELETE, path, headers);
        self.send_as("application/json", at, Bytes::new()).await
    }

    async fn send_as(
        &self,
        content_type: &'static str,
        (method, path, headers): (Method, &str, &[(HeaderName, HeaderValue)]),
        body: Bytes,
    ) -> Result<Response, HttpError> {
        let mut request = self.request(method, path, headers, body);
        let content_type = HeaderValue::from_static(content_type);
        request.headers_mut().insert(CONTENT_TYPE, content_type);
        self.send(request).await
    }

    fn request(
        &self,
        method: Method,
        path: &str,
        headers: &[(HeaderName, HeaderValue)],
        body: Bytes,
    ) -> Request<Full<Bytes>> {
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = method;
        *request.uri_mut() = path.parse().expect("a path of ours, or of a Url");
        let own = request.headers_mut();
        let host = HeaderValue::from_str(&self.url.authority()).expect("the host of a Url");
        own.insert(HOST, host);
        own.insert(USER_AGENT, HeaderValue::from_static("statehold"));
        own.insert(ACCEPT, HeaderValue::from_static("application/json"));
        for (name, value) in headers {
            own.insert(name, value.clone());
        }
        request
    }

    async fn send(&self, request: Request<Full<Bytes>>) -> Result<Response, HttpError> {
        let timeout = self.limits.timeout;
        let sent = tokio::time::timeout(timeout, async {
            let _permit = self.under_way.acquire().await.expect("nobody closes it");
            self.send_now(request).await
        });
        sent.await.unwrap_or(Err(HttpError::Timeout(timeout)))
    }

    async fn send_now(&self, request: Request<Full<Bytes>>) -> Result<Response, HttpError> {
        if let Some(used) = self.take_idle() {
            match self.exchange(used, request.clone()).await {
                // It was closed while nobody looked.
                Err(HttpError::Http(_)) => {}
                done => return done,
            }
        }
        let fresh = self.connect().await?;
        self.exchange(fresh, request).await
    }

    /// One request over one connection, which is kept if it can be used again.
    async fn exchange(
        &self,
        mut sender: SendRequest<Full<Bytes>>,
        request: Request<Full<Bytes>>,
    ) -> Result<Response, HttpError> {
        sender.ready().await.map_err(HttpError::Http)?;
        let response = sender.send_request(request).await.map_err(HttpError::Http)?;
        let status = response.status().as_u16();
        let retry_after = retry_after(response.headers());
        let bytes_max = self.limits.body_bytes_max;
        let body = Limited::new(response.into_body(), bytes_max).collect().await;
        let body = body.map_err(|_| HttpError::Body(bytes_max))?.to_bytes();
        self.keep(sender);
        Ok(Response {
            status,
            body,
            retry_after,
        })
    }

    async fn connect(&self) -> Result<SendRequest<Full<Bytes>>, HttpError> {
        let connected = tokio::time::timeout(CONNECT_TIMEOUT, self.connect_now()).await;
        connected.unwrap_or(Err(HttpError::Timeout(CONNECT_TIMEOUT)))
    }

    async fn connect_now(&self) -> Result<SendRequest<Full<Bytes>>, HttpError> {
        let address = (self.url.host(), self.url.port());
        let stream = TcpStream::connect(address).await.map_err(HttpError::Connect)?;
        stream.set_nodelay(true).map_err(HttpError::Connect)?;
        let Some(tls) = &self.tls else {
            return speak(stream).await;
        };
        let config = tls.borrow_mut().current();
        let name = ServerName::try_from(self.url.host().to_owned()).expect("the host of a Url");
        let stream = TlsConnector::from(config).connect(name, stream).await;
        speak(stream.map_err(HttpError::Connect)?).await
    }

    /// The connection that was used last: the others may be closed sooner.
    fn take_idle(&self) -> Option<SendRequest<Full<Bytes>>> {
        let now = clock::instant();
        let mut idle = self.idle.borrow_mut();
        idle.retain(|idle| !idle.sender.is_closed() && now.duration_since(idle.since) < IDLE_FOR);
        Some(idle.pop()?.sender)
    }

    fn keep(&self, sender: SendRequest<Full<Bytes>>) {
        if !sender.is_closed() {
            let since = clock::instant();
            self.idle.borrow_mut().push(Idle { sender, since });
        }
    }
}

/// Whether a request may have a header of that name: those that belong to the connection are made here.
pub(crate) fn is_header(name: &str) -> bool {
    const OURS: [&str; 6] = [
        "host",
        "connection",
        "content-length",
        "content-type",
        "transfer-encoding",
        "upgrade",
    ];
    name.parse::<HeaderName>()
        .is_ok_and(|name| !OURS.contains(&name.as_str()))
}

/// Begins with HTTP; the connection lives as long as it is used or kept.
async fn speak(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
) -> Result<SendRequest<Full<Bytes>>, HttpError> {
    let begun = http1::Builder::new()
        .max_buf_size(HEAD_BYTES_MAX)
        .max_headers(HEADERS_MAX)
        .handshake(TokioIo::new(stream))
        .await;
    let (sender, connection) = begun.map_err(HttpError::Http)?;
    // It ends with its sender, and what it failed of is seen there.
    tokio::spawn(connection);
    Ok(sender)
}

/// In seconds; a date is passed over, as clocks differ.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds))
}

/// An error of HTTP does not say by itself what is behind it.
fn with_cause(error: &hyper::Error) -> String {
    match std::error::Error::source(error) {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    }
}

#[cfg(test)]
mod tests;
