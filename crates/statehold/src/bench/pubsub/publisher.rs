//! A connection that publishes as fast as the server acknowledges, or at a rate.

use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use client::protocol::packet::{Ack, Packet, QoS};
use tokio::time::{sleep_until, timeout};

use super::Shared;
use crate::bench::clock;
use crate::bench::template::{Parts, Template};
use crate::bench::wire::{AckKind, SessionEnd, Wire};

/// A publisher and what it has under way.
struct Publisher {
    wire: Wire,
    shared: Rc<Shared>,
    template: Template,
    /// Packet identifiers that may be used.
    free: Vec<u16>,
    inflight: usize,
    /// QoS 0: messages that may leave before the next PINGRESP.
    unanswered: usize,
    copies: u64,
}

pub(super) async fn run(number: u32, shared: Rc<Shared>) -> anyhow::Result<()> {
    let prepared = prepare(number, &shared).await;
    shared.progress.ready().await;
    let ended = match prepared {
        Ok(publisher) => publisher.run(number).await,
        Err(error) => Err(error),
    };
    shared.totals.publishers_done.fetch_add(1, Ordering::Release);
    ended
}

async fn prepare(number: u32, shared: &Rc<Shared>) -> anyhow::Result<Publisher> {
    let plan = &shared.plan;
    let client_id = format!("bench-{:x}-pub-{number}", plan.run);
    Ok(Publisher {
        wire: Wire::connect(&plan.target, &client_id, None, SessionEnd::AtOnce).await?,
        template: Template::message(&plan.topic(number), plan.qos, plan.payload_size)?,
        shared: Rc::clone(shared),
        free: (1..=plan.inflight).rev().collect(),
        inflight: 0,
        unanswered: 0,
        copies: plan.copies(number),
    })
}

impl Publisher {
    async fn run(mut self, number: u32) -> anyhow::Result<()> {
        let started = clock::now();
        let until = started + self.shared.plan.duration;
        match self.shared.plan.interval {
            None => self.publish_freely(until).await?,
            Some(interval) => {
                // Publishers take turns instead of all publishing at once.
                let first = started + interval * number / self.shared.plan.publishers_in_all;
                self.publish_at_rate(first, interval, until).await?;
            }
        }
        while self.inflight > 0 || self.unanswered > 0 {
            self.exchange().await?;
        }
        Ok(())
    }

    async fn publish_freely(&mut self, until: Instant) -> anyhow::Result<()> {
        let mut now = clock::now();
        while now < until {
            if self.shared.plan.qos == QoS::AtMostOnce {
                for _ in 0..self.shared.plan.inflight {
                    self.publish(now);
                }
                self.wire.send(&Packet::PingReq);
                self.unanswered += 1;
                while self.unanswered >= PINGS_UNDER_WAY {
                    self.exchange().await?;
                }
            } else {
                while self.has_room() {
                    self.publish(now);
                }
                self.exchange().await?;
            }
            now = clock::now();
        }
        Ok(())
    }

    /// Messages that are late because the server is slow leave as soon as they can, and count from their time.
    async fn publish_at_rate(
        &mut self,
        first: Instant,
        interval: Duration,
        until: Instant,
    ) -> anyhow::Result<()> {
        let mut due = first;
        while due < until {
            let now = clock::now();
            while due <= now && due < until && self.has_room() {
                self.publish(due);
                due += interval;
            }
            self.wire.flush()?;
            if self.has_room() {
                let wait = due.saturating_duration_since(clock::now());
                if self.shared.plan.qos == QoS::AtMostOnce {
                    sleep_until(due.into()).await;
                } else if let Ok(exchanged) = timeout(wait, self.wire.exchange()).await {
                    exchanged?;
                    self.take()?;
                }
            } else {
                self.exchange().await?;
            }
        }
        Ok(())
    }

    fn has_room(&self) -> bool {
        self.shared.plan.qos == QoS::AtMostOnce || !self.free.is_empty()
    }

    /// Publishes a message that says it left at `at`.
    fn publish(&mut self, at: Instant) {
        let packet_id = if self.shared.plan.qos == QoS::AtMostOnce {
            None
        } else {
            self.free.pop()
        };
        self.inflight += usize::from(packet_id.is_some());
        let parts = Parts {
            packet_id: packet_id.unwrap_or(0),
            correlation_data: self.shared.plan.nanoseconds(at),
            ..Parts::default()
        };
        self.template.write(parts, &mut self.wire.outbox);
        self.shared.totals.published.fetch_add(1, Ordering::Relaxed);
        self.shared
            .totals
            .expected
            .fetch_add(self.copies, Ordering::Relaxed);
    }

    async fn exchange(&mut self) -> anyhow::Result<()> {
        self.wire.exchange().await?;
        self.take()
    }

    fn take(&mut self) -> anyhow::Result<()> {
        while let Some(packet) = self.wire.next()? {
            match packet {
                Packet::PubRec(ack) if !ack.reason.is_error() => {
                    self.wire.acknowledge(AckKind::Released, ack.packet_id);
                }
                Packet::PubAck(ack) | Packet::PubComp(ack) | Packet::PubRec(ack) => self.acknowledged(&ack),
                Packet::PingResp => self.unanswered -= 1,
                other => anyhow::bail!("unexpected: {other:?}"),
            }
        }
        Ok(())
    }

    fn acknowledged(&mut self, ack: &Ack) {
        self.free.push(ack.packet_id.get());
        self.inflight -= 1;
        if ack.reason.is_error() {
            self.shared
                .totals
                .expected
                .fetch_sub(self.copies, Ordering::Relaxed);
            self.shared.progress.errors.fetch_add(1, Ordering::Relaxed);
            self.shared.tally.borrow_mut().errors += 1;
        }
    }
}

/// Two, so that the server has something to do while an answer travels.
const PINGS_UNDER_WAY: usize = 2;
