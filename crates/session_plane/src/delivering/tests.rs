use std::num::NonZeroU16;

use cluster::session_plane::Hlc;
use cluster::{Incarnation, NodeId};

use super::packet_ids::preferred_id;
use super::*;
use crate::feed::{DeliveryChanges, FeedDelivery, KnownDelivery, QueueKey};
use crate::publishing::PacketId;
use crate::{ClientId, Dot, GroupId, Run};

mod answers;
mod exchanges;
mod node;
mod resuming;
mod rivals;

const ONCE: DeliveryQos = DeliveryQos::ExactlyOnce;
const LEAST: DeliveryQos = DeliveryQos::AtLeastOnce;

fn packet_id(number: u16) -> PacketId {
    PacketId(NonZeroU16::new(number).expect("a sample is no zero"))
}

fn run_of(node: u64, start: u32) -> Run {
    Run {
        node: NodeId(node),
        incarnation: Incarnation(start),
    }
}

fn dot(node: u64, number: u64) -> Dot {
    let run = run_of(node, 1);
    Dot { run, number }
}

fn client_id(client: usize) -> ClientId {
    ClientId::new(format!("panel-{client}").as_bytes()).expect("a short id")
}
