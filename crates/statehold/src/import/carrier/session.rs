//! A durable session, made in the name of its client.

use std::time::Duration;

use bytes::Bytes;
use client::{Client, ConnectError, ConnectionState, LossCause, Options, Reconnect, SubscriptionOptions};

use super::request::{Ended, PRESENT};

/// A session that is to be here.
#[derive(Debug)]
pub(in crate::import) struct DurableSession {
    /// How to connect, as nobody in particular.
    pub(in crate::import) options: Options,
    pub(in crate::import) client_id: String,
    /// How long it lasts without a connection.
    pub(in crate::import) expiry: Duration,
    pub(in crate::import) subscriptions: Vec<(String, SubscriptionOptions)>,
    /// One that is there already is not reported.
    pub(in crate::import) if_absent: bool,
}

pub(in crate::import) const SESSIONS: &str = "sessions";

impl DurableSession {
    /// Connects under its client id, subscribes, and leaves.
    ///
    /// A session that is there already is left as it is: what waits in its queue is for its client.
    pub(super) async fn make(self) -> Ended {
        let options = self
            .options
            .client_id(self.client_id.as_str())
            .clean_start(false)
            .session_expiry(self.expiry)
            .subscription_identifiers(false)
            .reconnect(Reconnect::Never);
        let name = Bytes::from(self.client_id);
        let left_out = |why: String| Ended::LeftOut {
            name: name.clone(),
            why: why.into(),
        };
        let client = match Client::connect(options).await {
            Ok(client) => client,
            Err(error @ (ConnectError::Options(_) | ConnectError::Lost { .. }))
                if !is_unreachable(&error) =>
            {
                return left_out(error.to_string());
            }
            Err(error) => return Ended::Stopped(error.into()),
        };
        let is_present = matches!(
            *client.state().borrow(),
            ConnectionState::Connected {
                session_present: true
            }
        );
        if is_present {
            client.disconnect().await;
            if self.if_absent {
                return Ended::PassedOver(PRESENT);
            }
            return left_out("a session that is here already, and is left as it is".to_owned());
        }
        let filters = self.subscriptions.iter();
        let filters: Vec<_> = filters
            .map(|(filter, options)| (filter.as_str(), *options))
            .collect();
        if filters.is_empty() {
            client.disconnect().await;
            return Ended::CarriedOver {
                what: SESSIONS,
                bytes: 0,
            };
        }
        let subscribed = client.subscribe_with(&filters).await;
        // A subscription ends when it is dropped: not before the connection has.
        client.disconnect().await;
        match subscribed {
            Ok(subscription) if subscription.reasons().iter().all(|reason| !reason.is_error()) => {
                let bytes = filters.iter().map(|(filter, _)| filter.len() as u64).sum();
                Ended::CarriedOver {
                    what: SESSIONS,
                    bytes,
                }
            }
            Ok(_) => left_out("a session of which the server does not grant all subscriptions".to_owned()),
            Err(error) => left_out(format!("a session without its subscriptions: {error}")),
        }
    }
}

/// Whether the next one would fail as well.
fn is_unreachable(error: &ConnectError) -> bool {
    match error {
        ConnectError::Options(_) => false,
        ConnectError::Transport { .. } => true,
        ConnectError::Lost { cause, .. } => !matches!(cause, LossCause::Refused { .. }),
    }
}
