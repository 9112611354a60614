//! Any order of pushes, acknowledgements, lost connections, syncs and crashes, against what a client must see.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;

#[derive(Debug, Clone, Copy)]
enum Step {
    /// A message of this QoS, which expires so many seconds from now.
    Push(QoS, Option<u64>),
    /// The session sends what it may.
    Send,
    /// The client sends one of the acknowledgements it has not sent yet.
    Acknowledge(prop::sample::Index),
    Sync,
    Wait(u64),
    /// The connection is lost; the client returns with this Receive Maximum.
    Reconnect(u16),
    /// The connection is lost, so many messages come, and the client returns.
    Away(u8),
    /// The server is killed, starts again, and the client returns.
    Crash,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let qos = prop_oneof![Just(Q0), Just(Q1), Just(Q2)];
    let step = prop_oneof![
        6 => (qos, prop::option::weighted(0.2, 0..6_u64)).prop_map(|(qos, expires)| Step::Push(qos, expires)),
        6 => Just(Step::Send),
        8 => any::<prop::sample::Index>().prop_map(Step::Acknowledge),
        4 => Just(Step::Sync),
        1 => (1..3_u64).prop_map(Step::Wait),
        1 => (1..6_u16).prop_map(Step::Reconnect),
        1 => (0..4_u8).prop_map(Step::Away),
        1 => Just(Step::Crash),
    ];
    prop::collection::vec(step, 0..120)
}

enum Ack {
    Puback(PacketId),
    Pubrec(PacketId),
    Pubcomp(PacketId),
}

/// A client as the specification has it, and what it must not see.
#[derive(Default)]
struct Client {
    /// Packet ids of QoS 2 messages that it has and that were not released.
    received: BTreeSet<PacketId>,
    acks: Vec<Ack>,
    /// Messages on their way on this connection.
    inflight: BTreeMap<PacketId, u32>,
    /// The number of the last message on this connection.
    last: Option<u32>,
    /// How often it took each message for a new one.
    seen: BTreeMap<u32, u32>,
    receive_maximum: u16,
}

impl Client {
    fn connect(&mut self, receive_maximum: u16) {
        self.acks.clear();
        self.inflight.clear();
        self.last = None;
        self.receive_maximum = receive_maximum;
    }

    fn receive(&mut self, outgoing: Outgoing) {
        let (delivery, packet_id) = match outgoing {
            Outgoing::Release { packet_id } => {
                self.received.remove(&packet_id);
                self.acks.push(Ack::Pubcomp(packet_id));
                return;
            }
            Outgoing::Publish { delivery, packet_id } => (delivery, packet_id),
        };
        let number: u32 = std::str::from_utf8(&delivery.message.payload)
            .unwrap()
            .parse()
            .unwrap();
        assert!(
            self.last.is_none_or(|last| last < number),
            "{number} came after {:?}",
            self.last
        );
        self.last = Some(number);
        if let Some(packet_id) = packet_id {
            let other = self.inflight.insert(packet_id, number);
            assert_eq!(other, None, "packet id {packet_id:?} is in use");
            assert!(self.inflight.len() <= usize::from(self.receive_maximum));
        }
        let is_new = match (delivery.qos, packet_id) {
            (Q0, None) => true,
            (Q1, Some(packet_id)) => {
                self.acks.push(Ack::Puback(packet_id));
                true
            }
            (Q2, Some(packet_id)) => {
                self.acks.push(Ack::Pubrec(packet_id));
                self.received.insert(packet_id)
            }
            other => panic!("wrong packet id: {other:?}"),
        };
        let times = self.seen.entry(number).or_default();
        assert!(*times == 0 || delivery.dup, "{number} came again without DUP");
        *times += u32::from(is_new);
        assert!(*times <= 1 || delivery.qos == Q1, "{number} came twice");
    }
}

struct Game {
    play: Play,
    client: Client,
    /// The QoS of each message that was pushed.
    pushed: Vec<QoS>,
    /// Messages that need not arrive: dropped, or not on disk when the server was killed.
    may_be_missing: BTreeSet<u32>,
    unsynced: Vec<u32>,
}

impl Game {
    fn new(limits: SessionLimits) -> Self {
        let mut client = Client::default();
        client.connect(3);
        let (pushed, may_be_missing, unsynced) = (vec![], BTreeSet::new(), vec![]);
        Self {
            play: Play::new(limits, 3),
            client,
            pushed,
            may_be_missing,
            unsynced,
        }
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Push(qos, expires_in) => self.push(qos, expires_in),
            Step::Send => {
                while let Some(outgoing) = self.play.next() {
                    self.client.receive(outgoing);
                }
            }
            Step::Acknowledge(_) if self.client.acks.is_empty() => {}
            Step::Acknowledge(which) => self.acknowledge(which.index(self.client.acks.len())),
            Step::Sync => self.sync(),
            Step::Wait(seconds) => self.play.second += seconds,
            Step::Reconnect(receive_maximum) => {
                self.play.disconnect();
                self.connect(receive_maximum);
            }
            Step::Away(messages) => {
                self.play.disconnect();
                for _ in 0..messages {
                    self.push(Q1, None);
                }
                self.connect(3);
            }
            Step::Crash => {
                self.may_be_missing.extend(self.unsynced.drain(..));
                self.play.crash();
                self.connect(3);
            }
        }
        // What the session drops need not arrive: its record says which message that was.
        self.play.dropped.clear();
    }

    fn connect(&mut self, receive_maximum: u16) {
        self.play.connect(receive_maximum);
        self.unsynced.clear();
        self.client.connect(receive_maximum);
    }

    fn sync(&mut self) {
        self.play.sync();
        self.unsynced.clear();
    }

    fn push(&mut self, qos: QoS, expires_in: Option<u64>) {
        let number = u32::try_from(self.pushed.len()).unwrap();
        self.pushed.push(qos);
        let expires_at = expires_in.map(|seconds| self.play.second + seconds);
        let waiting = self.play.session.queue.len();
        let outcome = self.play.push_expiring(qos, &number.to_string(), expires_at);
        let given_way = self.play.session.queue.len() != waiting + 1;
        if matches!(outcome, PushOutcome::Dropped(_)) || expires_at.is_some() || qos == Q0 {
            self.may_be_missing.insert(number);
        } else {
            self.unsynced.push(number);
        }
        if given_way {
            // The limit was reached: which ones gave way is for the tests of the queue to say.
            self.may_be_missing.extend(0..number);
        }
    }

    fn acknowledge(&mut self, which: usize) {
        let ack = self.client.acks.remove(which);
        let session = &mut self.play.session;
        let change = match ack {
            Ack::Puback(packet_id) => {
                self.client.inflight.remove(&packet_id);
                session.puback(packet_id)
            }
            Ack::Pubrec(packet_id) => session.pubrec(packet_id, false),
            Ack::Pubcomp(packet_id) => {
                self.client.inflight.remove(&packet_id);
                session.pubcomp(packet_id)
            }
        };
        self.play
            .change(change.expect("the client acknowledges what it was sent"));
    }

    /// Everything that is to arrive arrives when the client stays and acknowledges.
    fn finish(mut self) {
        self.sync();
        loop {
            self.step(Step::Send);
            if self.client.acks.is_empty() {
                break;
            }
            while !self.client.acks.is_empty() {
                self.acknowledge(0);
            }
            self.sync();
        }
        self.sync();
        for (number, qos) in (0..).zip(&self.pushed) {
            let times = self.client.seen.get(&number).copied().unwrap_or(0);
            assert!(
                times > 0 || self.may_be_missing.contains(&number),
                "{number} ({qos:?}) did not arrive"
            );
        }
        assert_eq!(
            self.play.session.queue_len() + self.play.session.inflight_len(),
            0
        );
        assert_eq!(self.play.session.queue_bytes(), 0);
        assert!(
            self.play.disk.queue.is_empty(),
            "records are left over: {:?}",
            self.play.disk.queue
        );
        assert!(self.client.received.is_empty());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3_000))]

    #[test]
    fn mqtt_4_3_3_a_client_sees_every_message_and_qos_2_once(steps in steps()) {
        play_to_the_end(LIMITS, steps);
    }

    #[test]
    fn a_short_queue_drops_and_keeps_all_other_rules(steps in steps()) {
        play_to_the_end(SessionLimits { queue_messages_max: 3, inflight_max: 2, ..LIMITS }, steps);
    }
}

fn play_to_the_end(limits: SessionLimits, steps: Vec<Step>) {
    let mut game = Game::new(limits);
    for step in steps {
        game.step(step);
    }
    game.finish();
}
