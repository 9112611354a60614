//! Groups of the state store on one node: the group of each key, and what concerns all of them.
//!
//! How many there are is fixed when the cluster is made. A key belongs to one group for ever, so what is asked of a key is
//! decided in one log, in its order; a SCAN goes from one group to the next, and its token says where it is. What a group
//! does with a request is in `service.rs`; it knows nothing of the others.
//!
//! Limits that are set for the whole state store are divided: each group has an equal part.

use std::collections::BTreeMap;
use std::time::Instant;

use bytes::Bytes;
use cluster::{GroupId, NodeId};
use mqtt::now::Now;
use protocol::state_store::Request;
use store::{Quota, Usage, Watcher};
use xxhash_rust::xxh3::xxh3_64;

use crate::scan_seal::ScanSeal;
use crate::service::{Call, DialectChoice, RecoveredGroup, StateStoreConfig, StateStoreService, scan_token};

/// All groups, each at the place of its number.
#[derive(Debug)]
pub struct Groups {
    services: Vec<StateStoreService>,
    /// Where the connections that watch keys do so.
    watching: BTreeMap<u64, GroupSet>,
}

/// Some of the groups.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct GroupSet(u32);

/// How many groups there may be: a `GroupSet` has a bit for each.
pub const GROUPS_MAX: u32 = u32::BITS;

/// The group that a key belongs to. The same on all nodes and in all versions: the keys of a data directory depend on it.
pub fn group_of_key(key: &[u8], groups: u32) -> GroupId {
    let place = xxh3_64(key) % u64::from(groups);
    GroupId(u32::try_from(place).expect("less than the number of groups"))
}

impl Groups {
    /// Takes over what was recovered: the groups in the order of their numbers.
    pub fn new(config: &StateStoreConfig, recovered: Vec<RecoveredGroup>) -> Self {
        let groups = u32::try_from(recovered.len()).expect("few groups");
        assert!((1..=GROUPS_MAX).contains(&groups), "1 to {GROUPS_MAX} groups");
        let config = config.part(groups);
        let start = |(number, group): (u32, RecoveredGroup)| {
            assert!(
                group.replica.group() == GroupId(number),
                "groups are numbered from 0"
            );
            StateStoreService::new(config.clone(), groups, group)
        };
        Self {
            services: (0..).zip(recovered).map(start).collect(),
            watching: BTreeMap::new(),
        }
    }

    /// The group that decides a call. Where a SCAN has to go on leaves its token.
    pub fn of_call(&self, call: &mut Call) -> GroupId {
        let groups = self.count();
        if groups == 1 {
            return GroupId(0);
        }
        if let Some(key) = call.key() {
            return group_of_key(key, groups);
        }
        match &mut call.pending.read {
            Some(Request::Scan { token, .. }) => scan_token::take_group(token, groups),
            _ => GroupId(0),
        }
    }

    /// The group of a key.
    pub fn of_key(&self, key: &[u8]) -> GroupId {
        group_of_key(key, self.count())
    }

    /// The service of a group, if there is such a group.
    pub fn get(&self, group: GroupId) -> Option<&StateStoreService> {
        self.services.get(usize::try_from(group.0).ok()?)
    }

    /// The service of a group that has something to do.
    pub fn get_mut(&mut self, group: GroupId) -> Option<&mut StateStoreService> {
        self.services.get_mut(usize::try_from(group.0).ok()?)
    }

    /// All services, in the order of their groups.
    pub fn iter(&self) -> impl Iterator<Item = &StateStoreService> {
        self.services.iter()
    }

    /// Their numbers.
    pub fn ids(&self) -> impl Iterator<Item = GroupId> + use<> {
        (0..self.count()).map(GroupId)
    }

    /// Number of groups; at least one.
    pub fn count(&self) -> u32 {
        u32::try_from(self.services.len()).expect("few groups")
    }

    /// False while there are keys about which nothing can be decided.
    pub fn is_available(&self) -> bool {
        self.services.iter().all(StateStoreService::is_available)
    }

    /// Whether the node may stop: nobody waits for it.
    pub fn have_stopped(&self) -> bool {
        self.services.iter().all(StateStoreService::has_stopped)
    }

    /// When the first of them has something to do.
    pub fn deadline(&self, now: Now) -> Option<Instant> {
        self.services
            .iter()
            .filter_map(|service| service.deadline(now))
            .min()
    }

    /// In which form requests are answered.
    pub fn dialect(&self) -> DialectChoice {
        self.services[0].dialect()
    }

    /// Seals the continuation tokens of SCAN.
    pub fn scan_seal(&self) -> &ScanSeal {
        self.services[0].scan_seal()
    }

    /// Which node they are at.
    pub fn node(&self) -> NodeId {
        NodeId(self.watcher(0).node)
    }

    /// Who a connection is in the logs.
    pub fn watcher(&self, connection: u64) -> Watcher {
        self.services[0].watcher(connection)
    }

    /// A connection watches a key of this group.
    pub fn watches(&mut self, connection: u64, group: GroupId) {
        self.watching.entry(connection).or_default().insert(group);
    }

    /// A connection watches nothing any more: in these groups its end must be written into the log.
    pub fn end_watching(&mut self, connection: u64) -> GroupSet {
        self.watching.remove(&connection).unwrap_or_default()
    }

    /// Connections that watch keys of a group.
    pub fn watching(&self, group: GroupId) -> Vec<u64> {
        let Some(service) = self.get(group) else {
            return Vec::new();
        };
        let watching = self.watching.iter().filter(|(_, groups)| groups.contains(group));
        let watching = watching.map(|(connection, _)| *connection);
        watching
            .filter(|connection| !service.watched_keys(*connection).is_empty())
            .collect()
    }

    /// Which keys a connection watches.
    pub fn watched_keys(&self, connection: u64) -> Vec<Bytes> {
        let groups = self.watching.get(&connection).copied().unwrap_or_default();
        let services = groups.iter().filter_map(|group| self.get(group));
        services
            .flat_map(|service| service.watched_keys(connection))
            .collect()
    }

    /// From now on nothing is taken that needs more memory, or it is again.
    pub fn note_memory(&mut self, is_full: bool) {
        for service in &mut self.services {
            service.note_memory(is_full);
        }
    }

    /// What all of them hold.
    pub fn usage(&self) -> Usage {
        let usages = self.services.iter().map(|service| service.store().usage());
        usages.fold(Usage::default(), Usage::plus)
    }

    /// A wall that no version of any of them is behind.
    pub fn given_until(&self) -> u64 {
        let walls = self.services.iter().map(|service| service.store().given_until());
        walls.max().unwrap_or_default()
    }

    /// What all of them may hold.
    pub fn quota(&self) -> Quota {
        let quotas = self.services.iter().map(|service| service.store().quota());
        let none = Quota {
            keys_max: 0,
            bytes_max: 0,
        };
        quotas.fold(none, |all, quota| Quota {
            keys_max: all.keys_max.saturating_add(quota.keys_max),
            bytes_max: all.bytes_max.saturating_add(quota.bytes_max),
        })
    }

    /// How many requests wait for their decision.
    pub fn pending_len(&self) -> usize {
        self.services.iter().map(StateStoreService::pending_len).sum()
    }

    /// What of their logs is in memory.
    pub fn log_bytes_held(&self) -> u64 {
        self.services
            .iter()
            .map(|service| service.replica().held_bytes())
            .sum()
    }

    /// Bytes of log entries that are open, and of places for requests.
    pub fn waiting_bytes(&self) -> u64 {
        self.services.iter().map(StateStoreService::waiting_bytes).sum()
    }
}

impl StateStoreConfig {
    /// What one of so many groups gets of the limits.
    fn part(&self, groups: u32) -> Self {
        let parts = u64::from(groups);
        Self {
            quota: Quota {
                keys_max: self.quota.keys_max.div_ceil(parts),
                bytes_max: self.quota.bytes_max.div_ceil(parts),
            },
            pending_max: self.pending_max.div_ceil(groups as usize),
            ..self.clone()
        }
    }
}

impl GroupSet {
    pub(crate) fn insert(&mut self, group: GroupId) {
        assert!(group.0 < GROUPS_MAX, "a group has a bit");
        self.0 |= 1 << group.0;
    }

    fn contains(self, group: GroupId) -> bool {
        self.0 >> group.0 & 1 == 1
    }

    /// Its groups, in the order of their numbers.
    pub fn iter(self) -> impl Iterator<Item = GroupId> {
        (0..GROUPS_MAX)
            .filter(move |group| self.0 >> group & 1 == 1)
            .map(GroupId)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Keys and the groups they have lain in since there are groups. Another answer would lose them.
    #[test]
    fn a_key_is_in_its_group_for_ever() {
        let of = |key: &str| [1, 2, 3, 8, 32].map(|groups| group_of_key(key.as_bytes(), groups).0);
        assert_eq!(
            of(""),
            [0, 0, 1, 2, 2],
            "xxh3_64 of nothing is 0x2D06800538D394C2"
        );
        assert_eq!(of("door"), [0, 1, 2, 1, 17]);
        assert_eq!(of("a"), [0, 1, 1, 7, 31]);
    }

    #[test]
    fn limits_are_divided_and_none_of_them_is_lost() {
        let config = StateStoreConfig {
            node: 1,
            incarnation: 1,
            dialect: DialectChoice::Auto,
            quota: Quota {
                keys_max: 10,
                bytes_max: u64::MAX,
            },
            entry_bytes_max: 1,
            pending_max: 100,
            snapshot_log_bytes: 1,
            snapshot_chunk_bytes: 1,
            digest_interval: Duration::from_secs(1),
            scan: store::ScanLimits::default(),
            scan_seal: ScanSeal::new(&[1; crate::SCAN_KEY_BYTES]),
        };
        let part = config.part(3);
        assert_eq!((part.quota.keys_max, part.pending_max), (4, 34));
        assert_eq!(config.part(1).quota, config.quota);
    }

    #[test]
    fn a_set_has_what_was_put_into_it() {
        let mut set = GroupSet::default();
        assert_eq!(set.iter().count(), 0);
        for group in [31, 0, 5, 5] {
            set.insert(GroupId(group));
        }
        assert_eq!(
            set.iter().collect::<Vec<_>>(),
            [GroupId(0), GroupId(5), GroupId(31)]
        );
    }
}
