//! Values of entries, as far as the plane reads them.

use std::time::Duration;

use crate::publishing::{PacketUse, WillNumber};
use crate::queue_limits::QueueValue;
use crate::transfer::TransferValue;
use crate::wills::WillValue;

/// Value that may be that of a packet id, or of a part of a will. The plane reads these: they fill holes
/// of QoS 2 numbers.
///
/// `M` is the content of messages.
pub trait NumberedValue<M>: WillValue + Sized {
    /// Value of the entry of a packet id. `body` is the content of its message; None where the id is
    /// free.
    fn of_use(packet_use: PacketUse, body: Option<M>) -> Self;

    /// Use of the packet id. None where the value is of something else.
    fn packet_use(&self) -> Option<PacketUse>;

    /// Value of the entry of a will's number.
    fn of_will_number(number: WillNumber) -> Self;

    /// Value of the entry of the end of a connection that has a will. The delay is None where the writer
    /// does not know it.
    fn of_will_end(delay: Option<Duration>) -> Self;

    /// Content of the message of a packet id or of a will. None only of other values, and of a packet id that
    /// is free.
    fn body(&self) -> Option<M>;
}

/// Value of the entries of a plane.
pub trait PlaneValue<M>: TransferValue + NumberedValue<M> + QueueValue + Ord + Clone {}

impl<V, M> PlaneValue<M> for V where V: TransferValue + NumberedValue<M> + QueueValue + Ord + Clone {}
