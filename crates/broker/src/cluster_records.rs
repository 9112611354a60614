//! Records on disk that only nodes of a cluster write: copies of sessions, positions, tombstones, and messages that are owed.
//!
//! They are in the keyspaces of the records of sessions, and have their rules ([`mqtt::records`]).
//!
//! | keyspace | key | value |
//! |---|---|---|
//! | Sessions | 00, session number (8) | [`copy`]: which of its changes are here, and who holds it |
//! | Sessions | 00, ff (8), client id | [`tombstone`]: one that has ended, of which not all nodes know |
//! | Subscriptions | ff (8), node (8), filter or nothing | [`owed`]: what a lost node wants that something is owed to |
//! | Queue | ff (8), number (8) | [`owed`]: a message that is owed to lost nodes |
//! | Queue | ff (8), number (8), 00 | [`owed`]: to which, and who else may have it |
//! | Received | ff (8), node (8) | [`forwarded`]: up to where its messages were taken |
//! | Received | ff (8), node (8), 00 | [`copy`]: what that node had taken of others' messages, as of its copies here |
//! | Received | ff (8), node (8), 01 | [`owed`]: up to where this node has taken what that one owed to it |

pub mod copy;
pub mod forwarded;
pub mod owed;
pub mod tombstone;
