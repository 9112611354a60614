//! Numbered values of keys.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;

use bytes::Bytes;
use client::protocol::Hlc;
use client::protocol::packet::{Packet, QoS};
use client::protocol::state_store::{Condition, Reply, Request, RequestKind};

use super::Progress;
use super::support::wire::{Wire, ack, connect, id, request, subscribe};

/// How many pairs of writes are under way at once on one connection.
const IN_FLIGHT: usize = 3;

/// Writes each number first to one key and then to another, without waiting in between.
#[derive(Debug)]
pub(crate) struct Writer {
    name: String,
    sent: u64,
    keys: [Key; 2],
}

/// What a writer knows of one of its keys.
#[derive(Debug, Clone, Default)]
struct Key {
    /// The greatest number whose SET was answered.
    acknowledged: u64,
    /// The greatest version that was ever told for it, and the number that it belongs to.
    version: Option<(Hlc, u64)>,
}

impl Key {
    /// Takes note of a version that belongs to `number`; one number has one version, and they grow together.
    fn observe(&mut self, version: Hlc, number: u64) {
        if let Some((last, last_number)) = &self.version {
            if number == *last_number {
                assert_eq!(&version, last, "number {number} has one version");
            } else {
                assert!(number > *last_number, "number {number} came after {last_number}");
                assert!(
                    version > *last,
                    "{number} has {version}, but {last_number} had {last}"
                );
            }
        }
        self.version = Some((version, number));
    }
}

impl Writer {
    pub(crate) fn new(number: u32) -> Self {
        Self {
            name: format!("store-{number}"),
            sent: 0,
            keys: Default::default(),
        }
    }

    /// How many numbers were acknowledged for the first key.
    pub(crate) fn acknowledged(&self) -> u64 {
        self.keys[0].acknowledged
    }

    fn key(&self, which: usize) -> Bytes {
        Bytes::from(format!("{}/{which}", self.name))
    }

    /// Writes until the connection ends.
    pub(crate) fn load(&mut self, server: SocketAddr, progress: &Progress) -> io::Result<()> {
        let (mut wire, answers) = open(server, &self.name)?;
        let mut waiting = VecDeque::new();
        loop {
            while waiting.len() < IN_FLIGHT * 2 {
                self.sent += 1;
                for which in [0, 1] {
                    let set = Request::Set {
                        key: self.key(which),
                        value: Bytes::from(self.sent.to_string()),
                        condition: Condition::None,
                        expires_in: None,
                    };
                    let packet_id = u16::try_from(self.sent % 30_000).unwrap() * 2 + 1 + which as u16;
                    wire.queue(&Packet::Publish(Box::new(request(
                        &set,
                        &answers,
                        correlation(self.sent, which),
                        packet_id,
                    ))));
                    waiting.push_back((self.sent, which));
                }
            }
            wire.flush()?;
            let (number, which) = waiting.pop_front().unwrap();
            let (reply, version) = answer(&mut wire, &correlation(number, which), RequestKind::Set)?;
            assert_eq!(reply, Reply::Ok);
            self.keys[which].observe(version.expect("a SET has a version"), number);
            self.keys[which].acknowledged = number;
            progress.acknowledged();
        }
    }
}

/// Reads all keys of all writers over one connection.
pub(crate) fn check(writers: &mut [Writer], server: SocketAddr) -> io::Result<()> {
    let (mut wire, answers) = open(server, "store-check")?;
    for writer in writers {
        let mut stored = [0; 2];
        for which in [0, 1] {
            let get = Request::Get {
                key: writer.key(which),
            };
            wire.send(&Packet::Publish(Box::new(request(
                &get,
                &answers,
                correlation(0, which),
                1,
            ))))?;
            let (reply, version) = answer(&mut wire, &correlation(0, which), RequestKind::Get)?;
            stored[which] = match reply {
                Reply::Missing => 0,
                Reply::Value(value) => std::str::from_utf8(&value).unwrap().parse().unwrap(),
                other => panic!("{}: {other:?}", writer.name),
            };
            let (key, number) = (&mut writer.keys[which], stored[which]);
            assert!(
                number >= key.acknowledged,
                "{}/{which}: {number} is there, {} was acknowledged",
                writer.name,
                key.acknowledged
            );
            assert!(
                number <= writer.sent,
                "{}/{which}: {number} was never sent",
                writer.name
            );
            if let Some(version) = version {
                key.observe(version, number);
            }
        }
        assert!(
            stored[0] >= stored[1],
            "{}: the write of {} is there without the one before it ({})",
            writer.name,
            stored[1],
            stored[0]
        );
    }
    Ok(())
}

fn open(server: SocketAddr, name: &str) -> io::Result<(Wire, String)> {
    let (mut wire, _) = Wire::connect(server, connect(name, true))?;
    let answers = format!("answers/{name}");
    wire.send(&subscribe(&answers, QoS::AtLeastOnce, 1))?;
    assert!(matches!(wire.receive()?, Packet::SubAck(_)));
    Ok((wire, answers))
}

fn correlation(number: u64, which: usize) -> Bytes {
    Bytes::from(format!("{number}/{which}"))
}

/// The reply to the oldest request. Replies of one connection come in order.
fn answer(wire: &mut Wire, correlation: &Bytes, of: RequestKind) -> io::Result<(Reply, Option<Hlc>)> {
    loop {
        match wire.receive()? {
            Packet::Publish(reply) => {
                if let Some(packet_id) = reply.packet_id {
                    wire.queue(&Packet::PubAck(ack(packet_id)));
                }
                let properties = &reply.properties;
                assert_eq!(properties.correlation_data.as_ref(), Some(correlation));
                let version = properties.user_properties.find("__ts");
                let version = version.map(|version| Hlc::parse(version).unwrap());
                return Ok((Reply::parse(&reply.payload, of).unwrap(), version));
            }
            Packet::PubAck(puback) => assert_eq!(puback, ack(id(puback.packet_id.get()))),
            other => panic!("unexpected {other:?}"),
        }
    }
}
