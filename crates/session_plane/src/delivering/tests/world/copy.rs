//! Copy of a client's slot by the merge rule: its entries, and the events that it covers.

use crate::delivering::tests::*;

/// Event that changes a client's entries.
#[derive(Debug, Clone)]
pub(super) struct Event {
    pub(super) client: usize,
    pub(super) dot: Dot,
    pub(super) removes: Vec<Dot>,
    pub(super) adds: Option<Fact>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fact {
    Message { clock: Hlc },
    Delivery { message: Dot, delivery: PacketDelivery },
}

#[derive(Debug, Clone, Default)]
pub(super) struct Copy {
    pub(super) entries: BTreeMap<Dot, Fact>,
    pub(super) covered: BTreeSet<Dot>,
}

impl Copy {
    pub(super) fn apply(&mut self, event: &Event) {
        let is_new = self.covered.insert(event.dot);
        for removed in &event.removes {
            self.entries.remove(removed);
            self.covered.insert(*removed);
        }
        if let Some(fact) = event.adds.filter(|_| is_new) {
            self.entries.insert(event.dot, fact);
        }
    }

    pub(super) fn merged(mut self, other: Copy) -> Copy {
        let is_kept = |copy: &Copy, dot: &Dot| copy.entries.contains_key(dot) || !copy.covered.contains(dot);
        self.entries.retain(|dot, _| is_kept(&other, dot));
        let mut of_other = other.entries;
        of_other.retain(|dot, _| is_kept(&self, dot));
        self.entries.extend(of_other);
        self.covered.extend(other.covered);
        self
    }

    pub(super) fn messages(&self) -> impl Iterator<Item = QueueKey> {
        self.entries.iter().filter_map(|(dot, fact)| match fact {
            Fact::Message { clock } => Some(QueueKey {
                clock: *clock,
                dot: *dot,
            }),
            Fact::Delivery { .. } => None,
        })
    }

    /// Deliveries with the messages that they name.
    pub(super) fn deliveries(&self) -> impl Iterator<Item = FeedDelivery<PacketDelivery>> {
        self.entries.iter().filter_map(|(dot, fact)| match fact {
            Fact::Message { .. } => None,
            Fact::Delivery { message, delivery } => Some(FeedDelivery {
                dot: *dot,
                known: KnownDelivery {
                    message: *message,
                    is_gone: false,
                },
                value: *delivery,
            }),
        })
    }

    /// The message is in no queue that this copy has decided upon.
    pub(super) fn has_removed(&self, dot: Dot) -> bool {
        self.covered.contains(&dot) && !self.entries.contains_key(&dot)
    }
}
