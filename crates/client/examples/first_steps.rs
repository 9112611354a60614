//! Set, get, watch and lock.
//!
//! `cargo run --example first_steps -- 127.0.0.1:1883`

use std::error::Error;
use std::time::Duration;

use statehold_client::{Client, Lock, LockOptions, Options, SetOptions, WatchEvent};

pub(crate) async fn run(address: &str) -> Result<(), Box<dyn Error>> {
    let client = Client::connect(Options::new(address)).await?;
    let store = client.state_store();

    store.set("example/door", "open", SetOptions::new()).await?;
    let found = store.get("example/door").await?.ok_or("it was just set")?;
    assert_eq!(found.value, "open");

    let mut changes = store.watch("example/door").await?;
    store.set("example/door", "shut", SetOptions::new()).await?;
    let change = changes.recv().await.ok_or("the watch has ended")?;
    assert!(matches!(change, WatchEvent::Set { value, .. } if value == "shut"));

    // What is written while the lock is held carries its token: a holder who comes too late is refused.
    let options = LockOptions::new(Duration::from_secs(10));
    let lock = Lock::acquire(&store, "example/lock", options).await?;
    let fenced = SetOptions::new().fencing(lock.token());
    store.set("example/pump", "7", fenced).await?;
    store.del("example/pump", Some(lock.token())).await?;
    lock.release().await?;
    store.del("example/door", None).await?;
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
