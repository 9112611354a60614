//! The groups of the state store on one node: which key is whose, and what concerns all of them.
//!
//! How many there are is fixed when the cluster is made. A key belongs to one group for ever, so what is asked of a key is
//! decided in one log, in its order; a SCAN goes from one group to the next, and its token says where it is. What a group
//! does with a request is in `state_store_service.rs`; it knows nothing of the others.
//!
//! Limits that are set for the whole state store are divided: each group has an equal part.

use std::collections::BTreeMap;
use std::time::Instant;

use bytes::Bytes;
use cluster::control::CONTROL;
use cluster::peer_header::{self, PeerError};
use cluster::{GroupId, NodeId};
use mqtt::now::Now;
use protocol::state_store::Request;
use store::{Quota, Usage, Watcher};
use xxhash_rust::xxh3::xxh3_64;

use crate::invoking::drop_message;
use crate::node::{Action, Node};
use crate::node_states::NODE_STATES;
use crate::relay::RELAY;
use crate::routes::ROUTES;
use crate::scan_seal::ScanSeal;
use crate::state_store_service::RecoveredGroup;
use crate::state_store_service::{
    Call, DialectChoice, Output, StateStoreConfig, StateStoreService, scan_token,
};

/// All groups, each at the place of its number.
#[derive(Debug)]
pub(crate) struct Groups {
    services: Vec<StateStoreService>,
    /// Where the connections that watch keys do so.
    watching: BTreeMap<u64, GroupSet>,
}

/// Some of the groups.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct GroupSet(u32);

/// How many groups there may be: a `GroupSet` has a bit for each.
pub const GROUPS_MAX: u32 = u32::BITS;

/// The group that a key belongs to. The same on all nodes and in all versions: the keys of a data directory depend on it.
pub fn group_of_key(key: &[u8], groups: u32) -> GroupId {
    let place = xxh3_64(key) % u64::from(groups);
    GroupId(u32::try_from(place).expect("less than the number of groups"))
}

impl Groups {
    /// Takes over what was recovered: the groups in the order of their numbers.
    pub(crate) fn new(config: &StateStoreConfig, recovered: Vec<RecoveredGroup>) -> Self {
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
    pub(crate) fn of_call(&self, call: &mut Call) -> GroupId {
        let groups = self.len();
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

    pub(crate) fn of_key(&self, key: &[u8]) -> GroupId {
        group_of_key(key, self.len())
    }

    pub(crate) fn get(&self, group: GroupId) -> Option<&StateStoreService> {
        self.services.get(usize::try_from(group.0).ok()?)
    }

    pub(crate) fn get_mut(&mut self, group: GroupId) -> Option<&mut StateStoreService> {
        self.services.get_mut(usize::try_from(group.0).ok()?)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &StateStoreService> {
        self.services.iter()
    }

    /// Their numbers.
    pub(crate) fn ids(&self) -> impl Iterator<Item = GroupId> + use<> {
        (0..self.len()).map(GroupId)
    }

    pub(crate) fn len(&self) -> u32 {
        u32::try_from(self.services.len()).expect("few groups")
    }

    /// False while there are keys about which nothing can be decided.
    pub(crate) fn is_available(&self) -> bool {
        self.services.iter().all(StateStoreService::is_available)
    }

    /// Whether the node may stop: nobody waits for it.
    pub(crate) fn have_stopped(&self) -> bool {
        self.services.iter().all(StateStoreService::has_stopped)
    }

    /// When the first of them has something to do.
    pub(crate) fn deadline(&self, now: Now) -> Option<Instant> {
        self.services
            .iter()
            .filter_map(|service| service.deadline(now))
            .min()
    }

    /// In which form requests are answered.
    pub(crate) fn dialect(&self) -> DialectChoice {
        self.services[0].dialect()
    }

    /// Seals the continuation tokens of SCAN.
    pub(crate) fn scan_seal(&self) -> &ScanSeal {
        self.services[0].scan_seal()
    }

    /// Which node they are at.
    pub(crate) fn node(&self) -> NodeId {
        NodeId(self.watcher(0).node)
    }

    /// Who a connection is in the logs.
    pub(crate) fn watcher(&self, connection: u64) -> Watcher {
        self.services[0].watcher(connection)
    }

    /// A connection watches a key of this group.
    pub(crate) fn watches(&mut self, connection: u64, group: GroupId) {
        self.watching.entry(connection).or_default().insert(group);
    }

    /// A connection watches nothing any more: in these groups its end must be written into the log.
    pub(crate) fn end_watching(&mut self, connection: u64) -> GroupSet {
        self.watching.remove(&connection).unwrap_or_default()
    }

    /// Connections that watch keys of a group.
    pub(crate) fn watching(&self, group: GroupId) -> Vec<u64> {
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
    pub(crate) fn watched_keys(&self, connection: u64) -> Vec<Bytes> {
        let groups = self.watching.get(&connection).copied().unwrap_or_default();
        let services = groups.iter().filter_map(|group| self.get(group));
        services
            .flat_map(|service| service.watched_keys(connection))
            .collect()
    }

    /// From now on nothing is taken that needs more memory, or it is again.
    pub(crate) fn note_memory(&mut self, is_full: bool) {
        for service in &mut self.services {
            service.note_memory(is_full);
        }
    }

    /// What all of them hold.
    pub(crate) fn usage(&self) -> Usage {
        let usages = self.services.iter().map(|service| service.store().usage());
        usages.fold(Usage::default(), Usage::plus)
    }

    /// A wall that no version of any of them is behind.
    pub(crate) fn given_until(&self) -> u64 {
        let walls = self.services.iter().map(|service| service.store().given_until());
        walls.max().unwrap_or_default()
    }

    /// What all of them may hold.
    pub(crate) fn quota(&self) -> Quota {
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
    pub(crate) fn pending_len(&self) -> usize {
        self.services.iter().map(StateStoreService::pending_len).sum()
    }

    /// What of their logs is in memory.
    pub(crate) fn log_bytes_held(&self) -> u64 {
        self.services
            .iter()
            .map(|service| service.replica().held_bytes())
            .sum()
    }

    /// Bytes of log entries that are open, and of places for requests.
    pub(crate) fn waiting_bytes(&self) -> u64 {
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

    pub(crate) fn iter(self) -> impl Iterator<Item = GroupId> {
        (0..GROUPS_MAX)
            .filter(move |group| self.0 >> group & 1 == 1)
            .map(GroupId)
    }
}

impl Node {
    /// Lets a group work, and delivers what comes out of it.
    pub(crate) fn with_group(
        &mut self,
        now: Now,
        group: GroupId,
        actions: &mut Vec<Action>,
        work: impl FnOnce(&mut StateStoreService, &mut Vec<Output>),
    ) {
        let mut outputs = std::mem::take(&mut self.outputs);
        if let Some(service) = self.groups.get_mut(group) {
            work(service, &mut outputs);
        }
        for output in outputs.drain(..) {
            self.state_store_output(now, group, output, actions);
        }
        self.outputs = outputs;
    }

    /// Lets all groups work, one after the other.
    pub(crate) fn with_each_group(
        &mut self,
        now: Now,
        actions: &mut Vec<Action>,
        mut work: impl FnMut(&mut StateStoreService, &mut Vec<Output>),
    ) {
        for group in self.groups.ids() {
            self.with_group(now, group, actions, &mut work);
        }
    }

    /// Another node's store plane has something to say.
    pub(crate) fn peer_message(
        &mut self,
        now: Now,
        from: NodeId,
        message: &Bytes,
        actions: &mut Vec<Action>,
    ) {
        let mut dropped = None;
        match peer_header::group_of(message) {
            Ok(group) if self.groups.get(group).is_some() => {
                self.with_group(now, group, actions, |service, outputs| {
                    dropped = service.message(now, from, message, outputs).err();
                });
            }
            Ok(ROUTES) if self.peers.is_some() => self.routes_message(now, from, message, actions),
            Ok(NODE_STATES) if self.states.is_some() => {
                self.node_states_message(now, from, message, actions);
            }
            Ok(RELAY) => self.relay_message(now, from, message, actions),
            Ok(CONTROL) if self.control.is_some() => self.control_message(now, from, message, actions),
            Ok(group) => dropped = Some(PeerError::Group { group }),
            Err(error) => dropped = Some(error),
        }
        if let Some(error) = dropped {
            drop_message(from, error, actions);
        }
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
