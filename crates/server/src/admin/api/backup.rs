//! `/api/backup` and `/api/restore`: the parts of a backup, as streams of its format (`backup.rs`), and back.
//!
//! A group is given by who leads it, as of one moment; sessions and retained messages one piece after the other, with others' turns between. A client
//! that reads slowly is waited for as long as its connection lasts; what is read for it meanwhile is one piece.

use std::io;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::{Path, RawQuery, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use broker::backups::{Contents, Item, PIECE_BYTES, Tally};
use broker::{Administration, ImageSource};
use bytes::BytesMut;
use cluster::GroupId;
use futures_util::stream;
use serde_json::{Value, json};
use store::Image;
use tokio::sync::OwnedSemaphorePermit;

use super::parameters::{Parameters, wrong};
use super::{Failure, Question, Said, ask, beside_the_point, failure, respond};
use crate::admin::pages::Pages;
use crate::backup::{Decoder, Encoder, FormatError, RESTORED_AT_ONCE_MAX, Record};

/// What this node would give, and what it has.
pub(super) async fn show(State(pages): State<Pages>) -> Response {
    respond(shown(&pages).await)
}

async fn shown(pages: &Pages) -> Result<Value, Failure> {
    let answered = ask(pages, Question::Contents).await?;
    let Said::Contents(contents) = answered.said else {
        return Err(beside_the_point());
    };
    let Contents {
        groups,
        keys,
        retained,
        sessions,
        log_ends,
    } = contents;
    let log_ends = log_ends.into_iter();
    let log_ends = log_ends.map(|end| end.map(|end| json!({ "term": end.term.0, "index": end.index.0 })));
    Ok(json!({
        "node": answered.node.to_string(),
        "version": env!("CARGO_PKG_VERSION"),
        "groups": groups,
        "keys": keys,
        "retained": retained,
        "sessions": sessions,
        "log_ends": log_ends.collect::<Vec<_>>(),
    }))
}

/// The keys of a group that this node leads; with `copy=own` those of its own copy, whoever leads.
pub(super) async fn group(
    State(pages): State<Pages>,
    Path(group): Path<u32>,
    RawQuery(query): RawQuery,
) -> Response {
    let begun = async {
        let permit = permit(&pages)?;
        let source = source(query.as_deref())?;
        let wanted = Administration::Freeze {
            group: GroupId(group),
            source,
        };
        let Said::Frozen(image) = ask(&pages, Question::Administer(wanted)).await?.said else {
            return Err(beside_the_point());
        };
        let Some(image) = image else {
            let why = match source {
                ImageSource::Leader => format!("this node does not lead group {group} now; ask another one"),
                ImageSource::Own => format!("this node has no copy of group {group}; ask another one"),
            };
            return Err(failure(StatusCode::CONFLICT, &why));
        };
        let first = Record::Group(group, image.clock(), image.floor());
        Ok(streamed(pages, Part::Keys(image, None), Some(first), permit))
    };
    begun.await.unwrap_or_else(|failure: Failure| *failure)
}

fn source(query: Option<&str>) -> Result<ImageSource, Failure> {
    match Parameters::of(query, &["copy"])?.get("copy") {
        None => Ok(ImageSource::Leader),
        Some("own") => Ok(ImageSource::Own),
        Some(_) => Err(wrong("`copy` is own, or not there")),
    }
}

/// The durable sessions of which this node is the primary owner.
pub(super) async fn sessions(State(pages): State<Pages>) -> Response {
    match permit(&pages) {
        Ok(permit) => streamed(pages, Part::Sessions(Some(String::new())), None, permit),
        Err(failure) => *failure,
    }
}

/// All retained messages.
pub(super) async fn retained(State(pages): State<Pages>) -> Response {
    match permit(&pages) {
        Ok(permit) => streamed(pages, Part::Retained(Some(Vec::new())), None, permit),
        Err(failure) => *failure,
    }
}

/// Puts back what comes: a stream of a few records.
pub(super) async fn restore(State(pages): State<Pages>, body: Bytes) -> Response {
    respond(restored(&pages, &body).await)
}

async fn restored(pages: &Pages, body: &Bytes) -> Result<Value, Failure> {
    let _permit = permit(pages)?;
    let items = items(body).map_err(|why| failure(StatusCode::BAD_REQUEST, &why))?;
    let wanted = Administration::Restore { items };
    let answered = ask(pages, Question::Administer(wanted)).await?;
    let Said::Restored(tally) = answered.said else {
        return Err(beside_the_point());
    };
    let Tally {
        restored,
        there,
        over,
        refused,
        unreadable,
        in_doubt,
    } = tally;
    Ok(json!({
        "node": answered.node.to_string(),
        "restored": restored,
        "there": there,
        "over": over,
        "refused": refused,
        "unreadable": unreadable,
        "in_doubt": in_doubt,
    }))
}

fn items(body: &[u8]) -> Result<Vec<Item>, String> {
    let words = |error: FormatError| error.to_string();
    let mut decoder = Decoder::default();
    decoder.push(body);
    let mut items = Vec::new();
    while let Some(record) = decoder.next().map_err(words)? {
        items.push(match record {
            Record::About(_) => continue,
            Record::Group(_, _, floor) => Item::Floor(floor),
            Record::Key(record) => Item::Key(record),
            Record::Retained(item) => Item::Retained(item),
            Record::Session(item) => Item::Session(item),
        });
        if items.len() > RESTORED_AT_ONCE_MAX {
            return Err(format!("more than {RESTORED_AT_ONCE_MAX} records at once"));
        }
    }
    decoder.finish().map_err(words)?;
    Ok(items)
}

fn permit(pages: &Pages) -> Result<OwnedSemaphorePermit, Failure> {
    Arc::clone(&pages.backups).try_acquire_owned().map_err(|_| {
        let why = "too many backups at the same time; try again when one has ended";
        failure(StatusCode::SERVICE_UNAVAILABLE, why)
    })
}

/// What is left of a part of a backup.
enum Part {
    /// Behind this key.
    Keys(Box<Image>, Option<Bytes>),
    /// Behind this client id.
    Sessions(Option<String>),
    /// Behind this place.
    Retained(Option<Vec<u8>>),
}

struct Streaming {
    pages: Pages,
    part: Part,
    encoder: Encoder,
    _permit: OwnedSemaphorePermit,
}

fn streamed(pages: Pages, part: Part, first: Option<Record>, permit: OwnedSemaphorePermit) -> Response {
    let (mut encoder, head) = Encoder::begin();
    let mut out = BytesMut::from(&head[..]);
    if let Some(first) = first {
        encoder.push(&first, &mut out).expect("it is short");
    }
    let streaming = Streaming {
        pages,
        part,
        encoder,
        _permit: permit,
    };
    let body = stream::unfold(Some((streaming, out)), |streaming| async {
        let (streaming, out) = streaming?;
        Some(match streaming.next(out).await {
            Ok((bytes, rest)) => (Ok(bytes), rest.map(|rest| (rest, BytesMut::new()))),
            // The client sees that the stream has no end.
            Err(error) => {
                tracing::warn!(%error, "a part of a backup was broken off");
                (Err(error), None)
            }
        })
    });
    let content_type = HeaderValue::from_static("application/octet-stream");
    ([(header::CONTENT_TYPE, content_type)], Body::from_stream(body)).into_response()
}

impl Streaming {
    /// The next bytes, and what is left.
    async fn next(mut self, mut out: BytesMut) -> io::Result<(Bytes, Option<Self>)> {
        let (records, is_over) = self.records().await?;
        for record in &records {
            let pushed = self.encoder.push(record, &mut out);
            pushed.map_err(io::Error::other)?;
        }
        if !is_over {
            return Ok((out.freeze(), Some(self)));
        }
        let (_, end) = self.encoder.end();
        out.extend_from_slice(&end);
        Ok((out.freeze(), None))
    }

    /// The next records, and whether they are the last.
    async fn records(&mut self) -> io::Result<(Vec<Record>, bool)> {
        let gone = |_: Failure| io::Error::other("the node did not answer");
        match &mut self.part {
            Part::Keys(image, after) => {
                let records = image.keys_after(after.as_deref(), PIECE_BYTES);
                *after = records.last().map(|record| record.key.clone());
                let is_over = after.is_none();
                Ok((records.into_iter().map(Record::Key).collect(), is_over))
            }
            Part::Sessions(after) => {
                let asked = Question::SessionsForBackup(after.take().unwrap_or_default());
                let answered = ask(&self.pages, asked).await.map_err(gone)?;
                let Said::SessionsForBackup(piece) = answered.said else {
                    return Err(io::Error::other("the node answered something else"));
                };
                *after = piece.next;
                let records = piece.found.into_iter().map(Record::Session).collect();
                Ok((records, after.is_none()))
            }
            Part::Retained(after) => {
                let asked = Question::RetainedForBackup(after.take().unwrap_or_default());
                let answered = ask(&self.pages, asked).await.map_err(gone)?;
                let Said::RetainedForBackup(piece) = answered.said else {
                    return Err(io::Error::other("the node answered something else"));
                };
                *after = piece.next;
                let records = piece.found.into_iter().map(Record::Retained).collect();
                Ok((records, after.is_none()))
            }
        }
    }
}
