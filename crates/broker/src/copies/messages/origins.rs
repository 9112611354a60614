//! The sessions that a session comes from, in an offer.

use bytes::{Buf, BufMut, Bytes};
use cluster::NodeId;
use mqtt::ids::SessionNumber;

use crate::cluster_records::copy::Mark;

/// At most 255.
pub(super) fn put(bytes: &mut Vec<u8>, origins: &[Mark]) {
    bytes.put_u8(u8::try_from(origins.len()).expect("fewer than 256 marks"));
    for mark in origins {
        bytes.put_u64(mark.node.0);
        bytes.put_u64(mark.number.map_or(0, |number| number.0));
        bytes.put_u64(mark.next_sequence);
    }
}

/// None if they are not to be read, or there are none.
pub(super) fn take(body: &mut Bytes) -> Option<Vec<Mark>> {
    let count = body.try_get_u8().ok()?;
    let marks = (0..count).map(|_| {
        Some(Mark {
            node: NodeId(body.try_get_u64().ok()?),
            number: Some(SessionNumber(body.try_get_u64().ok()?)),
            next_sequence: body.try_get_u64().ok()?,
        })
    });
    marks
        .collect::<Option<Vec<_>>>()
        .filter(|marks| !marks.is_empty())
}
