//! The will of a connection: armed when it begins, published if it ends badly, forgotten if it ends well.
//!
//! ```text
//!   Armed --(the connection is lost)--> Firing --(published)--> Fired
//!     \                                   |
//!      `---(DISCONNECT, or back in time)--+--> Cancelled
//! ```
//!
//! The furthest stage of a connection's will counts, whichever side wrote it, and forgotten beats them all. A side that knows of `Cancelled` or `Fired`
//! does not publish: a will is published at most once by each side of a split, and never after the side has heard of the DISCONNECT.

use super::encoding::take_array;
use super::record::{Delta, Entry, Kind, Record, Value, Writer};
use super::session::{Connection, put_connection, take_connection};
use super::vector_clock::ClockFull;

/// The will of one connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct WillState {
    /// Whose. The message is an attribute of the session.
    pub connection: Connection,
    /// How far it is.
    pub stage: WillStage,
}

/// How far a will is, in the order in which one stage beats the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum WillStage {
    /// The connection is there.
    Armed,
    /// The connection was lost; the will waits for its delay, or is being published.
    Firing,
    /// It is not to be published: the client said goodbye, or came back before the delay was over.
    Cancelled,
    /// It was published.
    Fired,
}

impl Record<WillState> {
    /// A connection with a will begins. Wills of earlier ones that do not wait to be published are forgotten.
    pub fn arm(
        &mut self,
        writer: &mut Writer,
        wall: u64,
        connection: Connection,
    ) -> Result<Delta<WillState>, ClockFull> {
        let is_over = |entry: &&Entry<WillState>| entry.value.stage != WillStage::Firing;
        let over = self.entries().filter(is_over).map(|entry| entry.dot).collect();
        let stage = WillStage::Armed;
        self.write(writer, wall, over, vec![WillState { connection, stage }])
    }

    /// A will goes on to a stage; `None`: it is there already or further, or there is no such will. Then nothing was written.
    pub fn go_on(
        &mut self,
        writer: &mut Writer,
        wall: u64,
        connection: Connection,
        stage: WillStage,
    ) -> Result<Option<Delta<WillState>>, ClockFull> {
        let same = self.entries().find(|entry| entry.value.connection == connection);
        match same.map(|entry| (entry.dot, entry.value.stage)) {
            Some((dot, known)) if known < stage => {
                let state = WillState { connection, stage };
                self.advance(writer, wall, dot, state).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// How far the will of a connection is; `None`: it has none, or it is over and forgotten.
    pub fn stage(&self, connection: Connection) -> Option<WillStage> {
        let same = self.entries().find(|entry| entry.value.connection == connection);
        same.map(|entry| entry.value.stage)
    }
}

impl Value for WillState {
    const KIND: Kind = Kind::Will;

    fn encode(&self, bytes: &mut Vec<u8>) {
        put_connection(self.connection, bytes);
        bytes.push(match self.stage {
            WillStage::Armed => 1,
            WillStage::Firing => 2,
            WillStage::Cancelled => 3,
            WillStage::Fired => 4,
        });
    }

    fn decode(bytes: &mut &[u8]) -> Option<WillState> {
        let connection = take_connection(bytes)?;
        let stage = match take_array(bytes)? {
            [1] => WillStage::Armed,
            [2] => WillStage::Firing,
            [3] => WillStage::Cancelled,
            [4] => WillStage::Fired,
            _ => return None,
        };
        Some(WillState { connection, stage })
    }
}
