//! Order of the connections of a client, as the owners of its session see it after a split.

use cluster::session_plane::Hlc;

use crate::{Dot, Entry, Fact, Run};

/// Place of a connection among those of its client: by clock, then by run. Clocks of one run differ.
///
/// The connection's entry has it, and so has the session's entry that its CONNECT wrote. That entry
/// stays when the connection has ended, until a later CONNECT or an end of the session replaces it.
/// An expiry names the connection whose end it follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnectionOrder {
    pub(crate) clock: Hlc,
    pub(crate) run: Run,
}

impl ConnectionOrder {
    /// Place of the connection that the event `dot` has opened.
    pub fn of_connection(dot: Dot, clock: Hlc) -> ConnectionOrder {
        let run = dot.run;
        ConnectionOrder { clock, run }
    }

    /// Place of the connection that the entry of a session or of its expiry names. None: there was
    /// no connection, or the entry is of another kind.
    pub fn named_by<V>(dot: Dot, entry: &Entry<V>) -> Option<ConnectionOrder> {
        match entry.fact {
            Fact::Session { connected } => connected.map(|clock| ConnectionOrder::of_connection(dot, clock)),
            Fact::Expiry { connected } => connected,
            _ => None,
        }
    }
}
