//! What operators are told of connections that come to nothing: each cause once, until there is another one or it is over.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::time::{Duration, Instant};

use cluster::NodeId;
use cluster::peers::{PeerAddress, Refusal, RefusalCode};

use super::Shared;
use super::meeting::{MeetingError, cause_of};
use crate::clock::instant as now;

/// What was told and still holds.
#[derive(Debug, Default)]
pub(super) struct Problems {
    /// Of addresses that are dialled.
    dialled: BTreeMap<PeerAddress, Problem>,
    /// Of nodes that connect, by what they call their own address.
    accepted: BTreeMap<PeerAddress, Problem>,
}

/// Why there is no connection.
#[derive(Debug)]
struct Problem {
    cause: Cause,
    text: String,
    /// When it was seen last.
    seen: Instant,
}

/// What makes one problem another one: the words of a refusal have figures in them that change.
#[derive(Debug, PartialEq, Eq)]
enum Cause {
    Refusal(RefusalCode),
    Failure(String),
}

impl Problem {
    fn of(error: &MeetingError) -> Self {
        let text = error.to_string();
        let cause = match error.refusal() {
            Some((_, refusal)) => Cause::Refusal(refusal.code),
            None => Cause::Failure(text.clone()),
        };
        Self {
            cause,
            text,
            seen: now(),
        }
    }

    /// The refusal that it is, if it still holds.
    fn refusal(&self) -> Option<Refusal> {
        match self.cause {
            Cause::Refusal(code) if self.holds(code) => Some(Refusal::new(code, self.text.clone())),
            Cause::Refusal(_) | Cause::Failure(_) => None,
        }
    }

    /// A node that is refused tries again. One that has stopped does not, and is stopped until it connects.
    fn holds(&self, code: RefusalCode) -> bool {
        code == RefusalCode::Stopped || self.seen + REFUSAL_HOLDS > now()
    }

    fn is_same(&self, before: Option<&Self>) -> bool {
        before.is_some_and(|before| before.cause == self.cause)
    }
}

/// A node that is refused tries again after half a minute at the latest.
const REFUSAL_HOLDS: Duration = Duration::from_secs(40);

/// More nodes that are refused are not remembered: each of their lines counts for the limit of their address, as those of strangers.
const ACCEPTED_MAX: usize = 64;

impl Shared {
    /// An address that is dialled came to nothing.
    pub(super) fn dialling_failed(&self, address: &PeerAddress, error: &MeetingError) {
        self.count_refused(error);
        let problem = Problem::of(error);
        let mut problems = self.problems.borrow_mut();
        let is_known = problem.is_same(problems.dialled.get(address))
            // It was said when the node connected.
            || matches!(problem.cause, Cause::Refusal(_)) && problem.is_same(problems.accepted.get(address));
        problems.dialled.insert(address.clone(), problem);
        if is_known {
            return tracing::debug!(%address, %error, "no connection to a node");
        }
        match error {
            MeetingError::RefusedHere(..) => tracing::warn!(%address, "refused a node: {error}"),
            MeetingError::RefusedThere(..) => tracing::warn!(%address, "a node refuses this one: {error}"),
            MeetingError::Unreachable(_) | MeetingError::Closed | MeetingError::Lost(_) => {
                drop(problems);
                self.log_broken_link(address, error);
            }
            _ => tracing::warn!(%address, %error, "no connection to a node"),
        }
    }

    /// The line says what the pages say, where the address is that of a member.
    fn log_broken_link(&self, address: &PeerAddress, error: &MeetingError) {
        match self.broken_links(&BTreeMap::new()).remove(address) {
            Some(link) => tracing::info!(%address, "no connection to a node: {link}"),
            None => tracing::info!(%address, %error, "no connection to a node"),
        }
    }

    /// There is a connection to an address that is dialled, or no need of one.
    pub(super) fn dialling_succeeded(&self, address: &PeerAddress) {
        self.problems.borrow_mut().dialled.remove(address);
    }

    /// A connection that was accepted came to nothing.
    pub(super) fn accepting_failed(&self, from: impl Display, error: &MeetingError) {
        if error.is_harmless() {
            return;
        }
        self.count_refused(error);
        let mut problems = self.problems.borrow_mut();
        let known = error.refusal().map(|(hello, _)| hello.address.clone());
        if let Some(address) = known
            && (problems.accepted.contains_key(&address) || problems.accepted.len() < ACCEPTED_MAX)
        {
            let problem = Problem::of(error);
            let is_known = problem.is_same(problems.accepted.get(&address))
                || problem.is_same(problems.dialled.get(&address));
            problems.accepted.insert(address.clone(), problem);
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
        tracing::warn!(peer = %from, %error, "refused a connection at cluster.peer_listen");
    }

    /// A node that was connected does not go on with this one, or has stopped.
    pub(super) fn refused_by(&self, address: &PeerAddress, refusal: Refusal) {
        match refusal.code {
            RefusalCode::Stopped => tracing::warn!(%address, "{refusal}"),
            _ => tracing::warn!(%address, "a node refuses this one: {refusal}"),
        }
        let problem = Problem {
            cause: Cause::Refusal(refusal.code),
            text: refusal.text,
            seen: now(),
        };
        let accepted = &mut self.problems.borrow_mut().accepted;
        if accepted.contains_key(address) || accepted.len() < ACCEPTED_MAX {
            accepted.insert(address.clone(), problem);
        }
    }

    /// A node is connected.
    pub(super) fn accepting_succeeded(&self, address: &PeerAddress) {
        self.problems.borrow_mut().accepted.remove(address);
    }

    /// A node is refused that was connected.
    pub(super) fn connection_refused(&self, refusal: &Refusal) {
        self.count_cause(cause_of(refusal.code));
        tracing::warn!("refused a node: {refusal}");
    }

    /// A connection of a node ends whose certificate does not hold any more.
    pub(super) fn certificate_refused(&self, node: NodeId, why: &str) {
        self.count_cause("tls");
        tracing::warn!(%node, "parted with a node: its certificate does not hold any more: {why}");
    }

    /// What is wrong with each address that is dialled.
    pub(super) fn unreachable(&self) -> BTreeMap<PeerAddress, String> {
        let problems = self.problems.borrow();
        let each = problems.dialled.iter();
        each.map(|(address, problem)| (address.clone(), problem.text.clone()))
            .collect()
    }

    /// Refusals that hold, of this node by others and of others by this one, by the address of the other node.
    pub(super) fn refusals(&self) -> BTreeMap<PeerAddress, Refusal> {
        let problems = self.problems.borrow();
        let all = problems.accepted.iter().chain(&problems.dialled);
        all.filter_map(|(address, problem)| Some((address.clone(), problem.refusal()?)))
            .collect()
    }

    fn count_cause(&self, cause: &'static str) {
        *self.counts.borrow_mut().refused.entry(cause).or_default() += 1;
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
            self.count_cause(error.cause());
        }
    }
}
