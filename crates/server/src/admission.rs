//! Which connections a listener takes: so many at once, so many in a second, and never the last descriptors of the process.

use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use crate::bucket::Bucket;
use crate::config;

/// The limits of one listener.
#[derive(Debug)]
pub(crate) struct Admission {
    own: Places,
    /// Connections of one second.
    rate: Option<Bucket>,
}

/// So many connections at once; clones count together.
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

/// Counts a connection until it is dropped.
#[derive(Debug)]
pub(crate) struct Place(Rc<Cell<usize>>);

impl Admission {
    pub(crate) fn new(settings: &config::Listener) -> Self {
        Self {
            own: Places::new(settings.connections_max.map(|most| most.get() as usize)),
            rate: settings
                .connection_rate_max
                .map(|rate| Bucket::new(SECOND / rate.get(), SECOND)),
        }
    }

    /// Places for one more connection: at this listener, and among all of the process.
    pub(crate) fn admit(&mut self, process: &Places, now: Instant) -> Result<[Place; 2], TurnedAway> {
        let own = self.own.take().ok_or(TurnedAway::Connections)?;
        let of_process = process.take().ok_or(TurnedAway::Descriptors)?;
        if self.rate.as_mut().is_some_and(|rate| !rate.take(now)) {
            return Err(TurnedAway::Rate);
        }
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

    fn take(&self) -> Option<Place> {
        let taken = self.taken.get();
        let has_one = self.most.is_none_or(|most| taken < most);
        has_one.then(|| {
            self.taken.set(taken + 1);
            Place(Rc::clone(&self.taken))
        })
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

impl Drop for Place {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

const SECOND: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;

    fn admission(connections_max: Option<u32>, rate: Option<u32>) -> Admission {
        let non_zero = |number: u32| number.try_into().expect("more than 0");
        Admission::new(&config::Listener {
            connections_max: connections_max.map(non_zero),
            connection_rate_max: rate.map(non_zero),
            ..config::Listener::default()
        })
    }

    #[test]
    fn a_place_is_free_again_when_its_connection_has_ended() {
        let mut admission = admission(Some(2), None);
        let now = clock::instant();
        let process = Places::new(None);
        let first = admission.admit(&process, now).expect("the first");
        let _second = admission.admit(&process, now).expect("the second");
        assert_eq!(
            admission.admit(&process, now).err(),
            Some(TurnedAway::Connections)
        );
        drop(first);
        assert!(admission.admit(&process, now).is_ok());
    }

    #[test]
    fn listeners_share_the_descriptors_of_the_process() {
        let (mut one, mut two) = (admission(None, None), admission(None, None));
        let (process, now) = (Places::new(Some(1)), clock::instant());
        let first = one.admit(&process, now).expect("the first");
        assert_eq!(two.admit(&process, now).err(), Some(TurnedAway::Descriptors));
        drop(first);
        assert!(two.admit(&process, now).is_ok());
    }

    #[test]
    fn a_second_takes_its_number_at_once_or_evenly_and_no_more() {
        let (mut admission, process) = (admission(None, Some(10)), Places::new(None));
        let start = clock::instant();
        let mut taken = |at_ms: u64| {
            let now = start + Duration::from_millis(at_ms);
            (0..100)
                .filter(|_| admission.admit(&process, now).is_ok())
                .count()
        };
        assert_eq!(taken(0), 10);
        assert_eq!(taken(99), 0);
        assert_eq!(taken(100), 1);
        assert_eq!(taken(350), 2);
        assert_eq!(taken(60_000), 10);
    }
}
