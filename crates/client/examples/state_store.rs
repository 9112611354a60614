//! Keys: set, get, compare and set, expire, list, delete.
//!
//! `cargo run --example state_store -- 127.0.0.1:1883`

use std::error::Error;
use std::time::Duration;

use statehold_client::{Client, Deletion, Options, SetOptions, SetOutcome};

pub(crate) async fn run(address: &str) -> Result<(), Box<dyn Error>> {
    let client = Client::connect(Options::new(address)).await?;
    let store = client.state_store();

    // A write has a version, and a read gives the same.
    let SetOutcome::Stored { version } = store.set("example/counter", "1", SetOptions::new()).await? else {
        return Err("a SET without a condition always stores".into());
    };
    let found = store.get("example/counter").await?.ok_or("it was just set")?;
    assert_eq!((found.value.as_ref(), found.version), (&b"1"[..], version));

    // Compare and set: only one of two who saw the same value goes through.
    let from_1_to_2 = SetOptions::new().if_absent_or("1");
    let first = store.set("example/counter", "2", from_1_to_2.clone()).await?;
    assert!(matches!(first, SetOutcome::Stored { .. }));
    let second = store.set("example/counter", "2", from_1_to_2).await?;
    assert!(matches!(second, SetOutcome::NotApplied { .. }));

    // A key with an end.
    let for_an_hour = SetOptions::new().expires_in(Duration::from_secs(3600));
    store.set("example/session", "token", for_an_hour).await?;

    let mut scan = store.scan("example/*");
    let mut keys = Vec::new();
    while let Some(page) = scan.next_page().await? {
        keys.extend(page);
    }
    keys.sort();
    assert_eq!(keys, ["example/counter", "example/session"]);

    // VDEL deletes what has not changed; DEL deletes whatever is there.
    let deletion = store.vdel("example/counter", "1", None).await?;
    assert!(matches!(deletion, Deletion::OtherValue { .. }));
    for key in keys {
        assert!(matches!(store.del(key, None).await?, Deletion::Deleted { .. }));
    }
    client.disconnect().await;
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    run(&std::env::args()
        .nth(1)
        .unwrap_or_else(|| "127.0.0.1:1883".to_owned()))
    .await
}
