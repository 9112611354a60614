//! Sessions of a copy in pages, by the order of their clients.

use std::ops::Bound;

use super::*;
use crate::Fact;

#[test]
fn pages_go_on_behind_a_client_that_may_be_gone() {
    let mut copy = Sample::new(VersionVector::default());
    let client = |name: &str| ClientId::new(name.as_bytes()).expect("short");
    for (number, name) in ["a", "c", "e"].into_iter().enumerate() {
        let of = dot(0, number as u64 + 1);
        let clock = Hlc::at(1);
        let birth = Birth {
            dot: of,
            clock,
            is_clean: false,
        };
        let session = Entry {
            birth,
            clock,
            fact: Fact::Session { connected: None },
            value: 0,
        };
        let change = Change {
            dot: of,
            client: client(name),
            removes: Vec::new(),
            adds: Some(session),
        };
        copy.apply(change).expect("there is room");
    }
    let entries = copy.entries();
    let page = |from: Bound<&ClientId>| {
        let page = entries.sessions_from(from);
        page.map(|(client, _)| client.clone()).collect::<Vec<_>>()
    };
    let after = |name: Option<&str>| match name.map(client) {
        Some(client) => page(Bound::Excluded(&client)),
        None => page(Bound::Unbounded),
    };
    let from = |name: Option<&str>| match name.map(client) {
        Some(client) => page(Bound::Included(&client)),
        None => page(Bound::Unbounded),
    };
    let all = ["a", "c", "e"].map(client);
    assert_eq!((after(None), from(None)), (all.to_vec(), all.to_vec()));
    assert_eq!(
        (after(Some("a")), from(Some("a"))),
        (all[1..].to_vec(), all.to_vec())
    );
    assert_eq!(
        (after(Some("b")), from(Some("b"))),
        (all[1..].to_vec(), all[1..].to_vec())
    );
    assert_eq!((after(Some("e")), from(Some("f"))), (Vec::new(), Vec::new()));
    assert_eq!(entries.session_before(&client("a")), None);
    assert_eq!(entries.session_before(&client("d")), Some(&client("c")));
    assert_eq!(entries.clients_len(), 3);
}
