//! Membership: Hello, handshakes and convictions.
//!
//! ```text
//! introduction | run, state, incarnation, nodes of the side, lowest node of the side
//! offer        | introduction
//! answer       | introduction, stay that is answered
//! confirm      | introduction, own offer, stay that is confirmed, node of the smaller side
//! view         | present nodes: run, incarnation, state
//! ```

use cluster::NodeId;

use super::field::Field;
use super::reader::Reader;
use super::writer::Writer;
use super::{Fault, WireError};
use crate::membership::{Answer, Confirm, Introduction, Side, Stay};
use crate::view::NODES_MAX;
use crate::{NodeState, PresentNode, Run, SwimIncarnation, View};

/// First message of a connection, from each side. The version in its frame is that of the whole
/// connection.
///
/// *For ever*: the first byte of a Hello is the version, in each version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hello {
    /// Run of the sender. The streams, questions and feeds of the connection are its.
    pub run: Run,
}

impl Field for Hello {
    const BYTES_MIN: usize = Run::BYTES_MIN;

    fn put(&self, writer: &mut Writer) {
        writer.put(&self.run);
    }

    fn take(reader: &mut Reader) -> Result<Hello, WireError> {
        let run = reader.take("run")?;
        Ok(Hello { run })
    }
}

impl Field for NodeState {
    const BYTES_MIN: usize = 1;

    fn put(&self, writer: &mut Writer) {
        writer.put_byte(match self {
            NodeState::Joining => 1,
            NodeState::Running => 2,
            NodeState::MergeMinority => 3,
            NodeState::Merging => 4,
        });
    }

    fn take(reader: &mut Reader) -> Result<NodeState, WireError> {
        Ok(match reader.byte()? {
            1 => NodeState::Joining,
            2 => NodeState::Running,
            3 => NodeState::MergeMinority,
            4 => NodeState::Merging,
            found => return Err(reader.error(Fault::UnknownForm { found })),
        })
    }
}

/// Its range is checked by the membership, which knows how it is used.
impl Field for SwimIncarnation {
    const BYTES_MIN: usize = 1;

    fn put(&self, writer: &mut Writer) {
        writer.put_number(u64::from(self.0));
    }

    fn take(reader: &mut Reader) -> Result<SwimIncarnation, WireError> {
        reader.small_number().map(SwimIncarnation)
    }
}

impl Field for Stay {
    const BYTES_MIN: usize = Run::BYTES_MIN + SwimIncarnation::BYTES_MIN;

    fn put(&self, writer: &mut Writer) {
        writer.put(&self.run);
        writer.put(&self.incarnation);
    }

    fn take(reader: &mut Reader) -> Result<Stay, WireError> {
        Ok(Stay {
            run: reader.take("run of a stay")?,
            incarnation: reader.take("incarnation of a stay")?,
        })
    }
}

impl Field for Side {
    const BYTES_MIN: usize = 1 + NodeId::BYTES_MIN;

    fn put(&self, writer: &mut Writer) {
        writer.put_number(self.nodes as u64);
        writer.put(&self.lowest);
    }

    fn take(reader: &mut Reader) -> Result<Side, WireError> {
        let found = reader.positive()?;
        let nodes = usize::try_from(found).ok().filter(|nodes| *nodes <= NODES_MAX);
        let max = NODES_MAX as u64;
        Ok(Side {
            nodes: nodes.ok_or(reader.error(Fault::TooHigh { found, max }))?,
            lowest: reader.take("lowest node of a side")?,
        })
    }
}

impl Field for Introduction {
    const BYTES_MIN: usize = Run::BYTES_MIN + 2 + Side::BYTES_MIN;

    fn put(&self, writer: &mut Writer) {
        writer.put(&self.run);
        writer.put(&self.state);
        writer.put(&self.incarnation);
        writer.put(&self.side);
    }

    fn take(reader: &mut Reader) -> Result<Introduction, WireError> {
        Ok(Introduction {
            run: reader.take("run of the sender")?,
            state: reader.take("state of the sender")?,
            incarnation: reader.take("incarnation of the sender")?,
            side: reader.take("side of the sender")?,
        })
    }
}

impl Field for Answer {
    const BYTES_MIN: usize = Introduction::BYTES_MIN + Stay::BYTES_MIN;

    fn put(&self, writer: &mut Writer) {
        writer.put(&self.introduction);
        writer.put(&self.offer);
    }

    fn take(reader: &mut Reader) -> Result<Answer, WireError> {
        Ok(Answer {
            introduction: reader.take("introduction")?,
            offer: reader.take("offer that is answered")?,
        })
    }
}

impl Field for Confirm {
    const BYTES_MIN: usize = Introduction::BYTES_MIN + 1 + Stay::BYTES_MIN + 1;

    fn put(&self, writer: &mut Writer) {
        writer.put(&self.introduction);
        writer.put(&self.offer);
        writer.put(&self.answer);
        writer.put(&self.minority);
    }

    fn take(reader: &mut Reader) -> Result<Confirm, WireError> {
        Ok(Confirm {
            introduction: reader.take("introduction")?,
            offer: reader.take("offer of the sender")?,
            answer: reader.take("answer that is confirmed")?,
            minority: reader.take("node of the smaller side")?,
        })
    }
}

impl Field for PresentNode {
    const BYTES_MIN: usize = Run::BYTES_MIN + 2;

    fn put(&self, writer: &mut Writer) {
        writer.put(&self.run);
        writer.put(&self.incarnation);
        writer.put(&self.state);
    }

    fn take(reader: &mut Reader) -> Result<PresentNode, WireError> {
        Ok(PresentNode {
            run: reader.take("run of a present node")?,
            incarnation: reader.take("incarnation of a present node")?,
            state: reader.take("state of a present node")?,
        })
    }
}

impl Field for View {
    const BYTES_MIN: usize = 1;

    fn put(&self, writer: &mut Writer) {
        writer.put_list(self.nodes().iter());
    }

    fn take(reader: &mut Reader) -> Result<View, WireError> {
        let nodes: Vec<PresentNode> = reader.list()?;
        if !nodes.is_sorted() {
            return Err(reader.error(Fault::NotAscending));
        }
        View::new(nodes).map_err(|error| reader.error(error))
    }
}
