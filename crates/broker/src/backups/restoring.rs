//! What comes back from a backup.

use std::collections::BTreeMap;

use cluster::GroupId;
use mqtt::now::Now;
use mqtt::records;
use store::{CommandAction, Outcome};

use super::{Item, RetainedItem, SessionItem, Tally};
use crate::administration::ImageSource;
use crate::carried_sessions::Carried;
use crate::node::{Action, Node};
use crate::publishing::Keeping;
use crate::replication::Waiter;

/// Questions whose items are on their way.
#[derive(Debug, Default)]
pub(crate) struct Restorations(BTreeMap<u64, Restoration>);

#[derive(Debug)]
struct Restoration {
    /// Items that are not decided yet; one more while the items are gone through.
    left: u64,
    tally: Tally,
}

impl Node {
    /// An operator wants an image of a group.
    pub(crate) fn freeze(
        &mut self,
        now: Now,
        question: u64,
        (group, source): (GroupId, ImageSource),
        actions: &mut Vec<Action>,
    ) {
        if self.groups.get(group).is_none() {
            let image = None;
            return actions.push(Action::Frozen { question, image });
        }
        self.with_group(now, group, actions, |service, outputs| match source {
            ImageSource::Leader => service.freeze(now, question, outputs),
            ImageSource::Own => service.freeze_own(question, outputs),
        });
    }

    /// An operator wants items put back. It is answered when all of them are decided, and what is back is on disk.
    pub(crate) fn restore(&mut self, now: Now, question: u64, items: Vec<Item>, actions: &mut Vec<Action>) {
        let restoration = Restoration {
            left: 1,
            tally: Tally::default(),
        };
        self.restorations.0.insert(question, restoration);
        for item in items {
            match item {
                Item::Floor(floor) => {
                    for group in self.groups.ids() {
                        let action = CommandAction::RaiseFloor { floor };
                        self.put_back(now, question, (group, action), actions);
                    }
                }
                Item::Key(record) => {
                    let group = self.groups.of_key(&record.key);
                    let action = CommandAction::Reinstate { record };
                    self.put_back(now, question, (group, action), actions);
                }
                Item::Retained(item) => self.put_back_retained(now, question, item, actions),
                Item::Session(item) => self.put_back_session(now, question, item, actions),
            }
        }
        self.item_decided(question, |_| {}, actions);
    }

    fn put_back(
        &mut self,
        now: Now,
        question: u64,
        (group, action): (GroupId, CommandAction),
        actions: &mut Vec<Action>,
    ) {
        self.one_more(question);
        self.with_group(now, group, actions, |service, outputs| {
            service.put_back(now, question, action, outputs);
        });
    }

    /// The log has decided about a key.
    pub(crate) fn put_back_ended(
        &mut self,
        question: u64,
        outcome: Option<Outcome>,
        actions: &mut Vec<Action>,
    ) {
        let count = |tally: &mut Tally| match outcome {
            Some(Outcome::Stored { .. } | Outcome::Done) => tally.restored += 1,
            Some(Outcome::ConditionFailed { .. }) => tally.there += 1,
            Some(Outcome::Missing) => tally.over += 1,
            Some(Outcome::Refused(_)) => tally.refused += 1,
            _ => tally.in_doubt += 1,
        };
        self.item_decided(question, count, actions);
    }

    fn put_back_retained(&mut self, now: Now, question: u64, item: RetainedItem, actions: &mut Vec<Action>) {
        let Ok(record) = records::retained::decode(&item.topic, item.value, now) else {
            return self.count(question, |tally| tally.unreadable += 1);
        };
        let Some(message) = record.message.filter(|message| message.retain) else {
            return self.count(question, |tally| tally.unreadable += 1);
        };
        let topic = message.topic.as_str();
        if self.retained.get(topic, now).is_some() || super::is_own(topic) {
            return self.count(question, |tally| tally.there += 1);
        }
        if message.is_expired(now) {
            return self.count(question, |tally| tally.over += 1);
        }
        if self.is_memory_full() || !self.has_room_for_topic(&message.topic, message.size()) {
            return self.count(question, |tally| tally.refused += 1);
        }
        let message = message.detached().counted(&self.memory.messages);
        let awaited = self.publish_message(now, message, Keeping::Durable, actions);
        self.one_more(question);
        self.after(now, &awaited, Waiter::Restored { question }, actions);
    }

    fn put_back_session(&mut self, now: Now, question: u64, item: SessionItem, actions: &mut Vec<Action>) {
        let has_room = self.replication.sessions_len() < self.config.limits.sessions_max as usize;
        let is_there = self.replication.has_session(&item.client_id);
        if !is_there && (!has_room || self.is_memory_full()) {
            return self.count(question, |tally| tally.refused += 1);
        }
        match self.carry_session(now, item, actions) {
            Err(_) => self.count(question, |tally| tally.unreadable += 1),
            Ok(Carried::IsThere) => self.count(question, |tally| tally.there += 1),
            Ok(Carried::IsOver) => self.count(question, |tally| tally.over += 1),
            Ok(Carried::HasNoRoom) => self.count(question, |tally| tally.refused += 1),
            Ok(Carried::PutIn(awaited)) => {
                self.one_more(question);
                self.after(now, &awaited, Waiter::Restored { question }, actions);
            }
        }
    }

    /// What was put back is on disk, wherever it has to be.
    pub(crate) fn item_restored(&mut self, question: u64, actions: &mut Vec<Action>) {
        self.item_decided(question, |tally| tally.restored += 1, actions);
    }

    fn one_more(&mut self, question: u64) {
        if let Some(restoration) = self.restorations.0.get_mut(&question) {
            restoration.left += 1;
        }
    }

    fn count(&mut self, question: u64, count: impl FnOnce(&mut Tally)) {
        if let Some(restoration) = self.restorations.0.get_mut(&question) {
            count(&mut restoration.tally);
        }
    }

    fn item_decided(&mut self, question: u64, count: impl FnOnce(&mut Tally), actions: &mut Vec<Action>) {
        let Some(restoration) = self.restorations.0.get_mut(&question) else {
            return;
        };
        count(&mut restoration.tally);
        restoration.left -= 1;
        if restoration.left == 0 {
            let tally = restoration.tally;
            self.restorations.0.remove(&question);
            actions.push(Action::Restored { question, tally });
        }
    }
}
