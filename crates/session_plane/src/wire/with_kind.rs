//! Messages with a kind: what the messages of one module have in common.

use super::reader::Reader;
use super::writer::Writer;
use super::{Kind, WireError};

/// Messages of one module. Each kind of the module is that of some message.
pub(super) trait WithKind: Sized {
    /// Kind of the message.
    fn kind(&self) -> Kind;

    /// Appends the fields of the message.
    fn put_fields(&self, writer: &mut Writer);

    /// Reads the fields of a message of this kind. A kind of another module is refused.
    fn take_fields(reader: &mut Reader, kind: Kind) -> Result<Self, WireError>;
}
