//! What a node says of the cluster that is to be formed, as bytes.
//!
//! ```text
//! version u8 (1) | stage u8 (0 waiting, 1 promised, 2 formed) | nodes that it sees: count u8, as founders of a founding
//!   | the founding (forming/founding.rs), unless it is waiting
//! ```

use bytes::{Buf, BufMut, BytesMut};

use super::founding::{Founder, Founding, decode_founders, encode_founders};
use super::{Stage, Step};

/// What a node says of the cluster that is to be formed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Statement {
    /// The nodes that it is in contact with and that are not formed, itself among them, in the order of their ids.
    pub sees: Vec<Founder>,
    /// How far it is: durable before it is said.
    pub stage: Stage,
}

const VERSION: u8 = 1;

/// Of more nodes a statement does not tell: they are too many in any case.
pub(super) const SEEN_MAX: usize = 16;

impl Statement {
    pub(crate) fn encode(&self, to: &mut BytesMut) {
        to.put_u8(VERSION);
        let (step, founding) = match &self.stage {
            Stage::Waiting => (0, None),
            Stage::Bound(Step::Promised, founding) => (1, Some(founding)),
            Stage::Bound(Step::Formed, founding) => (2, Some(founding)),
        };
        to.put_u8(step);
        let sees = &self.sees[..self.sees.len().min(SEEN_MAX)];
        to.put_u8(u8::try_from(sees.len()).expect("at most SEEN_MAX"));
        encode_founders(sees, to);
        if let Some(founding) = founding {
            founding.encode(to);
        }
    }

    pub(crate) fn decode(mut bytes: &[u8]) -> Option<Self> {
        let is_known = bytes.try_get_u8().ok()? == VERSION;
        is_known.then_some(())?;
        let step = bytes.try_get_u8().ok()?;
        let count = usize::from(bytes.try_get_u8().ok()?);
        (count <= SEEN_MAX).then_some(())?;
        let sees = decode_founders(&mut bytes, count)?;
        let stage = match step {
            0 => Stage::Waiting,
            1 => Stage::Bound(Step::Promised, Founding::decode(&mut bytes)?),
            2 => Stage::Bound(Step::Formed, Founding::decode(&mut bytes)?),
            _ => return None,
        };
        bytes.is_empty().then_some(Self { sees, stage })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NodeId;

    /// Bytes that version 1 sends. Another form needs another version.
    #[test]
    fn statements_of_version_1_are_written_as_ever_and_read() {
        let founder = Founder {
            node: NodeId(2),
            address: "a:1".parse().expect("an address"),
        };
        let founding = Founding::new(vec![founder.clone()], 1).expect("possible");
        let golden: [(Stage, &[u8]); 3] = [
            (Stage::Waiting, b"\x01\0\x01\0\0\0\0\0\0\0\x02\0\x03a:1"),
            (
                Stage::Bound(Step::Promised, founding.clone()),
                b"\x01\x01\x01\0\0\0\0\0\0\0\x02\0\x03a:1\0\0\0\x01\x01\0\0\0\0\0\0\0\x02\0\x03a:1",
            ),
            (
                Stage::Bound(Step::Formed, founding),
                b"\x01\x02\x01\0\0\0\0\0\0\0\x02\0\x03a:1\0\0\0\x01\x01\0\0\0\0\0\0\0\x02\0\x03a:1",
            ),
        ];
        for (stage, golden) in golden {
            let statement = Statement {
                sees: vec![founder.clone()],
                stage,
            };
            let mut bytes = BytesMut::new();
            statement.encode(&mut bytes);
            assert_eq!(bytes, golden);
            assert_eq!(Statement::decode(golden), Some(statement));
            for length in 0..golden.len() {
                assert_eq!(Statement::decode(&golden[..length]), None);
            }
        }
        assert_eq!(Statement::decode(b"\x02\0\0"), None);
        assert_eq!(Statement::decode(b"\x01\x03\0"), None);
        assert_eq!(Statement::decode(b"\x01\0\x11"), None);
    }
}
