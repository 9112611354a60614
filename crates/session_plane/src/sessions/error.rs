//! Messages that sessions refuse.

use crate::connecting::ConnectingError;
use crate::feed::FeedError;
use crate::groups::GroupError;
use crate::interests::InterestError;
use crate::plane::PlaneError;
use crate::publishing::PublishingError;

/// A message of another node was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SessionsError {
    /// By the plane, or because its sender is not present.
    #[error(transparent)]
    Plane(#[from] PlaneError),
    /// By a claim or a question.
    #[error(transparent)]
    Connecting(#[from] ConnectingError),
    /// By a feed.
    #[error(transparent)]
    Feed(#[from] FeedError),
    /// By the publishing.
    #[error(transparent)]
    Publishing(#[from] PublishingError),
    /// By the connections of members of shared groups.
    #[error(transparent)]
    Groups(#[from] GroupError),
    /// By the interests.
    #[error(transparent)]
    Interests(#[from] InterestError),
}

impl SessionsError {
    /// The refusal comes about without a fault: the message is dropped, and the connection stays.
    pub fn is_ordinary(&self) -> bool {
        match self {
            SessionsError::Plane(error) => error.is_ordinary(),
            // What opened the feed may have been dropped: its sender was not present then.
            SessionsError::Feed(FeedError::UnknownFeed { .. }) => true,
            SessionsError::Connecting(_)
            | SessionsError::Feed(_)
            | SessionsError::Publishing(_)
            | SessionsError::Groups(_)
            | SessionsError::Interests(_) => false,
        }
    }
}
