//! A lock with a fencing token, and why the token matters.
//!
//! `cargo run --example lock -- 127.0.0.1:1883`

use std::error::Error;
use std::time::Duration;

use statehold_client::{Client, ErrorText, Lock, LockError, LockOptions, Options, SetOptions, StoreError};

pub(crate) async fn run(address: &str) -> Result<(), Box<dyn Error>> {
    let first = Client::connect(Options::new(address)).await?.state_store();
    let second = Client::connect(Options::new(address)).await?.state_store();
    let options = LockOptions::new(Duration::from_secs(10));

    let lock = Lock::acquire(&first, "example/lock", options.clone()).await?;
    let old_token = lock.token();
    first
        .set(
            "example/protected",
            "1",
            SetOptions::new().fencing(old_token.clone()),
        )
        .await?;

    // Another gets it only when it is free.
    let impatient = Lock::acquire(&second, "example/lock", options.clone().wait(Duration::ZERO)).await;
    assert!(matches!(impatient, Err(LockError::NotInTime)));
    let (released, lock) = tokio::join!(lock.release(), Lock::acquire(&second, "example/lock", options));
    released?;
    let lock = lock?;
    assert!(lock.token() > old_token && lock.is_held());
    second
        .set("example/protected", "2", SetOptions::new().fencing(lock.token()))
        .await?;

    // One who still believes to hold the lock is too late.
    let late = first
        .set("example/protected", "3", SetOptions::new().fencing(old_token))
        .await;
    assert_eq!(late, Err(StoreError::Refused(ErrorText::FencingTokenLower)));

    second.del("example/protected", Some(lock.token())).await?;
    lock.release().await?;
    first.client().disconnect().await;
    second.client().disconnect().await;
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    run(&std::env::args()
        .nth(1)
        .unwrap_or_else(|| "127.0.0.1:1883".to_owned()))
    .await
}
