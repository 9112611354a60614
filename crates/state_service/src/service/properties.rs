//! The user properties of responses and notifications.

use protocol::properties::UserProperties;
use protocol::state_store::properties::{
    EXPIRES_AT, HELD_WITH, NEVER, NONE, PROTOCOL_VERSION, PROTOCOL_VERSION_VALUE, REQUESTED_VERSION, STATUS,
    STATUS_OK, STATUS_VERSION_NOT_SUPPORTED, SUPPORTED_MAJOR_VERSIONS, SUPPORTED_MAJOR_VERSIONS_VALUE,
    TIMESTAMP,
};
use store::{Details, Version};

/// Of a response: always a status, and the version and the key's details where there are some.
pub fn of_response(version: Option<Version>, details: Option<&Details>) -> UserProperties {
    let timestamp = version.map(|version| version.to_hlc().to_string());
    let timestamp = timestamp.as_deref().map(|timestamp| (TIMESTAMP, timestamp));
    let always = [(STATUS, STATUS_OK), (PROTOCOL_VERSION, PROTOCOL_VERSION_VALUE)];
    let Some(Details { deadline, fencing }) = details else {
        return encode(always.into_iter().chain(timestamp));
    };
    let deadline = deadline.map_or_else(|| NEVER.to_owned(), |deadline| deadline.to_string());
    // Not longer than when it came, as a user property as well.
    let fencing = fencing
        .as_ref()
        .map_or_else(|| NONE.to_owned(), ToString::to_string);
    let details = [(EXPIRES_AT, deadline.as_str()), (HELD_WITH, fencing.as_str())];
    encode(always.into_iter().chain(timestamp).chain(details))
}

/// Of the response to a request of a version that is not ours.
pub fn of_unsupported_version(asked: &str) -> UserProperties {
    encode([
        (STATUS, STATUS_VERSION_NOT_SUPPORTED),
        (PROTOCOL_VERSION, PROTOCOL_VERSION_VALUE),
        (SUPPORTED_MAJOR_VERSIONS, SUPPORTED_MAJOR_VERSIONS_VALUE),
        (REQUESTED_VERSION, asked),
    ])
}

/// Of a notification.
pub fn of_notification(version: Version) -> UserProperties {
    encode([(TIMESTAMP, version.to_hlc().to_string().as_str())])
}

fn encode<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> UserProperties {
    // `asked` came as a user property; all others are short and known.
    UserProperties::from_pairs(pairs).expect("names and values fit and have no U+0000")
}
