//! Pool of waiting places, and the rule by which strangers give way: a plain struct without clock and sockets.
//!
//! A place belongs to a connection whose client is not known yet. It is protected until a moment that its owner sets; after
//! that it is overdue. A newcomer that finds its network or the whole pool full is let in at the cost of
//!
//! 1. the stranger of the fullest network that is overdue for longest, or of the newcomer's network if that is full;
//! 2. else, if the fullest network has at least two places more than the newcomer's, its newest stranger;
//! 3. else nobody: the newcomer is the newest stranger of the fullest network, and is turned away.
//!
//! Invariant: `waiting`, `networks` and `by_count` describe the same places, never more than the limits allow.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use crate::client_address::SourceNetwork;

/// Limits of a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PoolLimits {
    /// Places in all.
    pub(crate) places: usize,
    /// Places of one network.
    pub(crate) of_network: usize,
}

/// Waiting places that are taken.
#[derive(Debug)]
pub(super) struct Pool {
    limits: PoolLimits,
    waiting: BTreeMap<u64, Waiting>,
    networks: BTreeMap<SourceNetwork, Network>,
    by_count: BTreeSet<(usize, SourceNetwork)>,
    /// All places by the moment until which they are protected.
    by_due: BTreeSet<(Instant, u64)>,
    next: u64,
}

/// One place that is taken.
#[derive(Debug, Clone, Copy)]
struct Waiting {
    network: SourceNetwork,
    protected_until: Instant,
}

/// The places of one network.
#[derive(Debug, Default)]
struct Network {
    ids: BTreeSet<u64>,
    by_due: BTreeSet<(Instant, u64)>,
}

/// Why a stranger has no place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum NoPlace {
    /// Its network has as many as it may have.
    Network,
    /// All places are taken, and no network has more of them than its own.
    Pool,
}

/// A place for a newcomer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Entered {
    pub(super) id: u64,
    /// Who had to give way.
    pub(super) gave_way: Option<u64>,
}

/// Overdue places that are looked at until one is found whose network has more places than the newcomer's. With a bound the
/// work for one connection does not grow with the pool.
const OVERDUE_LOOKED_AT: usize = 16;

impl Pool {
    pub(super) fn new(limits: PoolLimits) -> Self {
        Self {
            limits,
            waiting: BTreeMap::new(),
            networks: BTreeMap::new(),
            by_count: BTreeSet::new(),
            by_due: BTreeSet::new(),
            next: 0,
        }
    }

    /// Takes a place for a newcomer, from another stranger if need be.
    pub(super) fn enter(
        &mut self,
        network: SourceNetwork,
        now: Instant,
        protected_until: Instant,
    ) -> Result<Entered, NoPlace> {
        let id = self.next;
        let gave_way = self.make_room(network, now)?;
        self.next += 1;
        self.insert(
            id,
            Waiting {
                network,
                protected_until,
            },
        );
        Ok(Entered { id, gave_way })
    }

    /// Moves a place to another network, which is known only now. The place is free if there is no room; so it is also `Ok(None)`
    /// where it was taken away before.
    pub(super) fn move_to(
        &mut self,
        id: u64,
        network: SourceNetwork,
        now: Instant,
    ) -> Result<Option<u64>, NoPlace> {
        let Some(waiting) = self.leave(id) else {
            return Ok(None);
        };
        let gave_way = self.make_room(network, now)?;
        self.insert(id, Waiting { network, ..waiting });
        Ok(gave_way)
    }

    /// Protects a place until another moment.
    pub(super) fn protect_until(&mut self, id: u64, protected_until: Instant) {
        if let Some(waiting) = self.leave(id) {
            self.insert(
                id,
                Waiting {
                    protected_until,
                    ..waiting
                },
            );
        }
    }

    /// Frees a place, if it is still taken.
    pub(super) fn remove(&mut self, id: u64) {
        self.leave(id);
    }

    /// Places that are taken.
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    pub(super) fn limits(&self) -> PoolLimits {
        self.limits
    }

    /// Frees a place for a newcomer if none is free.
    fn make_room(&mut self, network: SourceNetwork, now: Instant) -> Result<Option<u64>, NoPlace> {
        let own = self.count(network);
        // The clients of a load balancer arrive from one address, and only its header tells them apart.
        let is_full = network != SourceNetwork::Unnamed && own >= self.limits.of_network;
        let (found, otherwise) = if is_full {
            (self.overdue_of(network, now), NoPlace::Network)
        } else if self.waiting.len() < self.limits.places {
            return Ok(None);
        } else {
            let gives_way = self
                .of_fullest(own, now)
                .or_else(|| self.overdue_of(network, now));
            (gives_way, NoPlace::Pool)
        };
        let gives_way = found.ok_or(otherwise)?;
        self.leave(gives_way);
        Ok(Some(gives_way))
    }

    /// Who gives way to a newcomer whose network has so many places.
    fn of_fullest(&self, own: usize, now: Instant) -> Option<u64> {
        let (most, fullest) = *self.by_count.last()?;
        if own + 1 < most {
            let newest = || self.networks.get(&fullest)?.ids.last().copied();
            return self.overdue_of(fullest, now).or_else(newest);
        }
        let overdue = self.by_due.iter().take_while(|(due, _)| *due <= now);
        let mut overdue = overdue.take(OVERDUE_LOOKED_AT).map(|(_, id)| *id);
        overdue.find(|id| {
            let waiting = self.waiting.get(id);
            waiting.is_some_and(|waiting| self.count(waiting.network) > own)
        })
    }

    fn overdue_of(&self, network: SourceNetwork, now: Instant) -> Option<u64> {
        let (due, id) = self.networks.get(&network)?.by_due.first()?;
        (*due <= now).then_some(*id)
    }

    fn count(&self, network: SourceNetwork) -> usize {
        self.networks.get(&network).map_or(0, |network| network.ids.len())
    }

    fn insert(&mut self, id: u64, waiting: Waiting) {
        let before = self.count(waiting.network);
        let network = self.networks.entry(waiting.network).or_default();
        network.ids.insert(id);
        network.by_due.insert((waiting.protected_until, id));
        self.by_due.insert((waiting.protected_until, id));
        self.recount(waiting.network, before);
        self.waiting.insert(id, waiting);
        assert!(
            self.waiting.len() <= self.limits.places.max(1),
            "a place was free"
        );
    }

    fn leave(&mut self, id: u64) -> Option<Waiting> {
        let waiting = self.waiting.remove(&id)?;
        let before = self.count(waiting.network);
        if let Some(network) = self.networks.get_mut(&waiting.network) {
            network.ids.remove(&id);
            network.by_due.remove(&(waiting.protected_until, id));
            if network.ids.is_empty() {
                self.networks.remove(&waiting.network);
            }
        }
        self.by_due.remove(&(waiting.protected_until, id));
        self.recount(waiting.network, before);
        Some(waiting)
    }

    fn recount(&mut self, network: SourceNetwork, before: usize) {
        self.by_count.remove(&(before, network));
        let after = self.count(network);
        if after > 0 {
            self.by_count.insert((after, network));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::clock;

    /// Four places, three of one network; each is protected for a second.
    struct Scene {
        pool: Pool,
        start: Instant,
    }

    const SECOND: Duration = Duration::from_secs(1);

    fn network(number: u8) -> SourceNetwork {
        SourceNetwork::V4([192, 0, 2, number])
    }

    impl Scene {
        fn new() -> Self {
            let limits = PoolLimits {
                places: 4,
                of_network: 3,
            };
            Self {
                pool: Pool::new(limits),
                start: clock::instant(),
            }
        }

        fn enter(&mut self, number: u8, at: Duration) -> Result<Entered, NoPlace> {
            let now = self.start + at;
            self.pool.enter(network(number), now, now + SECOND)
        }

        fn waiting(&self) -> Vec<u64> {
            self.pool.waiting.keys().copied().collect()
        }
    }

    fn placed(id: u64) -> Result<Entered, NoPlace> {
        Ok(Entered { id, gave_way: None })
    }

    fn in_place_of(gave_way: u64, id: u64) -> Result<Entered, NoPlace> {
        let gave_way = Some(gave_way);
        Ok(Entered { id, gave_way })
    }

    #[test]
    fn a_network_has_few_places_and_its_newcomers_give_way_until_somebody_is_overdue() {
        let mut scene = Scene::new();
        (0..3).for_each(|id| assert_eq!(scene.enter(1, Duration::ZERO), placed(id)));
        assert_eq!(scene.enter(1, Duration::ZERO), Err(NoPlace::Network));
        assert_eq!(scene.enter(1, SECOND), in_place_of(0, 3));
        assert_eq!(scene.waiting(), [1, 2, 3]);
    }

    #[test]
    fn the_newest_of_the_fullest_network_gives_way_to_a_newcomer_of_another_one() {
        let mut scene = Scene::new();
        (0..3).for_each(|id| assert_eq!(scene.enter(1, Duration::ZERO), placed(id)));
        assert_eq!(scene.enter(2, Duration::ZERO), placed(3));
        assert_eq!(scene.enter(3, Duration::ZERO), in_place_of(2, 4));
        assert_eq!(scene.enter(4, Duration::ZERO), in_place_of(1, 5));
        assert_eq!(scene.enter(5, Duration::ZERO), Err(NoPlace::Pool));
        assert_eq!(scene.waiting(), [0, 3, 4, 5]);
    }

    #[test]
    fn of_many_networks_with_one_place_each_the_one_that_is_overdue_for_longest_gives_way() {
        let mut scene = Scene::new();
        for number in 1..=4 {
            let at = Duration::from_millis(u64::from(number));
            assert_eq!(scene.enter(number, at), placed(u64::from(number) - 1));
        }
        assert_eq!(scene.enter(5, SECOND), Err(NoPlace::Pool));
        assert_eq!(
            scene.enter(5, SECOND + Duration::from_millis(1)),
            in_place_of(0, 4)
        );
        // It takes the place of its own network, not the only one of another.
        assert_eq!(scene.enter(5, 3 * SECOND), in_place_of(4, 5));
    }

    #[test]
    fn a_place_is_protected_for_as_long_as_its_owner_says() {
        let mut scene = Scene::new();
        (0..3).for_each(|id| assert_eq!(scene.enter(1, Duration::ZERO), placed(id)));
        scene.pool.protect_until(0, scene.start + 10 * SECOND);
        assert_eq!(scene.enter(1, 2 * SECOND), in_place_of(1, 3));
        scene.pool.protect_until(3, scene.start);
        assert_eq!(scene.enter(1, 2 * SECOND), in_place_of(3, 4));
    }

    #[test]
    fn a_place_moves_to_the_network_that_a_proxy_names() {
        let mut scene = Scene::new();
        (0..3).for_each(|id| assert_eq!(scene.enter(1, Duration::ZERO), placed(id)));
        let now = scene.start;
        assert_eq!(scene.pool.move_to(1, network(2), now), Ok(None));
        assert_eq!(scene.enter(1, Duration::ZERO), placed(3));
        assert_eq!(scene.pool.move_to(1, network(1), now), Err(NoPlace::Network));
        assert_eq!(scene.waiting(), [0, 2, 3]);
        // It was given up before.
        assert_eq!(scene.pool.move_to(1, network(1), now), Ok(None));
    }

    #[test]
    fn behind_a_load_balancer_only_the_whole_pool_is_a_limit_until_a_header_names_the_client() {
        let mut scene = Scene::new();
        let (unnamed, now) = (SourceNetwork::Unnamed, scene.start);
        for id in 0..4 {
            assert_eq!(scene.pool.enter(unnamed, now, now + SECOND), placed(id));
        }
        assert_eq!(scene.pool.enter(unnamed, now, now + SECOND), Err(NoPlace::Pool));
        (0..3).for_each(|id| assert_eq!(scene.pool.move_to(id, network(1), now), Ok(None)));
        assert_eq!(scene.pool.move_to(3, network(1), now), Err(NoPlace::Network));
        assert_eq!(scene.pool.enter(unnamed, now, now + SECOND), placed(4));
    }

    #[test]
    fn nothing_is_left_of_who_has_gone() {
        let mut scene = Scene::new();
        (0..3).for_each(|id| assert_eq!(scene.enter(1, Duration::ZERO), placed(id)));
        (0..3).for_each(|id| scene.pool.remove(id));
        scene.pool.remove(2);
        let pool = &scene.pool;
        assert_eq!((pool.len(), pool.networks.len()), (0, 0));
        assert_eq!((pool.by_count.len(), pool.by_due.len()), (0, 0));
    }

    /// Whatever comes and goes, the limits hold and all indexes say the same.
    #[test]
    fn limits_hold_over_random_comings_and_goings() {
        let mut scene = Scene::new();
        let mut random = cluster::random::Random::new(7);
        for step in 0..20_000_u64 {
            let at = Duration::from_millis(step);
            match random.next() % 4 {
                0 => scene.pool.remove(random.next() % (scene.pool.next + 1)),
                1 => {
                    let id = random.next() % (scene.pool.next + 1);
                    let until = scene.start + at + Duration::from_millis(random.next() % 3_000);
                    scene.pool.protect_until(id, until);
                }
                2 => {
                    let id = random.next() % (scene.pool.next + 1);
                    let to = network((random.next() % 8) as u8);
                    let _ = scene.pool.move_to(id, to, scene.start + at);
                }
                _ => {
                    let _ = scene.enter((random.next() % 8) as u8, at);
                }
            }
            let pool = &scene.pool;
            assert!(pool.len() <= 4);
            assert_eq!(pool.len(), pool.by_due.len());
            let counted: usize = pool.by_count.iter().map(|(count, _)| count).sum();
            assert_eq!(pool.len(), counted);
            assert!(pool.by_count.iter().all(|(count, _)| (1..=3).contains(count)));
        }
    }
}
