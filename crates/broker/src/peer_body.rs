//! What the bodies of messages between nodes are made of. What is read shares the message's memory; `None`: it is damaged.

use bytes::{Buf, BufMut, Bytes};

/// Whether something is so: 0 or 1.
pub(crate) fn flag(body: &mut Bytes) -> Option<bool> {
    match body.try_get_u8().ok()? {
        0 => Some(false),
        1 => Some(true),
        _ => None,
    }
}

/// What [`put_short`] wrote.
pub(crate) fn short(body: &mut Bytes) -> Option<Bytes> {
    let length = usize::from(body.try_get_u16().ok()?);
    (length <= body.len()).then(|| body.split_to(length))
}

/// What [`put_long`] wrote.
pub(crate) fn long(body: &mut Bytes) -> Option<Bytes> {
    let length = usize::try_from(body.try_get_u32().ok()?).ok()?;
    (length <= body.len()).then(|| body.split_to(length))
}

/// Appends a text or key of at most 65,535 bytes, its length (2 bytes) first.
pub(crate) fn put_short(out: &mut impl BufMut, bytes: &[u8]) {
    out.put_u16(u16::try_from(bytes.len()).expect("texts and keys have at most 65,535 bytes"));
    out.put_slice(bytes);
}

/// Appends a byte string, its length (4 bytes) first.
pub(crate) fn put_long(out: &mut impl BufMut, bytes: &[u8]) {
    out.put_u32(u32::try_from(bytes.len()).expect("a packet has less than 256 MiB"));
    out.put_slice(bytes);
}
