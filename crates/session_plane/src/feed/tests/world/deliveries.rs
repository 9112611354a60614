//! Packet ids in the world of a client: what each feed has told, what the node of the connection
//! knows, and the naive rule beside them.

use super::*;

/// Deliveries that were told of.
#[derive(Debug, Default)]
pub(super) struct Deliveries {
    /// By the owner whose feed is open.
    told: BTreeMap<usize, BTreeMap<Dot, KnownDelivery>>,
    /// Known to the node of the connection.
    known: BTreeMap<Dot, KnownDelivery>,
    /// Removed by the node of the connection.
    resumed: BTreeSet<Dot>,
}

fn change_all(known: &mut BTreeMap<Dot, KnownDelivery>, changes: &DeliveryChanges<Value>) {
    for dot in &changes.ended {
        known.remove(dot);
    }
    for dot in &changes.gone {
        if let Some(known) = known.get_mut(dot) {
            known.is_gone = true;
        }
    }
    for added in &changes.added {
        assert_eq!(added.value, added.dot.number);
        assert_ne!(added.dot.run, front(), "the connection knows its own");
        let before = known.insert(added.dot, added.known);
        assert_eq!(before, None, "{:?} is told twice", added.dot);
    }
}

impl Deliveries {
    pub(super) fn open(&mut self, owner: usize, named: &BTreeMap<Dot, KnownDelivery>) {
        self.told.insert(owner, named.clone());
    }

    pub(super) fn close(&mut self, owner: usize) {
        self.told.remove(&owner);
    }

    /// The node of the connection takes changes.
    pub(super) fn take(&mut self, changes: &DeliveryChanges<Value>) {
        change_all(&mut self.known, changes);
    }

    /// The deliveries of a message were told before the message.
    pub(super) fn check_told(&self, owner: usize, message: Dot, deliveries: &BTreeMap<Dot, Dot>) {
        let told = self.told.get(&owner).expect("a feed is open");
        for (delivery, of) in deliveries {
            let is_told = delivery.run == front() || told.contains_key(delivery);
            assert!(is_told || *of != message, "{delivery:?} is not told");
        }
    }
}

impl World {
    pub(super) fn assign(&mut self, run: u64, at: usize) {
        let messages: Vec<Dot> = self.published.iter().map(|key| key.dot).collect();
        if let Some(message) = messages.get(at % messages.len().max(1)).copied() {
            let change = self.change(run, Vec::new(), Some((Fact::Delivery { message }, 0)));
            self.tell(&change);
        }
    }

    pub(super) fn resume(&mut self, at: usize) {
        let known: Vec<Dot> = self.deliveries.known.keys().copied().collect();
        let Some(delivery) = known.get(at % known.len().max(1)).copied() else {
            return;
        };
        let Some(KnownDelivery { message, .. }) = self.deliveries.known.remove(&delivery) else {
            return;
        };
        self.deliveries.resumed.insert(delivery);
        let fact = Fact::Delivery { message };
        let change = self.change(FRONT_RUN, vec![delivery], Some((fact, 0)));
        self.hear(change.dot);
        self.tell(&change);
        let client = client(0);
        self.step_sink(SinkEvent::DeliveryEnded { client, delivery });
    }

    pub(super) fn free(&mut self, owner: usize, at: usize) {
        let deliveries = self.queues(owner).deliveries(&client(0));
        let deliveries: Vec<Dot> = deliveries.into_keys().collect();
        if let Some(delivery) = deliveries.get(at % deliveries.len().max(1)).copied() {
            let change = self.change(OWNER_RUN + owner as u64, vec![delivery], None);
            self.tell(&change);
            let last = self.owners[owner].inbox.len() - 1;
            self.take(owner, last);
        }
    }

    /// The owner takes a message without an entry, so its removal is told as well.
    pub(super) fn mismatch(&mut self, owner: usize, at: usize) {
        let of_message = |change: &Change<Value>| {
            let adds = change.adds.as_ref();
            adds.is_some_and(|entry| entry.fact == Fact::Message)
        };
        let inbox = &mut self.owners[owner].inbox;
        let messages: Vec<usize> = (0..inbox.len()).filter(|at| of_message(&inbox[*at])).collect();
        let Some(place) = messages.get(at % messages.len().max(1)).copied() else {
            return;
        };
        let mut change = inbox.remove(place);
        change.adds = None;
        let dot = change.dot;
        let of_dot = self.published.iter().filter(|key| key.dot == dot);
        self.expired.extend(of_dot.copied());
        self.take_change(owner, &change);
    }

    /// Tells the source of an owner what an event has changed, and what it has removed before it came.
    pub(super) fn tell_deliveries(
        &mut self,
        owner: usize,
        before: &BTreeMap<Dot, Dot>,
        change: &Change<Value>,
    ) {
        let by = change.dot;
        let after = self.queues(owner).deliveries(&client(0));
        for (delivery, message) in after.iter().filter(|(dot, _)| !before.contains_key(dot)) {
            let added = SourceEvent::DeliveryAdded {
                client: client(0),
                delivery: *delivery,
                message: *message,
            };
            self.step_source(owner, added);
        }
        let gone = before.keys().filter(|dot| !after.contains_key(dot));
        let lacked = change.removes.iter().filter(|dot| !before.contains_key(dot));
        for delivery in gone.chain(lacked).copied() {
            let client = client(0);
            self.step_source(owner, SourceEvent::DeliveryRemoved { client, delivery, by });
        }
    }

    /// Takes note of what a feed tells. A message that is told to be gone is gone.
    pub(super) fn note_told(&mut self, owner: usize, changes: &DeliveryChanges<Value>) {
        let mut told = self.deliveries.told.remove(&owner).expect("a feed is open");
        change_all(&mut told, changes);
        let added = changes.added.iter().filter(|added| added.known.is_gone);
        for delivery in changes.gone.iter().copied().chain(added.map(|added| added.dot)) {
            let message = told.get(&delivery).expect("it was told").message;
            assert!(self.is_gone(owner, message), "{message:?} is not gone");
        }
        self.deliveries.told.insert(owner, told);
    }

    /// What a feed has told is what the owner's copy has, beside what the copy lacks.
    pub(super) fn check_deliveries(&self, owner: usize) {
        let source = &self.owners[owner].source;
        let is_open = source.len() == 1 && source.waiting() == 0;
        let Some(told) = self.deliveries.told.get(&owner).filter(|_| is_open) else {
            return;
        };
        self.assert_naive(owner, told);
    }

    #[track_caller]
    pub(crate) fn assert_deliveries_known(&self) {
        for owner in 0..OWNERS {
            self.assert_naive(owner, &self.deliveries.known);
            let told = self.deliveries.known.keys();
            let deliveries = self.queues(owner).deliveries(&client(0));
            assert!(told.eq(deliveries.keys().filter(|dot| dot.run != front())));
        }
    }

    #[track_caller]
    fn assert_naive(&self, owner: usize, told: &BTreeMap<Dot, KnownDelivery>) {
        let queues = self.queues(owner);
        let deliveries = queues.deliveries(&client(0));
        let is_due = |dot: &Dot| dot.run != front() && !self.deliveries.resumed.contains(dot);
        for delivery in deliveries.keys().filter(|dot| is_due(dot)) {
            assert!(told.contains_key(delivery), "{delivery:?} is not told");
        }
        for (delivery, known) in told.iter().filter(|(dot, _)| is_due(dot)) {
            let is_there = deliveries.contains_key(delivery);
            assert!(
                is_there || !queues.covers(&client(0), *delivery),
                "{delivery:?} has ended"
            );
            assert!(
                known.is_gone || !self.is_gone(owner, known.message),
                "{known:?} is not told"
            );
        }
    }

    /// The naive rule: the copy covers the message and has no entry of it.
    fn is_gone(&self, owner: usize, message: Dot) -> bool {
        let queues = self.queues(owner);
        queues.covers(&client(0), message) && !queues.is_queued(&client(0), message)
    }
}
