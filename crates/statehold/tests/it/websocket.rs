//! MQTT over WebSocket, with the client side of another library.

use std::future::Future;
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::http::HeaderValue;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::{Bytes, Error, Message};
use tokio_tungstenite::{WebSocketStream, client_async};

use crate::authority::Authority;
use crate::configured::Configured;

const CONNECT: &[u8] = b"\x10\x0e\0\x04MQTT\x05\x02\0\x3c\0\0\x01w";
const PINGREQ: &[u8] = b"\xc0\0";
const PINGRESP: &[u8] = b"\xd0\0";

const LISTENER: &str = "[[listeners]]\naddress = \"127.0.0.1:0\"\nallow_anonymous = true\n";

fn start(further: &str) -> Configured {
    Configured::start(&format!("{LISTENER}[listeners.websocket]\n{further}"))
}

/// Runs a conversation, which hangs no longer than this.
fn block_on<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime")
        .block_on(async { tokio::time::timeout(Duration::from_secs(60), work).await })
        .expect("an answer")
}

/// Opens a WebSocket at a path, with these headers.
async fn open<S: AsyncRead + AsyncWrite + Unpin>(
    stream: S,
    path: &str,
    headers: &[(&'static str, &'static str)],
) -> Result<WebSocketStream<S>, Error> {
    let mut request = format!("ws://localhost{path}")
        .into_client_request()
        .expect("an address");
    for (name, value) in headers {
        request
            .headers_mut()
            .insert(*name, HeaderValue::from_static(value));
    }
    let (socket, response) = client_async(request, stream).await?;
    assert_eq!(response.headers()["sec-websocket-protocol"], "mqtt");
    Ok(socket)
}

const MQTT: (&str, &str) = ("sec-websocket-protocol", "mqtt");

async fn connect(server: &Configured) -> WebSocketStream<TcpStream> {
    let stream = TcpStream::connect(server.at("ws")).await.expect("connected");
    open(stream, "/mqtt", &[MQTT]).await.expect("a WebSocket")
}

async fn send<S: AsyncRead + AsyncWrite + Unpin>(socket: &mut WebSocketStream<S>, bytes: &'static [u8]) {
    let message = Message::Binary(Bytes::from_static(bytes));
    socket.send(message).await.expect("sent");
}

/// Reads until so many bytes have come.
async fn receive<S: AsyncRead + AsyncWrite + Unpin>(
    socket: &mut WebSocketStream<S>,
    count: usize,
) -> Vec<u8> {
    let mut received = Vec::new();
    while received.len() < count {
        match socket.next().await.expect("not closed").expect("a message") {
            Message::Binary(bytes) => received.extend_from_slice(&bytes),
            other => panic!("{other:?} is not binary"),
        }
    }
    received
}

/// The reason of the closing frame, which is the next message.
async fn closed(socket: &mut WebSocketStream<TcpStream>) -> CloseCode {
    match socket.next().await {
        Some(Ok(Message::Close(Some(frame)))) => frame.code,
        other => panic!("{other:?} is no closing frame with a reason"),
    }
}

/// The status of the answer to an opening handshake that is refused.
fn refused(server: &Configured, path: &str, headers: &[(&'static str, &'static str)]) -> u16 {
    block_on(async {
        let stream = TcpStream::connect(server.at("ws")).await.expect("connected");
        match open(stream, path, headers).await {
            Err(Error::Http(response)) => response.status().as_u16(),
            other => panic!("{other:?} is no refusal"),
        }
    })
}

#[test]
fn mqtt_6_0_0_2_packets_need_not_end_where_messages_do() {
    let server = start("");
    block_on(async {
        let mut socket = connect(&server).await;
        send(&mut socket, &CONNECT[..5]).await;
        send(&mut socket, b"").await;
        send(&mut socket, &CONNECT[5..]).await;
        assert_eq!(receive(&mut socket, 5).await[0], 0x20, "CONNACK");
        send(&mut socket, b"\xc0\0\xc0\0\xc0").await;
        assert_eq!(receive(&mut socket, 4).await, [PINGRESP, PINGRESP].concat());
        send(&mut socket, &PINGREQ[1..]).await;
        assert_eq!(receive(&mut socket, 2).await, PINGRESP);
    });
}

#[test]
fn mqtt_6_0_0_1_a_message_that_is_not_binary_closes_the_connection() {
    let server = start("");
    block_on(async {
        let mut socket = connect(&server).await;
        socket.send(Message::text("CONNECT")).await.expect("sent");
        assert_eq!(closed(&mut socket).await, CloseCode::Unsupported);
        assert!(matches!(socket.next().await, None | Some(Err(_))));
    });
}

#[test]
fn mqtt_6_0_0_3_a_client_has_to_offer_the_subprotocol() {
    let server = start("");
    assert_eq!(refused(&server, "/mqtt", &[]), 400);
    assert_eq!(
        refused(&server, "/mqtt", &[("sec-websocket-protocol", "mqttv3.1, chat")]),
        400
    );
    block_on(async {
        let stream = TcpStream::connect(server.at("ws")).await.expect("connected");
        let offer = ("sec-websocket-protocol", "chat, mqtt");
        open(stream, "/mqtt", &[offer])
            .await
            .expect("one of them will do");
    });
}

#[test]
fn another_path_and_a_page_that_is_not_named_are_refused() {
    let server = start("path = \"/here\"\nallowed_origins = [\"https://good.example\"]\n");
    let evil = ("origin", "https://evil.example");
    assert_eq!(refused(&server, "/mqtt", &[MQTT]), 404);
    assert_eq!(refused(&server, "/here", &[MQTT, evil]), 403);
    block_on(async {
        for origin in [&[MQTT, ("origin", "https://good.example")][..], &[MQTT]] {
            let stream = TcpStream::connect(server.at("ws")).await.expect("connected");
            open(stream, "/here", origin).await.expect("allowed");
        }
    });
}

#[test]
fn a_loopback_listener_for_all_pages_has_to_say_so() {
    let settings = LISTENER.replace("allow_anonymous = true", "");
    let ran = Configured::refused(&format!("{settings}[listeners.websocket]\n"));
    assert!(ran.stderr.contains("any web page"), "{ran:?}");
    let named = "[listeners.websocket]\nallowed_origins = [\"https://good.example\"]\n";
    Configured::start(&format!("{settings}{named}"));
}

#[test]
fn a_ping_is_answered_and_a_close_too() {
    let server = start("");
    block_on(async {
        let mut socket = connect(&server).await;
        socket.send(Message::Ping("hello".into())).await.expect("sent");
        let answer = socket.next().await.expect("open").expect("a message");
        assert_eq!(answer, Message::Pong("hello".into()));
        socket.close(None).await.expect("sent");
        assert!(matches!(socket.next().await, Some(Ok(Message::Close(_)))));
        assert!(socket.next().await.is_none());
    });
}

#[test]
fn a_message_that_is_too_large_closes_the_connection() {
    let server = Configured::start(&format!(
        "{LISTENER}[listeners.websocket]\n[limits]\npacket_size_max = 2048\n"
    ));
    block_on(async {
        let mut socket = connect(&server).await;
        // All of it may not be taken.
        let _ = socket.send(Message::binary(vec![0; 70_000])).await;
        assert_eq!(closed(&mut socket).await, CloseCode::Size);
    });
}

#[test]
fn large_messages_come_back_whole() {
    let server = start("");
    block_on(async {
        let mut socket = connect(&server).await;
        send(&mut socket, CONNECT).await;
        assert_eq!(receive(&mut socket, 5).await[0], 0x20, "CONNACK");
        // SUBSCRIBE to `t`, then 300,000 bytes to it.
        send(&mut socket, b"\x82\x07\0\x01\0\0\x01t\0").await;
        assert_eq!(receive(&mut socket, 6).await[0], 0x90, "SUBACK");
        let mut publish = b"\x30\xe4\xa7\x12\0\x01t\0".to_vec();
        publish.resize(4 + 300_004, 7);
        // The length that is encoded above.
        assert_eq!(0x64 + 0x27 * 128 + 0x12 * 128 * 128, 300_004);
        socket
            .send(Message::Binary(publish.clone().into()))
            .await
            .expect("sent");
        assert_eq!(receive(&mut socket, publish.len()).await, publish);
    });
}

#[test]
fn a_server_that_stops_says_so_in_mqtt_and_in_websocket() {
    let server = start("");
    block_on(async {
        let mut socket = connect(&server).await;
        send(&mut socket, CONNECT).await;
        assert_eq!(receive(&mut socket, 5).await[0], 0x20, "CONNACK");
        server.signal("TERM");
        let disconnect = receive(&mut socket, 3).await;
        assert_eq!(
            (disconnect[0], disconnect[2]),
            (0xe0, 0x8b),
            "Server shutting down"
        );
        assert!(matches!(socket.next().await, Some(Ok(Message::Close(_)))));
    });
}

#[test]
fn with_tls_below_it_is_wss() {
    let authority = Authority::new();
    let server = Configured::start(&format!(
        "{LISTENER}[listeners.websocket]\n[listeners.tls]\n{}",
        authority.issue("localhost").settings()
    ));
    block_on(async {
        let stream = TcpStream::connect(server.at("wss")).await.expect("connected");
        let name = ServerName::try_from("localhost").expect("a name");
        let connector = tokio_rustls::TlsConnector::from(authority.client_config());
        let stream = connector.connect(name, stream).await.expect("TLS");
        let mut socket = open(stream, "/mqtt", &[MQTT]).await.expect("a WebSocket");
        send(&mut socket, CONNECT).await;
        assert_eq!(receive(&mut socket, 5).await[0], 0x20, "CONNACK");
    });
}

/// The handshake of TLS looks at the certificate, and MQTT begins later.
#[test]
fn a_certificate_that_is_revoked_between_tls_and_websocket_is_refused() {
    let authority = Authority::new();
    let list = authority.revoke(&[]);
    let client = authority.issue_with("pump", |params| {
        params.serial_number = Some(rcgen::SerialNumber::from(7_u64));
    });
    let mut server = Configured::start(&format!(
        "{LISTENER}[listeners.websocket]\n[listeners.tls]\n{}client_ca = \"{}\"\ncrl = [\"{list}\"]\n",
        authority.issue("localhost").settings(),
        authority.ca_file(),
    ));
    let connector = tokio_rustls::TlsConnector::from(authority.client_config_of(&client));
    let at = server.at("wss").to_owned();
    let shake_hands = async || {
        let stream = TcpStream::connect(&at).await.expect("connected");
        let name = ServerName::try_from("localhost").expect("a name");
        connector.connect(name, stream).await.expect("TLS")
    };
    block_on(async {
        let mut early = open(shake_hands().await, "/mqtt", &[MQTT])
            .await
            .expect("a WebSocket");
        send(&mut early, CONNECT).await;
        assert_eq!(receive(&mut early, 5).await[0], 0x20, "it holds so far");

        let between = shake_hands().await;
        authority.revoke(&[7]);
        server.signal("HUP");
        server.logged("took the files of TLS anew");
        let refused = open(between, "/mqtt", &[MQTT]).await;
        assert!(matches!(refused, Err(Error::Http(answer)) if answer.status() == 403));
    });
    let line = server.logged("rejected handshake");
    assert!(line.contains("the certificate does not hold any more"), "{line}");
    assert!(line.contains("is revoked"), "{line}");
}
