//! Golden messages about interests.

use bytes::Bytes;

use crate::TopicFilter;
use crate::interests::{Interest, InterestChange, InterestChanges, InterestMessage};

pub(super) fn interests() -> Vec<(&'static str, InterestMessage<Bytes>)> {
    let change = |filter: &str, interest| InterestChange {
        filter: TopicFilter::new(filter.as_bytes()).expect("short"),
        interest,
    };
    let changes = vec![
        change("plant/+/pressure", Some(Interest::All)),
        change("plant/7/#", Some(Interest::Unstored)),
        change("alarms", None),
    ];
    let told = InterestChanges {
        after: 40,
        up_to: 44,
        is_all: true,
        changes,
    };
    vec![
        ("interests", InterestMessage::Changes(told)),
        ("confirm-interests", InterestMessage::Confirm { up_to: 44 }),
        (
            "unstored",
            InterestMessage::Unstored(Bytes::from_static(b"7.5 bar")),
        ),
    ]
}
