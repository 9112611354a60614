//! A client that sends one request after the other, each to any node until it is answered.

use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::Context;
use bytes::Bytes;
use client::Hlc;
use client::protocol::packet::{Packet, PacketId, Publish, QoS};
use client::protocol::properties::{MessageProperties, UserProperties};
use client::protocol::state_store::properties::{
    FENCING_TOKEN, PROTOCOL_VERSION, PROTOCOL_VERSION_VALUE, TIMESTAMP,
};
use client::protocol::state_store::topics::{notified_key, response_topic};
use client::protocol::state_store::{ErrorText, INVOKE_TOPIC, Notification, Reply, Request, RequestKind};
use client::protocol::{Text, TopicName};

use super::Shared;
use super::log::{Answer, Asked};
use crate::bench::clock;
use crate::bench::random::Random;
use crate::bench::wire::{AckKind, SessionEnd, Target, Wire};

/// The client.
pub(super) struct Caller {
    pub(super) shared: Rc<Shared>,
    client_id: String,
    /// Sends again what was not answered. Whoever does not, never knows whether it was executed.
    is_patient: bool,
    response_topic: TopicName,
    /// Place of the node that it uses.
    node: usize,
    wire: Option<Wire>,
    packet_id: u16,
    correlation: u64,
    /// Notifications that came, until somebody asks for them.
    notified: Vec<Notified>,
}

/// A key changed.
#[derive(Debug)]
pub(super) struct Notified {
    pub(super) at: Instant,
    pub(super) key: Vec<u8>,
    pub(super) change: Notification,
    pub(super) version: Hlc,
}

/// How a request ended.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) invoked: Instant,
    pub(super) now: Instant,
    /// Nothing: nobody knows.
    pub(super) answer: Option<Answer>,
}

/// One attempt that failed; the next one goes elsewhere.
#[derive(Debug)]
struct Lost;

impl Caller {
    /// Each begins with another node.
    pub(super) fn new(kind: &str, number: u32, shared: &Rc<Shared>) -> anyhow::Result<Self> {
        let client_id = format!("{}-{kind}-{number}", shared.name.replace(':', "-"));
        let topic = response_topic(&client_id).context("a client id of the load is a topic level")?;
        Ok(Self {
            shared: Rc::clone(shared),
            client_id,
            is_patient: true,
            response_topic: topic,
            node: usize::try_from(number)? % shared.nodes.len(),
            wire: None,
            packet_id: 0,
            correlation: 0,
            notified: Vec::new(),
        })
    }

    /// Takes no answer for an answer.
    pub(super) fn impatient(self) -> Self {
        Self {
            is_patient: false,
            ..self
        }
    }

    /// What the client calls itself.
    pub(super) fn name(&self) -> &str {
        &self.client_id
    }

    /// Asks until there is an answer, and writes down what came of it.
    pub(super) async fn ask(&mut self, request: &Request, token: Option<&Hlc>) -> anyhow::Result<Ended> {
        let invoked = clock::now();
        let publish = self.publish(request, token)?;
        let deadline = invoked + self.shared.patience;
        let mut attempts = 0;
        let answer = loop {
            attempts += 1;
            let now = clock::now();
            if now >= deadline {
                break None;
            }
            match self
                .attempt(&publish, request.kind(), deadline.min(now + self.shared.attempt))
                .await?
            {
                Ok(answer) if answer.reply != Reply::Error(ErrorText::Unavailable) => break Some(answer),
                Ok(_) | Err(Lost) => self.go_elsewhere().await,
            }
            if !self.is_patient {
                break None;
            }
        };
        let now = clock::now();
        self.write(
            request,
            token,
            invoked,
            answer.as_ref().map(|answer| (now, answer)),
        )?;
        match &answer {
            Some(_) => self.shared.answered(invoked, now, attempts),
            None => self.shared.state.borrow_mut().unknown += 1,
        }
        Ok(Ended { invoked, now, answer })
    }

    /// Sends a request once, over a connection that is there; nothing if that fails.
    pub(super) async fn ask_here(&mut self, request: &Request) -> anyhow::Result<Option<Answer>> {
        if self.wire.is_none() {
            return Ok(None);
        }
        let publish = self.publish(request, None)?;
        let deadline = clock::now() + self.shared.attempt;
        let answer = self.attempt(&publish, request.kind(), deadline).await?;
        if answer.is_err() {
            self.wire = None;
        }
        Ok(answer.ok())
    }

    /// Connects, to another node if this one cannot be reached.
    pub(super) async fn connect(&mut self) -> bool {
        self.notified.clear();
        self.wire = None;
        if self.connect_here().await.is_err() {
            self.go_elsewhere().await;
        }
        self.wire.is_some()
    }

    /// Waits for notifications, until `deadline` at most. False: the connection is lost.
    pub(super) async fn listen(&mut self, deadline: Instant) -> anyhow::Result<bool> {
        match self.next(deadline).await? {
            Ok(_) => Ok(true),
            Err(Lost) if clock::now() >= deadline => Ok(true),
            Err(Lost) => {
                self.wire = None;
                Ok(false)
            }
        }
    }

    /// What came since the last call.
    pub(super) fn take_notified(&mut self) -> Vec<Notified> {
        std::mem::take(&mut self.notified)
    }

    /// Uses the next node from now on.
    pub(super) async fn go_elsewhere(&mut self) {
        self.wire = None;
        self.node = (self.node + 1) % self.shared.nodes.len();
        tokio::time::sleep(REST).await;
    }

    fn write(
        &self,
        request: &Request,
        token: Option<&Hlc>,
        invoked: Instant,
        answered: Option<(Instant, &Answer)>,
    ) -> anyhow::Result<()> {
        let mut state = self.shared.state.borrow_mut();
        if let Some(key) = request.key() {
            state.keys.insert(String::from_utf8_lossy(key).into_owned());
        }
        // What nobody knows about a read says nothing.
        if answered.is_none() && request.kind() == RequestKind::Get {
            return Ok(());
        }
        state.log.asked(&Asked {
            request,
            token,
            invoked: self.shared.moment(invoked),
            answered: answered.map(|(at, answer)| (self.shared.moment(at), answer.clone())),
        })
    }

    /// The message of a request. It stays the same however often it is sent, so that the store knows it again.
    fn publish(&mut self, request: &Request, token: Option<&Hlc>) -> anyhow::Result<Publish> {
        self.correlation += 1;
        let timestamp = format!("{}:0:{}", clock::wall_ms(), self.client_id);
        let token = token.map(ToString::to_string);
        let pairs = [
            (TIMESTAMP, timestamp.as_str()),
            (PROTOCOL_VERSION, PROTOCOL_VERSION_VALUE),
        ];
        let token = token.as_deref().map(|token| (FENCING_TOKEN, token));
        let patience = u32::try_from(self.shared.patience.as_secs()).unwrap_or(u32::MAX);
        Ok(Publish {
            dup: false,
            qos: QoS::AtLeastOnce,
            retain: false,
            topic: Text::from_static(INVOKE_TOPIC),
            packet_id: None,
            topic_alias: None,
            subscription_ids: Default::default(),
            properties: MessageProperties {
                message_expiry: Some(patience.saturating_add(1)),
                response_topic: Some(self.response_topic.text().clone()),
                correlation_data: Some(Bytes::copy_from_slice(&self.correlation.to_be_bytes())),
                user_properties: UserProperties::from_pairs(pairs.into_iter().chain(token))?,
                ..MessageProperties::default()
            },
            payload: request.encode(),
        })
    }

    async fn attempt(
        &mut self,
        publish: &Publish,
        kind: RequestKind,
        deadline: Instant,
    ) -> anyhow::Result<Result<Answer, Lost>> {
        if self.wire.is_none() && self.connect_here().await.is_err() {
            return Ok(Err(Lost));
        }
        let mut publish = publish.clone();
        self.packet_id = self.packet_id % (u16::MAX - 1) + 1;
        publish.packet_id = PacketId::new(self.packet_id);
        let correlation = publish.properties.correlation_data.clone();
        if let Some(wire) = &mut self.wire {
            wire.send(&Packet::Publish(Box::new(publish)));
        }
        loop {
            let Ok(publish) = self.next(deadline).await? else {
                return Ok(Err(Lost));
            };
            let Some(publish) = publish else {
                continue;
            };
            // The answer to an attempt before may come after all.
            if publish.properties.correlation_data == correlation {
                let version = version(&publish)?;
                let reply = Reply::parse(&publish.payload, kind)?;
                return Ok(Ok(Answer { reply, version }));
            }
        }
    }

    /// The next packet: a response, or nothing if it was something else.
    async fn next(&mut self, deadline: Instant) -> anyhow::Result<Result<Option<Publish>, Lost>> {
        let Some(wire) = &mut self.wire else {
            return Ok(Err(Lost));
        };
        let received = tokio::time::timeout_at(deadline.into(), wire.receive()).await;
        let Ok(Ok(packet)) = received else {
            return Ok(Err(Lost));
        };
        let publish = match packet {
            Packet::Publish(publish) => *publish,
            Packet::PubAck(ack) if ack.reason.is_error() => return Ok(Err(Lost)),
            Packet::PubAck(_) => return Ok(Ok(None)),
            _ => return Ok(Err(Lost)),
        };
        if let Some(packet_id) = publish.packet_id {
            wire.acknowledge(AckKind::Acknowledged, packet_id);
            if wire.flush().is_err() {
                return Ok(Err(Lost));
            }
        }
        let Some(key) = notified_key(&publish.topic, &self.client_id) else {
            return Ok(Ok(Some(publish)));
        };
        self.notified.push(Notified {
            at: clock::now(),
            key,
            change: Notification::parse(&publish.payload).context("a notification that is none")?,
            version: version(&publish)?.context("a notification without a version")?,
        });
        Ok(Ok(None))
    }

    async fn connect_here(&mut self) -> anyhow::Result<()> {
        let target: &Target = &self.shared.nodes[self.node];
        let mut wire = Wire::connect(target, &self.client_id, None, SessionEnd::AtOnce).await?;
        let subscribed = wire.subscribe(self.response_topic.as_str(), QoS::AtLeastOnce);
        tokio::time::timeout(self.shared.attempt, subscribed).await??;
        self.wire = Some(wire);
        Ok(())
    }
}

/// Draws one of several; there is one.
pub(super) fn one_of<T: Clone>(random: &mut Random, several: &[T]) -> T {
    let place = random.below(several.len() as u64);
    several[usize::try_from(place).unwrap_or(0)].clone()
}

fn version(publish: &Publish) -> anyhow::Result<Option<Hlc>> {
    let text = publish.properties.user_properties.find(TIMESTAMP);
    Ok(text.map(Hlc::parse).transpose()?)
}

/// Before the next node is tried.
const REST: Duration = Duration::from_millis(20);
