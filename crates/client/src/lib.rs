//! A client of Statehold, and of any other MQTT 5 server.
//!
//! ```no_run
//! use statehold_client::{Client, Options, SetOptions};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let client = Client::connect(Options::new("127.0.0.1:1883")).await?;
//! let store = client.state_store();
//!
//! store.set("greeting", "hello", SetOptions::new()).await?;
//! let found = store.get("greeting").await?.expect("it was just set");
//! assert_eq!(found.value, "hello");
//! # Ok(())
//! # }
//! ```
//!
//! | to | use |
//! |---|---|
//! | publish and subscribe | [`Client`], [`Subscription`] |
//! | keep keys, and watch them change | [`StateStore`], [`Watch`] |
//! | have something alone | [`Lock`], or a [`Lease`] without waiting |
//! | agree on one of many | [`LeaderElection`] |
//!
//! The client connects again by itself when the connection is lost ([`Reconnect`]): it resumes the session,
//! sends again what was not acknowledged, makes subscriptions again, and registers watched keys again, with a
//! [`WatchEvent::Gap`] for what could not be seen. Every queue has a limit and every operation a timeout.
//!
//! All decisions are made in [`mod@core`], which knows no socket, no clock and no runtime; it is all there is
//! without the feature `tokio`.
#![warn(missing_docs)]

pub mod core;

#[cfg(feature = "tokio")]
mod client;
#[cfg(feature = "tokio")]
mod clock;
#[cfg(feature = "tokio")]
mod driver;
#[cfg(feature = "tokio")]
mod leader_election;
#[cfg(feature = "tokio")]
mod lease;
#[cfg(feature = "tokio")]
mod lock;
#[cfg(feature = "tokio")]
mod options;
#[cfg(feature = "tokio")]
mod state_store;
#[cfg(feature = "tokio")]
mod subscription;
#[cfg(feature = "tokio")]
mod watch;

pub use protocol;
pub use protocol::hlc::Hlc;
pub use protocol::packet::{QoS, RetainHandling, SubscribeFilter, SubscriptionOptions};
pub use protocol::state_store::ErrorText;

pub use self::core::{
    BackoffLimits, ConnectionState, LossCause, Message, OperationError, Reconnect, TopicError,
};

#[cfg(feature = "tokio")]
pub use self::{
    client::{Client, ConnectError, PublishError, SubscribeError},
    driver::tls::{TlsError, TlsOptions},
    leader_election::{LeaderElection, LeaderWatch, Leadership},
    lease::{Lease, LeaseError},
    lock::{Lock, LockError, LockOptions, Lost},
    options::{Options, OptionsError},
    state_store::{Deletion, Entry, Scan, SetOptions, SetOutcome, StateStore, StoreError},
    subscription::Subscription,
    watch::{Watch, WatchEvent},
};
