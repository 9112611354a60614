//! Failed attempts of each address: a bucket that each of them takes one from, and that fills evenly.
//!
//! Whoever has an empty bucket is refused before anything is computed for it. What succeeds takes nothing, so an address with many
//! clients (NAT) has a problem only while one of them fails all the time. At most [`ADDRESSES_MAX`] addresses are remembered; then the one
//! that has failed least is forgotten.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use super::Asked;
use crate::client_address::{ClientAddress, SourceNetwork};
use crate::clock;
use crate::config;

/// The failed attempts of all addresses.
#[derive(Debug)]
pub(super) struct Attempts {
    /// In which an empty bucket fills; `None`: there may be any number.
    within: Option<Duration>,
    /// In which one attempt comes back.
    interval: Duration,
    failed: RefCell<Failed>,
}

/// Addresses that have failed and whose buckets are not full yet.
#[derive(Debug, Default)]
struct Failed {
    by_address: BTreeMap<SourceNetwork, Bucket>,
    by_time: BTreeSet<(Instant, SourceNetwork)>,
}

#[derive(Debug, Clone, Copy)]
struct Bucket {
    full_at: Instant,
    /// The operator knows that it was empty.
    is_told: bool,
}

/// About 150 bytes each.
const ADDRESSES_MAX: usize = 65_536;

impl Attempts {
    pub(super) fn new(settings: &config::Authentication) -> Self {
        let most = settings.failures_max;
        let is_limited = most > 0;
        Self {
            within: is_limited.then_some(settings.failures_within),
            interval: settings.failures_within / most.max(1),
            failed: RefCell::default(),
        }
    }

    /// Whether the client has to wait before the next attempt. One that is in and says again who it is has not to wait.
    pub(super) fn are_exhausted(&self, asked: &Asked) -> bool {
        asked.question.principal.is_none() && self.are_exhausted_at(asked.peer, clock::instant())
    }

    /// Counts a failed one.
    pub(super) fn count(&self, peer: ClientAddress) {
        if self.count_at(peer, clock::instant()) {
            let address = SourceNetwork::of(peer);
            tracing::warn!(%peer, ?address, "too many failed attempts to say who one is: what comes from there is refused unless it was verified before");
        }
    }

    fn are_exhausted_at(&self, peer: ClientAddress, now: Instant) -> bool {
        let failed = self.failed.borrow();
        let bucket = failed.by_address.get(&SourceNetwork::of(peer));
        bucket.is_some_and(|bucket| self.is_empty(bucket.full_at, now))
    }

    /// True if the operator has to know that there are no attempts left.
    fn count_at(&self, peer: ClientAddress, now: Instant) -> bool {
        let Some(within) = self.within else {
            return false;
        };
        let mut failed = self.failed.borrow_mut();
        failed.forget_full(now);
        let address = SourceNetwork::of(peer);
        let before = failed.take(address);
        let full_at = before.map_or(now, |bucket| bucket.full_at.max(now)) + self.interval;
        // Those that were under way together may be more than the bucket holds.
        let full_at = full_at.min(now + within);
        let was_told = before.is_some_and(|bucket| bucket.is_told);
        let is_empty = self.is_empty(full_at, now);
        failed.put(
            address,
            Bucket {
                full_at,
                is_told: was_told || is_empty,
            },
        );
        is_empty && !was_told
    }

    fn is_empty(&self, full_at: Instant, now: Instant) -> bool {
        self.within
            .is_some_and(|within| full_at + self.interval > now + within)
    }
}

impl Failed {
    fn take(&mut self, address: SourceNetwork) -> Option<Bucket> {
        let bucket = self.by_address.remove(&address)?;
        self.by_time.remove(&(bucket.full_at, address));
        Some(bucket)
    }

    fn put(&mut self, address: SourceNetwork, bucket: Bucket) {
        if self.by_address.len() >= ADDRESSES_MAX {
            self.forget_first();
        }
        self.by_address.insert(address, bucket);
        self.by_time.insert((bucket.full_at, address));
    }

    fn forget_full(&mut self, now: Instant) {
        while self.by_time.first().is_some_and(|(full_at, _)| *full_at <= now) {
            self.forget_first();
        }
    }

    fn forget_first(&mut self) {
        if let Some((_, address)) = self.by_time.pop_first() {
            self.by_address.remove(&address);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use mqtt::principal::Principal;
    use protocol::Text;

    use super::super::asking::anonymous;
    use super::*;
    use crate::config::AuthenticationMethod;

    /// Ten within ten seconds.
    fn ten() -> Attempts {
        Attempts::new(&config::Authentication {
            failures_max: 10,
            failures_within: Duration::from_secs(10),
            ..config::Authentication::default()
        })
    }

    fn peer(address: &str) -> ClientAddress {
        ClientAddress::Ip((address.parse::<IpAddr>().expect("an address"), 4_711).into())
    }

    #[test]
    fn an_address_has_so_many_at_once_and_one_more_after_a_while() {
        let (attempts, start, peer) = (ten(), clock::instant(), peer("192.0.2.1"));
        let failing = |at_ms: u64, wanted: usize| {
            let now = start + Duration::from_millis(at_ms);
            let may = |_: &usize| !attempts.are_exhausted_at(peer, now);
            (0..wanted)
                .take_while(may)
                .inspect(|_| {
                    attempts.count_at(peer, now);
                })
                .count()
        };
        assert_eq!(failing(0, 100), 10);
        assert_eq!(failing(999, 100), 0);
        assert_eq!(failing(1_000, 100), 1);
        assert_eq!(failing(3_500, 100), 2);
        assert_eq!(failing(60_000, 100), 10);
    }

    #[test]
    fn an_address_is_a_network_of_ipv6_and_any_of_ipv4() {
        let (attempts, now) = (ten(), clock::instant());
        for _ in 0..10 {
            attempts.count_at(peer("2001:db8::1"), now);
            attempts.count_at(peer("192.0.2.1"), now);
        }
        let are_exhausted = |address| attempts.are_exhausted_at(peer(address), now);
        assert!(are_exhausted("2001:db8::ffff:1"));
        assert!(!are_exhausted("2001:db8:0:1::1"));
        assert!(are_exhausted("::ffff:192.0.2.1"));
        assert!(!are_exhausted("192.0.2.2"));
    }

    #[test]
    fn the_operator_is_told_once_until_the_bucket_was_full_again() {
        let (attempts, start, peer) = (ten(), clock::instant(), peer("192.0.2.1"));
        let told = |at: u64| {
            let now = start + Duration::from_secs(at);
            (0..20).filter(|_| attempts.count_at(peer, now)).count()
        };
        assert_eq!(told(0), 1);
        assert_eq!(told(5), 0);
        assert_eq!(told(60), 1);
    }

    #[test]
    fn more_under_way_together_than_a_bucket_holds_empty_it_no_deeper() {
        let (attempts, now, peer) = (ten(), clock::instant(), peer("192.0.2.1"));
        (0..1_000).for_each(|_| {
            attempts.count_at(peer, now);
        });
        assert!(!attempts.are_exhausted_at(peer, now + Duration::from_secs(1)));
    }

    #[test]
    fn as_many_addresses_are_remembered_as_may_be_and_those_that_failed_most() {
        let (attempts, now, worst) = (ten(), clock::instant(), peer("192.0.2.1"));
        (0..10).for_each(|_| {
            attempts.count_at(worst, now);
        });
        for number in 0..70_000_u32 {
            attempts.count_at(peer(&IpAddr::from(number.to_be_bytes()).to_string()), now);
        }
        assert_eq!(attempts.failed.borrow().by_address.len(), ADDRESSES_MAX);
        assert_eq!(attempts.failed.borrow().by_time.len(), ADDRESSES_MAX);
        assert!(attempts.are_exhausted_at(worst, now));
    }

    #[test]
    fn who_is_in_and_says_again_who_it_is_does_not_wait_for_others_there() {
        let (attempts, mut asked) = (ten(), anonymous(&[AuthenticationMethod::Scram]));
        (0..10).for_each(|_| attempts.count(asked.peer));
        assert!(attempts.are_exhausted(&asked));
        asked.question.principal = Some(Principal::named(Text::from_static("pump")));
        assert!(!attempts.are_exhausted(&asked));
    }

    #[test]
    fn without_a_limit_nothing_is_remembered() {
        let attempts = Attempts::new(&config::Authentication {
            failures_max: 0,
            ..config::Authentication::default()
        });
        let (now, peer) = (clock::instant(), peer("192.0.2.1"));
        (0..1_000).for_each(|_| assert!(!attempts.count_at(peer, now)));
        assert!(!attempts.are_exhausted_at(peer, now));
        assert!(attempts.failed.borrow().by_address.is_empty());
    }
}
