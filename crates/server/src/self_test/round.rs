//! One round of the self-test: what it does, and what has to come of it.
//!
//! Messages and keys are tried each on its own: without a majority of the nodes there are no keys, and messages go on.

use std::time::{Duration, Instant};

use bytes::{BufMut, Bytes, BytesMut};
use cluster::NodeId;
use protocol::hlc::HlcClock;
use protocol::packet::{Connect, ConnectProperties, Packet, Publish, QoS, Subscribe};
use protocol::properties::{MessageProperties, UserProperties};
use protocol::state_store::properties::{PROTOCOL_VERSION, PROTOCOL_VERSION_VALUE, TIMESTAMP};
use protocol::state_store::topics::response_topic;
use protocol::state_store::{Condition, INVOKE_TOPIC, Reply, Request};
use protocol::{Hlc, ReasonCode, Text};
use tokio::io::{AsyncRead, AsyncWrite};

use super::probe_client::{PACKET_SIZE_MAX, ProbeClient, Trouble};
use super::results::{Step, StepResult, Verdict};
use super::{client_id, key_prefix, topic_prefix};
use crate::clock;

/// What goes on from round to round.
#[derive(Debug)]
pub(super) struct Rounds {
    node: NodeId,
    timeout: Duration,
    stamps: HlcClock,
    rounds: u64,
    /// Makes what a round sends differ from what every other has sent.
    seed: u64,
    /// The version that each key had last.
    versions: [Option<Hlc>; KEYS],
}

/// Keys that have their turns, so that in a cluster all groups do, and their leaders at other nodes.
const KEYS: usize = 16;

/// How long after it can not be of use any more a key that was not deleted expires.
const KEY_OUTLIVES: Duration = Duration::from_secs(60);

/// Of a message's payload and a key's value.
const PAYLOAD_BYTES: usize = 256;

impl Rounds {
    /// `timeout`: of each step.
    pub(super) fn new(node: NodeId, timeout: Duration, seed: u64) -> Self {
        Self {
            node,
            timeout,
            stamps: HlcClock::new(client_id(node)).expect("an id of a node has no colon"),
            rounds: 0,
            seed,
            versions: [const { None }; KEYS],
        }
    }

    /// Does all steps. `wall` is now, in milliseconds since the Unix epoch.
    pub(super) async fn run<S>(&mut self, stream: S, wall: u64) -> Vec<StepResult>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        self.rounds += 1;
        let mut round = OneRound {
            client: ProbeClient::new(stream, self.timeout),
            node: self.node,
            payload: payload(self.seed, self.rounds),
            mark: self.seed.wrapping_add(self.rounds),
            steps: Vec::with_capacity(Step::COUNT),
        };
        if round.begin().await.is_ok() {
            let is_over = round
                .messages()
                .await
                .is_err_and(|trouble| trouble.ends_connection());
            if !is_over {
                // What becomes of it is in the steps.
                let _ = round.keys(self, wall).await;
            }
        }
        let OneRound { client, steps, .. } = round;
        client.disconnect().await;
        steps
    }

    fn slot(&self) -> usize {
        (self.rounds % KEYS as u64) as usize
    }
}

struct OneRound<S> {
    client: ProbeClient<S>,
    node: NodeId,
    payload: Bytes,
    /// In its topic and its correlation data: what comes from an earlier round is no answer.
    mark: u64,
    steps: Vec<StepResult>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> OneRound<S> {
    async fn begin(&mut self) -> Result<(), Trouble> {
        let began = clock::instant();
        let connected = self.connect().await;
        self.done(Step::Connect, began, connected)?;
        let began = clock::instant();
        let subscribed = self.subscribe().await;
        self.done(Step::Subscribe, began, subscribed)
    }

    async fn messages(&mut self) -> Result<(), Trouble> {
        let began = clock::instant();
        let published = self.publish().await;
        self.done(Step::Publish, began, published)?;
        let received = self.message().await;
        let at = received.as_ref().map_or_else(|_| clock::instant(), |at| *at);
        self.done_at(Step::Receive, at - began, received.map(|_| ()))
    }

    async fn keys(&mut self, rounds: &mut Rounds, wall: u64) -> Result<(), Trouble> {
        let slot = rounds.slot();
        let key = Bytes::from(format!("{}{slot}", key_prefix(self.node)));
        let expires_in = (rounds.timeout + KEY_OUTLIVES).as_millis();

        let began = clock::instant();
        let request = Request::Set {
            key: key.clone(),
            value: self.payload.clone(),
            condition: Condition::None,
            expires_in: u64::try_from(expires_in).ok(),
        };
        let set = self.request(&request, &mut rounds.stamps, wall, 0).await;
        let set = set.and_then(|(reply, version)| set_version(&reply, version, &mut rounds.versions[slot]));
        let version = self.done(Step::Set, began, set)?;

        let began = clock::instant();
        let request = Request::Get { key: key.clone() };
        let got = self.request(&request, &mut rounds.stamps, wall, 1).await;
        let got = got.and_then(|got| self.check_value(got, &version));
        self.done(Step::Get, began, got)?;

        let began = clock::instant();
        let request = Request::Del { key };
        let deleted = self.request(&request, &mut rounds.stamps, wall, 2).await;
        let deleted = deleted.and_then(|(reply, _)| match reply {
            Reply::Deleted(1) => Ok(()),
            reply => Err(unexpected(
                &reply,
                "the key that was just set could not be deleted",
            )),
        });
        self.done(Step::Delete, began, deleted)
    }

    /// Notes how a step went that began at a moment and ends now.
    fn done<T>(&mut self, step: Step, began: Instant, result: Result<T, Trouble>) -> Result<T, Trouble> {
        self.done_at(step, clock::instant() - began, result)
    }

    fn done_at<T>(&mut self, step: Step, took: Duration, result: Result<T, Trouble>) -> Result<T, Trouble> {
        let trouble = result.as_ref().err();
        self.steps.push(StepResult {
            step,
            verdict: trouble.map_or(Verdict::Ok, Trouble::verdict),
            took,
            why: trouble.map(ToString::to_string),
        });
        result
    }

    async fn connect(&mut self) -> Result<(), Trouble> {
        let connect = Packet::Connect(Box::new(Connect {
            properties: ConnectProperties {
                packet_size_max: Some(PACKET_SIZE_MAX),
                ..ConnectProperties::default()
            },
            ..Connect::new(client_id(self.node))
        }));
        let reason = self.client.ask(&connect, |packet| match packet {
            Packet::ConnAck(ack) => Some(ack.reason),
            _ => None,
        });
        accepted(reason.await?)
    }

    async fn subscribe(&mut self) -> Result<(), Trouble> {
        let packet_id = self.client.packet_id();
        let filters = [self.topic(), self.response_topic()];
        let subscribe = Packet::Subscribe(Subscribe::new(packet_id, QoS::AtLeastOnce, filters));
        let reasons = self.client.ask(&subscribe, |packet| match packet {
            Packet::SubAck(ack) if ack.packet_id == packet_id => Some(ack.reasons.clone()),
            _ => None,
        });
        reasons.await?.into_iter().try_for_each(accepted)
    }

    async fn publish(&mut self) -> Result<(), Trouble> {
        let topic = self.topic();
        let publish = self.new_publish(topic, self.payload.clone(), MessageProperties::default());
        self.send_publish(publish).await
    }

    /// The message that was just published, as a subscriber gets it.
    async fn message(&mut self) -> Result<Instant, Trouble> {
        let topic = self.topic();
        let (message, at) = self.client.message(|message| message.topic == topic).await?;
        if message.payload != self.payload {
            return Err(Trouble::Wrong("the message has another payload"));
        }
        Ok(at)
    }

    /// Asks the state store, and waits for its reply.
    async fn request(
        &mut self,
        request: &Request,
        stamps: &mut HlcClock,
        wall: u64,
        number: u8,
    ) -> Result<(Reply, Option<Hlc>), Trouble> {
        let mut mark = BytesMut::with_capacity(9);
        mark.put_u64(self.mark);
        mark.put_u8(number);
        let mark = mark.freeze();
        let stamp = stamps.now(wall).to_string();
        let pairs = [
            (TIMESTAMP, stamp.as_str()),
            (PROTOCOL_VERSION, PROTOCOL_VERSION_VALUE),
        ];
        let properties = MessageProperties {
            response_topic: Some(self.response_topic()),
            correlation_data: Some(mark.clone()),
            user_properties: UserProperties::from_pairs(pairs).expect("they are short"),
            ..MessageProperties::default()
        };
        let publish = self.new_publish(Text::from_static(INVOKE_TOPIC), request.encode(), properties);
        self.send_publish(publish).await?;
        let is_reply = |message: &Publish| message.properties.correlation_data.as_ref() == Some(&mark);
        let (message, _) = self.client.message(is_reply).await?;
        let reply = Reply::parse(&message.payload, request.kind())
            .map_err(|_| Trouble::Wrong("the reply is not one to such a request"))?;
        let version = message.properties.user_properties.find(TIMESTAMP);
        let version = version.and_then(|version| Hlc::parse(version).ok());
        if let Some(version) = &version {
            stamps.observe(version);
        }
        Ok((reply, version))
    }

    fn check_value(&self, (reply, found): (Reply, Option<Hlc>), version: &Hlc) -> Result<(), Trouble> {
        match reply {
            Reply::Value(value) if value != self.payload => Err(Trouble::Wrong("the key has another value")),
            Reply::Value(_) if found.as_ref() != Some(version) => {
                Err(Trouble::Wrong("the key has another version"))
            }
            Reply::Value(_) => Ok(()),
            reply => Err(unexpected(&reply, "the key that was just set is not there")),
        }
    }

    fn new_publish(&mut self, topic: Text, payload: Bytes, properties: MessageProperties) -> Publish {
        Publish {
            dup: false,
            qos: QoS::AtLeastOnce,
            retain: false,
            topic,
            packet_id: Some(self.client.packet_id()),
            topic_alias: None,
            subscription_ids: Default::default(),
            properties,
            payload,
        }
    }

    /// Publishes, and waits for the PUBACK.
    async fn send_publish(&mut self, publish: Publish) -> Result<(), Trouble> {
        let id = publish.packet_id;
        let publish = Packet::Publish(Box::new(publish));
        let reason = self.client.ask(&publish, |packet| match packet {
            Packet::PubAck(ack) if Some(ack.packet_id) == id => Some(ack.reason),
            _ => None,
        });
        accepted(reason.await?)
    }

    /// Of this round alone.
    fn topic(&self) -> Text {
        let topic = format!("{}{:016x}", topic_prefix(self.node), self.mark);
        Text::new(topic).expect("it is short")
    }

    fn response_topic(&self) -> Text {
        let topic = response_topic(&client_id(self.node)).expect("the client id can be in a topic");
        topic.text().clone()
    }
}

/// A key's versions rise strictly, also over delete and expiry.
fn set_version(reply: &Reply, version: Option<Hlc>, last: &mut Option<Hlc>) -> Result<Hlc, Trouble> {
    if *reply != Reply::Ok {
        return Err(unexpected(reply, "SET was not answered as a SET"));
    }
    let version = version.ok_or(Trouble::Wrong("the reply has no version"))?;
    if last.as_ref().is_some_and(|last| *last >= version) {
        return Err(Trouble::Wrong("the key's version did not rise"));
    }
    *last = Some(version.detached());
    Ok(version)
}

fn accepted(reason: ReasonCode) -> Result<(), Trouble> {
    if reason.is_error() {
        return Err(Trouble::Refused(reason.to_string()));
    }
    Ok(())
}

fn unexpected(reply: &Reply, why: &'static str) -> Trouble {
    match reply {
        Reply::Error(error) => {
            Trouble::Refused(error.text(protocol::state_store::Dialect::Published).to_owned())
        }
        _ => Trouble::Wrong(why),
    }
}

/// Bytes that differ from round to round, and within a round from place to place.
fn payload(seed: u64, round: u64) -> Bytes {
    let mut state = seed.wrapping_add(round.wrapping_mul(STEP));
    let mut bytes = BytesMut::with_capacity(PAYLOAD_BYTES);
    while bytes.len() < PAYLOAD_BYTES {
        state = state.wrapping_add(STEP);
        bytes.put_u64((state ^ (state >> 30)).wrapping_mul(STEP));
    }
    bytes.freeze()
}

/// 2^64 divided by the golden ratio: odd, with bits everywhere.
const STEP: u64 = 0x9E37_79B9_7F4A_7C15;
