//! Outcomes of the store as replies of the protocol.

use protocol::state_store::{ErrorText, Reply};
use store::{Outcome, Refusal, Version};

/// The reply to a command's outcome, and the version that goes with it as `__ts`.
pub(crate) fn reply_to(outcome: Outcome) -> (Reply, Option<Version>) {
    match outcome {
        Outcome::Stored { version } => (Reply::Ok, Some(version)),
        Outcome::ConditionFailed { stored } => (Reply::NotApplied, Some(stored)),
        Outcome::Deleted { version } => (Reply::Deleted(1), Some(version)),
        Outcome::Missing => (Reply::Deleted(0), None),
        Outcome::OtherValue { stored } => (Reply::OtherValue, Some(stored)),
        Outcome::Watching | Outcome::Unwatched | Outcome::Done => (Reply::Ok, None),
        Outcome::NotWatched => (Reply::NotWatched, None),
        Outcome::Refused(refusal) => (Reply::Error(text_of(refusal)), None),
    }
}

fn text_of(refusal: Refusal) -> ErrorText {
    match refusal {
        Refusal::FencingTokenRequired => ErrorText::FencingTokenRequired,
        Refusal::FencingTokenLower => ErrorText::FencingTokenLower,
        Refusal::QuotaExceeded => ErrorText::QuotaExceeded,
    }
}
