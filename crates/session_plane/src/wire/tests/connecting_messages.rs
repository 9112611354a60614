//! Messages of claims that are drawn at random, and sessions of copies as an asker gets them.

use std::sync::Arc;

use bytes::Bytes;
use proptest::collection::{btree_set, vec};
use proptest::option;
use proptest::prelude::*;

use super::samples::{clients, clocks, dots, entries, numbers, vectors};
use crate::connecting::{
    AskRefusal, AskSession, Claimant, ConnectingMessage, KnownSession, QuestionRefused, Release, Released,
    SessionAnswer,
};
use crate::copy::tests::history::{CLIENTS, client, dot, histories};
use crate::copy::tests::{Sample as Copy, take_event};
use crate::wire::{Message, WireValue};
use crate::{EntryKind, VersionVector};

pub(super) fn messages() -> BoxedStrategy<ConnectingMessage<Bytes>> {
    let reasons = proptest::sample::select(vec![AskRefusal::Full, AskRefusal::NotReady]);
    let answers = (dots(), numbers(1), sessions()).prop_map(|(connection, round, session)| SessionAnswer {
        connection,
        round,
        session,
    });
    let refused = (dots(), numbers(1), reasons).prop_map(|(connection, round, reason)| QuestionRefused {
        connection,
        round,
        reason,
    });
    let released = (dots(), dots(), any::<bool>());
    let released = released.prop_map(|(old, by, is_agreed)| Released { old, by, is_agreed });
    prop_oneof![
        2 => questions().prop_map(ConnectingMessage::Ask),
        4 => answers.prop_map(ConnectingMessage::Session),
        1 => refused.prop_map(ConnectingMessage::Refused),
        2 => releases().prop_map(ConnectingMessage::Release),
        1 => released.prop_map(ConnectingMessage::Released),
    ]
    .boxed()
}

fn questions() -> BoxedStrategy<AskSession> {
    (clients(), dots(), numbers(1), vectors())
        .prop_map(|(client, connection, round, known)| AskSession {
            client,
            connection,
            round,
            known: Arc::new(known),
        })
        .boxed()
}

fn releases() -> BoxedStrategy<Release> {
    let claimant = (clocks(), dots()).prop_map(|(clock, dot)| Claimant { clock, dot });
    (dots(), option::of(claimant))
        .prop_map(|(old, by)| Release { old, by })
        .boxed()
}

/// An owner tells neither messages nor deliveries, nothing of a shared group or of a topic, and no single dot
/// that its vector has.
fn sessions() -> BoxedStrategy<KnownSession<Bytes>> {
    let is_told = |kind| {
        !matches!(
            kind,
            EntryKind::Message
                | EntryKind::Delivery
                | EntryKind::Member
                | EntryKind::Presence
                | EntryKind::Assignment
                | EntryKind::Retained
                | EntryKind::Cleared
        )
    };
    (vectors(), btree_set(dots(), 0..5), vec((dots(), entries()), 0..6))
        .prop_map(move |(covered, mut single, mut listed)| {
            single.retain(|dot| !covered.covers(*dot));
            listed.retain(|(_, entry)| is_told(entry.fact.kind()));
            KnownSession::from_parts(covered, single, listed).expect("what an owner tells")
        })
        .boxed()
}

impl WireValue for u64 {
    fn to_bytes(&self) -> Bytes {
        Bytes::copy_from_slice(&self.to_be_bytes())
    }

    fn from_bytes(bytes: Bytes) -> Option<u64> {
        let bytes = <[u8; 8]>::try_from(&bytes[..]).ok()?;
        Some(u64::from_be_bytes(bytes))
    }
}

proptest! {
    /// Whatever a copy has of a client is taken by an asker.
    #[test]
    fn a_session_of_a_copy_comes_out_as_it_was(
        history in histories(),
        taken in any::<u64>(),
        of in 0..CLIENTS,
        claims in any::<bool>(),
    ) {
        let mut copy = Copy::new(VersionVector::default());
        for (_, event) in history.iter().enumerate().filter(|(at, _)| taken >> at & 1 == 1) {
            take_event(&mut copy, event);
        }
        if claims {
            copy.claim(|_, _, _| Vec::new()).expect("there are no holes");
        }
        let session = KnownSession::of_copy(&copy, &client(of));
        let answer = SessionAnswer { connection: dot(0, 1), round: 1, session };
        let sent = Message::<u64, u64, u64>::Connecting(ConnectingMessage::Session(answer));
        prop_assert_eq!(Message::decode(sent.encode()), Ok(sent));
    }
}
