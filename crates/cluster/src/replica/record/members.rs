//! Record of a group's members.
//!
//! Founders are written as in version 1, and every other set of members in version 2, with the log entry that made it.

use bytes::{BufMut as _, Bytes, BytesMut};

use super::super::members::Members;
use super::{RecordError, VERSION, meta_key, open_any, seal};
use crate::{GroupId, Index};

/// Version of the record of members that are not the founders any more.
const VERSION_MEMBERS: u8 = 2;

/// The key of a group's members in the meta keyspace.
pub fn members_key(group: GroupId) -> Bytes {
    meta_key(group, b'v')
}

/// The record of a group's members. Those of founders are written as in version 1.
pub fn encode_members(group: GroupId, members: &Members) -> Bytes {
    assert!(!members.voters.is_empty(), "a group has at least one voter");
    let mut record = BytesMut::new();
    if *members == Members::founders(members.voters.iter().copied()) {
        record.put_u8(VERSION);
        members.voters.iter().for_each(|node| record.put_u64(node.0));
    } else {
        record.put_u8(VERSION_MEMBERS);
        record.put_u64(members.index.0);
        record.put_u8(u8::from(members.auto_leave));
        let lists = [
            &members.voters,
            &members.outgoing,
            &members.learners,
            &members.learners_next,
        ];
        for nodes in lists {
            record.put_u16(u16::try_from(nodes.len()).expect("members are bounded"));
            nodes.iter().for_each(|node| record.put_u64(node.0));
        }
    }
    seal(&members_key(group), &mut record);
    record.freeze()
}

/// The members that a record holds: at least one votes.
pub fn decode_members(group: GroupId, record: &[u8]) -> Result<Members, RecordError> {
    let (version, mut fields) = open_any(&members_key(group), record)?;
    let members = match version {
        VERSION => Members::founders(fields.nodes_to_end()?),
        VERSION_MEMBERS => {
            let index = Index(fields.u64()?);
            let auto_leave = fields.u8()? != 0;
            let members = Members {
                index,
                voters: fields.nodes()?,
                outgoing: fields.nodes()?,
                learners: fields.nodes()?,
                learners_next: fields.nodes()?,
                auto_leave,
            };
            fields.end()?;
            members
        }
        found => return Err(RecordError::Version { found }),
    };
    if members.is_valid() {
        Ok(members)
    } else {
        Err(RecordError::Malformed)
    }
}
