//! Messages of a session that an earlier process began, which come before this one has subscribed.
//!
//! They are not acknowledged until somebody takes them, so there are no more than the Receive Maximum. After a while
//! nobody is expected to want the rest.

use std::time::{Duration, Instant};

use protocol::packet::{Publish, QoS};

use super::operation::DeliveryId;

#[derive(Debug, Default)]
pub(super) struct Parked {
    until: Option<Instant>,
    messages: Vec<(DeliveryId, Publish)>,
}

impl Parked {
    /// The session was there before its first connection.
    pub(super) fn open(&mut self, now: Instant) {
        self.until = Some(now + PARKED_MAX);
    }

    /// Whether a message that nobody has subscribed to may wait here. One without acknowledgement may not.
    pub(super) fn takes(&self, publish: &Publish) -> bool {
        self.until.is_some() && publish.qos != QoS::AtMostOnce
    }

    pub(super) fn push(&mut self, delivery: DeliveryId, publish: Publish) {
        self.messages.push((delivery, publish));
    }

    /// Takes out what somebody wants by now.
    pub(super) fn take_matching(
        &mut self,
        is_wanted: impl Fn(&Publish) -> bool,
    ) -> Vec<(DeliveryId, Publish)> {
        self.messages
            .extract_if(.., |(_, publish)| is_wanted(publish))
            .collect()
    }

    /// The time is up: what nobody wanted.
    pub(super) fn close_if_due(&mut self, now: Instant) -> Vec<DeliveryId> {
        if self.until.is_none_or(|until| now < until) {
            return Vec::new();
        }
        self.until = None;
        self.messages.drain(..).map(|(delivery, _)| delivery).collect()
    }

    /// The server sends again what was not acknowledged; a second copy of a QoS 2 message is not taken, so the first
    /// stays.
    pub(super) fn connection_lost(&mut self) {
        self.messages
            .retain(|(_, publish)| publish.qos == QoS::ExactlyOnce);
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        self.until
    }
}

/// How long a message may wait: a program subscribes right after it has connected.
const PARKED_MAX: Duration = Duration::from_secs(10);
