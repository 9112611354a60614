//! Place in a SCAN that goes over several groups, which a client gets sealed (`scan_seal.rs`).
//!
//! A page is of one group, and says from where the next one goes on: within the group, or from the beginning of the next one.
//!
//! ```text
//! version u8 (1) | key                in group 0, after this key (store/src/scan.rs)
//! version u8 (2) | group u32 | key    in this group, after this key; without a key from its beginning
//! ```
//!
//! The group is in big endian. Where there is one group, all tokens are of version 1.

use bytes::{BufMut, Bytes, BytesMut};
use cluster::GroupId;

/// Version of tokens with a group.
const VERSION: u8 = 2;

/// What comes before the key.
const HEADER_LENGTH: usize = 1 + 4;

/// Version of the store's own tokens.
const WITHOUT_GROUP: u8 = 1;

/// Takes out of a request's token which group it is for, and leaves what the group's store understands. A token that is not of
/// ours stays as it is: no store understands it.
pub(crate) fn take_group(token: &mut Option<Bytes>, groups: u32) -> GroupId {
    let parts = token
        .as_deref()
        .and_then(<[u8]>::split_first_chunk::<HEADER_LENGTH>);
    let Some(([VERSION, group @ ..], key)) = parts else {
        return GroupId(0);
    };
    let group = GroupId(u32::from_be_bytes(*group));
    if group.0 >= groups {
        return GroupId(0);
    }
    *token = (!key.is_empty()).then(|| {
        let mut inner = BytesMut::with_capacity(1 + key.len());
        inner.put_u8(WITHOUT_GROUP);
        inner.put_slice(key);
        inner.freeze()
    });
    group
}

/// The token of a group's page, after which its store has given `token`. None after the last page of the last group.
pub(super) fn with_group(token: Option<Bytes>, group: GroupId, groups: u32) -> Option<Bytes> {
    match token {
        Some(token) if group.0 == 0 => Some(token),
        Some(token) => Some(encode(group, &token[1..])),
        None if group.0 + 1 < groups => Some(encode(GroupId(group.0 + 1), &[])),
        None => None,
    }
}

fn encode(group: GroupId, key: &[u8]) -> Bytes {
    let mut token = BytesMut::with_capacity(HEADER_LENGTH + key.len());
    token.put_u8(VERSION);
    token.put_u32(group.0);
    token.put_slice(key);
    token.freeze()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The page of this group ends with this token of its store; what the client gets, and where its next request goes.
    fn check(group: u32, ends: Option<&'static [u8]>, token: &'static [u8], next: (u32, Option<&[u8]>)) {
        let given = with_group(ends.map(Bytes::from_static), GroupId(group), 3);
        assert_eq!(given.as_deref(), Some(token));
        let mut asked = given;
        let found = take_group(&mut asked, 3);
        assert_eq!((found.0, asked.as_deref()), next);
    }

    /// Bytes that version 2 gives out. Another form needs another version.
    #[test]
    fn a_scan_goes_from_group_to_group() {
        check(0, Some(b"\x01key"), b"\x01key", (0, Some(b"\x01key")));
        check(0, None, b"\x02\0\0\0\x01", (1, None));
        check(1, Some(b"\x01key"), b"\x02\0\0\0\x01key", (1, Some(b"\x01key")));
        check(1, None, b"\x02\0\0\0\x02", (2, None));
        assert_eq!(with_group(None, GroupId(2), 3), None);
    }

    #[test]
    fn what_is_none_of_ours_is_left_to_a_store_that_refuses_it() {
        for bytes in [
            &b"\x02\0\0\0\x03key"[..],
            b"\x02\xff\xff\xff\xff",
            b"\x02\0\0",
            b"\x03\0\0\0\x01key",
            b"",
        ] {
            let mut token = Some(Bytes::copy_from_slice(bytes));
            assert_eq!(take_group(&mut token, 3), GroupId(0));
            assert_eq!(token.as_deref(), Some(bytes));
        }
    }
}
