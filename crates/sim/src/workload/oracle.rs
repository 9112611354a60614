//! Knows what was promised, and compares it with what clients saw.

use std::collections::{BTreeMap, BTreeSet};

use super::message::{Numbered, Retaining};
use crate::history::{MILLISECOND, Tolerance};
use crate::promises::l1::Histories;
use crate::promises::{l2, q1, q2, q3};

/// One server has one clock, of whole milliseconds.
const ONE_NODE: Tolerance = Tolerance {
    early: MILLISECOND,
    late: MILLISECOND,
};

/// What all clients together know.
#[derive(Debug, Default)]
pub(super) struct Oracle {
    acknowledged: BTreeSet<Numbered>,
    received: [Received; super::SUBSCRIBERS],
    /// How often sharers got each message: those that stay, and the others.
    shared: BTreeMap<Numbered, (u64, u64)>,
    /// Messages that were sent again, and may have been refused before: while memory is scarce these come late.
    resent: BTreeSet<Numbered>,
    /// What was asked of the state store.
    pub(super) histories: Histories,
    /// Topics whose retained message was acknowledged, and what became of it.
    retained: BTreeMap<String, Clearing>,
}

/// What a subscriber got.
#[derive(Debug, Default)]
struct Received {
    delivered: q2::Delivered<Numbered>,
    /// Of each publisher, by QoS.
    order: q3::Order<(String, bool)>,
}

/// How far the clearing of a retained message is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Clearing {
    NotAsked,
    Asked,
    Acknowledged,
}

impl Oracle {
    /// The publisher knows that the server has the message.
    pub(super) fn acknowledged(&mut self, message: Numbered) {
        self.acknowledged.insert(message);
    }

    /// A message was sent again while memory was scarce: if it was refused before, its order is that of this time.
    pub(super) fn resent(&mut self, message: Numbered) {
        self.resent.insert(message);
    }

    /// Q2 and Q3, as far as they can be seen at once.
    pub(super) fn delivered(&mut self, subscriber: usize, message: &Numbered) -> Result<(), String> {
        let name = format!("subscriber {subscriber}");
        let received = &mut self.received[subscriber];
        if !received.delivered.note(&name, message, message.is_exactly_once)? {
            return Ok(());
        }
        let line = (message.publisher.clone(), message.is_exactly_once);
        let may_be_late = self.resent.contains(message);
        received.order.first(&name, (&line, message.number), may_be_late)
    }

    /// Q4: a QoS 2 message reaches one of the sharers who keep their sessions, once.
    pub(super) fn shared(&mut self, message: &Numbered, stays: bool) -> Result<(), String> {
        let (staying, leaving) = self.shared.entry(message.clone()).or_default();
        *(if stays { &mut *staying } else { leaving }) += 1;
        if message.is_exactly_once && *staying > 1 {
            return Err(format!("Q4: {message:?} was shared out {staying} times"));
        }
        Ok(())
    }

    /// A retained message was set, or cleared, and the publisher knows it.
    pub(super) fn retained(&mut self, retaining: Retaining) {
        match retaining {
            Retaining::Set(topic) | Retaining::SetAgain(topic) => {
                self.retained.insert(topic, Clearing::NotAsked)
            }
            Retaining::Clear(topic) => self.retained.insert(topic, Clearing::Acknowledged),
        };
    }

    /// A topic with a retained message that is to be cleared now: the `nth` that is not known to be.
    pub(super) fn clear(&mut self, nth: usize) -> Option<String> {
        let mut present = self
            .retained
            .iter_mut()
            .filter(|(_, clearing)| **clearing != Clearing::Acknowledged);
        let (topic, clearing) = present.nth(nth)?;
        *clearing = (*clearing).max(Clearing::Asked);
        Some(topic.clone())
    }

    /// F1 for retained messages: what was cleared is gone, what was not is there. `seen`: topics that have one.
    pub(super) fn check_retained(&self, seen: &BTreeSet<String>) -> Result<(), String> {
        for (topic, clearing) in &self.retained {
            match (clearing, seen.contains(topic)) {
                (Clearing::Acknowledged, true) => {
                    return Err(format!(
                        "F1: the retained message of {topic} was cleared, and is back"
                    ));
                }
                (Clearing::NotAsked, false) => {
                    return Err(format!("F1: the retained message of {topic} is lost"));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// When everything is quiet: Q1, everything acknowledged has arrived.
    pub(super) fn check(&self) -> Result<(), String> {
        l2::check(&self.histories)?;
        self.histories.check(ONE_NODE)?;
        for message in &self.acknowledged {
            if !self.shared.contains_key(message) {
                return Err(format!(
                    "Q4: no sharer ever got {message:?}, which was acknowledged"
                ));
            }
        }
        for (number, received) in self.received.iter().enumerate() {
            let acknowledged = self.acknowledged.iter().cloned();
            q1::check(
                format!("subscriber {number}"),
                acknowledged,
                received.delivered.all(),
            )?;
        }
        Ok(())
    }
}
