//! A watched key: every change, and what to do after a gap.
//!
//! `cargo run --example watch -- 127.0.0.1:1883`

use std::error::Error;
use std::time::Duration;

use statehold_client::{Client, Options, SetOptions, StateStore, WatchEvent};

/// Follows a key until it is deleted; what it was set to on the way.
async fn follow(store: &StateStore, key: &'static str) -> Result<Vec<String>, Box<dyn Error>> {
    // Watch first, then read: a change in between is seen twice, not missed.
    let mut watch = store.watch(key).await?;
    let text = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
    let mut seen: Vec<String> = store
        .get(key)
        .await?
        .map(|entry| text(&entry.value))
        .into_iter()
        .collect();
    while let Some(event) = watch.recv().await {
        match event {
            WatchEvent::Set { value, .. } => seen.push(text(&value)),
            WatchEvent::Deleted { .. } => return Ok(seen),
            // The connection was lost for a while: what the key is now must be read.
            WatchEvent::Gap => match store.get(key).await? {
                Some(entry) => seen.push(text(&entry.value)),
                None => return Ok(seen),
            },
        }
    }
    Err("the watch has ended".into())
}

pub(crate) async fn run(address: &str) -> Result<(), Box<dyn Error>> {
    let thermostat = Client::connect(Options::new(address)).await?.state_store();
    let panel = Client::connect(Options::new(address)).await?.state_store();

    panel.set("example/setpoint", "20", SetOptions::new()).await?;
    let changes = async {
        panel.set("example/setpoint", "21", SetOptions::new()).await?;
        // The store deletes it by itself, and reports that too.
        let for_a_moment = SetOptions::new().expires_in(Duration::from_secs(1));
        panel.set("example/setpoint", "22", for_a_moment).await?;
        Ok::<_, Box<dyn Error>>(())
    };
    let (seen, changed) = tokio::join!(follow(&thermostat, "example/setpoint"), changes);
    changed?;
    assert_eq!(seen?.last().map(String::as_str), Some("22"));
    thermostat.client().disconnect().await;
    panel.client().disconnect().await;
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    run(&std::env::args()
        .nth(1)
        .unwrap_or_else(|| "127.0.0.1:1883".to_owned()))
    .await
}
