//! Who a cluster is made of, once and for ever.

use std::collections::BTreeSet;

use bytes::{Buf, BufMut, BytesMut};
use xxhash_rust::xxh3::xxh3_64;

use crate::peers::PeerAddress;
use crate::{ClusterId, NodeId};

/// A node that a cluster was made of.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Founder {
    /// Its id.
    pub node: NodeId,
    /// Where it could be reached then.
    pub address: PeerAddress,
}

/// What a cluster is made of, once and for ever: its founding members, in the order of their ids, and the number of its groups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Founding {
    founders: Vec<Founder>,
    groups: u32,
}

/// More nodes than this do not form a cluster.
pub const FOUNDERS_MAX: usize = 9;

impl Founding {
    /// Of at least one node, and at most [`FOUNDERS_MAX`]; no two with one id.
    pub fn new(mut founders: Vec<Founder>, groups: u32) -> Option<Self> {
        founders.sort();
        let ids: BTreeSet<_> = founders.iter().map(|founder| founder.node).collect();
        let is_possible = (1..=FOUNDERS_MAX).contains(&founders.len())
            && ids.len() == founders.len()
            && founders[0].node.0 != 0
            && groups > 0;
        is_possible.then_some(Self { founders, groups })
    }

    /// In the order of their ids.
    pub fn founders(&self) -> &[Founder] {
        &self.founders
    }

    /// Their ids, in order.
    pub fn ids(&self) -> Vec<NodeId> {
        self.founders.iter().map(|founder| founder.node).collect()
    }

    /// How many groups the cluster has.
    pub fn groups(&self) -> u32 {
        self.groups
    }

    /// Whether a node is one of them.
    pub fn has(&self, node: NodeId) -> bool {
        self.founders.iter().any(|founder| founder.node == node)
    }

    /// Whether both make the same cluster: addresses may have changed meanwhile.
    pub fn is_same(&self, other: &Self) -> bool {
        self.groups == other.groups && self.ids() == other.ids()
    }

    /// The name of the cluster: a hash of what makes it.
    pub fn cluster(&self) -> ClusterId {
        let mut bytes = BytesMut::from(&b"statehold cluster 1"[..]);
        bytes.put_u32(self.groups);
        for founder in &self.founders {
            bytes.put_u64(founder.node.0);
        }
        ClusterId(xxh3_64(&bytes).max(1))
    }

    /// Appends it: groups u32, count u8, for each founder node u64, length of the address u16, address; big endian.
    pub fn encode(&self, to: &mut BytesMut) {
        to.put_u32(self.groups);
        to.put_u8(u8::try_from(self.founders.len()).expect("at most FOUNDERS_MAX"));
        encode_founders(&self.founders, to);
    }

    /// Takes it from the beginning of `bytes`.
    pub fn decode(bytes: &mut &[u8]) -> Option<Self> {
        let groups = bytes.try_get_u32().ok()?;
        let count = bytes.try_get_u8().ok()?;
        let founders = decode_founders(bytes, usize::from(count))?;
        let sorted = founders.is_sorted_by(|a, b| a.node < b.node);
        sorted.then_some(())?;
        Self::new(founders, groups)
    }
}

pub(super) fn encode_founders(founders: &[Founder], to: &mut BytesMut) {
    for founder in founders {
        let address = founder.address.as_str();
        to.put_u64(founder.node.0);
        to.put_u16(u16::try_from(address.len()).expect("an address is short"));
        to.put_slice(address.as_bytes());
    }
}

pub(super) fn decode_founders(bytes: &mut &[u8], count: usize) -> Option<Vec<Founder>> {
    let mut founders = Vec::new();
    for _ in 0..count {
        let node = NodeId(bytes.try_get_u64().ok()?);
        let length = usize::from(bytes.try_get_u16().ok()?);
        let address = std::str::from_utf8(bytes.get(..length)?).ok()?.parse().ok()?;
        bytes.advance(length);
        founders.push(Founder { node, address });
    }
    Some(founders)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn founder(node: u64, address: &str) -> Founder {
        Founder {
            node: NodeId(node),
            address: address.parse().expect("an address"),
        }
    }

    /// Bytes that version 1 writes, and the id that it makes. Another form needs another version.
    #[test]
    fn a_founding_of_version_1_is_written_as_ever_and_read() {
        let founding = Founding::new(vec![founder(3, "b:1"), founder(2, "a:1")], 4).expect("possible");
        let mut bytes = BytesMut::new();
        founding.encode(&mut bytes);
        let golden = b"\0\0\0\x04\x02\0\0\0\0\0\0\0\x02\0\x03a:1\0\0\0\0\0\0\0\x03\0\x03b:1";
        assert_eq!(bytes, &golden[..]);
        assert_eq!(Founding::decode(&mut &golden[..]), Some(founding.clone()));
        assert_eq!(founding.cluster().to_string(), "be64b157d668dc2f");
        for length in 0..golden.len() {
            assert_eq!(Founding::decode(&mut &golden[..length]), None);
        }
    }

    #[test]
    fn what_makes_no_cluster_is_refused() {
        assert_eq!(Founding::new(vec![], 1), None);
        assert_eq!(Founding::new(vec![founder(1, "a:1")], 0), None);
        assert_eq!(Founding::new(vec![founder(0, "a:1")], 1), None);
        assert_eq!(Founding::new(vec![founder(1, "a:1"), founder(1, "b:1")], 1), None);
        let many = (1..=10).map(|node| founder(node, "a:1")).collect();
        assert_eq!(Founding::new(many, 1), None);
    }

    #[test]
    fn a_cluster_is_the_same_wherever_its_nodes_are() {
        let at = |address| Founding::new(vec![founder(1, address), founder(2, "b:1")], 1).expect("possible");
        assert!(at("a:1").is_same(&at("c:1")));
        assert_eq!(at("a:1").cluster(), at("c:1").cluster());
        let more = Founding::new(vec![founder(1, "a:1"), founder(2, "b:1")], 2).expect("possible");
        assert!(!at("a:1").is_same(&more));
        assert_ne!(at("a:1").cluster(), more.cluster());
    }
}
