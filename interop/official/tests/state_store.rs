//! SET, GET, DEL, VDEL and SCAN through the official client.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use azure_iot_operations_protocol::common::hybrid_logical_clock::HybridLogicalClock;
use azure_iot_operations_services::state_store::{
    Error, ErrorKind, Response, ServiceError, SetCondition, SetOptions,
};
use interop_official::{Actor, Server, TIMEOUT};

async fn fenced_set(
    actor: &Actor,
    key: &str,
    value: &str,
    token: Option<&HybridLogicalClock>,
) -> Result<Response<bool>, Error> {
    actor
        .store
        .set(
            key.into(),
            value.into(),
            TIMEOUT,
            token.cloned(),
            SetOptions::default(),
        )
        .await
}

fn service_error<T: std::fmt::Debug>(result: Result<T, Error>) -> String {
    match result.expect_err("the store refuses this").kind() {
        ErrorKind::ServiceError(error) => format!("{error:?}"),
        other => panic!("not an answer of the store: {other:?}"),
    }
}

/// Orders two versions as the store does.
fn is_newer(later: &HybridLogicalClock, earlier: &HybridLogicalClock) -> bool {
    (later.timestamp, later.counter, &later.node_id) > (earlier.timestamp, earlier.counter, &earlier.node_id)
}

#[tokio::test]
async fn a_value_is_set_replaced_read_and_deleted() {
    let server = Server::start();
    let actor = Actor::connect(server.mqtt(), "basics").await;

    assert_eq!(actor.get("key").await, None);
    assert_eq!(actor.del("key").await, 0);
    assert!(actor.set("key", "one").await.response);
    assert_eq!(actor.get("key").await, Some(b"one".to_vec()));
    assert!(actor.set("key", "two").await.response);
    assert_eq!(actor.get("key").await, Some(b"two".to_vec()));
    assert_eq!(actor.del("key").await, 1);
    assert_eq!(actor.get("key").await, None);
    assert_eq!(actor.del("key").await, 0);

    actor.leave().await;
}

#[tokio::test]
async fn keys_and_values_are_any_bytes() {
    let server = Server::start();
    let actor = Actor::connect(server.mqtt(), "binary").await;
    let all_bytes: Vec<u8> = (0..=255).collect();

    for value in [
        all_bytes.clone(),
        Vec::new(),
        b"\r\n$3\r\nx".to_vec(),
        vec![7; 200_000],
    ] {
        let set = actor
            .store
            .set(
                all_bytes.clone(),
                value.clone(),
                TIMEOUT,
                None,
                SetOptions::default(),
            )
            .await;
        assert!(set.expect("SET is answered").response);
        let got = actor
            .store
            .get(all_bytes.clone(), TIMEOUT)
            .await
            .expect("GET is answered");
        assert!(got.response == Some(value), "the same bytes come back");
    }

    actor.leave().await;
}

#[tokio::test]
async fn a_version_is_newer_than_every_one_before_and_get_tells_the_same() {
    let server = Server::start();
    let actor = Actor::connect(server.mqtt(), "versions").await;

    // A version knows milliseconds only: the first one may be of the millisecond in which this test began.
    let whole_seconds = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .expect("now is after 1970")
        .as_secs();
    let before = HybridLogicalClock {
        timestamp: UNIX_EPOCH + Duration::from_secs(whole_seconds),
        counter: 0,
        node_id: "test".into(),
    };
    let mut last = before;
    for round in 0..20 {
        let version = actor
            .set("key", &round.to_string())
            .await
            .version
            .expect("a SET has a version");
        assert!(is_newer(&version, &last), "{version} is not newer than {last}");
        assert_eq!(version.node_id, "StateStore");
        let got = actor
            .store
            .get(b"key".to_vec(), TIMEOUT)
            .await
            .expect("GET is answered");
        assert_eq!(
            got.version.as_ref(),
            Some(&version),
            "GET tells the version that SET told"
        );
        last = version;
        if round % 5 == 4 {
            let deleted = actor
                .store
                .del(b"key".to_vec(), None, TIMEOUT)
                .await
                .expect("DEL is answered");
            assert_eq!(
                deleted.version.as_ref(),
                Some(&last),
                "DEL tells the version of what it deleted"
            );
        }
    }
    let missing = actor
        .store
        .get(b"no such key".to_vec(), TIMEOUT)
        .await
        .expect("GET is answered");
    assert_eq!(missing.version, None, "what is not there has no version");

    actor.leave().await;
}

#[tokio::test]
async fn conditions_of_set() {
    use SetCondition::{OnlyIfDoesNotExist, OnlyIfEqualOrDoesNotExist};
    let server = Server::start();
    let actor = Actor::connect(server.mqtt(), "conditions").await;

    assert!(actor.set_if("nx", "a", OnlyIfDoesNotExist).await);
    assert!(!actor.set_if("nx", "a", OnlyIfDoesNotExist).await);
    assert!(!actor.set_if("nx", "b", OnlyIfDoesNotExist).await);
    assert_eq!(actor.get("nx").await, Some(b"a".to_vec()));

    assert!(actor.set_if("nex", "a", OnlyIfEqualOrDoesNotExist).await);
    assert!(actor.set_if("nex", "a", OnlyIfEqualOrDoesNotExist).await);
    assert!(!actor.set_if("nex", "b", OnlyIfEqualOrDoesNotExist).await);
    assert_eq!(actor.get("nex").await, Some(b"a".to_vec()));

    assert_eq!(actor.del("nx").await, 1);
    assert!(actor.set_if("nx", "b", OnlyIfDoesNotExist).await);

    actor.leave().await;
}

#[tokio::test]
async fn vdel_deletes_only_the_value_it_names() {
    let server = Server::start();
    let actor = Actor::connect(server.mqtt(), "vdel").await;
    let vdel = async |key: &str, value: &str| {
        actor
            .store
            .vdel(key.into(), value.into(), None, TIMEOUT)
            .await
            .expect("VDEL is answered")
            .response
    };

    assert_eq!(vdel("key", "a").await, 0);
    actor.set("key", "a").await;
    assert_eq!(vdel("key", "b").await, -1);
    assert_eq!(actor.get("key").await, Some(b"a".to_vec()));
    assert_eq!(vdel("key", "a").await, 1);
    assert_eq!(vdel("key", "a").await, 0);

    actor.leave().await;
}

#[tokio::test]
async fn a_fenced_key_asks_for_a_token_that_is_not_older() {
    let server = Server::start();
    let actor = Actor::connect(server.mqtt(), "fencing").await;
    let older = actor.set("lock", "1").await.version.expect("a version");
    let newer = actor.set("lock", "2").await.version.expect("a version");
    let (key, value) = (b"key".to_vec(), b"a".to_vec());

    assert!(
        fenced_set(&actor, "key", "x", None).await.is_ok(),
        "not fenced yet"
    );
    assert!(
        fenced_set(&actor, "key", "a", Some(&newer))
            .await
            .expect("fences it")
            .response
    );
    assert_eq!(
        service_error(fenced_set(&actor, "key", "b", None).await),
        "MissingFencingToken"
    );
    assert_eq!(
        service_error(fenced_set(&actor, "key", "b", Some(&older)).await),
        "FencingTokenLowerVersion"
    );
    assert_eq!(actor.get("key").await, Some(value.clone()), "GET needs no token");
    assert!(
        fenced_set(&actor, "key", "a", Some(&newer))
            .await
            .expect("an equal token")
            .response
    );

    let store = &actor.store;
    assert_eq!(
        service_error(store.del(key.clone(), None, TIMEOUT).await),
        "MissingFencingToken"
    );
    assert_eq!(
        service_error(store.del(key.clone(), Some(older.clone()), TIMEOUT).await),
        "FencingTokenLowerVersion"
    );
    assert_eq!(
        service_error(store.vdel(key.clone(), value.clone(), None, TIMEOUT).await),
        "MissingFencingToken"
    );
    let other = store
        .vdel(key.clone(), b"z".to_vec(), Some(newer.clone()), TIMEOUT)
        .await;
    assert_eq!(other.expect("an answer").response, -1);
    let deleted = store.vdel(key.clone(), value, Some(newer), TIMEOUT).await;
    assert_eq!(deleted.expect("an answer").response, 1);
    assert!(
        fenced_set(&actor, "key", "b", Some(&older))
            .await
            .expect("gone, and its token too")
            .response
    );

    actor.leave().await;
}

#[tokio::test]
async fn a_token_from_the_future_is_refused() {
    let server = Server::start();
    let actor = Actor::connect(server.mqtt(), "skew").await;
    let future = HybridLogicalClock {
        timestamp: SystemTime::now() + Duration::from_secs(300),
        counter: 0,
        node_id: "test".into(),
    };

    assert_eq!(
        service_error(fenced_set(&actor, "key", "a", Some(&future)).await),
        "FencingTokenSkew"
    );
    assert_eq!(actor.get("key").await, None, "nothing was stored");
    assert_eq!(
        format!("{:?}", ServiceError::FencingTokenSkew),
        "FencingTokenSkew",
        "the names above are those of the official enum"
    );

    actor.leave().await;
}

#[tokio::test]
async fn a_key_expires_and_a_set_without_expiry_keeps_it() {
    let server = Server::start();
    let actor = Actor::connect(server.mqtt(), "expiry").await;
    let mut gone = actor
        .store
        .observe(b"gone".to_vec(), TIMEOUT)
        .await
        .expect("KEYNOTIFY is answered")
        .response;

    actor.set_for("kept", "1", Duration::from_millis(200)).await;
    actor.set("kept", "2").await;
    actor.set_for("gone", "1", Duration::from_millis(400)).await;
    assert_eq!(actor.get("gone").await, Some(b"1".to_vec()));
    gone.recv_notification().await.expect("the SET");
    gone.recv_notification().await.expect("its expiry");

    assert_eq!(actor.get("gone").await, None);
    assert_eq!(actor.get("kept").await, Some(b"2".to_vec()));
    assert!(actor.set_if("gone", "3", SetCondition::OnlyIfDoesNotExist).await);

    actor.leave().await;
}

/// All keys that the store lists for `pattern`, in order.
async fn list(actor: &Actor, pattern: &str) -> Vec<String> {
    let mut pager = actor.store.list_keys(pattern.into(), TIMEOUT).expect("a pager");
    let (mut keys, mut pages) = (Vec::new(), 0);
    while let Some(page) = pager.next().await.expect("SCAN is answered") {
        keys.extend(
            page.into_iter()
                .map(|key| String::from_utf8(key).expect("only UTF-8 is listed")),
        );
        pages += 1;
        assert!(pages <= 64, "the official tests allow 64 pages for a whole store");
    }
    assert!(pager.next().await.expect("an exhausted pager stays so").is_none());
    keys.sort_unstable();
    keys
}

#[tokio::test]
async fn scan_lists_what_the_pattern_matches_and_nothing_else() {
    let server = Server::start();
    let actor = Actor::connect(server.mqtt(), "scan").await;
    for key in [
        "p", "pa", "pb", "pc", "p1", "p2", "pab", "pabc", "p.x", "p*lit", "q", "xp", "P",
    ] {
        actor.set(key, "v").await;
    }
    actor
        .store
        .set(
            vec![b'p', 0xff],
            b"v".to_vec(),
            TIMEOUT,
            None,
            SetOptions::default(),
        )
        .await
        .expect("SET");

    let cases: &[(&str, &[&str])] = &[
        (
            "p*",
            &["p", "p*lit", "p.x", "p1", "p2", "pa", "pab", "pabc", "pb", "pc"],
        ),
        ("p?", &["p1", "p2", "pa", "pb", "pc"]),
        ("p??", &["p.x", "pab"]),
        ("p[ab]", &["pa", "pb"]),
        ("p[0-9]", &["p1", "p2"]),
        ("p[!0-9]", &["pa", "pb", "pc"]),
        ("p[^0-9]", &["p1", "p2"]),
        ("p[*]*", &["p*lit"]),
        ("*p", &["p", "xp"]),
        ("p", &["p"]),
        ("nothing*", &[]),
        ("{pa,pb}", &[]),
    ];
    for (pattern, expected) in cases {
        assert_eq!(list(&actor, pattern).await, *expected, "{pattern}");
    }

    let mut malformed = actor.store.list_keys(b"p[".to_vec(), TIMEOUT).expect("a pager");
    assert_eq!(service_error(malformed.next().await), "SyntaxError");

    actor.leave().await;
}

#[tokio::test]
async fn scan_of_many_keys_lists_each_once_and_not_the_deleted_ones() {
    let server = Server::start();
    let actor = Actor::connect(server.mqtt(), "scan-many").await;
    let key = |number: usize| format!("many/{number:05}");
    for number in 0..3_000 {
        actor.set(&key(number), "v").await;
    }

    let all: Vec<_> = (0..3_000).map(key).collect();
    assert_eq!(list(&actor, "many/*").await, all);
    for number in (0..3_000).step_by(3) {
        assert_eq!(actor.del(&key(number)).await, 1);
    }
    let rest: Vec<_> = (0..3_000).filter(|number| number % 3 != 0).map(key).collect();
    assert_eq!(list(&actor, "many/*").await, rest);

    actor.leave().await;
}
