//! (laid out)

pub mod ids;
pub mod limits;
pub mod message;
pub mod now;
pub mod records;
pub mod retained;
pub mod session;
pub mod subscriptions;
pub mod timers;
pub mod topic_alias;
pub mod will;
