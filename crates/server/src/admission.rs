//! Which connections a listener takes: so many clients at once, so many connections in a second, and never the last descriptors of
//! the process.
//!
//! A client takes its place when it is known who it is. Until then its connection has a waiting place ([`crate::strangers`]), so
//! that strangers leave the places of clients alone.

use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use crate::bucket::Bucket;
use crate::config;

/// The limits of one listener.
#[derive(Debug)]
pub(crate) struct Admission {
    clients: ClientPlaces,
    /// Connections of one second.
    rate: Option<Bucket>,
}

/// Places for clients: at one listener, and among all of the process. Clones count together.
#[derive(Debug, Clone)]
pub(crate) struct ClientPlaces {
    own: Places,
    process: Places,
}

/// So many at once; clones count together.
#[derive(Debug, Clone)]
pub(crate) struct Places {
    most: Option<usize>,
    taken: Rc<Cell<usize>>,
}

/// The limit that a connection has hit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TurnedAway {
    Connections,
    Rate,
    /// Of the process.
    Descriptors,
}

/// Counts a client until it is dropped.
#[derive(Debug)]
pub(crate) struct Counted(Rc<Cell<usize>>);

impl Admission {
    /// Of one listener in a process that has so many places for clients.
    pub(crate) fn new(settings: &config::Listener, process: &Places) -> Self {
        Self {
            clients: ClientPlaces {
                own: Places::new(settings.connections_max.map(|most| most.get() as usize)),
                process: process.clone(),
            },
            rate: settings
                .connection_rate_max
                .map(|rate| Bucket::new(SECOND / rate.get(), SECOND)),
        }
    }

    /// Where the client of one more connection takes its place when it is known; nothing is taken yet.
    pub(crate) fn admit(&mut self, now: Instant) -> Result<ClientPlaces, TurnedAway> {
        self.clients.own.has_one().ok_or(TurnedAway::Connections)?;
        if self.rate.as_mut().is_some_and(|rate| !rate.take(now)) {
            return Err(TurnedAway::Rate);
        }
        Ok(self.clients.clone())
    }
}

impl ClientPlaces {
    /// Places for a client that is known.
    pub(crate) fn take(&self) -> Result<[Counted; 2], TurnedAway> {
        let own = self.own.take().ok_or(TurnedAway::Connections)?;
        let of_process = self.process.take().ok_or(TurnedAway::Descriptors)?;
        Ok([own, of_process])
    }
}

impl Places {
    pub(crate) fn new(most: Option<usize>) -> Self {
        Self {
            most,
            taken: Rc::default(),
        }
    }

    /// One of them, if one is free.
    pub(crate) fn take(&self) -> Option<Counted> {
        self.has_one()?;
        self.taken.set(self.taken.get() + 1);
        Some(Counted(Rc::clone(&self.taken)))
    }

    fn has_one(&self) -> Option<()> {
        self.most.is_none_or(|most| self.taken.get() < most).then_some(())
    }
}

impl TurnedAway {
    /// As metrics call it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Connections => "listener_connections",
            Self::Rate => "listener_rate",
            Self::Descriptors => "descriptors",
        }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

const SECOND: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;

    fn admission(connections_max: Option<u32>, rate: Option<u32>, process: &Places) -> Admission {
        let non_zero = |number: u32| number.try_into().expect("more than 0");
        let settings = config::Listener {
            connections_max: connections_max.map(non_zero),
            connection_rate_max: rate.map(non_zero),
            ..config::Listener::default()
        };
        Admission::new(&settings, process)
    }

    #[test]
    fn a_place_is_free_again_when_its_client_has_gone() {
        let mut admission = admission(Some(2), None, &Places::new(None));
        let now = clock::instant();
        let [first, second, third] = [(); 3].map(|()| admission.admit(now).expect("nobody is known yet"));
        let first = first.take().expect("the first");
        let _second = second.take().expect("the second");
        assert_eq!(third.take().err(), Some(TurnedAway::Connections));
        assert_eq!(admission.admit(now).err(), Some(TurnedAway::Connections));
        drop(first);
        assert!(third.take().is_ok());
    }

    #[test]
    fn listeners_share_the_descriptors_of_the_process() {
        let process = Places::new(Some(1));
        let (mut one, mut two) = (admission(None, None, &process), admission(None, None, &process));
        let now = clock::instant();
        let first = one.admit(now).expect("admitted").take().expect("the first");
        let second = two.admit(now).expect("admitted");
        assert_eq!(second.take().err(), Some(TurnedAway::Descriptors));
        drop(first);
        assert!(second.take().is_ok());
    }

    #[test]
    fn a_second_takes_its_number_at_once_or_evenly_and_no_more() {
        let mut admission = admission(None, Some(10), &Places::new(None));
        let start = clock::instant();
        let mut taken = |at_ms: u64| {
            let now = start + Duration::from_millis(at_ms);
            (0..100).filter(|_| admission.admit(now).is_ok()).count()
        };
        assert_eq!(taken(0), 10);
        assert_eq!(taken(99), 0);
        assert_eq!(taken(100), 1);
        assert_eq!(taken(350), 2);
        assert_eq!(taken(60_000), 10);
    }
}
