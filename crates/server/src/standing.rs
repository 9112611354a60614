//! Whether it is known who is at the other end of a connection: until then it has a waiting place, after that a client's place.

use std::time::{Duration, Instant};

use crate::admission::{ClientPlaces, Counted, TurnedAway};
use crate::clock;
use crate::strangers::Place;

/// A connection's place.
#[derive(Debug)]
pub(crate) enum Standing {
    /// Nobody knows yet who it is.
    Stranger(Stranger),
    /// The client has proved who it is, or nobody asks and it has sent CONNECT.
    Known(#[expect(dead_code, reason = "counted until it is dropped")] [Counted; 2]),
}

/// A connection whose client is not known yet.
#[derive(Debug)]
pub(crate) struct Stranger {
    pub(crate) place: Place,
    /// Where its client takes a place when it is known.
    pub(crate) clients: ClientPlaces,
    pub(crate) patience: Patience,
}

/// For how long a stranger is protected from newcomers. After that it keeps its place for as long as nobody needs it, at most for
/// `limits.connect_timeout`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Patience {
    /// `limits.connect_timeout`
    pub(crate) whole: Duration,
}

impl Patience {
    /// For handshakes: a fifth of the whole, 2 s by default. Of 1,000 under way the last one is done by then if the server does
    /// 500 in a second, so that a fleet that comes back does not push out those that wait for the server.
    pub(crate) fn for_handshake(self, now: Instant) -> Instant {
        now + self.whole / 5
    }

    /// For a packet that the client owes, CONNECT or AUTH: a fortieth of the whole, 250 ms by default, some round trips.
    pub(crate) fn for_packet(self, now: Instant) -> Instant {
        now + self.whole / 40
    }

    /// While the server has the next word.
    fn for_server(self, now: Instant) -> Instant {
        now + self.whole
    }
}

impl Standing {
    /// The client is known: its waiting place is free, and it takes one of a client.
    pub(crate) fn let_in(self) -> Result<Self, TurnedAway> {
        match self {
            Self::Stranger(stranger) => stranger.clients.take().map(Self::Known),
            Self::Known(_) => Ok(self),
        }
    }

    /// The client has done its part.
    pub(crate) fn awaits_server(&self) {
        if let Self::Stranger(Stranger { place, patience, .. }) = self {
            place.protect_until(patience.for_server(clock::instant()));
        }
    }

    /// The client has the next word.
    pub(crate) fn awaits_client(&self) {
        if let Self::Stranger(Stranger { place, patience, .. }) = self {
            place.protect_until(patience.for_packet(clock::instant()));
        }
    }
}
