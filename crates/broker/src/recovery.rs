//! From what is on disk to a node that runs.
//!
//! The caller reads the keyspaces in the order of [`Recovery::KEYSPACES`] and gives each record to
//! [`Recovery::record`]; [`Recovery::start`] makes the node. A connection that the disk still knows was cut by the end
//! of the process: it ends now, so wills and expiry intervals run from here.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cluster::write::Keyspace;
use cluster::{NodeId, Write};
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use mqtt::connection::Connections;
use mqtt::ids::{SessionKey, SessionNumber};
use mqtt::memory::Memory;
use mqtt::now::Now;
use mqtt::origin::Position;
use mqtt::policies::PoliciesInForce;
use mqtt::records::queue::QueueRecord;
use mqtt::records::session::SessionRecord;
use mqtt::records::{self, RecordError};
use mqtt::retained::{Edition, Retained};
use mqtt::session::Session;
use mqtt::subscriptions::{Shares, Subscription, Subscriptions, point_of};
use mqtt::timers::Timers;
use mqtt::traces::Tracer;
use mqtt::will::{self, PendingWills};
use protocol::topic::SubscriptionFilter;
use protocol::{Text, TopicName};
use session_plane::plane::PlaneImage;
use state_service::{Groups, RecoveredGroup, StateStoreConfig};

use crate::backups::Restorations;
use crate::closing::Shutdown;
use crate::cluster_records;
use crate::cluster_records::copy::CopyRecord;
use crate::commits::Commits;
use crate::control_group::{ControlGroup, RecoveredControl};
use crate::copies::{RecoveredCopies, StandingBy};
use crate::counters::Counters;
use crate::node::{Action, Node, NodeConfig, TimerKey};
use crate::relay::Relay;
use crate::replication::{OlderTopics, PlaneRecords, Replication};
use crate::retained_delivery::RetainedDue;
use crate::routes::RecoveredOwed;
use crate::routing::RouteScratch;
use crate::sessions::{SessionEntry, Sessions};
use crate::spans::Arrivals;
use crate::sys_topics::SysTopics;
use crate::turns::{Turns, Work};

/// The state store as it was recovered.
#[derive(Debug)]
pub struct RecoveredStore {
    /// Its settings, for all groups together.
    pub config: StateStoreConfig,
    /// Its groups, in the order of their numbers.
    pub groups: Vec<RecoveredGroup>,
    /// The control group, where the node is a member of a cluster.
    pub control: Option<RecoveredControl>,
}

/// Retained messages that are due of a subscription, and from which place on.
type Due = (SessionKey, SubscriptionFilter, Subscription, Vec<u8>);

/// Collects records until the node can be made.
#[derive(Debug)]
pub struct Recovery {
    now: Now,
    config: NodeConfig,
    sessions: Sessions,
    by_number: HashMap<SessionNumber, SessionKey, FixedState>,
    subscriptions: Subscriptions,
    shares: Shares,
    retained: Retained,
    memory: Memory,
    /// Retained messages for subscriptions, from where they were not delivered yet.
    due: Vec<Due>,
    /// Ended while nobody ran, or left over: to be removed.
    leftovers: Vec<Write>,
    discarded: Vec<SessionKey>,
    lost: Vec<SessionKey>,
    /// Up to where the items of other nodes were taken.
    positions: BTreeMap<NodeId, Position>,
    owed: RecoveredOwed,
    /// Records of the plane, in the order of their keys.
    plane: PlaneRecords,
    /// What a directory without a plane has of topics. None: of a server without a cluster.
    older: Vec<(TopicName, Option<Edition>)>,
    copies: RecoveredCopies,
}

/// Records of the disk cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RecordsError {
    /// One of a session, or of what is due to it.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// One of the session plane, or they do not go together.
    #[error("the records of the session plane are damaged: {0}")]
    Plane(#[from] session_plane::RecordError),
}

impl Recovery {
    /// The order in which keyspaces are to be read.
    pub const KEYSPACES: [Keyspace; 6] = [
        Keyspace::Sessions,
        Keyspace::Subscriptions,
        Keyspace::Queue,
        Keyspace::Received,
        Keyspace::Retained,
        Keyspace::Plane,
    ];

    /// Nothing read yet. `incarnation` is this run's.
    pub fn new(now: Now, config: NodeConfig, incarnation: u32) -> Self {
        Self {
            now,
            sessions: Sessions::new(config.seed, incarnation),
            by_number: HashMap::with_hasher(FixedState::with_seed(config.seed)),
            subscriptions: Subscriptions::new(config.seed),
            shares: Shares::new(config.seed),
            retained: Retained::new(&config.limits),
            memory: Memory::default(),
            due: Vec::new(),
            config,
            leftovers: Vec::new(),
            discarded: Vec::new(),
            lost: Vec::new(),
            positions: BTreeMap::new(),
            owed: RecoveredOwed::default(),
            plane: PlaneRecords::default(),
            older: Vec::new(),
            copies: RecoveredCopies::default(),
        }
    }

    /// Takes one record.
    ///
    /// # Errors
    /// If it cannot be understood: the server must not start, since going on would lose what it says.
    pub fn record(&mut self, keyspace: Keyspace, key: &[u8], value: Bytes) -> Result<(), RecordsError> {
        match keyspace {
            Keyspace::Sessions => self.session(key, value)?,
            Keyspace::Subscriptions => self.subscription(key, value)?,
            Keyspace::Queue => self.delivery(key, value)?,
            Keyspace::Received => self.received(key, value)?,
            Keyspace::Retained => self.retained(key, value)?,
            Keyspace::Plane => self.plane.read(Bytes::copy_from_slice(key), &value)?,
            Keyspace::Meta | Keyspace::Log => {}
        }
        Ok(())
    }

    /// Makes the node.
    ///
    /// # Errors
    /// If the records of the session plane do not go together: the server must not start with a part of them.
    pub fn start(self, store: RecoveredStore, actions: &mut Vec<Action>) -> Result<Node, RecordsError> {
        let now = self.now;
        let image = PlaneImage::of_records(self.plane)?;
        let incarnation = store.config.incarnation;
        let node_id = NodeId(store.config.node);
        let control = store
            .control
            .map(|control| Box::new(ControlGroup::new(now, node_id, control)));
        let groups = Groups::new(&store.config, store.groups);
        let older = older_topics(self.older, node_id);
        let replication = Replication::new(now, &self.config, (node_id, incarnation), image, older);
        let commits = Commits::default();
        let mut node = Node {
            connections: Connections::default(),
            sessions: self.sessions,
            subscriptions: self.subscriptions,
            shares: self.shares,
            retained: self.retained,
            replication: Box::new(replication),
            wills: PendingWills::default(),
            timers: Timers::new(),
            step_began: commits.mark(),
            commits,
            groups,
            control,
            states: None,
            peers: None,
            relay: Relay::new(node_id, incarnation),
            clients: None,
            copies: None,
            guards: None,
            latest_copied: None,
            restorations: Restorations::default(),
            outputs: Vec::new(),
            routes: RouteScratch::default(),
            stored: None,
            tracer: Tracer::new(self.config.traces),
            arrivals: Arrivals::default(),
            work: Work::default(),
            turns: Turns::default(),
            counters: Counters::default(),
            memory: self.memory,
            sys_topics: SysTopics::new(now.instant, self.config.sys_interval),
            missed: BTreeMap::new(),
            policies: PoliciesInForce::new(self.config.policies.clone()),
            authenticating: 0,
            ending: Shutdown::default(),
            random: self.config.seed ^ u64::from(incarnation),
            config: self.config,
        };
        node.with_each_group(now, actions, |service, outputs| service.start(now, outputs));
        node.begin_node_states(now, (node_id, incarnation));
        node.look_for_members_of_plane(now);
        node.begin_retained(now, actions);
        node.begin_routes(now, (node_id, incarnation), (self.positions, self.owed));
        node.begin_copies((node_id, incarnation), self.copies);
        node.begin_guards((node_id, incarnation));
        node.with_control(now, actions, |control, _, outputs, actions| {
            control.start(now, outputs, actions);
        });
        self.due.into_iter().for_each(|due| node.owe_retained_still(due));
        let leftovers = self.leftovers.into_iter();
        leftovers.for_each(|write| node.commits.write(write));
        node.recover_sessions(now, self.lost, self.discarded, actions);
        Ok(node)
    }

    fn session(&mut self, key: &[u8], value: Bytes) -> Result<(), RecordError> {
        if cluster_records::tombstone::is_tombstone(key) {
            let (client_id, record) = cluster_records::tombstone::decode(key, value)?;
            self.copies.tombstones.restore(client_id, record);
            return Ok(());
        }
        if cluster_records::copy::is_copy(key) {
            return self.copy(key, value);
        }
        let (client_id, record) = records::session::decode(key, value)?;
        if let Some(copy) = self.copies.expected.remove(&record.number) {
            self.restore_copy(client_id, record, copy);
            return Ok(());
        }
        let session = Session::restore(client_id.clone(), &record, self.config.limits.of_session());
        let (number, is_over) = (record.number, record.is_over(self.now.wall));
        let entry = SessionEntry::recovered(session, record);
        let key = self.sessions.insert(&client_id, entry);
        self.by_number.insert(number, key);
        if is_over {
            self.discarded.push(key);
        } else {
            self.lost.push(key);
        }
        Ok(())
    }

    /// What is known of a session that comes behind it.
    fn copy(&mut self, key: &[u8], value: Bytes) -> Result<(), RecordError> {
        let (number, copy) = cluster_records::copy::decode(key, value)?;
        if copy.holder.is_some() {
            self.copies.expected.insert(number, copy);
        } else {
            self.copies.held.insert(number, copy);
        }
        Ok(())
    }

    fn restore_copy(&mut self, client_id: Text, record: SessionRecord, copy: CopyRecord) {
        let Some(holder) = copy.holder else { return };
        let number = record.number;
        let limits = self.config.limits.of_session();
        let standing_by = StandingBy::restore(client_id, limits, (record, copy.clock), holder);
        self.copies.standing_by.insert(number, standing_by);
    }

    fn subscription(&mut self, key: &[u8], value: Bytes) -> Result<(), RecordError> {
        if cluster_records::owed::is_owed(key) {
            let (node, wanted) = cluster_records::owed::decode_wanted(key, value)?;
            self.owed.wanted(node, wanted);
            return Ok(());
        }
        let (number, filter, subscription, place) = records::subscription::decode(key, value)?;
        if let Some(copy) = self.copies.standing_by.get_mut(&number) {
            copy.restore_subscription(filter, subscription, place);
            return Ok(());
        }
        let Some(session) = self.by_number.get(&number).copied() else {
            self.leftovers.extend(records::remove_all(number));
            return Ok(());
        };
        if let Some(entry) = self.sessions.get_mut(session) {
            entry.session.filters.insert(&filter, subscription);
            if filter.share.is_some() {
                let point = point_of(&entry.session.client_id);
                self.shares.subscribe(session, point, &filter, subscription);
            } else {
                self.subscriptions
                    .subscribe(session, &filter.filter, subscription);
            }
            if let Some(place) = place {
                self.due.push((session, filter, subscription, place));
            }
        }
        Ok(())
    }

    fn delivery(&mut self, key: &[u8], value: Bytes) -> Result<(), RecordError> {
        if cluster_records::owed::is_owed(key) {
            let (number, record) = cluster_records::owed::decode(key, value, self.now)?;
            self.owed.record(number, record);
            return Ok(());
        }
        let (number, sequence, mut record) = records::queue::decode(key, value, self.now)?;
        if let QueueRecord::Waiting(delivery) = &mut record {
            // One copy of the filter for all deliveries.
            let share = delivery.share.take();
            delivery.share = share.map(|share| self.shares.filter(&share).unwrap_or(share));
            let message = Arc::get_mut(&mut delivery.message).expect("a decoded message is nobody else's");
            message.held = self.memory.messages.hold(message.memory());
        }
        if let Some(copy) = self.copies.standing_by.get_mut(&number) {
            copy.restore_delivery(sequence, record);
            return Ok(());
        }
        match self
            .by_number
            .get(&number)
            .and_then(|key| self.sessions.get_mut(*key))
        {
            Some(entry) => entry.session.restore_delivery(sequence, record),
            None => self.leftovers.extend(records::remove_all(number)),
        }
        Ok(())
    }

    fn received(&mut self, key: &[u8], value: Bytes) -> Result<(), RecordError> {
        if cluster_records::forwarded::is_position(key) {
            let (node, position) = cluster_records::forwarded::decode_position(key, value)?;
            self.positions.insert(node, position);
            return Ok(());
        }
        if cluster_records::owed::is_taken(key) {
            let (node, position) = cluster_records::owed::decode_taken(key, value)?;
            self.owed.taken.insert(node, position);
            return Ok(());
        }
        if cluster_records::copy::is_positions(key) {
            let (holder, positions) = cluster_records::copy::decode_positions(key, value)?;
            self.copies.positions.insert(holder, positions);
            return Ok(());
        }
        let (number, packet_id) = records::received::decode(key, value)?;
        if let Some(copy) = self.copies.standing_by.get_mut(&number) {
            copy.restore_received(packet_id);
            return Ok(());
        }
        match self
            .by_number
            .get(&number)
            .and_then(|key| self.sessions.get_mut(*key))
        {
            Some(entry) => {
                entry.session.received.insert(packet_id);
            }
            None => self.leftovers.extend(records::remove_all(number)),
        }
        Ok(())
    }

    fn retained(&mut self, key: &[u8], value: Bytes) -> Result<(), RecordError> {
        let record = records::retained::decode(key, value, self.now)?;
        self.older.push((record.topic, record.edition));
        if let Some(message) = record.message {
            let message = Arc::new(message.counted(&self.memory.messages));
            self.retained.keep(message, record.edition);
        }
        Ok(())
    }
}

impl Node {
    /// What was not delivered before a restart, or where the session was before.
    pub(crate) fn owe_retained_still(&mut self, (key, filter, subscription, place): Due) {
        let search = self.retained.search_from(&filter.filter, place);
        if let Some(entry) = self.sessions.get_mut(key) {
            entry.due.push(RetainedDue {
                filter,
                subscription,
                begins: search.place().len(),
                search,
                is_recorded: true,
            });
        }
    }

    /// Recovers the sessions of the disk, and ends those that are over.
    fn recover_sessions(
        &mut self,
        now: Now,
        lost: Vec<SessionKey>,
        over: Vec<SessionKey>,
        actions: &mut Vec<Action>,
    ) {
        // Those that are over get nothing of each other's, which would be written once for each of them.
        for key in &over {
            self.leave_shares(*key);
        }
        for key in lost {
            self.recover_session(now, key, actions);
        }
        for key in over {
            // Its end is the latest moment for a will that waits for its delay.
            self.recover_session(now, key, actions);
            self.discard_session(now, key, actions);
        }
    }

    /// A recovered session: its connection ended with the process, or before it.
    pub(crate) fn recover_session(&mut self, now: Now, key: SessionKey, actions: &mut Vec<Action>) {
        let Some(entry) = self.sessions.get_mut(key) else {
            return;
        };
        let since = *entry.disconnected_at.get_or_insert(now.wall);
        let (expiry, will) = (entry.expiry, entry.will.take());
        let gone = u32::try_from(now.wall.saturating_sub(since) / 1_000).unwrap_or(u32::MAX);
        if expiry != u32::MAX {
            let ends_at = since.saturating_add(u64::from(expiry) * 1_000);
            self.timers
                .schedule(TimerKey::Session(key), now.instant_of(ends_at));
        }
        if let Some(mut will) = will {
            will.delay = will.delay.map(|delay| delay.saturating_sub(gone));
            let session_expires_in = Duration::from_secs(expiry.saturating_sub(gone).into());
            self.will_step(
                now,
                will::Event::ConnectionLost {
                    session: key,
                    will,
                    session_expires_in,
                },
                actions,
            );
        }
        self.note_standing(key);
        self.write_session(now, key);
    }
}

/// Topics of an older directory. Those without an edition are of a server that was in no cluster.
fn older_topics(found: Vec<(TopicName, Option<Edition>)>, node: NodeId) -> OlderTopics {
    let mut older = OlderTopics::default();
    for (topic, edition) in found {
        older.insert(&topic, edition.unwrap_or(Edition::of_old(node)));
    }
    older
}
