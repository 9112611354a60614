//! The first thing that each side of a connection says: who it is.
//!
//! Numbers big endian; `length` is that of what follows it. What a later version adds comes at the end, where this one does not
//! look; what it changes needs a version that this one does not speak.
//!
//! ```text
//! magic 8 bytes | length u16 | oldest version u8 | newest version u8 | node u64 | starts | wall clock u64
//!   | cluster u64 (0: not formed) | size u16 | groups u32 | length of the address u16 | address | ...
//! starts: number of the present one u32 | count u8 (1 to 16) | nonces of the last ones, the present one at the end: u64 each
//! ```

use bytes::{Buf, BufMut, BytesMut};

use super::address::PeerAddress;
use super::clock_watch::{clock_offset, is_clock_within};
use super::refusal::{Refusal, RefusalCode};
use super::starts::Starts;
use crate::{ClusterId, NodeId};

/// Who a node is, as it says itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hello {
    /// Versions of the protocol that it speaks.
    pub versions: Versions,
    /// Its id.
    pub node: NodeId,
    /// Its last starts. A node that dials itself, or a process with the same data directory, is noticed by them.
    pub starts: Starts,
    /// Its system clock, whatever the node goes by, in milliseconds since the Unix epoch.
    pub wall: u64,
    /// The cluster that it belongs to, if it is formed.
    pub cluster: Option<ClusterId>,
    /// How many nodes form the cluster.
    pub size: u16,
    /// How many groups it is to have.
    pub groups: u32,
    /// Where it can be reached.
    pub address: PeerAddress,
}

/// A range of versions, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Versions {
    /// The oldest.
    pub oldest: u8,
    /// The newest.
    pub newest: u8,
}

/// What this program speaks.
pub const VERSIONS: Versions = Versions { oldest: 5, newest: 5 };

/// A longer hello is not read.
pub const HELLO_BYTES_MAX: usize = 1024;

/// Bytes that are no hello.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HelloError {
    /// Something else than a node is there.
    #[error("what is there is not a node of Statehold")]
    Magic,
    /// It is longer than any.
    #[error("its hello is longer than {HELLO_BYTES_MAX} bytes")]
    Length,
    /// It does not follow its own form.
    #[error("its hello is damaged")]
    Damaged,
}

const MAGIC: &[u8; 8] = b"sthdpeer";
const HEADER_LENGTH: usize = MAGIC.len() + 2;

impl Hello {
    /// As bytes.
    pub fn encode(&self) -> BytesMut {
        let mut bytes = BytesMut::with_capacity(HELLO_BYTES_MAX);
        bytes.put_slice(MAGIC);
        bytes.put_u16(0);
        bytes.put_u8(self.versions.oldest);
        bytes.put_u8(self.versions.newest);
        bytes.put_u64(self.node.0);
        self.starts.encode(&mut bytes);
        bytes.put_u64(self.wall);
        bytes.put_u64(self.cluster.map_or(0, |cluster| cluster.0));
        bytes.put_u16(self.size);
        bytes.put_u32(self.groups);
        let address = self.address.as_str();
        bytes.put_u16(u16::try_from(address.len()).expect("an address is short"));
        bytes.put_slice(address.as_bytes());
        let length = u16::try_from(bytes.len() - HEADER_LENGTH).expect("a hello is short");
        bytes[MAGIC.len()..HEADER_LENGTH].copy_from_slice(&length.to_be_bytes());
        bytes
    }

    /// Takes a hello from what has come; `None`: there is more to come.
    pub fn decode(bytes: &mut BytesMut) -> Result<Option<Self>, HelloError> {
        let seen = bytes.len().min(MAGIC.len());
        if bytes[..seen] != MAGIC[..seen] {
            return Err(HelloError::Magic);
        }
        if bytes.len() < HEADER_LENGTH {
            return Ok(None);
        }
        let length = usize::from(u16::from_be_bytes([bytes[MAGIC.len()], bytes[MAGIC.len() + 1]]));
        if length > HELLO_BYTES_MAX - HEADER_LENGTH {
            return Err(HelloError::Length);
        }
        if bytes.len() < HEADER_LENGTH + length {
            return Ok(None);
        }
        bytes.advance(HEADER_LENGTH);
        let body = bytes.split_to(length);
        Self::body(&body).ok_or(HelloError::Damaged).map(Some)
    }

    fn body(mut body: &[u8]) -> Option<Self> {
        let versions = Versions {
            oldest: body.try_get_u8().ok()?,
            newest: body.try_get_u8().ok()?,
        };
        let node = NodeId(body.try_get_u64().ok()?);
        let starts = Starts::decode(&mut body)?;
        let wall = body.try_get_u64().ok()?;
        let cluster = body.try_get_u64().ok()?;
        let size = body.try_get_u16().ok()?;
        let groups = body.try_get_u32().ok()?;
        let length = usize::from(body.try_get_u16().ok()?);
        let address = std::str::from_utf8(body.get(..length)?).ok()?;
        let is_possible = node.0 != 0 && versions.oldest <= versions.newest;
        is_possible.then_some(())?;
        Some(Self {
            versions,
            node,
            starts,
            wall,
            cluster: (cluster != 0).then_some(ClusterId(cluster)),
            size,
            groups,
            address: address.parse().ok()?,
        })
    }

    /// What speaks against going on with a node, whatever else is known of it. Clocks are another matter: they are compared over a
    /// round trip ([`Hello::check_clock`]).
    pub fn check(&self, theirs: &Self) -> Result<(), Refusal> {
        let refuse = |code, text| Err(Refusal::new(code, text));
        let (own, other) = (self.named(), theirs.named());
        if !self.versions.meets(theirs.versions) {
            let text = format!(
                "there is no version of the protocol that both speak: {own} has {}, {other} has {}",
                self.versions, theirs.versions
            );
            return refuse(RefusalCode::Version, text);
        }
        if self.starts == theirs.starts && self.node == theirs.node {
            return refuse(RefusalCode::Itself, format!("{own} dialled itself"));
        }
        if self.node == theirs.node {
            let text = format!(
                "there are two nodes with the id {}, at {} and at {}: one has a copy of the other's data directory; \
                 stop one of them, and start it with an empty directory",
                self.node, self.address, theirs.address
            );
            return refuse(RefusalCode::SameNode, text);
        }
        match (self.cluster, theirs.cluster) {
            (Some(ours), Some(its)) if ours != its => {
                let text = format!(
                    "they belong to different clusters: {own} to {ours}, {other} to {its}; check the addresses in cluster.join"
                );
                refuse(RefusalCode::Cluster, text)
            }
            (None, None) if self.size != theirs.size => {
                let text = format!(
                    "they want clusters of different sizes: {own} has cluster.size = {}, {other} has {}",
                    self.size, theirs.size
                );
                refuse(RefusalCode::Size, text)
            }
            (None, None) if self.groups != theirs.groups => {
                let text = format!(
                    "they want different numbers of groups: {own} has cluster.groups = {}, {other} has {}",
                    self.groups, theirs.groups
                );
                refuse(RefusalCode::Groups, text)
            }
            _ => Ok(()),
        }
    }

    /// Whether the clocks differ by more than `skew_max`; all in milliseconds. The other's was read somewhere within the round
    /// trip, which ended at `received`: half of that may be the network's.
    pub fn check_clock(&self, theirs: &Self, received: u64, skew_max: u64) -> Result<(), Refusal> {
        let trip = received.saturating_sub(self.wall);
        let offset = clock_offset(received, trip, theirs.wall);
        if is_clock_within(offset, trip, skew_max) {
            return Ok(());
        }
        let ahead = if offset > 0 { "ahead of" } else { "behind" };
        let text = format!(
            "the clock of {} is {} ms {ahead} that of {}, more than cluster.clock_skew_max = {skew_max} ms: \
             set both by NTP or the like",
            theirs.named(),
            offset.unsigned_abs(),
            self.named(),
        );
        Err(Refusal::new(RefusalCode::Clock, text))
    }

    /// For lines in the log.
    fn named(&self) -> String {
        format!("node {} at {}", self.node, self.address)
    }
}

impl Versions {
    fn meets(self, other: Self) -> bool {
        self.oldest <= other.newest && other.oldest <= self.newest
    }
}

impl std::fmt::Display for Versions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.newest - self.oldest {
            0 => write!(f, "version {}", self.newest),
            _ => write!(f, "versions {} to {}", self.oldest, self.newest),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    fn hello() -> Hello {
        Hello {
            versions: VERSIONS,
            node: NodeId(0x0102),
            starts: Starts::first(3).with_next(4).expect("a second start"),
            wall: 1_000_000,
            cluster: Some(ClusterId(0x0506)),
            size: 3,
            groups: 1,
            address: "a:7".parse().expect("an address"),
        }
    }

    fn other() -> Hello {
        Hello {
            node: NodeId(9),
            starts: Starts::first(5),
            address: "b:7".parse().expect("an address"),
            ..hello()
        }
    }

    /// Bytes that version 5 sends. Another form needs another version.
    const GOLDEN: &[u8] = b"sthdpeer\x00\x3a\x05\x05\
        \0\0\0\0\0\0\x01\x02\0\0\0\x02\x02\0\0\0\0\0\0\0\x03\0\0\0\0\0\0\0\x04\0\0\0\0\0\x0f\x42\x40\0\0\0\0\0\0\x05\x06\0\x03\0\0\0\x01\0\x03a:7";

    #[test]
    fn a_hello_is_written_as_ever_and_read() {
        assert_eq!(hello().encode(), GOLDEN);
        let mut bytes = BytesMut::from(GOLDEN);
        bytes.put_slice(b"more");
        assert_eq!(Hello::decode(&mut bytes), Ok(Some(hello())));
        assert_eq!(bytes, &b"more"[..]);
    }

    #[test]
    fn what_a_later_version_adds_is_passed_over() {
        let mut bytes = BytesMut::from(GOLDEN);
        bytes.put_slice(b"new");
        bytes[9] += 3;
        assert_eq!(Hello::decode(&mut bytes), Ok(Some(hello())));
        assert!(bytes.is_empty());
    }

    #[test]
    fn any_bytes_are_a_hello_or_more_is_awaited_or_they_are_refused() {
        for length in 0..GOLDEN.len() {
            assert_eq!(Hello::decode(&mut GOLDEN[..length].into()), Ok(None));
        }
        let refused = |bytes: &[u8]| Hello::decode(&mut BytesMut::from(bytes)).expect_err("refused");
        assert_eq!(refused(b"G"), HelloError::Magic);
        assert_eq!(refused(b"sthdpeer\xff\xff"), HelloError::Length);
        assert_eq!(refused(b"sthdpeer\0\x01\x01"), HelloError::Damaged);
        let mut random = Random::new(1);
        for _ in 0..20_000 {
            let mut bytes = BytesMut::from(GOLDEN);
            for _ in 0..random.between(1, 4) {
                let place = random.between(8, bytes.len());
                bytes[place] = random.next() as u8;
            }
            let _ = Hello::decode(&mut bytes);
        }
    }

    #[test]
    fn nodes_of_one_cluster_go_on_and_others_are_told_why_not() {
        let check = |change: fn(&mut Hello), expected: Option<RefusalCode>| {
            let mut theirs = other();
            change(&mut theirs);
            let found = hello().check(&theirs).err().map(|refusal| refusal.code);
            assert_eq!(found, expected, "{theirs:?}");
        };
        check(|_| {}, None);
        check(|theirs| theirs.cluster = None, None);
        check(
            |theirs| theirs.cluster = Some(ClusterId(7)),
            Some(RefusalCode::Cluster),
        );
        check(|theirs| theirs.node = hello().node, Some(RefusalCode::SameNode));
        check(
            |theirs| (theirs.node, theirs.starts) = (hello().node, hello().starts),
            Some(RefusalCode::Itself),
        );
        const NEWER: Versions = Versions {
            oldest: VERSIONS.newest + 1,
            newest: VERSIONS.newest + 2,
        };
        check(|theirs| theirs.versions = NEWER, Some(RefusalCode::Version));
        let newest = Versions {
            oldest: NEWER.newest,
            newest: NEWER.newest + 4,
        };
        assert!(NEWER.meets(newest));
    }

    #[test]
    fn who_forms_a_cluster_wants_the_same_one() {
        let unformed = |hello: Hello| Hello {
            cluster: None,
            ..hello
        };
        let check = |size, groups| {
            let theirs = Hello {
                size,
                groups,
                ..unformed(other())
            };
            unformed(hello()).check(&theirs).err().map(|refusal| refusal.code)
        };
        assert_eq!(check(3, 1), None);
        assert_eq!(check(5, 1), Some(RefusalCode::Size));
        assert_eq!(check(3, 4), Some(RefusalCode::Groups));
    }

    #[test]
    fn a_clock_may_be_off_by_what_is_allowed_and_half_of_the_round_trip() {
        let check = |theirs: i64, trip: u64| {
            let wall = hello().wall.saturating_add_signed(theirs);
            let received = hello().wall + trip;
            hello()
                .check_clock(&Hello { wall, ..other() }, received, 500)
                .is_ok()
        };
        assert!(check(500, 0) && check(-500, 0));
        assert!(!check(501, 0) && !check(-501, 0));
        // Read at the beginning of the round trip, or at its end.
        assert!(check(-500, 300) && check(800, 300));
        assert!(!check(-501, 300) && !check(801, 300));
        assert!(!check(i64::MAX, 0) && !check(i64::MIN, 0));
    }
}
