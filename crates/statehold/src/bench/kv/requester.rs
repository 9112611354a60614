//! A connection that keeps a number of requests under way.

use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::Context;
use client::protocol::packet::{Packet, QoS};
use client::protocol::state_store::topics::response_topic;

use super::Shared;
use crate::bench::clock;
use crate::bench::template::{Parts, Template};
use crate::bench::wire::{AckKind, SessionEnd, Wire};

/// A request under way. It is over when both its reply and its PUBACK are in.
#[derive(Debug, Clone, Copy)]
struct Slot {
    sent_at: Instant,
    is_replied: bool,
    is_acknowledged: bool,
}

struct Requester {
    wire: Wire,
    shared: Rc<Shared>,
    set: Template,
    get: Template,
    slots: Vec<Slot>,
    open: usize,
}

pub(super) async fn run(number: u32, shared: Rc<Shared>) -> anyhow::Result<()> {
    let prepared = prepare(number, &shared).await;
    shared.progress.ready().await;
    shared.begin();
    prepared?.run().await
}

async fn prepare(number: u32, shared: &Rc<Shared>) -> anyhow::Result<Requester> {
    let client_id = format!("bench-{:x}-{number}", shared.plan.run);
    let topic = response_topic(&client_id).context("a client id of the load is a topic level")?;
    let targets = &shared.plan.targets;
    let target = &targets[usize::try_from(number)? % targets.len()];
    let mut wire = Wire::connect(target, &client_id, None, SessionEnd::AtOnce).await?;
    wire.subscribe(topic.as_str(), QoS::AtLeastOnce).await?;
    Ok(Requester {
        wire,
        shared: Rc::clone(shared),
        set: Template::request(&topic, Some(shared.plan.value_size))?,
        get: Template::request(&topic, None)?,
        slots: Vec::new(),
        open: 0,
    })
}

impl Requester {
    async fn run(mut self) -> anyhow::Result<()> {
        let now = clock::now();
        let slot = Slot {
            sent_at: now,
            is_replied: false,
            is_acknowledged: false,
        };
        self.slots = vec![slot; usize::from(self.shared.plan.inflight)];
        for number in 0..self.slots.len() {
            self.issue(number, now);
        }
        while self.open > 0 {
            self.wire.exchange().await?;
            let now = clock::now();
            while let Some(packet) = self.wire.next()? {
                self.received(packet, now)?;
            }
        }
        // The last acknowledgements.
        self.wire.flush()?;
        Ok(())
    }

    fn issue(&mut self, number: usize, now: Instant) {
        let Some((is_set, key)) = self.shared.next_request(now) else {
            return;
        };
        let template = if is_set { &self.set } else { &self.get };
        let packet_id = u16::try_from(number + 1).unwrap_or(u16::MAX);
        let parts = Parts {
            packet_id,
            correlation_data: number as u64,
            wall_ms: clock::wall_ms(),
            key,
        };
        template.write(parts, &mut self.wire.outbox);
        self.slots[number] = Slot {
            sent_at: now,
            is_replied: false,
            is_acknowledged: false,
        };
        self.open += 1;
    }

    fn received(&mut self, packet: Packet, now: Instant) -> anyhow::Result<()> {
        match packet {
            Packet::Publish(publish) => {
                if let Some(packet_id) = publish.packet_id {
                    self.wire.acknowledge(AckKind::Acknowledged, packet_id);
                }
                let data = publish
                    .properties
                    .correlation_data
                    .context("a reply without correlation data")?;
                let data: [u8; 8] = data
                    .as_ref()
                    .try_into()
                    .context("a reply with strange correlation data")?;
                let number = usize::try_from(u64::from_be_bytes(data))?;
                let slot = self.slots.get_mut(number).context("a reply to no request")?;
                slot.is_replied = true;
                let latency = now - slot.sent_at;
                self.count(&publish.payload, latency);
                self.proceed(number, now);
            }
            Packet::PubAck(ack) => {
                let number = usize::from(ack.packet_id.get()) - 1;
                let slot = self.slots.get_mut(number).context("a PUBACK of no request")?;
                slot.is_acknowledged = true;
                if ack.reason.is_error() {
                    // No reply will come.
                    slot.is_replied = true;
                    self.shared.state.borrow_mut().tally.operations += 1;
                    self.count_error();
                }
                self.proceed(number, now);
            }
            other => anyhow::bail!("unexpected: {other:?}"),
        }
        Ok(())
    }

    fn proceed(&mut self, number: usize, now: Instant) {
        let slot = self.slots[number];
        if slot.is_replied && slot.is_acknowledged {
            self.open -= 1;
            self.issue(number, now);
        }
    }

    fn count(&self, reply: &[u8], latency: Duration) {
        self.shared.progress.done.fetch_add(1, Ordering::Relaxed);
        let mut state = self.shared.state.borrow_mut();
        state.tally.record(latency);
        match reply {
            b"$-1\r\n" => state.tally.missing += 1,
            [b'+' | b'$', ..] => {}
            _ => {
                drop(state);
                self.count_error();
            }
        }
    }

    fn count_error(&self) {
        self.shared.state.borrow_mut().tally.errors += 1;
        self.shared.progress.errors.fetch_add(1, Ordering::Relaxed);
    }
}
