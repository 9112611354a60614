//! From a batch of writes to what the owners of its sessions are sent.

use std::collections::BTreeMap;

use bytes::Bytes;
use cluster::NodeId;
use cluster::session_plane::Ring;
use cluster::write::{Keyspace, Write};
use mqtt::ids::SessionNumber;
use mqtt::now::Now;
use mqtt::records;
use protocol::Text;
use protocol::packet::PacketId;

use super::messages::{Change, Piece, Positions, What, Writer};
use super::{Copies, Held, Stage};
use crate::cluster_records;
use crate::cluster_records::copy::{CopyRecord, Marks};
use crate::commits::DiskTicket;
use crate::node::Node;
use crate::routes::{Subject, WaitId};

/// Bytes of an item, unless one session has more.
const ITEM_BYTES: usize = 256 << 10;

/// What a batch does to one session.
#[derive(Debug, Default)]
struct Changed {
    /// It was not held before.
    begins: Option<Text>,
    has_ended: bool,
    changes: Vec<Change>,
}

impl Node {
    /// Closes the open batch, if it may be. What it changes of durable sessions goes to their owners.
    pub(crate) fn close_batch(&mut self, now: Now) -> Option<(DiskTicket, Vec<Write>)> {
        self.write_owed();
        if !self.commits.may_close() {
            return None;
        }
        let wait = self.copy_batch(now);
        Some(self.commits.close(wait))
    }

    fn copy_batch(&mut self, now: Now) -> Option<WaitId> {
        let (Some(copies), Some(peers), Some(states)) = (&mut self.copies, &mut self.peers, &self.states)
        else {
            return None;
        };
        let changed = copies.collect(self.commits.open());
        if changed.is_empty() {
            return None;
        }
        let positions: Positions = peers.positions().collect();
        let mut writers: BTreeMap<NodeId, Writer> = BTreeMap::new();
        let wait = peers.open_wait();
        peers.wait_for_losses(wait);
        let numbers: Vec<SessionNumber> = changed.keys().copied().collect();
        for (number, changed) in changed {
            // Who has not heard of it yet is offered it as it was, and told what has changed.
            copies.look_at(
                number,
                (&self.sessions, peers),
                (states.primary(), states.minority()),
            );
            let (piece, owners) = match copies.advance(number, changed) {
                Advanced::Gone => continue,
                Advanced::Ended(held) => {
                    self.commits.write(cluster_records::copy::remove(number));
                    let tombstone = copies.bury(now, &held, peers, wait);
                    tombstone.into_iter().for_each(|write| self.commits.write(write));
                    let owners = held.owners.iter().map(|owner| owner.node).collect();
                    let what = What::HasEnded;
                    (
                        Piece {
                            number,
                            event: 0,
                            what,
                        },
                        owners,
                    )
                }
                Advanced::GoesOn(piece) => {
                    let rings = (states.primary(), states.minority());
                    let owners = copies.receivers(&piece, rings, |node| peers.is_reached(node));
                    self.commits.write(copies.record(number));
                    (piece, owners)
                }
            };
            for node in owners {
                let incarnation = copies.own.incarnation.0;
                let writer = writers
                    .entry(node)
                    .or_insert_with(|| Writer::changes(incarnation, &positions));
                writer.piece(&piece);
                if writer.len() > ITEM_BYTES
                    && let Some(writer) = writers.remove(&node)
                {
                    peers.tell(node, (Subject::Copies, writer.finish()), Some(wait));
                }
            }
        }
        for (node, writer) in writers {
            peers.tell(node, (Subject::Copies, writer.finish()), Some(wait));
        }
        self.await_all_owners(numbers, wait);
        self.end_awaited();
        self.peers.as_mut()?.keep_open(wait)
    }
}

/// What became of a session.
enum Advanced {
    /// It began and ended in this batch.
    Gone,
    Ended(Held),
    GoesOn(Piece),
}

impl Copies {
    /// What the writes change of each session of this node.
    fn collect(&self, writes: &[Write]) -> BTreeMap<SessionNumber, Changed> {
        let mut changed: BTreeMap<SessionNumber, Changed> = BTreeMap::new();
        for write in writes {
            let Some((number, what)) = self.read(write, &changed) else {
                continue;
            };
            let of_session = changed.entry(number).or_default();
            match what {
                Read::Begins(client_id, change) => {
                    of_session.begins = Some(client_id);
                    of_session.changes.push(change);
                }
                Read::Change(change) => of_session.changes.push(change),
                Read::Ends => of_session.has_ended = true,
            }
        }
        changed
    }

    /// What a write does to a session of this node; `None`: it is about something else.
    fn read(
        &self,
        write: &Write,
        changed: &BTreeMap<SessionNumber, Changed>,
    ) -> Option<(SessionNumber, Read)> {
        let (keyspace, key) = match write {
            Write::Put { keyspace, key, .. }
            | Write::Remove { keyspace, key }
            | Write::RemoveOnce { keyspace, key } => (*keyspace, key),
            // All three ranges of a session are removed together.
            Write::RemoveRange { keyspace, from, .. } if *keyspace == Keyspace::Queue => {
                let number = SessionNumber(u64::from_be_bytes(*from.first_chunk()?));
                let is_held = self.held.contains_key(&number) || changed.contains_key(&number);
                return is_held.then_some((number, Read::Ends));
            }
            Write::RemoveRange { .. } | Write::RemoveRangeOnce { .. } => return None,
        };
        let value = match write {
            Write::Put { value, .. } => Some(value.clone()),
            _ => None,
        };
        if keyspace == Keyspace::Sessions {
            return self.read_session(key, value?, changed);
        }
        let number = SessionNumber(u64::from_be_bytes(*key.first_chunk()?));
        if !self.held.contains_key(&number) && !changed.contains_key(&number) {
            return None;
        }
        let suffix = key.slice(8..);
        let change = match (keyspace, value) {
            (Keyspace::Subscriptions, Some(value)) => Change::Subscribed(suffix, value),
            (Keyspace::Subscriptions, None) => Change::Unsubscribed(suffix),
            (Keyspace::Queue, Some(value)) => Change::Delivery(suffix, value),
            (Keyspace::Queue, None) => Change::Delivered(suffix),
            (Keyspace::Received, Some(_)) => Change::Received(suffix),
            (Keyspace::Received, None) => Change::Released(suffix),
            _ => return None,
        };
        Some((number, Read::Change(change)))
    }

    fn read_session(
        &self,
        key: &Bytes,
        value: Bytes,
        changed: &BTreeMap<SessionNumber, Changed>,
    ) -> Option<(SessionNumber, Read)> {
        if cluster_records::copy::is_copy(key) {
            return None;
        }
        let number = records::session::number_of(&value);
        let change = Change::Session(value);
        if self.held.contains_key(&number) || changed.contains_key(&number) {
            return Some((number, Read::Change(change)));
        }
        let client_id = Text::from_bytes(key.clone()).expect("this node has written it");
        let copy = self.standing_by.get(&client_id);
        if copy.is_some_and(|copy| copy.session.number == number) {
            return None;
        }
        Some((number, Read::Begins(client_id, change)))
    }

    /// Counts one more change of a session.
    fn advance(&mut self, number: SessionNumber, changed: Changed) -> Advanced {
        if changed.has_ended {
            self.begun_anew.remove(&number);
            let Some(mut held) = self.remove_held(number) else {
                return Advanced::Gone;
            };
            // Its end counts as well: who goes on with a copy that has all else does not know of that.
            held.count_on(self.own, number);
            return Advanced::Ended(held);
        }
        let begins = changed.begins.clone();
        let away = self.begun_anew.remove(&number);
        if let Some(client_id) = begins.clone() {
            self.held.entry(number).or_insert_with(|| Held {
                marks: away.map(|away| Box::new(Marks::begun_without(&away))),
                ..Held::new(client_id, Default::default())
            });
        }
        let own = self.own;
        let Some(held) = self.held.get_mut(&number) else {
            return Advanced::Gone;
        };
        for change in &changed.changes {
            held.note_received(change);
            if let Some(marks) = &mut held.marks {
                marks.note(change);
            }
        }
        // Full after 2^64 changes, or when thousands of nodes have held it: then no owner follows it any more, and each takes it whole.
        let event = held.count_on(own, number);
        let what = match begins {
            Some(client_id) => What::Begins(client_id, changed.changes),
            None => What::GoesOn(changed.changes),
        };
        Advanced::GoesOn(Piece { number, event, what })
    }

    /// The nodes that are sent what has changed: all that have a copy, or were offered one.
    fn receivers(
        &mut self,
        piece: &Piece,
        rings: (&Ring, &Ring),
        is_reached: impl Fn(NodeId) -> bool,
    ) -> Vec<NodeId> {
        let (own, version) = (self.own.node, self.rings);
        let is_new = matches!(piece.what, What::Begins(..));
        let nodes = self.with_held(piece.number, |held| {
            if is_new {
                held.place(own, rings);
                held.rings = version;
                // One that is not reached is offered it when it is.
                for owner in held.owners.iter_mut().filter(|owner| is_reached(owner.node)) {
                    owner.stage = Stage::InStep;
                }
            }
            let told = |stage| matches!(stage, Stage::InStep | Stage::Offered);
            let owners = held.owners.iter().filter(|owner| told(owner.stage));
            owners.map(|owner| owner.node).collect()
        });
        nodes.unwrap_or_default()
    }

    /// The record of which changes of a session are here.
    pub(super) fn record(&self, number: SessionNumber) -> Write {
        let held = self.held.get(&number);
        let record = CopyRecord {
            clock: held.map(|held| held.clock.clone()).unwrap_or_default(),
            holder: None,
            taken_from: held.filter(|held| !held.is_past).and_then(|held| held.taken_from),
            marks: held.and_then(|held| held.marks.as_deref().cloned()),
        };
        cluster_records::copy::put(number, &record)
    }
}

enum Read {
    Begins(Text, Change),
    Change(Change),
    Ends,
}

impl Held {
    fn note_received(&mut self, change: &Change) {
        let id_of = |suffix: &Bytes| {
            let id = suffix.first_chunk().copied().map(u16::from_be_bytes);
            id.and_then(PacketId::new)
        };
        match change {
            Change::Received(suffix) => self.received.extend(id_of(suffix)),
            Change::Released(suffix) => {
                let gone = id_of(suffix);
                self.received.retain(|id| Some(*id) != gone);
            }
            _ => {}
        }
    }
}
