//! What two nodes say to each other on a connection, as bytes: who they are ([`Hello`]), then [`Frame`]s.
//!
//! A connection carries messages from the node that made it to the node that took it. Both say hello first, both look at the
//! other's, and both say whether they go on ([`Frame::Welcome`], [`Frame::Refused`]). Nothing here is trusted before it was
//! checked: who may say hello is a matter of TLS, at the edge.

mod address;
mod agreed_clock;
mod clock_watch;
mod frame;
mod hello;
mod refusal;
mod starts;

pub use address::{AddressError, PeerAddress};
pub use agreed_clock::{AgreedClock, ClockNews, DOUBTED_FOR, Reading};
pub use clock_watch::{ClockWatch, clock_offset, is_clock_within};
pub use frame::{FRAME_BYTES_MAX, Frame, FrameDecoder, FrameError, Kind};
pub use hello::{HELLO_BYTES_MAX, Hello, HelloError, VERSIONS, Versions};
pub use refusal::{Refusal, RefusalCode};
pub use starts::{Start, Starts};
