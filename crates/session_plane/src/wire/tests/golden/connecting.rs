//! Golden messages of claims.

use std::sync::Arc;

use bytes::Bytes;

use super::slots::{facts, listed};
use super::values::{client, clock, dot, vector};
use crate::EntryKind;
use crate::connecting::{
    AskRefusal, AskSession, Claimant, ConnectingMessage, KnownSession, QuestionRefused, Release, Released,
    SessionAnswer,
};

pub(super) fn claims() -> Vec<(&'static str, ConnectingMessage<Bytes>)> {
    let (connection, round) = (dot(2, 40), 2);
    let ask = AskSession {
        client: client("panel"),
        connection,
        round,
        known: Arc::new(vector()),
    };
    let answer = SessionAnswer {
        connection,
        round,
        session: session(),
    };
    let refused = |reason| {
        ConnectingMessage::Refused(QuestionRefused {
            connection,
            round,
            reason,
        })
    };
    let claimant = Claimant {
        clock: clock(40),
        dot: connection,
    };
    let release = |by| ConnectingMessage::Release(Release { old: dot(3, 41), by });
    let released = |is_agreed| {
        ConnectingMessage::Released(Released {
            old: dot(3, 41),
            by: connection,
            is_agreed,
        })
    };
    vec![
        ("ask-session", ConnectingMessage::Ask(ask)),
        ("session", ConnectingMessage::Session(answer)),
        ("session-full", refused(AskRefusal::Full)),
        ("session-not-ready", refused(AskRefusal::NotReady)),
        ("release", release(Some(claimant))),
        ("release-loser", release(None)),
        ("released", released(true)),
        ("released-not-agreed", released(false)),
    ]
}

/// Entries of each kind that an owner tells, and two single dots.
fn session() -> KnownSession<Bytes> {
    let is_told = |kind| !matches!(kind, EntryKind::Message | EntryKind::Delivery);
    let facts = facts().into_iter().filter(|fact| is_told(fact.kind()));
    let entries = facts
        .zip(50..)
        .map(|(fact, number)| (dot(3, number), listed(fact).entry));
    let single = [dot(2, 42), dot(2, 44)].into();
    KnownSession::from_parts(vector(), single, entries.collect()).expect("what an owner tells")
}
