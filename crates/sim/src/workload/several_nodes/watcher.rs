//! A client that watches keys, and remembers what it was notified of.

use std::collections::BTreeMap;

use bytes::Bytes;
use cluster::random::Random;
use protocol::Packet;
use protocol::packet::Publish;
use protocol::state_store::topics::notified_key;

use super::super::client::Client;
use super::super::keeper::version;
use crate::machine::Machine;
use crate::promises::l3::{Change, Notifications, Watch};
use crate::transcript;

/// A client that watches keys.
#[derive(Debug)]
pub(super) struct Watcher {
    pub(super) client: Client,
    /// Its node.
    pub(super) node: usize,
    /// Which of its connections it has.
    connection: u64,
    next_request: u64,
    /// Registrations that were not answered.
    asked: BTreeMap<Bytes, String>,
    /// The defect: some notifications do not arrive.
    is_deaf: bool,
    heard: u64,
}

/// What there is to watch.
const KEYS: [&str; 9] = [
    "key0", "key1", "key2", "lease0", "lease1", "lease2", "fenced0", "fenced1", "fenced2",
];

/// One of so many connections of a watcher takes only packets of so many bytes: responses and deletions fit, a SET does not.
/// The server then has to end the connection, and not to leave out the notification.
const SMALL_EVERY: u64 = 4;
const SMALL: u32 = 200;

/// One of so many notifications is lost on its way to one that is deaf.
const DEAF_EVERY: u64 = 40;

impl Watcher {
    pub(super) fn new(name: String, node: usize, is_deaf: bool) -> Self {
        Self {
            client: Client::watcher(name),
            node,
            connection: 0,
            next_request: 0,
            asked: BTreeMap::new(),
            is_deaf,
            heard: 0,
        }
    }

    /// Registers for a key, or, rarely, ends a registration.
    pub(super) fn act(
        &mut self,
        machine: &mut Machine,
        at: u64,
        random: &mut Random,
        notifications: &mut Notifications,
    ) {
        let key = KEYS[random.between(0, KEYS.len())];
        let stops = random.between(0, 20) == 0;
        if !self.client.is_connected() || self.asked.len() >= KEYS.len() {
            return;
        }
        self.next_request += 1;
        let mut arguments = vec!["KEYNOTIFY", key];
        if stops {
            arguments.push("STOP");
            notifications.stopping(at, &self.watch(key));
        }
        let now = machine.now();
        let Packet::Publish(mut publish) = transcript::request(&self.client.name, now, 1, &arguments) else {
            return;
        };
        let correlation = Bytes::copy_from_slice(&self.next_request.to_be_bytes());
        publish.properties.correlation_data = Some(correlation.clone());
        if !stops {
            self.asked.insert(correlation, key.to_owned());
        }
        self.client.request(machine, *publish);
    }

    /// Connects if it is not, and reads what it was sent. True if there was something.
    pub(super) fn listen(
        &mut self,
        machine: &mut Machine,
        at: u64,
        notifications: &mut Notifications,
    ) -> Result<bool, String> {
        let is_small = (self.connection + 1).is_multiple_of(SMALL_EVERY);
        self.client.take_at_most(is_small.then_some(SMALL));
        if self.client.connect(machine) {
            self.begin_anew(at, notifications);
        }
        let heard = self.client.listen(machine)?;
        for publish in heard.others {
            match notified_key(publish.topic.as_str(), &self.client.name) {
                Some(key) => self.notified(&String::from_utf8_lossy(&key), &publish, notifications)?,
                None => self.answered(at, &publish, notifications),
            }
        }
        Ok(heard.is_anything)
    }

    /// Its node takes over the store of another one.
    pub(super) fn skip(&self, notifications: &mut Notifications) {
        notifications.skipped(&self.client.name, self.connection);
    }

    /// Its connection is gone, or its node.
    pub(super) fn cut(&mut self, at: u64, notifications: &mut Notifications) {
        self.client.cut();
        self.begin_anew(at, notifications);
    }

    /// Which connection knows nothing of the one before.
    fn begin_anew(&mut self, at: u64, notifications: &mut Notifications) {
        notifications.ended(at, &self.client.name, self.connection);
        self.connection += 1;
        self.asked.clear();
        self.client.give_up();
    }

    fn answered(&mut self, at: u64, response: &Publish, notifications: &mut Notifications) {
        let correlation = response.properties.correlation_data.clone().unwrap_or_default();
        if let Some(key) = self.asked.remove(&correlation)
            && response.payload.starts_with(b"+OK")
        {
            notifications.registered(at, self.watch(&key));
        }
    }

    fn notified(
        &mut self,
        key: &str,
        publish: &Publish,
        notifications: &mut Notifications,
    ) -> Result<(), String> {
        self.heard += 1;
        if self.is_deaf && self.heard.is_multiple_of(DEAF_EVERY) {
            return Ok(());
        }
        let mut properties = publish.properties.user_properties.iter();
        let text = properties.find(|(name, _)| *name == "__ts").map(|(_, text)| text);
        let version = version(text.ok_or("a notification has no version")?)?;
        let change = if publish.payload.starts_with(b"*4") {
            Change::Set
        } else {
            Change::Delete
        };
        notifications.notified(self.watch(key), version, change)
    }

    fn watch(&self, key: &str) -> Watch {
        (self.client.name.clone(), self.connection, key.to_owned())
    }
}
