//! Queues with limits, in half of the histories: at rest none is beyond them, and of what was promised only that
//! is missed which a node has told that it dropped. Without limits nothing is dropped.

use std::collections::BTreeSet;

use session_plane::queue_limits::{QueueFull, QueueLimits, QueuePlace, QueueSize, QueueValue};
use session_plane::sessions::DroppedMessages;
use session_plane::{Dot, Entry, EntryId, EntryKind, Run, Slot};

use super::clients::{CLIENTS, RemovedEntry, Waiting, client, slot};
use super::connections::CONNECTING;
use super::group_clients::{group, part_slots};
use super::machine::{Body, Value};
use super::publishers::TakenBody;
use super::random::Random;
use super::world::World;

/// Messages that a feed passes on beyond the queue: the window of a sink.
const PASSED_ON_MAX: u64 = 6;

/// Message that a process has told that it dropped.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Told {
    run: Run,
    place: QueuePlace,
    message: Dot,
}

/// Limits of a history, and what was dropped.
#[derive(Debug)]
pub(super) struct LimitedQueues {
    pub(super) limits: QueueLimits,
    told: BTreeSet<Told>,
}

impl LimitedQueues {
    pub(super) fn new(seed: u64) -> LimitedQueues {
        let mut random = Random::new(seed ^ 2);
        let limits = if random.once_in(2) {
            QueueLimits {
                messages_max: random.below(6),
                bytes_max: 40 + random.below(150),
                full: if random.once_in(2) {
                    QueueFull::DropNewest
                } else {
                    QueueFull::DropOldest
                },
                dropping_max: 1 + usize::try_from(random.below(3)).expect("few"),
            }
        } else {
            QueueLimits::NONE
        };
        let told = BTreeSet::new();
        LimitedQueues { limits, told }
    }
}

impl World {
    /// A node has dropped messages: nothing is promised of them any more, and they do not come back.
    pub(super) fn dropped(&mut self, id: u64, dropped: &DroppedMessages<Value>) {
        if self.limited_queues.limits == QueueLimits::NONE {
            self.fail(format!("{id} drops without limits: {dropped:?}"));
        }
        let mut clients = (0..CLIENTS).chain(CONNECTING);
        let number = clients.find(|number| client(*number) == dropped.place.client);
        let mut dots = Vec::new();
        for of in &dropped.messages {
            let told = Told {
                run: dropped.by.run,
                place: dropped.place.clone(),
                message: of.message,
            };
            if !self.limited_queues.told.insert(told) {
                self.fail(format!("{id} drops {of:?} again: {dropped:?}"));
            }
            match (number, of.value) {
                (Some(client), Value::Message(Body(body))) => {
                    let taken = self.publishers.taken.entry(TakenBody { client, body });
                    taken.or_default().insert(of.message);
                    let dot = of.message;
                    self.removed.insert(RemovedEntry { client, dot });
                    dots.push(dot);
                    // One that has moved out of the group.
                    if let Some(message) = self.shared_with(of.value) {
                        self.dropped_shared(message);
                    }
                }
                (None, Value::Message(_)) => self.dropped_shared(of.message),
                (_, other) => self.fail(format!("{id} drops {other:?}")),
            }
        }
        if let Some(number) = number {
            self.wait_for_removal(dropped.by, number, dots);
        }
    }

    /// One event may drop messages for several reasons.
    fn wait_for_removal(&mut self, by: Dot, client: u8, dots: Vec<Dot>) {
        if let Some(Waiting::Remove { dots: others, .. }) = self.waiting.get_mut(&by) {
            others.extend(dots);
        } else {
            self.wait_for(by, Waiting::Remove { client, dots });
        }
    }

    /// No queue waits for its turn.
    pub(super) fn are_queues_limited(&self) -> Result<(), String> {
        for (id, machine) in &self.machines {
            let sessions = machine.sessions.as_ref().ok_or("it is down")?;
            let waiting = sessions.waiting_queues();
            if waiting > 0 {
                return Err(format!("{id} has {waiting} queues beyond their limits"));
            }
        }
        Ok(())
    }

    /// No queue is beyond its limits at any owner, but for what is on its way to a client.
    pub(super) fn check_queues(&self) -> Result<(), String> {
        for id in 1..=self.nodes {
            for number in (0..CLIENTS).chain(CONNECTING) {
                let place = QueuePlace {
                    slot: slot(number),
                    client: client(number),
                };
                let is_connected = self.sockets.values().any(|of| *of == number);
                self.check_queue(id, &place, is_connected)?;
            }
            for slot in part_slots().iter() {
                let client = group().key().clone();
                self.check_queue(id, &QueuePlace { slot, client }, false)?;
            }
        }
        Ok(())
    }

    fn check_queue(&self, id: u64, place: &QueuePlace, is_connected: bool) -> Result<(), String> {
        let mut limits = self.limited_queues.limits;
        if is_connected && limits != QueueLimits::NONE {
            limits.messages_max += PASSED_ON_MAX;
            limits.bytes_max = u64::MAX;
        }
        let size = self.queued_at(id, place);
        if size.is_beyond(&limits) {
            return Err(format!("{id} has {size:?} in {place:?} of {limits:?}"));
        }
        Ok(())
    }

    /// Messages of a queue that are not on their way, as a walk over it finds them; at the primary owner all of
    /// them.
    fn queued_at(&self, id: u64, place: &QueuePlace) -> QueueSize {
        let copy = self.machines[&id]
            .plane()
            .and_then(|plane| plane.copy(place.slot));
        let live = |kind: EntryKind| {
            let entries = copy
                .iter()
                .flat_map(move |copy| copy.entries.live(copy.covered, place.client.as_bytes(), kind));
            entries.collect::<Vec<(Dot, &Entry<Value>)>>()
        };
        let named = [EntryKind::Delivery, EntryKind::Assignment].map(live);
        let leaving = named
            .into_iter()
            .flatten()
            .filter_map(|(_, entry)| entry.fact.named());
        let leaving: BTreeSet<Dot> = leaving.collect();
        let is_primary = self.machines[&id]
            .plane()
            .is_some_and(|plane| plane.is_primary(place.slot));
        let is_race = |dot: Dot| !is_primary && self.is_removed_elsewhere(place, dot);
        let queued = live(EntryKind::Message).into_iter();
        let queued = queued.filter(|(dot, _)| !leaving.contains(dot) && !is_race(*dot));
        queued.fold(QueueSize::default(), |size, (_, entry)| QueueSize {
            messages: size.messages + 1,
            bytes: size.bytes + entry.value.queue_bytes(),
        })
    }

    /// Another copy has decided that a message is not for the client: it came beside its subscription. The primary
    /// owner does not have to have it, and it goes with the next merge.
    fn is_removed_elsewhere(&self, place: &QueuePlace, dot: Dot) -> bool {
        let planes = self.machines.values().filter_map(|machine| machine.plane());
        let mut copies = planes.filter_map(|plane| plane.copy(place.slot));
        copies.any(|copy| {
            let kind = EntryKind::Message;
            let session = copy.entries.session(place.client.as_bytes());
            let has_message = session.is_some_and(|session| session.get(EntryId { kind, dot }).is_some());
            copy.covered.covers(dot) && !has_message
        })
    }

    /// Sizes that copies keep are those that a walk over all entries finds.
    pub(super) fn check_sizes(&self) -> Result<(), String> {
        for (id, machine) in &self.machines {
            let Some(plane) = machine.plane() else { continue };
            for slot in machine.slots.iter().filter(|slot| *slot != Slot::RETAINED) {
                let sessions = plane.copy(slot).into_iter();
                for (client, session) in sessions.flat_map(|copy| copy.entries.sessions()) {
                    let messages = session.iter().filter(|(id, _)| id.kind == EntryKind::Message);
                    let walked = messages.fold(QueueSize::default(), |size, (_, entry)| QueueSize {
                        messages: size.messages + 1,
                        bytes: size.bytes + entry.value.queue_bytes(),
                    });
                    if session.queue_size() != walked {
                        let kept = session.queue_size();
                        return Err(format!("{id} keeps {kept:?} of {client:?}, which has {walked:?}"));
                    }
                }
            }
        }
        Ok(())
    }
}
