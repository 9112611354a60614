//! The user properties of responses and notifications.

use protocol::properties::UserProperties;
use protocol::state_store::properties::{
    PROTOCOL_VERSION, PROTOCOL_VERSION_VALUE, REQUESTED_VERSION, STATUS, STATUS_OK,
    STATUS_VERSION_NOT_SUPPORTED, SUPPORTED_MAJOR_VERSIONS, SUPPORTED_MAJOR_VERSIONS_VALUE, TIMESTAMP,
};
use store::Version;

/// Of a response: always a status, and the version where there is one.
pub(crate) fn of_response(version: Option<Version>) -> UserProperties {
    let timestamp = version.map(|version| version.to_hlc().to_string());
    let timestamp = timestamp.as_deref().map(|timestamp| (TIMESTAMP, timestamp));
    let always = [(STATUS, STATUS_OK), (PROTOCOL_VERSION, PROTOCOL_VERSION_VALUE)];
    encode(always.into_iter().chain(timestamp))
}

/// Of the response to a request of a version that is not ours.
pub(crate) fn of_unsupported_version(asked: &str) -> UserProperties {
    encode([
        (STATUS, STATUS_VERSION_NOT_SUPPORTED),
        (PROTOCOL_VERSION, PROTOCOL_VERSION_VALUE),
        (SUPPORTED_MAJOR_VERSIONS, SUPPORTED_MAJOR_VERSIONS_VALUE),
        (REQUESTED_VERSION, asked),
    ])
}

/// Of a notification.
pub(crate) fn of_notification(version: Version) -> UserProperties {
    encode([(TIMESTAMP, version.to_hlc().to_string().as_str())])
}

fn encode<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> UserProperties {
    // `asked` came as a user property; all others are short and known.
    UserProperties::from_pairs(pairs).expect("names and values fit and have no U+0000")
}
