//! Wills waiting for their Will Delay Interval to pass.
//!
//! A will comes here when its connection has ended without a DISCONNECT that removes it. It is published when its delay
//! has passed or the session ends, whichever is first, and not at all if the client is back before. Who keeps the will
//! while the client is connected is the caller's business.
//!
//! A node that does not know yet whether its sessions are still its own holds wills back: nothing is due until it knows.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use protocol::packet::Will;

use crate::ids::SessionKey;
use crate::memory::footprint::{block, properties, text};
use crate::message::{self, Message};
use crate::now::Now;
use crate::timers::Timers;

/// What happens to sessions that have a will.
#[derive(Debug)]
pub enum Event {
    /// The client is back, in the same session.
    Connected {
        /// Whose session.
        session: SessionKey,
    },
    /// Its connection ended and its will is to be published, after the delay that the will names.
    ConnectionLost {
        /// Whose session.
        session: SessionKey,
        /// Its will.
        will: Box<Will>,
        /// When the session ends if the client does not come back.
        session_expires_in: Duration,
    },
    /// Another node has gone on with the session: its will is that node's business.
    Elsewhere {
        /// Whose session.
        session: SessionKey,
    },
    /// The session has ended: expired, or discarded by a clean start.
    SessionEnded {
        /// Which.
        session: SessionKey,
    },
    /// The deadline has come.
    Timeout,
}

/// What is to be done.
#[derive(Debug, PartialEq, Eq)]
pub enum Action {
    /// Publish a will.
    Publish {
        /// Whose.
        session: SessionKey,
        /// The message.
        will: Box<Will>,
    },
}

/// A will whose time has come, as the message that it is.
#[derive(Debug)]
pub struct DueWill {
    /// Whose, if that is here.
    pub session: Option<SessionKey>,
    /// The message to be published.
    pub message: Arc<Message>,
}

/// Wills that are published in one turn because their time has come.
const PUBLISHED_AT_ONCE: usize = 128;

/// Wills waiting for their Will Delay Interval to pass.
#[derive(Debug, Default)]
pub struct PendingWills {
    wills: BTreeMap<SessionKey, Box<Will>>,
    due: Timers<SessionKey>,
    bytes: u64,
    is_holding_back: bool,
}

impl PendingWills {
    /// Takes one event.
    pub fn step(&mut self, now: Now, event: Event, actions: &mut Vec<Action>) {
        match event {
            // A connection to the same session before the delay has passed: the will is not sent. [MQTT-3.1.3-9]
            Event::Connected { session } => {
                // It was held back after its delay.
                if self.due.get(session).is_some_and(|at| at <= now.instant) {
                    self.publish(session, actions);
                }
                self.take(session);
                self.due.cancel(session);
            }
            Event::Elsewhere { session } => {
                self.take(session);
                self.due.cancel(session);
            }
            Event::ConnectionLost {
                session,
                will,
                session_expires_in,
            } => {
                let delay = Duration::from_secs(u64::from(will.delay.unwrap_or(0))).min(session_expires_in);
                if delay.is_zero() && !self.is_holding_back {
                    actions.push(Action::Publish { session, will });
                    return;
                }
                self.bytes += memory(&will);
                let replaced = self.wills.insert(session, will);
                assert!(replaced.is_none(), "session lost its connection twice");
                self.due.schedule(session, now.after(delay));
            }
            // The session's end comes before the delay has passed. (section 3.1.2.5)
            Event::SessionEnded { session } => {
                self.due.cancel(session);
                self.publish(session, actions);
            }
            Event::Timeout => {
                if self.is_holding_back {
                    return;
                }
                // The others have their deadline, too, and come in the next turn.
                let due = (0..PUBLISHED_AT_ONCE).map_while(|_| self.due.due(now.instant));
                for session in due.collect::<Vec<_>>() {
                    self.publish(session, actions);
                }
            }
        }
    }

    /// Whether wills are held back from now on, whose delay has passed. Those of sessions that end are not.
    pub fn hold_back(&mut self, is_holding_back: bool) {
        self.is_holding_back = is_holding_back;
    }

    /// When the owner must next call `step` with [`Event::Timeout`].
    pub fn deadline(&self) -> Option<Instant> {
        self.due.next()
    }

    /// The will of a session that waits for its delay.
    pub fn get(&self, session: SessionKey) -> Option<&Will> {
        self.wills.get(&session).map(|will| &**will)
    }

    /// How many wills wait.
    pub fn len(&self) -> usize {
        self.wills.len()
    }

    /// Their memory.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// True if none waits.
    pub fn is_empty(&self) -> bool {
        self.wills.is_empty()
    }

    fn publish(&mut self, session: SessionKey, actions: &mut Vec<Action>) {
        if let Some(will) = self.take(session) {
            actions.push(Action::Publish { session, will });
        }
    }

    fn take(&mut self, session: SessionKey) -> Option<Box<Will>> {
        let will = self.wills.remove(&session)?;
        self.bytes -= memory(&will);
        Some(will)
    }
}

/// The same in memory of its own: it stays for long after the packet it came in.
pub fn detached(will: &Will) -> Will {
    Will {
        topic: will.topic.detached(),
        payload: Bytes::copy_from_slice(&will.payload),
        properties: message::detached_properties(&will.properties),
        ..will.clone()
    }
}

/// The memory of a will.
pub fn memory(will: &Will) -> u64 {
    block(size_of::<Will>())
        + text(will.topic.text())
        + block(will.payload.len())
        + properties(&will.properties)
}

/// What a will counts for where bytes are limited: as much as its message.
pub fn size(will: &Will) -> u64 {
    message::size(will.topic.as_str(), &will.payload, &will.properties) as u64
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use protocol::packet::QoS;
    use protocol::properties::MessageProperties;
    use protocol::{Text, TopicName};

    use super::*;
    use crate::now::epoch;

    const S: SessionKey = SessionKey(3);

    /// Plays events at seconds and returns at which second the will was published.
    fn published_at(events: Vec<(u64, Event)>) -> Vec<u64> {
        let (t0, mut wills, mut actions, mut published) = (epoch(), PendingWills::default(), vec![], vec![]);
        for (second, event) in events {
            let now = Now {
                instant: t0 + Duration::from_secs(second),
                wall: second * 1_000,
                system_wall: second * 1_000,
            };
            wills.step(now, event, &mut actions);
            published.extend(actions.drain(..).map(|_| second));
        }
        assert!(wills.is_empty() && wills.deadline().is_none());
        published
    }

    fn lost(delay: u32, session_expires_in: u64) -> Event {
        let will = Will {
            topic: TopicName::parse(Text::from_static("will")).unwrap(),
            payload: Bytes::new(),
            qos: QoS::AtLeastOnce,
            retain: false,
            delay: Some(delay),
            properties: MessageProperties::default(),
        };
        let session_expires_in = Duration::from_secs(session_expires_in);
        Event::ConnectionLost {
            session: S,
            will: Box::new(will),
            session_expires_in,
        }
    }

    #[test]
    fn mqtt_3_1_2_8_a_will_without_delay_is_published_at_once() {
        assert_eq!(published_at(vec![(0, lost(0, 60)), (1, Event::Timeout)]), [0]);
    }

    #[test]
    fn mqtt_3_1_3_9_reconnect_cancels_the_delayed_will() {
        assert_eq!(
            published_at(vec![
                (0, lost(5, 60)),
                (4, Event::Connected { session: S }),
                (5, Event::Timeout)
            ]),
            []
        );
    }

    #[test]
    fn a_delayed_will_is_published_when_the_delay_has_passed() {
        assert_eq!(
            published_at(vec![(0, lost(5, 60)), (4, Event::Timeout), (5, Event::Timeout)]),
            [5]
        );
    }

    #[test]
    fn a_will_that_is_held_back_is_published_later_unless_another_node_has_the_session() {
        let now = |second| Now {
            instant: epoch() + Duration::from_secs(second),
            wall: second * 1_000,
            system_wall: second * 1_000,
        };
        for (event, is_published) in [
            (Event::Timeout, true),
            (Event::Connected { session: S }, true),
            (Event::SessionEnded { session: S }, true),
            (Event::Elsewhere { session: S }, false),
        ] {
            let (mut wills, mut actions) = (PendingWills::default(), vec![]);
            wills.hold_back(true);
            wills.step(now(0), lost(0, 60), &mut actions);
            wills.step(now(1), Event::Timeout, &mut actions);
            assert!(actions.is_empty());
            assert!(wills.get(S).is_some(), "it is written with its session");
            wills.hold_back(false);
            wills.step(now(2), event, &mut actions);
            assert_eq!(actions.len(), usize::from(is_published));
            assert!(wills.is_empty() && wills.bytes() == 0);
        }
    }

    #[test]
    fn a_delay_longer_than_the_session_ends_with_the_session() {
        assert_eq!(published_at(vec![(0, lost(60, 5)), (5, Event::Timeout)]), [5]);
        assert_eq!(published_at(vec![(0, lost(60, 0)), (5, Event::Timeout)]), [0]);
        assert_eq!(
            published_at(vec![(0, lost(60, 50)), (2, Event::SessionEnded { session: S })]),
            [2]
        );
    }
}
