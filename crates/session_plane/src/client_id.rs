//! Client id: the key of a client's sessions.

use std::borrow::Borrow;
use std::sync::Arc;

/// Bytes of a client id at most: as many as a string of MQTT has. A longer one is refused.
pub const CLIENT_ID_BYTES_MAX: usize = 65_535;

/// Client id, as bytes that many entries share.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClientId(Arc<[u8]>);

impl ClientId {
    /// Client id with these bytes.
    ///
    /// # Errors
    ///
    /// [`ClientIdTooLong`] where they are more than [`CLIENT_ID_BYTES_MAX`].
    pub fn new(bytes: &[u8]) -> Result<ClientId, ClientIdTooLong> {
        if bytes.len() > CLIENT_ID_BYTES_MAX {
            return Err(ClientIdTooLong { bytes: bytes.len() });
        }
        Ok(ClientId(Arc::from(bytes)))
    }

    /// Bytes of the client id.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl Borrow<[u8]> for ClientId {
    /// Maps by client id are searched with bytes alone.
    fn borrow(&self) -> &[u8] {
        &self.0
    }
}

/// A client id is longer than MQTT allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a client id has {bytes} bytes, at most {CLIENT_ID_BYTES_MAX}")]
pub struct ClientIdTooLong {
    /// Length that was refused.
    pub bytes: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_id_has_a_bounded_length() {
        let longest = ClientId::new(&[b'a'; CLIENT_ID_BYTES_MAX]).expect("the longest");
        assert_eq!(longest.as_bytes().len(), CLIENT_ID_BYTES_MAX);
        let error = ClientId::new(&[b'a'; CLIENT_ID_BYTES_MAX + 1]).expect_err("too long");
        assert_eq!(error, ClientIdTooLong { bytes: 65_536 });
    }
}
