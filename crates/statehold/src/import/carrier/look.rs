//! Whether there is a retained message, for whom it matters before one is published.
//!
//! MQTT cannot ask that. But a new subscription gets what is retained, and a server that looks for it when it is asked (`broker/src/subscribing.rs`) has sent it
//! before it answers the next packet of the same connection. So each look is two subscriptions to the same topic, and when the second is answered, what is
//! retained has come, or there is nothing. For that the connection does nothing else, and one topic after the other.

use std::pin::pin;
use std::task::Poll;

use bytes::Bytes;
use client::{
    Client, OperationError, QoS, Reconnect, RetainHandling, SubscribeError, Subscription, SubscriptionOptions,
};
use tokio::sync::Mutex;
use tokio::task::unconstrained;

use crate::server::ServerArgs;

/// A connection to look with.
#[derive(Debug)]
pub(super) struct Look {
    client: Client,
    turn: Mutex<()>,
}

impl Look {
    /// Connects.
    pub(super) async fn begin(server: &ServerArgs) -> anyhow::Result<Self> {
        let mut options = server.options()?.reconnect(Reconnect::AfterFirst);
        // Another connection has the name itself.
        if let Some(client_id) = &server.client_id {
            options = options.client_id(format!("{client_id}-look"));
        }
        Ok(Self {
            client: Client::connect(options).await?,
            turn: Mutex::default(),
        })
    }

    /// The payload of what is retained for a topic name, if anything is.
    pub(super) async fn at(&self, topic: &str) -> Result<Option<Bytes>, OperationError> {
        let _turn = self.turn.lock().await;
        let mut first = self.subscribe(topic, RetainHandling::Send).await?;
        // It replaces the first one at the server, which goes on with what that is owed.
        let mut second = self.subscribe(topic, RetainHandling::DoNotSend).await?;
        let found = match retained(&mut first).await {
            None => retained(&mut second).await,
            found => found,
        };
        Ok(found)
    }

    pub(super) async fn end(&self) {
        self.client.disconnect().await;
    }

    async fn subscribe(
        &self,
        topic: &str,
        retain_handling: RetainHandling,
    ) -> Result<Subscription, OperationError> {
        let options = SubscriptionOptions {
            qos: QoS::AtLeastOnce,
            retain_handling,
            ..SubscriptionOptions::default()
        };
        match self.client.subscribe_with(&[(topic, options)]).await {
            Ok(subscription) => Ok(subscription),
            Err(SubscribeError::Operation(error)) => Err(error),
            Err(SubscribeError::Filter { .. }) => unreachable!("a topic name is a filter"),
        }
    }
}

/// What has come and was retained; what is published meanwhile comes as well.
async fn retained(subscription: &mut Subscription) -> Option<Bytes> {
    while let Some(message) = received(subscription).await {
        if message.retain {
            return Some(message.payload);
        }
    }
    None
}

/// What has come already; it does not wait.
async fn received(subscription: &mut Subscription) -> Option<client::Message> {
    let mut receiving = pin!(subscription.recv());
    let now = std::future::poll_fn(|context| {
        Poll::Ready(match receiving.as_mut().poll(context) {
            Poll::Ready(message) => message,
            Poll::Pending => None,
        })
    });
    // A task that has had its turn must not take what is there for nothing.
    unconstrained(now).await
}
