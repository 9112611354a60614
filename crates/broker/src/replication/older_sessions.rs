//! Sessions of a data directory whose sessions were not upon the session plane.

use bytes::Bytes;
use cluster::write::Keyspace;
use mqtt::now::Now;
use mqtt::records::RecordError;

/// Records of sessions of an older data directory.
#[derive(Debug, Default)]
pub(crate) struct OlderSessions {
    records: u64,
}

impl OlderSessions {
    /// Takes a record.
    pub(crate) fn record(&mut self, _: Now, _: Keyspace, _: &[u8], _: Bytes) -> Result<(), RecordError> {
        self.records += 1;
        Err(RecordError::Damaged {
            record: "session",
            what: "sessions of an older version are not taken over yet",
        })
    }
}
