//! Sends spans to a collector: OTLP over HTTP with JSON.
//!
//! A batch that the collector has trouble with (429, 502, 503, 504, or no answer) is sent again, later each time, or when it says; for so
//! long. One that it refuses is not. (<https://opentelemetry.io/docs/specs/otlp/#otlphttp-response>)

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use mqtt::traces::Span;
use serde::Deserialize;
use tokio::sync::{mpsc, oneshot};
use tokio::time::sleep;

use super::SpanCounts;
use super::encoding::{self, Moment, Resource};
use crate::clock;
use crate::https_client::{Headers, HttpError, HttpsClient, Response};

/// All that is needed to send spans.
#[derive(Debug)]
pub(super) struct Exporter {
    pub(super) client: HttpsClient,
    pub(super) path: String,
    pub(super) headers: Headers,
    pub(super) resource: Resource,
    pub(super) interval: Duration,
    pub(super) counts: Arc<SpanCounts>,
}

/// What is to be done after an answer.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    /// All were taken but so many, and why.
    Taken(u64, String),
    /// Nothing was, nor will be.
    Refused(String),
    /// It may be tried again, after so long if that is said.
    Trouble(String, Option<Duration>),
}

/// Spans of one request.
const BATCH_MAX: usize = 512;

/// Before the first time that a batch is sent again; twice as long each time.
const AGAIN_FIRST: Duration = Duration::from_millis(500);

/// No longer, whatever the collector says.
const AGAIN_MOST: Duration = Duration::from_secs(30);

/// A batch that was not taken by then is given up: later ones are of more use.
const GIVEN_UP_AFTER: Duration = Duration::from_secs(120);

/// When the server stops.
const LAST_MAX: Duration = Duration::from_secs(3);

impl Exporter {
    /// Sends what comes until nothing can come any more. When it is stopped that takes no longer than [`LAST_MAX`].
    pub(super) async fn run(mut self, mut spans: mpsc::Receiver<Span>, stopped: oneshot::Receiver<()>) {
        let counts = Arc::clone(&self.counts);
        let mut under_way = 0;
        let sending = async {
            let mut batch = Vec::new();
            while self.gather(&mut spans, &mut batch).await {
                under_way = batch.len();
                self.export(&batch).await;
                under_way = 0;
                batch.clear();
            }
        };
        let too_late = async {
            // The other end is dropped after it has said so.
            let _ = stopped.await;
            sleep(LAST_MAX).await;
        };
        tokio::select! {
            () = sending => return,
            () = too_late => {}
        }
        let left = (under_way + spans.len()) as u64;
        counts.dropped.fetch_add(left, Ordering::Relaxed);
        tracing::warn!(
            spans = left,
            "the collector of traces did not take the last spans"
        );
    }

    /// Waits for spans, and for more that may travel with them. False: there will be none.
    async fn gather(&self, spans: &mut mpsc::Receiver<Span>, batch: &mut Vec<Span>) -> bool {
        if spans.recv_many(batch, BATCH_MAX).await == 0 {
            return false;
        }
        let mut due = pin!(sleep(self.interval));
        while batch.len() < BATCH_MAX {
            let room = BATCH_MAX - batch.len();
            tokio::select! {
                more = spans.recv_many(batch, room) => if more == 0 {
                    break;
                },
                () = &mut due => break,
            }
        }
        true
    }

    /// Sends a batch until it is taken, refused, or given up.
    async fn export(&mut self, batch: &[Span]) {
        let count = batch.len() as u64;
        let moment = Moment {
            instant: clock::instant(),
            wall: clock::since_epoch(),
        };
        let body = encoding::request(&self.resource, batch, moment);
        let (mut again_after, mut has_failed) = (AGAIN_FIRST, false);
        loop {
            match self.send(body.clone()).await {
                Outcome::Taken(refused, why) => {
                    self.counts
                        .exported
                        .fetch_add(count.saturating_sub(refused), Ordering::Relaxed);
                    self.counts.refused.fetch_add(refused, Ordering::Relaxed);
                    if refused > 0 {
                        tracing::warn!(spans = refused, why, "the collector of traces refused some spans");
                    }
                    if has_failed {
                        tracing::info!("the collector of traces answers again");
                    }
                    return;
                }
                Outcome::Refused(why) => {
                    self.counts.refused.fetch_add(count, Ordering::Relaxed);
                    tracing::warn!(spans = count, why, "the collector of traces refused spans");
                    return;
                }
                Outcome::Trouble(why, wanted) => {
                    if !std::mem::replace(&mut has_failed, true) {
                        tracing::warn!(why, "the collector of traces has trouble: it is tried again");
                    }
                    if clock::instant() - moment.instant > GIVEN_UP_AFTER {
                        self.counts.refused.fetch_add(count, Ordering::Relaxed);
                        tracing::warn!(spans = count, why, "spans were given up");
                        return;
                    }
                    sleep(wanted.unwrap_or(again_after).min(AGAIN_MOST)).await;
                    again_after = (again_after * 2).min(AGAIN_MOST);
                }
            }
        }
    }

    async fn send(&self, body: Bytes) -> Outcome {
        self.headers.look();
        let headers = self.headers.current();
        outcome(self.client.post_json(&self.path, &headers, body).await)
    }
}

fn outcome(answer: Result<Response, HttpError>) -> Outcome {
    let response = match answer {
        Ok(response) => response,
        Err(error) => return Outcome::Trouble(error.to_string(), None),
    };
    let status = response.status;
    match status {
        200..300 => {
            // Some collectors answer nothing.
            let Answer { partial_success } = serde_json::from_slice(&response.body).unwrap_or_default();
            let refused = partial_success.rejected_spans.number();
            Outcome::Taken(refused, partial_success.error_message)
        }
        429 | 502 | 503 | 504 => Outcome::Trouble(format!("status {status}"), response.retry_after),
        _ => {
            let said: String = String::from_utf8_lossy(&response.body)
                .chars()
                .take(SAID_MAX)
                .collect();
            Outcome::Refused(format!("status {status} {said}"))
        }
    }
}

/// Characters of what a collector says that are written into the log.
const SAID_MAX: usize = 200;

/// `ExportTraceServiceResponse`
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Answer {
    partial_success: PartialSuccess,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PartialSuccess {
    rejected_spans: Number,
    error_message: String,
}

/// Numbers of 64 bits are text, by the mapping to JSON; readers take both.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Number {
    Number(u64),
    Text(String),
}

impl Default for Number {
    fn default() -> Self {
        Self::Number(0)
    }
}

impl Number {
    fn number(&self) -> u64 {
        match self {
            Self::Number(number) => *number,
            Self::Text(text) => text.parse().unwrap_or(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: u16, body: &'static str) -> Outcome {
        outcome(Ok(Response {
            status,
            body: Bytes::from_static(body.as_bytes()),
            retry_after: (status == 503).then_some(Duration::from_secs(7)),
        }))
    }

    #[test]
    fn it_is_tried_again_where_the_protocol_says_so() {
        for taken in ["", "{}", r#"{"partialSuccess":{}}"#, "not JSON"] {
            assert_eq!(answer(200, taken), Outcome::Taken(0, String::new()), "{taken}");
        }
        let some = r#"{"partialSuccess":{"rejectedSpans":"3","errorMessage":"too old"}}"#;
        assert_eq!(answer(200, some), Outcome::Taken(3, "too old".to_owned()));
        let number = r#"{"partialSuccess":{"rejectedSpans":3}}"#;
        assert_eq!(answer(202, number), Outcome::Taken(3, String::new()));
        let seven = Some(Duration::from_secs(7));
        assert_eq!(answer(503, ""), Outcome::Trouble("status 503".to_owned(), seven));
        for trouble in [429, 502, 504] {
            assert!(matches!(answer(trouble, ""), Outcome::Trouble(_, None)));
        }
        for refused in [301, 400, 401, 404, 413, 500] {
            assert!(matches!(answer(refused, "no"), Outcome::Refused(_)), "{refused}");
        }
        let lost = outcome(Err(HttpError::Timeout(AGAIN_FIRST)));
        assert!(matches!(lost, Outcome::Trouble(_, None)));
    }
}
