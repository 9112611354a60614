//! What operators are told of connections that come to nothing: each cause once, until there is another one or it is over.

use std::collections::BTreeMap;
use std::fmt::Display;

use cluster::peers::PeerAddress;

use super::Shared;
use super::meeting::MeetingError;
use crate::clock;
use crate::log_limit::LogLimit;

/// What was told and still holds.
#[derive(Debug, Default)]
pub(super) struct Problems {
    /// Of addresses that are dialled.
    dialled: BTreeMap<PeerAddress, String>,
    /// Of nodes that connect, by what they call their own address.
    accepted: BTreeMap<PeerAddress, String>,
    /// For who connects and does not say who it is.
    strangers: LogLimit,
}

/// More nodes that are refused are not remembered: their lines are limited as those of strangers.
const ACCEPTED_MAX: usize = 64;

impl Shared {
    /// An address that is dialled came to nothing.
    pub(super) fn dialling_failed(&self, address: &PeerAddress, error: &MeetingError) {
        self.count_refused(error);
        let text = error.to_string();
        let before = self
            .problems
            .borrow_mut()
            .dialled
            .insert(address.clone(), text.clone());
        if before.as_ref() == Some(&text) {
            return tracing::debug!(%address, %error, "no connection to a node");
        }
        match error {
            MeetingError::RefusedHere(..) => tracing::warn!(%address, "refused a node: {error}"),
            MeetingError::RefusedThere(..) => tracing::warn!(%address, "a node refuses this one: {error}"),
            MeetingError::Unreachable(_) | MeetingError::Closed | MeetingError::Lost(_) => {
                tracing::info!(%address, %error, "no connection to a node");
            }
            _ => tracing::warn!(%address, %error, "no connection to a node"),
        }
    }

    /// There is a connection to an address that is dialled.
    pub(super) fn dialling_succeeded(&self, address: &PeerAddress) {
        self.problems.borrow_mut().dialled.remove(address);
    }

    /// A connection that was accepted came to nothing.
    pub(super) fn accepting_failed(&self, from: impl Display, error: &MeetingError) {
        self.count_refused(error);
        let text = error.to_string();
        let mut problems = self.problems.borrow_mut();
        let known = error.refusal().map(|(hello, _)| hello.address.clone());
        if let Some(address) = known
            && (problems.accepted.contains_key(&address) || problems.accepted.len() < ACCEPTED_MAX)
        {
            let before = problems.accepted.insert(address.clone(), text.clone());
            let is_known = before.as_ref() == Some(&text) || problems.dialled.get(&address) == Some(&text);
            if is_known {
                return;
            }
            match error {
                MeetingError::RefusedThere(..) => {
                    tracing::warn!(%address, "a node refuses this one: {error}");
                }
                _ => tracing::warn!(%address, "refused a node: {error}"),
            }
            return;
        }
        if let Some(left_out) = problems.strangers.take(clock::instant()) {
            let left_out = (left_out > 0).then_some(left_out);
            tracing::warn!(peer = %from, %error, left_out, "refused a connection at cluster.peer_listen");
        }
    }

    /// A node is connected.
    pub(super) fn accepting_succeeded(&self, address: &PeerAddress) {
        self.problems.borrow_mut().accepted.remove(address);
    }

    /// What is wrong with each address that is dialled.
    pub(super) fn unreachable(&self) -> BTreeMap<PeerAddress, String> {
        self.problems.borrow().dialled.clone()
    }

    fn count_refused(&self, error: &MeetingError) {
        let is_reached = !matches!(
            error,
            MeetingError::Unreachable(_)
                | MeetingError::Name(_)
                | MeetingError::Closed
                | MeetingError::Lost(_)
        );
        if is_reached {
            *self.counts.borrow_mut().refused.entry(error.cause()).or_default() += 1;
        }
    }
}
