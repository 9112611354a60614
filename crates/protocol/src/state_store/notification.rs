//! Notifications: what a registered client receives when a key changes.

use bytes::{Bytes, BytesMut};

use crate::state_store::Dialect;
use crate::state_store::resp::{self, Malformed, Reader};

/// A change of a key. Which key is in the topic, the version in the user property `__ts`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notification {
    /// The key has a new value.
    Set {
        /// The value.
        value: Bytes,
    },
    /// The key was deleted, or it expired.
    Delete,
}

impl Notification {
    /// The payload that means this notification.
    pub fn encode(&self, dialect: Dialect) -> Bytes {
        match (self, dialect) {
            (Self::Set { value }, _) => {
                let mut out = BytesMut::with_capacity(SET_START.len() + resp::bulk_length_max(value.len()));
                out.extend_from_slice(SET_START);
                resp::put_bulk(&mut out, value);
                out.freeze()
            }
            (Self::Delete, Dialect::Sdk) => Bytes::from_static(b"*2\r\n$6\r\nNOTIFY\r\n$6\r\nDELETE\r\n"),
            (Self::Delete, Dialect::Published) => Bytes::from_static(b"*2\r\n$6\r\nNOTIFY\r\n$3\r\nDEL\r\n"),
        }
    }

    /// Parses a notification of either dialect.
    pub fn parse(payload: &Bytes) -> Result<Self, Malformed> {
        let mut reader = Reader::new(payload);
        let count = reader.array()?;
        if reader.bulk_bytes()? != "NOTIFY" {
            return Err(Malformed);
        }
        let operation = reader.bulk_bytes()?;
        let notification = match (count, operation.as_ref()) {
            (2, b"DELETE" | b"DEL") => Self::Delete,
            (4, b"SET") if reader.bulk_bytes()? == "VALUE" => Self::Set {
                value: reader.bulk_bytes()?,
            },
            _ => return Err(Malformed),
        };
        reader.finish()?;
        Ok(notification)
    }
}

const SET_START: &[u8] = b"*4\r\n$6\r\nNOTIFY\r\n$3\r\nSET\r\n$5\r\nVALUE\r\n";

#[cfg(test)]
mod tests {
    use super::*;

    fn check(notification: &Notification, sdk: &[u8], published: &[u8]) {
        for (dialect, expected) in [(Dialect::Sdk, sdk), (Dialect::Published, published)] {
            let encoded = notification.encode(dialect);
            assert_eq!(encoded, expected);
            assert_eq!(Notification::parse(&encoded).as_ref(), Ok(notification));
        }
    }

    #[test]
    fn a_set_carries_the_value() {
        let bytes = b"*4\r\n$6\r\nNOTIFY\r\n$3\r\nSET\r\n$5\r\nVALUE\r\n$3\r\nabc\r\n";
        check(
            &Notification::Set {
                value: Bytes::from_static(b"abc"),
            },
            bytes,
            bytes,
        );
        let empty = b"*4\r\n$6\r\nNOTIFY\r\n$3\r\nSET\r\n$5\r\nVALUE\r\n$0\r\n\r\n";
        check(&Notification::Set { value: Bytes::new() }, empty, empty);
    }

    #[test]
    fn the_operation_of_a_delete_depends_on_the_dialect() {
        check(
            &Notification::Delete,
            b"*2\r\n$6\r\nNOTIFY\r\n$6\r\nDELETE\r\n",
            b"*2\r\n$6\r\nNOTIFY\r\n$3\r\nDEL\r\n",
        );
    }

    #[test]
    fn anything_else_is_malformed() {
        let malformed: [&'static [u8]; 6] = [
            b"",
            b"*1\r\n$6\r\nNOTIFY\r\n",
            b"*2\r\n$6\r\nNOTIFY\r\n$3\r\nSET\r\n",
            b"*4\r\n$6\r\nNOTIFY\r\n$3\r\nSET\r\n$5\r\nOTHER\r\n$1\r\nx\r\n",
            b"*2\r\n$6\r\nNOTIFY\r\n$6\r\nDELETE\r\nmore",
            b"*2\r\n$5\r\nOTHER\r\n$6\r\nDELETE\r\n",
        ];
        for payload in malformed {
            assert_eq!(Notification::parse(&Bytes::from_static(payload)), Err(Malformed));
        }
    }
}
