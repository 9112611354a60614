//! Knows what was promised, and compares it with what clients saw.

use std::collections::{BTreeMap, BTreeSet};

use super::message::{Numbered, Retaining};

/// Wall and counter of a key's version.
pub(super) type KeyVersion = (u64, u64);

/// What all clients together know.
#[derive(Debug, Default)]
pub(super) struct Oracle {
    acknowledged: BTreeSet<Numbered>,
    /// How often each subscriber got each message.
    delivered: BTreeMap<(usize, Numbered), u64>,
    /// The highest number that a subscriber got of a publisher, by QoS.
    highest: BTreeMap<(usize, String, bool), u64>,
    /// How often sharers got each message: those that stay, and the others.
    shared: BTreeMap<Numbered, (u64, u64)>,
    /// Messages that were sent again, and may have been refused before: while memory is scarce these come late.
    resent: BTreeSet<Numbered>,
    keys: BTreeMap<String, Key>,
    /// Topics whose retained message was acknowledged, and what became of it.
    retained: BTreeMap<String, Clearing>,
}

/// How far the clearing of a retained message is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Clearing {
    NotAsked,
    Asked,
    Acknowledged,
}

#[derive(Debug, Default)]
struct Key {
    /// Values that somebody asked to be set.
    sent: BTreeSet<String>,
    /// Versions that somebody was told, with their values.
    known: BTreeMap<KeyVersion, String>,
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
        let count = self.delivered.entry((subscriber, message.clone())).or_default();
        *count += 1;
        if message.is_exactly_once && *count > 1 {
            return Err(format!(
                "Q2: subscriber {subscriber} got {message:?} {count} times"
            ));
        }
        if *count > 1 {
            return Ok(());
        }
        let line = (subscriber, message.publisher.clone(), message.is_exactly_once);
        let highest = self.highest.entry(line).or_default();
        if *highest > message.number && !self.resent.contains(message) {
            return Err(format!(
                "Q3: subscriber {subscriber} got {message:?} after {highest}"
            ));
        }
        *highest = message.number.max(*highest);
        Ok(())
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

    /// Somebody asks for a key to be set.
    pub(super) fn sent(&mut self, key: &str, value: &str) {
        self.keys
            .entry(key.to_owned())
            .or_default()
            .sent
            .insert(value.to_owned());
    }

    /// The highest version of a key that anybody was told.
    pub(super) fn known(&self, key: &str) -> KeyVersion {
        let known = self.keys.get(key).and_then(|key| key.known.last_key_value());
        known.map_or((0, 0), |(version, _)| *version)
    }

    /// L1: a version has one value.
    pub(super) fn written(&mut self, key: &str, version: KeyVersion, value: &str) -> Result<(), String> {
        let known = self.keys.entry(key.to_owned()).or_default();
        match known.known.insert(version, value.to_owned()) {
            Some(other) if other != value => Err(format!(
                "L1: {key} has version {version:?} for both {other} and {value}"
            )),
            _ => Ok(()),
        }
    }

    /// L1: a read sees what was acknowledged before it was asked, or something newer that somebody sent.
    pub(super) fn read(
        &mut self,
        key: &str,
        known: KeyVersion,
        version: Option<KeyVersion>,
        payload: &[u8],
    ) -> Result<(), String> {
        let Some(version) = version else {
            let is_missing = payload == b"$-1\r\n";
            return if is_missing && known == (0, 0) {
                Ok(())
            } else {
                Err(format!(
                    "L1: {key} is missing after version {known:?} was acknowledged"
                ))
            };
        };
        if version < known {
            return Err(format!(
                "L1: {key} was read at {version:?} after {known:?} was acknowledged"
            ));
        }
        let text = String::from_utf8_lossy(payload);
        let value = text.split("\r\n").nth(1).unwrap_or_default().to_owned();
        if !self.keys.get(key).is_some_and(|key| key.sent.contains(&value)) {
            return Err(format!("L1: {key} was read as {value}, which nobody sent"));
        }
        self.written(key, version, &value)
    }

    /// A retained message was set, or cleared, and the publisher knows it.
    pub(super) fn retained(&mut self, retaining: Retaining) {
        match retaining {
            Retaining::Set(topic) => self.retained.insert(topic, Clearing::NotAsked),
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

    /// Q1: when everything is quiet, everything acknowledged has arrived.
    pub(super) fn check(&self) -> Result<(), String> {
        for message in &self.acknowledged {
            if !self.shared.contains_key(message) {
                return Err(format!(
                    "Q4: no sharer ever got {message:?}, which was acknowledged"
                ));
            }
            for subscriber in 0..super::SUBSCRIBERS {
                if !self.delivered.contains_key(&(subscriber, message.clone())) {
                    return Err(format!(
                        "Q1: subscriber {subscriber} never got {message:?}, which was acknowledged"
                    ));
                }
            }
        }
        Ok(())
    }
}
