//! Values of entries, as far as the plane reads them.

use crate::publishing::PacketUse;
use crate::transfer::TransferValue;

/// Value that may be that of a packet id. The plane reads these: they fill holes of QoS 2 numbers.
///
/// `M` is the content of messages.
pub trait NumberedValue<M>: Sized {
    /// Value of the entry of a packet id. `body` is the content of its message; None where the id is
    /// free.
    fn of_use(packet_use: PacketUse, body: Option<M>) -> Self;

    /// Use of the packet id. None where the value is of something else.
    fn packet_use(&self) -> Option<PacketUse>;

    /// Content of the message of the packet id.
    fn body(&self) -> Option<M>;
}

/// Value of the entries of a plane.
pub trait PlaneValue<M>: TransferValue + NumberedValue<M> + Ord + Clone {}

impl<V, M> PlaneValue<M> for V where V: TransferValue + NumberedValue<M> + Ord + Clone {}
