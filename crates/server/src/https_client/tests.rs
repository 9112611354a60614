use std::cell::Cell;
use std::rc::Rc;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::*;

const LIMITS: RequestLimits = RequestLimits {
    timeout: Duration::from_secs(60),
    requests_max: 4,
    body_bytes_max: 100,
};

/// A server that gives each connection these answers, one for each request, and then closes it.
struct Server {
    port: u16,
    connections: Rc<Cell<usize>>,
}

/// What a request said.
type Heard = Rc<RefCell<Vec<String>>>;

impl Server {
    async fn answering(answers: &'static [&'static str]) -> (Self, Heard) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("bound").port();
        let (connections, heard) = (Rc::new(Cell::new(0)), Heard::default());
        let (counted, hears) = (Rc::clone(&connections), Rc::clone(&heard));
        tokio::task::spawn_local(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                counted.set(counted.get() + 1);
                let hears = Rc::clone(&hears);
                tokio::task::spawn_local(async move {
                    for answer in answers {
                        let mut request = vec![0; 4_096];
                        let read = stream.read(&mut request).await.unwrap_or_default();
                        if read == 0 {
                            return;
                        }
                        hears
                            .borrow_mut()
                            .push(String::from_utf8_lossy(&request[..read]).into_owned());
                        let _ = stream.write_all(answer.as_bytes()).await;
                    }
                });
            }
        });
        (Self { port, connections }, heard)
    }

    fn client(&self, limits: RequestLimits) -> HttpsClient {
        let url = Url::parse(&format!("http://127.0.0.1:{}/where?a=b", self.port), false);
        HttpsClient::new(url.expect("an address"), TlsFiles::default(), limits).expect("no files")
    }
}

fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    tokio::task::LocalSet::new().block_on(&runtime, test);
}

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}";

#[test]
fn a_request_says_where_it_goes_and_what_it_has() {
    run(async {
        let (server, heard) = Server::answering(&[OK, OK]).await;
        let client = server.client(LIMITS);
        let secret = (
            HeaderName::from_static("authorization"),
            HeaderValue::from_static("Bearer x"),
        );
        let response = client
            .post_json("/where?a=b", &[secret], Bytes::from_static(b"{\"c\":1}"))
            .await
            .expect("answered");
        assert_eq!((response.status, &*response.body), (200, &b"{}"[..]));
        client.get().await.expect("answered");
        let heard = heard.borrow();
        let post = heard[0].to_ascii_lowercase();
        assert!(post.starts_with("post /where?a=b http/1.1\r\n"), "{post}");
        for header in [
            &format!("host: 127.0.0.1:{}", server.port),
            "content-type: application/json",
            "content-length: 7",
            "authorization: bearer x",
        ] {
            assert!(post.contains(&format!("\r\n{header}\r\n")), "{header} in {post}");
        }
        assert!(!post.contains("accept-encoding"), "{post}");
        assert!(post.ends_with("\r\n\r\n{\"c\":1}"), "{post}");
        assert!(heard[1].starts_with("GET /where?a=b HTTP/1.1\r\n"));
        assert_eq!(server.connections.get(), 1, "the connection is used again");
    });
}

#[test]
fn a_connection_that_was_closed_meanwhile_is_made_anew() {
    run(async {
        let (server, heard) = Server::answering(&[OK]).await;
        let client = server.client(LIMITS);
        for _ in 0..3 {
            client.get().await.expect("answered");
        }
        assert_eq!(heard.borrow().len(), 3);
        assert_eq!(server.connections.get(), 3);
    });
}

#[test]
fn a_redirect_is_an_answer_like_others() {
    run(async {
        let to = "HTTP/1.1 307 No\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n";
        let (server, heard) = Server::answering(Box::leak(Box::new([to]))).await;
        let response = server.client(LIMITS).get().await.expect("answered");
        assert_eq!(response.status, 307);
        assert_eq!(heard.borrow().len(), 1);
    });
}

#[test]
fn an_answer_that_is_too_long_is_none() {
    run(async {
        let announced = "HTTP/1.1 200 OK\r\ncontent-length: 9999999999\r\n\r\nx";
        let long: &str = Box::leak(format!("HTTP/1.1 200 OK\r\n\r\n{}", "x".repeat(101)).into_boxed_str());
        let chunked = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nfffffff0\r\nx";
        let head: &str = Box::leak(
            format!("HTTP/1.1 200 OK\r\na: {}\r\n\r\n", "x".repeat(2 * HEAD_BYTES_MAX)).into_boxed_str(),
        );
        let headers: &str = Box::leak(
            format!("HTTP/1.1 200 OK\r\n{}\r\n", "a: b\r\n".repeat(HEADERS_MAX + 1)).into_boxed_str(),
        );
        for answer in [
            announced,
            long,
            chunked,
            head,
            headers,
            "",
            "HTTP/0.9\r\n\r\n",
            "\0\r\n\r\n",
        ] {
            let (server, _) = Server::answering(Box::leak(Box::new([answer]))).await;
            let answered = server.client(LIMITS).get().await;
            assert!(
                matches!(answered, Err(HttpError::Body(100) | HttpError::Http(_))),
                "{answer}: {answered:?}"
            );
        }
    });
}

#[test]
fn a_server_that_does_not_answer_is_given_up() {
    run(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("bound").port();
        let server = Server {
            port,
            connections: Rc::default(),
        };
        let limits = RequestLimits {
            timeout: Duration::from_millis(50),
            requests_max: 1,
            ..LIMITS
        };
        let client = server.client(limits);
        // The second one waits for the first, and its time passes, too.
        let (first, second) = tokio::join!(client.get(), client.get());
        for answered in [first, second] {
            assert!(matches!(answered, Err(HttpError::Timeout(_))), "{answered:?}");
        }
        drop(listener);
        assert!(matches!(client.get().await, Err(HttpError::Connect(_))));
    });
}

#[test]
fn headers_of_the_connection_are_not_for_others_to_set() {
    for name in ["authorization", "X-Key"] {
        assert!(is_header(name));
    }
    for name in ["", "a b", "Host", "content-length", "Transfer-Encoding", "x\r\ny"] {
        assert!(!is_header(name), "{name:?}");
    }
}
