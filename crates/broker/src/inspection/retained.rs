//! The retained messages of a node.

use std::ops::ControlFlow;
use std::sync::Arc;

use mqtt::message::Message;
use mqtt::now::Now;
use protocol::TopicFilter;

use super::{LOOKED_AT_MAX, Piece, TEXT_BYTES_MAX};
use crate::node::Node;

/// Which retained messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetainedAsked {
    /// That match it.
    pub filter: TopicFilter,
    /// Where the piece begins. Empty: at the beginning.
    pub from: Vec<u8>,
    /// So many at most.
    pub limit: usize,
}

/// A retained message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetainedSeen {
    /// The message.
    pub message: Arc<Message>,
    /// When it was published, Unix milliseconds, as far as that is known.
    pub stored_at: Option<u64>,
    /// When its Message Expiry Interval has passed, Unix milliseconds.
    pub expires_at: Option<u64>,
}

/// A look-up takes longer than a step through sessions.
const LOOKUPS_MAX: usize = LOOKED_AT_MAX / 4;

impl Node {
    /// A piece of the list of retained messages, in the order of their topics.
    pub fn retained_seen(&self, now: Now, asked: &RetainedAsked) -> Piece<RetainedSeen, Vec<u8>> {
        let mut search = self.retained.search_from(&asked.filter, asked.from.clone());
        let (mut found, mut bytes) = (Vec::new(), 0);
        let (is_over, _) = self
            .retained
            .go_on(now, &mut search, LOOKUPS_MAX, &mut |message| {
                if found.len() >= asked.limit || bytes >= TEXT_BYTES_MAX {
                    return ControlFlow::Break(());
                }
                bytes += message.topic.as_str().len();
                found.push(self.seen(now, message));
                ControlFlow::Continue(())
            });
        Piece {
            found,
            next: (!is_over).then(|| search.place().to_vec()),
            total: self.retained.len(),
        }
    }

    /// The retained message of a topic.
    pub fn retained_message(&self, now: Now, topic: &str) -> Option<RetainedSeen> {
        let message = self.retained.get(topic, now)?;
        Some(self.seen(now, message))
    }

    fn seen(&self, now: Now, message: &Arc<Message>) -> RetainedSeen {
        let edition = self.retained.edition(message.topic.as_str());
        let written = edition.map(|edition| edition.at.wall()).filter(|at| *at > 0);
        // A message without its publisher is from the disk, which does not say when it came.
        let received = message.publisher.map(|_| now.wall_of(message.received_at));
        RetainedSeen {
            message: Arc::clone(message),
            stored_at: written.or(received),
            expires_at: message.expires_at.map(|at| now.wall_of(at)),
        }
    }
}
