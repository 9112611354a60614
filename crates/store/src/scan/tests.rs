use protocol::Hlc;
use protocol::state_store::Condition;

use super::*;
use crate::command::{Command, CommandAction, Origin};
use crate::stamp::Stamp;

const NOW: u64 = 1_000;

fn set(store: &mut Store, key: &[u8], expires_in: Option<u64>) {
    let action = CommandAction::Set {
        key: Bytes::copy_from_slice(key),
        value: Bytes::new(),
        condition: Condition::None,
        expires_in,
        timestamp: Hlc::parse("0:0:c").unwrap(),
        fencing: None,
        retry: None,
    };
    store.apply(
        Command {
            origin: Origin {
                node: 1,
                incarnation: 1,
                request: 1,
            },
            action,
        },
        &mut Vec::new(),
    );
}

fn store_of(keys: &[&str]) -> Store {
    let mut store = Store::new();
    store.begin(Stamp::first(NOW));
    for key in keys {
        set(&mut store, key.as_bytes(), None);
    }
    store
}

fn limits(keys_walked_max: usize, bytes_max: usize) -> ScanLimits {
    ScanLimits {
        keys_walked_max,
        bytes_max,
    }
}

/// All pages, each as its keys.
fn pages(store: &Store, pattern: &str, limits: ScanLimits) -> Vec<Vec<String>> {
    let pattern = Glob::compile(pattern.as_bytes()).unwrap();
    let (mut pages, mut token) = (Vec::new(), None);
    loop {
        let page = store
            .scan(&pattern, token.as_deref(), NOW, limits, &mut |_| true)
            .unwrap();
        let text = |key: Bytes| String::from_utf8(key.to_vec()).unwrap();
        pages.push(page.keys.into_iter().map(text).collect());
        token = page.token;
        if token.is_none() {
            return pages;
        }
        assert!(pages.len() < 1_000, "a scan ends");
    }
}

fn all(store: &Store, pattern: &str) -> Vec<String> {
    let in_one = pages(store, pattern, ScanLimits::default());
    assert_eq!(in_one.len(), 1);
    for limits in [
        limits(1, usize::MAX),
        limits(3, usize::MAX),
        limits(usize::MAX, 0),
        limits(0, 40),
    ] {
        assert_eq!(pages(store, pattern, limits).concat(), in_one[0]);
    }
    in_one.into_iter().next().unwrap()
}

#[test]
fn keys_that_match_are_listed_once_in_the_order_of_their_bytes() {
    let store = store_of(&["key2", "key1", "ke", "other", "key10", "kez"]);
    assert_eq!(all(&store, "key*"), ["key1", "key10", "key2"]);
    assert_eq!(
        all(&store, "*e*"),
        ["ke", "key1", "key10", "key2", "kez", "other"]
    );
    assert_eq!(all(&store, "key1"), ["key1"]);
    assert_eq!(all(&store, "nothing*"), [""; 0]);
    assert_eq!(all(&Store::new(), "*"), [""; 0]);
}

#[test]
fn keys_that_are_not_utf_8_or_have_expired_are_not_listed() {
    let mut store = store_of(&["a"]);
    set(&mut store, b"\xff", None);
    set(&mut store, b"due", Some(1));
    let pattern = Glob::compile(b"*").unwrap();
    let page = store
        .scan(&pattern, None, NOW + 1, ScanLimits::default(), &mut |_| true)
        .unwrap();
    assert_eq!(page.keys, [&b"a"[..]]);
    let nothing = Glob::compile(b"\xff*").unwrap();
    let page = store.scan(&nothing, None, NOW, ScanLimits::default(), &mut |_| true);
    assert_eq!(page, Ok(ScanPage::default()));
}

#[test]
fn only_keys_that_the_client_may_read_are_listed() {
    let store = store_of(&["mine/1", "mine/2", "yours/1"]);
    let pattern = Glob::compile(b"*").unwrap();
    let mut may_read = |key: &[u8]| key.starts_with(b"mine/");
    let page = store
        .scan(&pattern, None, NOW, ScanLimits::default(), &mut may_read)
        .unwrap();
    assert_eq!(page.keys, [&b"mine/1"[..], b"mine/2"]);
}

#[test]
fn a_page_is_bounded_in_keys_walked_and_may_be_empty() {
    let store = store_of(&["a", "b", "c", "d1"]);
    assert_eq!(
        pages(&store, "*1", limits(2, usize::MAX)),
        [vec![], vec!["d1".to_owned()]]
    );
}

#[test]
fn a_page_is_bounded_in_bytes_but_has_a_key() {
    let long = ["a".repeat(100), "b".repeat(100), "c".repeat(100)];
    let store = store_of(&[&long[0], &long[1], &long[2]]);
    let page_lengths = |bytes_max| -> Vec<usize> {
        pages(&store, "*", limits(usize::MAX, bytes_max))
            .iter()
            .map(Vec::len)
            .collect()
    };
    assert_eq!(page_lengths(10), [1, 1, 1]);
    assert_eq!(page_lengths(350), [2, 1]);
    assert_eq!(page_lengths(1_000), [3]);
}

#[test]
fn keys_that_come_and_go_between_pages_do_not_disturb_the_others() {
    let mut store = store_of(&["b", "c", "d"]);
    let pattern = Glob::compile(b"*").unwrap();
    let first = store
        .scan(&pattern, None, NOW, limits(2, usize::MAX), &mut |_| true)
        .unwrap();
    assert_eq!(first.keys, [&b"b"[..], b"c"]);
    set(&mut store, b"a", None);
    set(&mut store, b"cc", None);
    let action = CommandAction::Delete {
        key: Bytes::from_static(b"c"),
        only_if: None,
        timestamp: None,
        fencing: None,
        retry: None,
    };
    store.apply(
        Command {
            origin: Origin {
                node: 1,
                incarnation: 1,
                request: 1,
            },
            action,
        },
        &mut Vec::new(),
    );
    let token = first.token.unwrap();
    let second = store
        .scan(&pattern, Some(&token), NOW, limits(9, usize::MAX), &mut |_| true)
        .unwrap();
    assert_eq!(
        (second.keys, second.token),
        (vec![Bytes::from_static(b"cc"), Bytes::from_static(b"d")], None)
    );
}

#[test]
fn a_token_that_is_none_is_refused() {
    let store = store_of(&["a"]);
    let pattern = Glob::compile(b"*").unwrap();
    for token in [&b""[..], b"\x01", b"\x02a", b"a"] {
        let page = store.scan(&pattern, Some(token), NOW, ScanLimits::default(), &mut |_| true);
        assert_eq!(page, Err(ScanError::Token));
    }
}
