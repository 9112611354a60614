//! Configuration of sessions: limits of all that they are made of.

use super::{FeedConfig, GroupConfig};
use crate::connecting::{ConnectionLimits, QuestionLimits};
use crate::delivering::DeliveringLimits;
use crate::expiring::ExpiringLimits;
use crate::interests::InterestLimits;
use crate::plane::PlaneConfig;
use crate::publishing::PublishingLimits;
use crate::queue_limits::QueueLimits;
use crate::wills::WillLimits;

/// Configuration of sessions.
#[derive(Debug, Clone)]
pub struct SessionsConfig {
    /// That of the plane below.
    pub plane: PlaneConfig,
    /// Limits of connections.
    pub connections: ConnectionLimits,
    /// Limits of questions.
    pub questions: QuestionLimits,
    /// Limits of QoS 2 messages of clients.
    pub publishing: PublishingLimits,
    /// Limits of feeds.
    pub feeds: FeedConfig,
    /// Limits of wills.
    pub wills: WillLimits,
    /// Clients whose sessions a tick ends, or for which it writes an expiry; at least 1. Further ones stay
    /// due.
    pub ending_max: usize,
    /// Limits of the queues of sessions and of shared groups.
    pub queues: QueueLimits,
    /// Limits of shared groups.
    pub groups: GroupConfig,
    /// Limits of deliveries to clients.
    pub delivering: DeliveringLimits,
    /// Limits of interests.
    pub interests: InterestLimits,
}

impl SessionsConfig {
    /// Limits of sessions that expire.
    pub(super) fn expiring(&self) -> ExpiringLimits {
        ExpiringLimits {
            ending_max: self.ending_max,
            claim_max: self.connections.claim_max,
        }
    }

    /// Limits fit each other.
    pub(super) fn check(&self) {
        self.queues.check();
        let (feeds, connections) = (self.feeds.sink.feeds_max, self.connections.connections_max);
        assert!(
            feeds >= connections,
            "each connection has a feed: {feeds} for {connections}"
        );
        let groups = u64::try_from(self.groups.sink.given_max).unwrap_or(u64::MAX);
        let given = self.feeds.sink.window.items.saturating_add(groups);
        let waiting = self.delivering.waiting_max;
        let has_room = u64::try_from(waiting).is_ok_and(|waiting| waiting >= given);
        assert!(
            has_room,
            "{given} messages may wait for a packet id, not {waiting}"
        );
    }
}
