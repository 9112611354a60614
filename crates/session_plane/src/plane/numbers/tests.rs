//! Numbers that only entries know: what a node forgets with a copy.

use std::num::NonZeroU16;
use std::time::Duration;

use cluster::session_plane::Hlc;
use cluster::{Incarnation, NodeId};

use super::*;
use crate::publishing::{ContentId, NumberedMessage, PacketId, PacketUse, WillNumber};
use crate::wills::{WillPart, WillValue};
use crate::{Birth, Change, Fact, Interval};

/// Value of the entry of a packet id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Use(PacketUse);

impl QueueValue for Use {
    fn queue_bytes(&self) -> u64 {
        0
    }

    fn expires_at(&self) -> Option<u64> {
        None
    }
}

impl WillValue for Use {
    fn will_part(&self) -> Option<WillPart> {
        None
    }
}

impl NumberedValue<()> for Use {
    fn of_use(packet_use: PacketUse, _: Option<()>) -> Use {
        Use(packet_use)
    }

    fn packet_use(&self) -> Option<PacketUse> {
        Some(self.0)
    }

    fn of_will_number(_: WillNumber) -> Use {
        unreachable!("no client has a will")
    }

    fn of_will_end(_: Option<Duration>) -> Use {
        unreachable!("no client has a will")
    }

    fn body(&self) -> Option<()> {
        None
    }
}

fn client() -> ClientId {
    ClientId::new(b"press").expect("it is short")
}

fn dot(number: u64) -> Dot {
    let run = Run {
        node: NodeId(3),
        incarnation: Incarnation(1),
    };
    Dot { run, number }
}

/// Change that gives a packet id to a message with this number.
fn publish(number: Dot) -> Change<Use> {
    let (made, clock) = (dot(4), Hlc::at(4));
    let message = NumberedMessage {
        number,
        content: ContentId(1),
    };
    let packet_use = PacketUse {
        packet_id: PacketId(NonZeroU16::MIN),
        connection_clock: Hlc::at(1),
        message: Some(message),
        message_clock: None,
    };
    let birth = Birth {
        dot: dot(1),
        clock: Hlc::at(1),
        is_clean: false,
    };
    Change {
        dot: made,
        client: client(),
        removes: Vec::new(),
        adds: Some(Entry {
            birth,
            clock,
            fact: Fact::Received,
            value: Use(packet_use),
        }),
    }
}

#[test]
fn a_number_that_is_not_routed_is_an_orphan_unless_its_run_is_present() {
    let number = dot(1 << 63 | 1);
    let slot = Slot::of_client(client().as_bytes());
    let (mut copies, mut numbers) = (Copies::<Use, ()>::default(), Numbers::default());
    let slots = [slot, Slot::ROUTES].into_iter().collect();
    copies.make(&slots, VersionVector::default());
    let (present, gone) = (BTreeSet::from([number.run]), BTreeSet::new());
    assert!(!numbers.has_orphans(&copies, slot, &gone), "there is no entry");
    let applied = copies.change(slot, |copy| copy.apply(publish(number)));
    assert!(applied.expect("the slot has a copy").is_ok());
    numbers.note_copy(slot);
    assert!(numbers.has_orphans(&copies, slot, &gone));
    assert!(!numbers.has_orphans(&copies, Slot::ROUTES, &gone));
    assert!(!numbers.has_orphans(&copies, slot, &present));
    let routed = VersionVector::of_apart(Interval::one(number).into_iter().collect::<Vec<_>>());
    assert_eq!(copies.need(&slots, &routed), Ok(()));
    let closed = copies.change(slot, |copy| copy.close(&routed));
    assert_eq!(closed, Some(Ok(())));
    assert!(!numbers.has_orphans(&copies, slot, &gone), "it is routed");
}
