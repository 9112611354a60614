//! The opening handshake of WebSocket: an HTTP request, and the answer to it.
//!
//! A request that is refused gets a short page that says why, with what the client asked for: path, subprotocol and origin. The log says
//! the same. What is no request for a WebSocket, as that of a browser or a health check, gets a page as well.

use std::fmt;
use std::io;

use protocol::Escaped;
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio_tungstenite::tungstenite;
use tokio_tungstenite::tungstenite::error::ProtocolError;
use tokio_tungstenite::tungstenite::handshake::machine::TryParse;
use tokio_tungstenite::tungstenite::handshake::server::{Request, create_response, write_response};
use tokio_tungstenite::tungstenite::http::{HeaderName, HeaderValue, StatusCode, header};

use crate::config;
use crate::spoken::Spoken;

/// What a client has to ask for.
#[derive(Debug)]
pub(crate) struct Endpoint {
    path: String,
    allowed_origins: Vec<String>,
    pub(super) message_bytes_max: usize,
}

/// Why no WebSocket was opened.
#[derive(Debug, Error)]
pub(crate) enum OpeningError {
    #[error("the client left before its request was complete")]
    Left,
    #[error("the request has more than {HEAD_BYTES_MAX} bytes")]
    TooLarge,
    #[error("{}", .0.at_websocket())]
    Spoken(Spoken),
    #[error(
        "it is no request for a WebSocket, as that of a browser or a health check ({0}); MQTT is at `{1}`"
    )]
    NoUpgrade(Asked, String),
    #[error("the request is malformed: {0}")]
    Malformed(tungstenite::Error),
    #[error("{why} ({asked})")]
    Refused { why: String, asked: Asked },
    /// Something about the client itself.
    #[error("{0}")]
    Objection(String),
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// What a client has asked for.
#[derive(Debug)]
pub(crate) struct Asked {
    path: String,
    subprotocol: String,
    origin: String,
}

/// MQTT's name in the opening handshake.
const SUBPROTOCOL: &str = "mqtt";

/// Clients may put many small packets in one message: it may be so large even where a packet may not.
const MESSAGE_BYTES_LEAST: usize = 64 * 1024;

/// Bytes of a request. Browsers send cookies with it.
const HEAD_BYTES_MAX: usize = 16 * 1024;

/// What a request ends with.
const HEAD_END: &[u8] = b"\r\n\r\n";

impl Endpoint {
    pub(crate) fn new(settings: &config::WebSocket, packet_size_max: u32) -> Self {
        Self {
            path: settings.path.clone(),
            allowed_origins: settings.allowed_origins.clone(),
            message_bytes_max: MESSAGE_BYTES_LEAST.max(packet_size_max as usize),
        }
    }

    /// Reads a request and answers it, unless there is an objection to the client by then. What came behind the request is returned.
    pub(super) async fn open<S>(
        &self,
        stream: &mut S,
        objection: impl FnOnce(&S) -> Option<String>,
    ) -> Result<Vec<u8>, OpeningError>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let (head, rest) = read_head(stream).await?;
        let answer = match objection(stream) {
            Some(why) => Err(Box::new((StatusCode::FORBIDDEN, OpeningError::Objection(why)))),
            None => self.answer(&head),
        };
        let (status, error) = match answer {
            Ok(accepted) => {
                stream.write_all(&accepted).await?;
                stream.flush().await?;
                return Ok(rest);
            }
            Err(refusal) => *refusal,
        };
        stream.write_all(&page(status, &error)).await?;
        stream.shutdown().await?;
        Err(error)
    }

    /// The answer to a request that is granted. In a box: a refusal is large, and rare.
    fn answer(&self, head: &[u8]) -> Result<Vec<u8>, Box<(StatusCode, OpeningError)>> {
        let malformed = |error| Box::new((status_of(&error), OpeningError::Malformed(error)));
        let request = match Request::try_parse(head).map_err(malformed)? {
            Some((_, request)) => request,
            None => return Err(Box::new((StatusCode::BAD_REQUEST, OpeningError::Left))),
        };
        let asked = Asked::of(&request);
        let mut response = match create_response(&request) {
            Ok(response) => response,
            Err(tungstenite::Error::Protocol(
                ProtocolError::MissingConnectionUpgradeHeader | ProtocolError::MissingUpgradeWebSocketHeader,
            )) => {
                let error = OpeningError::NoUpgrade(asked, self.path.clone());
                return Err(Box::new((StatusCode::UPGRADE_REQUIRED, error)));
            }
            Err(error) => return Err(malformed(error)),
        };
        if let Some((status, why)) = self.refusal(&request) {
            return Err(Box::new((status, OpeningError::Refused { why, asked })));
        }
        // [MQTT-6.0.0-4]
        let mqtt = HeaderValue::from_static(SUBPROTOCOL);
        response
            .headers_mut()
            .insert(header::SEC_WEBSOCKET_PROTOCOL, mqtt);
        let mut bytes = Vec::new();
        write_response(&mut bytes, &response).map_err(malformed)?;
        Ok(bytes)
    }

    /// Why a client may not open a WebSocket.
    fn refusal(&self, request: &Request) -> Option<(StatusCode, String)> {
        if request.uri().path() != self.path {
            let why = format!("there is no MQTT at this path, but at `{}`", self.path);
            return Some((StatusCode::NOT_FOUND, why));
        }
        if !self.is_allowed(request) {
            let why = "pages of this origin may not connect; see listeners.websocket.allowed_origins";
            return Some((StatusCode::FORBIDDEN, why.to_owned()));
        }
        // [MQTT-6.0.0-3]
        let why = "the subprotocol has to be `mqtt`";
        (!offers_mqtt(request)).then(|| (StatusCode::BAD_REQUEST, why.to_owned()))
    }

    /// What is not a browser tells no origin, or any that it likes.
    fn is_allowed(&self, request: &Request) -> bool {
        let Some(origin) = request.headers().get(header::ORIGIN) else {
            return true;
        };
        self.allowed_origins.is_empty()
            || self
                .allowed_origins
                .iter()
                .any(|allowed| origin == allowed.as_str())
    }
}

fn offers_mqtt(request: &Request) -> bool {
    request
        .headers()
        .get_all(header::SEC_WEBSOCKET_PROTOCOL)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .any(|offered| offered.trim() == SUBPROTOCOL)
}

/// A request up to the end of its headers, and what has come behind it.
async fn read_head<S: AsyncRead + Unpin>(stream: &mut S) -> Result<(Vec<u8>, Vec<u8>), OpeningError> {
    let mut head = Vec::new();
    loop {
        let looked_at = head.len();
        let room = HEAD_BYTES_MAX - head.len();
        if (&mut *stream).take(room as u64).read_buf(&mut head).await? == 0 {
            return Err(if room == 0 {
                OpeningError::TooLarge
            } else {
                OpeningError::Left
            });
        }
        let spoken = Spoken::of(&head).filter(|spoken| *spoken != Spoken::Http);
        if let Some(spoken) = spoken {
            return Err(OpeningError::Spoken(spoken));
        }
        let from = looked_at.saturating_sub(HEAD_END.len() - 1);
        let end = head[from..]
            .windows(HEAD_END.len())
            .position(|four| four == HEAD_END);
        if let Some(end) = end {
            let rest = head.split_off(from + end + HEAD_END.len());
            return Ok((head, rest));
        }
    }
}

impl Asked {
    fn of(request: &Request) -> Self {
        let named = |name: HeaderName| {
            let value = request.headers().get(name);
            value.map_or_else(|| "none".to_owned(), |value| Escaped::new(value).to_string())
        };
        Self {
            path: Escaped::new(request.uri().path()).to_string(),
            subprotocol: named(header::SEC_WEBSOCKET_PROTOCOL),
            origin: named(header::ORIGIN),
        }
    }
}

impl fmt::Display for Asked {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            path,
            subprotocol,
            origin,
        } = self;
        write!(
            to,
            "path `{path}`, subprotocol `{subprotocol}`, origin `{origin}`"
        )
    }
}

/// What is said of a request that the library does not like.
fn status_of(error: &tungstenite::Error) -> StatusCode {
    match error {
        tungstenite::Error::Protocol(ProtocolError::WrongHttpMethod) => StatusCode::METHOD_NOT_ALLOWED,
        tungstenite::Error::Protocol(ProtocolError::WrongHttpVersion) => {
            StatusCode::HTTP_VERSION_NOT_SUPPORTED
        }
        tungstenite::Error::Protocol(ProtocolError::MissingSecWebSocketVersionHeader) => {
            StatusCode::UPGRADE_REQUIRED
        }
        _ => StatusCode::BAD_REQUEST,
    }
}

/// A short page that says why no WebSocket was opened. What the client chose of it was escaped.
fn page(status: StatusCode, error: &OpeningError) -> Vec<u8> {
    let body = format!("This is an MQTT broker: connect with an MQTT client over WebSocket.\n{error}\n");
    let upgrade = if status == StatusCode::UPGRADE_REQUIRED {
        "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    } else {
        ""
    };
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\nX-Content-Type-Options: nosniff\r\n\
         Content-Length: {}\r\nConnection: close\r\n{upgrade}\r\n{body}",
        body.len()
    )
    .into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint() -> Endpoint {
        Endpoint {
            path: "/mqtt".to_owned(),
            allowed_origins: vec!["https://plant.example".to_owned()],
            message_bytes_max: 0,
        }
    }

    /// What a client gets that sends this, and what the log says.
    fn answer(request: &str) -> (String, String) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let (mut client, mut server) = tokio::io::duplex(64 * 1024);
            client.write_all(request.as_bytes()).await.unwrap();
            client.shutdown().await.unwrap();
            let opened = endpoint().open(&mut server, |_| None).await;
            drop(server);
            let mut answer = String::new();
            client.read_to_string(&mut answer).await.unwrap();
            let said = match opened {
                Ok(rest) => format!("open, and {} bytes", rest.len()),
                Err(error) => error.to_string(),
            };
            (answer, said)
        })
    }

    fn upgrade(path: &str, further: &str) -> String {
        format!(
            "GET {path} HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n{further}\r\n"
        )
    }

    #[test]
    fn a_request_that_is_refused_says_path_subprotocol_and_origin() {
        let mqtt = "Sec-WebSocket-Protocol: mqtt\r\n";
        let (answer_, said) = answer(&upgrade("/mqtt", mqtt));
        assert!(answer_.starts_with("HTTP/1.1 101"), "{answer_}");
        assert_eq!(said, "open, and 0 bytes");

        let evil = format!("{mqtt}Origin: https://evil.example\r\n");
        let old = "Sec-WebSocket-Protocol: mqttv3.1\r\n";
        let cases = [
            (
                upgrade("/ws", mqtt),
                "404",
                "there is no MQTT at this path, but at `/mqtt` (path `/ws`, subprotocol `mqtt`, origin `none`)",
            ),
            (
                upgrade("/mqtt", &evil),
                "403",
                "pages of this origin may not connect; see listeners.websocket.allowed_origins \
                 (path `/mqtt`, subprotocol `mqtt`, origin `https://evil.example`)",
            ),
            (
                upgrade("/mqtt", old),
                "400",
                "the subprotocol has to be `mqtt` (path `/mqtt`, subprotocol `mqttv3.1`, origin `none`)",
            ),
        ];
        for (request, status, expected) in cases {
            let (page, said) = answer(&request);
            assert_eq!(said, expected);
            assert!(page.starts_with(&format!("HTTP/1.1 {status} ")), "{page}");
            assert!(page.ends_with(&format!("WebSocket.\n{expected}\n")), "{page}");
        }
    }

    #[test]
    fn a_plain_request_gets_a_short_page() {
        let (page, said) = answer("GET /favicon.ico HTTP/1.1\r\nHost: a\r\n\r\n");
        assert!(page.starts_with("HTTP/1.1 426 "), "{page}");
        assert!(page.contains("Upgrade: websocket\r\n"), "{page}");
        assert!(page.contains("MQTT is at `/mqtt`"), "{page}");
        assert!(said.contains("health check (path `/favicon.ico`, "), "{said}");
        let (page, _) = answer("POST /mqtt HTTP/1.1\r\nHost: a\r\n\r\n");
        assert!(page.starts_with("HTTP/1.1 405 "), "{page}");
    }

    #[test]
    fn what_a_client_chooses_of_a_page_is_escaped_and_short() {
        let path = format!("/{}", "x".repeat(1_000));
        let (page, said) = answer(&upgrade(&path, "Origin: \u{1b}[2J\u{202e}<script>\r\n"));
        // A control ends the request.
        assert!(page.starts_with("HTTP/1.1 400 "), "{page}");
        assert!(!page.contains('\u{1b}') && !said.contains('\u{1b}'));
        let (page, said) = answer(&upgrade(&path, "Origin: \u{202e}<script>\r\n"));
        for text in [page, said] {
            assert!(
                text.contains("\\u{202e}<script>") && text.contains("…(1001 bytes)"),
                "{text}"
            );
            assert!(!text.contains('\u{202e}'), "{text}");
        }
    }

    #[test]
    fn what_is_no_request_is_named() {
        for (bytes, expected) in [
            ("\u{10}\u{e}\0\u{4}MQTT", "MQTT without WebSocket"),
            ("PROXY TCP4 1.2.3.4", "proxy_protocol = true"),
            ("GET /mqtt HTT", "the client left"),
            ("", "the client left"),
        ] {
            let (_, said) = answer(bytes);
            assert!(said.contains(expected), "{bytes:?}: {said}");
        }
        let (_, said) = answer(&format!("GET / HTTP/1.1\r\nCookie: {}", "x".repeat(20_000)));
        assert_eq!(said, "the request has more than 16384 bytes");
    }
}
