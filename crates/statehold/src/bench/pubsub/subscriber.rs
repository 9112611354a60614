//! A connection that receives, acknowledges and counts.

use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use client::protocol::packet::{Packet, Publish, QoS};
use tokio::time::timeout;

use super::Shared;
use crate::bench::clock;
use crate::bench::wire::{AckKind, Wire};

pub(super) async fn run(number: u32, shared: Rc<Shared>) -> anyhow::Result<()> {
    let prepared = prepare(number, &shared).await;
    shared.progress.ready().await;
    let mut wire = prepared?;
    loop {
        // Woken from time to time, to see whether anything is still to come.
        match timeout(LOOK_AGAIN, wire.exchange()).await {
            Ok(exchanged) => exchanged?,
            Err(_) if is_over(&shared) => return Ok(wire.end_session().await?),
            Err(_) => continue,
        }
        let now = clock::now();
        shared.last_received.set(now);
        while let Some(packet) = wire.next()? {
            received(&mut wire, packet, now, &shared)?;
        }
    }
}

async fn prepare(number: u32, shared: &Shared) -> anyhow::Result<Wire> {
    let client_id = format!("bench-{:x}-sub-{number}", shared.plan.run);
    let mut wire = Wire::connect(
        &shared.plan.subscriber_target,
        &client_id,
        None,
        shared.plan.sessions,
    )
    .await?;
    wire.subscribe(&shared.plan.filter(number), shared.plan.qos)
        .await?;
    Ok(wire)
}

fn received(wire: &mut Wire, packet: Packet, now: Instant, shared: &Shared) -> anyhow::Result<()> {
    match packet {
        Packet::Publish(publish) => {
            if let Some(packet_id) = publish.packet_id {
                let is_exact = publish.qos == QoS::ExactlyOnce;
                wire.acknowledge(
                    if is_exact {
                        AckKind::Received
                    } else {
                        AckKind::Acknowledged
                    },
                    packet_id,
                );
            }
            count(&publish, now, shared);
        }
        Packet::PubRel(ack) => wire.acknowledge(AckKind::Completed, ack.packet_id),
        other => anyhow::bail!("unexpected: {other:?}"),
    }
    Ok(())
}

fn count(publish: &Publish, now: Instant, shared: &Shared) {
    shared.totals.received.fetch_add(1, Ordering::Relaxed);
    shared.progress.done.fetch_add(1, Ordering::Relaxed);
    let mut tally = shared.tally.borrow_mut();
    match publish.payload.first_chunk::<8>() {
        Some(sent) => {
            let latency = shared
                .plan
                .nanoseconds(now)
                .saturating_sub(u64::from_be_bytes(*sent));
            tally.record(Duration::from_nanos(latency));
        }
        None => tally.errors += 1,
    }
}

/// All publishers are done, and everything is here, or nothing has come for a while.
fn is_over(shared: &Shared) -> bool {
    let totals = &shared.totals;
    let publishers = u64::from(shared.plan.publishers_in_all);
    if totals.publishers_done.load(Ordering::Acquire) < publishers {
        return false;
    }
    let is_complete = totals.received.load(Ordering::Relaxed) >= totals.expected.load(Ordering::Relaxed);
    let quiet = shared.last_received.get();
    is_complete || clock::now().saturating_duration_since(quiet) >= GIVE_UP
}

const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// A message that takes this long after the others counts as lost.
const GIVE_UP: Duration = Duration::from_secs(3);
