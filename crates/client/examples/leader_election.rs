//! One leader of two candidates, and somebody who watches.
//!
//! `cargo run --example leader_election -- 127.0.0.1:1883`

use std::error::Error;
use std::time::Duration;

use statehold_client::{Client, LeaderElection, Options};

pub(crate) async fn run(address: &str) -> Result<(), Box<dyn Error>> {
    let election = |store| LeaderElection::new(store, "example/leader", Duration::from_secs(10));
    let first = election(Client::connect(Options::new(address)).await?.state_store());
    let second = election(Client::connect(Options::new(address)).await?.state_store());

    let mut leaders = second.watch().await?;
    assert_eq!(leaders.recv().await?, Some(None), "nobody leads");
    let leadership = first.campaign("controller-1").await?;
    assert_eq!(leaders.recv().await?, Some(Some("controller-1".into())));
    assert_eq!(first.leader().await?, Some("controller-1".into()));

    let (resigned, leadership) = tokio::join!(leadership.resign(), second.campaign("controller-2"));
    resigned?;
    let leadership = leadership?;
    assert!(leadership.is_held());
    while leaders.recv().await? != Some(Some("controller-2".into())) {}
    leadership.resign().await?;
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    run(&std::env::args()
        .nth(1)
        .unwrap_or_else(|| "127.0.0.1:1883".to_owned()))
    .await
}
