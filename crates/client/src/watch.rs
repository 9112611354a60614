//! The changes of a watched key.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures_core::Stream;
use protocol::hlc::Hlc;
use protocol::state_store::Notification;

use crate::client::Client;
use crate::core::{Item, OperationError, StreamId};
use crate::driver::streams::{StreamKind, StreamReceiver};

/// What happened to a watched key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WatchEvent {
    /// It has a new value.
    Set {
        /// The value.
        value: Bytes,
        /// Of this write.
        version: Option<Hlc>,
    },
    /// It was deleted, or it expired.
    Deleted {
        /// Of the deletion.
        version: Option<Hlc>,
    },
    /// The connection was lost. The key is watched again, and changes in between were not seen: read it.
    Gap,
}

/// The changes of one key, in the order of their versions; dropping it ends the watch.
///
/// ```no_run
/// use statehold_client::{Client, Options, WatchEvent};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let store = Client::connect(Options::new("127.0.0.1:1883")).await?.state_store();
/// let mut watch = store.watch("setpoint").await?;
/// let mut setpoint = store.get("setpoint").await?.map(|entry| entry.value);
/// while let Some(event) = watch.recv().await {
///     setpoint = match event {
///         WatchEvent::Set { value, .. } => Some(value),
///         WatchEvent::Deleted { .. } => None,
///         WatchEvent::Gap => store.get("setpoint").await?.map(|entry| entry.value),
///     };
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Watch {
    client: Client,
    stream: StreamId,
    receiver: StreamReceiver,
    end: Option<OperationError>,
}

impl Watch {
    pub(crate) fn new(client: Client, stream: StreamId, receiver: StreamReceiver) -> Self {
        Self {
            client,
            stream,
            receiver,
            end: None,
        }
    }

    /// The next change, or `None` when no more will come: see [`Watch::end`].
    pub async fn recv(&mut self) -> Option<WatchEvent> {
        std::future::poll_fn(|context| self.poll(context)).await
    }

    /// Why no more changes will come.
    pub fn end(&self) -> Option<&OperationError> {
        self.end.as_ref()
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<WatchEvent>> {
        loop {
            return Poll::Ready(match ready!(self.receiver.poll_recv(context)) {
                Some(Ok(Item::Change {
                    change: Notification::Set { value },
                    version,
                })) => Some(WatchEvent::Set { value, version }),
                Some(Ok(Item::Change {
                    change: Notification::Delete,
                    version,
                })) => Some(WatchEvent::Deleted { version }),
                Some(Ok(Item::Gap)) => Some(WatchEvent::Gap),
                Some(Ok(Item::Message(_))) => continue,
                Some(Err(error)) => {
                    self.end = Some(error);
                    continue;
                }
                None => None,
            });
        }
    }
}

impl Stream for Watch {
    type Item = WatchEvent;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<WatchEvent>> {
        self.poll(context)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.client.end_stream(self.stream, StreamKind::Watch);
    }
}
