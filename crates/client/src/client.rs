//! The handle of a connected client.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use bytes::Bytes;
use protocol::packet::{QoS, SubscribeFilter, SubscriptionOptions};
use protocol::topic::{SubscriptionFilter, TopicFilterError};
use protocol::{ReasonCode, Text};
use tokio::sync::{mpsc, oneshot, watch};

use crate::core::{
    ConnectionState, LossCause, Message, Operation, OperationError, Outcome, Session, StreamId, TopicError,
};
use crate::driver::streams::{StreamKind, StreamSender};
use crate::driver::tls::Tls;
use crate::driver::{Channels, Command, Driver};
use crate::options::{Options, OptionsError};
use crate::state_store::StateStore;
use crate::subscription::Subscription;

/// An MQTT 5 client. Clones share the connection, which ends when the last one is dropped.
///
/// ```no_run
/// use statehold_client::{Client, Options, QoS};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let client = Client::connect(Options::new("127.0.0.1:1883")).await?;
/// let mut temperatures = client.subscribe("plant/+/temperature", QoS::AtLeastOnce).await?;
/// client.publish_to("plant/1/temperature", "21.5").await?;
/// while let Some(message) = temperatures.recv().await {
///     println!("{}: {:?}", message.topic.as_str(), message.payload);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Client {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    commands: mpsc::Sender<Command>,
    state: watch::Receiver<ConnectionState>,
    client_id: Text,
    timeout: Duration,
    stream_capacity: usize,
    last_stream: AtomicU32,
    seed: u64,
}

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The options cannot be used; nothing was connected.
    #[error(transparent)]
    Options(#[from] OptionsError),
    /// The transport failed.
    #[error("cannot connect to {address}: {cause}")]
    Transport {
        /// As given.
        address: String,
        /// How it failed.
        cause: Arc<io::Error>,
    },
    /// The server refused, or did not answer.
    #[error("cannot connect to {address}: {cause}")]
    Lost {
        /// As given.
        address: String,
        /// Why.
        cause: LossCause,
    },
}

/// Why there is no subscription.
#[derive(Debug, thiserror::Error)]
pub enum SubscribeError {
    /// The filter is not one; nothing was sent.
    #[error("{filter:?} is not a topic filter: {cause}")]
    Filter {
        /// As given.
        filter: String,
        /// Why.
        cause: TopicFilterError,
    },
    /// The operation failed, or the server refused.
    #[error(transparent)]
    Operation(#[from] OperationError),
}

impl Client {
    /// Connects, and fails if the first attempt does (see [`Reconnect`](crate::Reconnect)).
    ///
    /// Must be called on a tokio runtime with time and I/O enabled; the client's task runs there.
    pub async fn connect(options: Options) -> Result<Self, ConnectError> {
        let options = options.checked()?;
        let tls = options
            .tls
            .as_ref()
            .map(|tls| Tls::new(tls, options.host()))
            .transpose()
            .map_err(OptionsError::Tls)?;
        let (commands, receiver) = mpsc::channel(options.session.operations_max);
        let (state_sender, mut state) = watch::channel(ConnectionState::Connecting);
        let (transport_error, error) = watch::channel(None);
        let inner = Inner {
            commands,
            state: state.clone(),
            client_id: options.session.client_id.clone(),
            timeout: options.timeout,
            stream_capacity: options.stream_capacity,
            last_stream: AtomicU32::new(Session::FIRST_STREAM.0),
            seed: options.session.seed,
        };
        let packet_size_max = options.session.packet_size_max;
        let channels = Channels {
            commands: receiver,
            state: state_sender,
            transport_error,
        };
        let driver = Driver::new(
            Session::new(options.session),
            packet_size_max,
            options.address.clone(),
            tls,
            channels,
        );
        tokio::spawn(driver.run());
        let is_decided = |state: &ConnectionState| {
            matches!(
                state,
                ConnectionState::Connected { .. } | ConnectionState::Ended { .. }
            )
        };
        let decided = state.wait_for(is_decided).await.map(|state| state.clone());
        let address = options.address;
        match decided {
            Ok(ConnectionState::Connected { .. }) => Ok(Self {
                inner: Arc::new(inner),
            }),
            Ok(ConnectionState::Ended {
                cause: LossCause::Transport,
            }) => {
                let cause = error.borrow().clone();
                let cause = cause.unwrap_or_else(|| Arc::new(io::ErrorKind::ConnectionAborted.into()));
                Err(ConnectError::Transport { address, cause })
            }
            Ok(ConnectionState::Ended { cause }) => Err(ConnectError::Lost { address, cause }),
            Ok(ConnectionState::Connecting | ConnectionState::Waiting { .. }) | Err(_) => {
                Err(ConnectError::Lost {
                    address,
                    cause: LossCause::Transport,
                })
            }
        }
    }

    /// What the client calls itself.
    pub fn client_id(&self) -> &str {
        &self.inner.client_id
    }

    /// What the connection is doing, and every change of it.
    pub fn state(&self) -> watch::Receiver<ConnectionState> {
        self.inner.state.clone()
    }

    /// The state store of the server.
    pub fn state_store(&self) -> StateStore {
        StateStore::new(self.clone())
    }

    /// Publishes a message and waits until the server has acknowledged it (QoS 0: until it is on its way).
    pub async fn publish(&self, message: Message) -> Result<ReasonCode, OperationError> {
        match self.submit(Operation::Publish(message), None).await? {
            Outcome::Published(reason) => Ok(reason),
            _ => Err(OperationError::Ended),
        }
    }

    /// Publishes a QoS 1 message with no properties.
    pub async fn publish_to(
        &self,
        topic: &str,
        payload: impl Into<Bytes>,
    ) -> Result<ReasonCode, PublishError> {
        Ok(self.publish(Message::to(topic, payload)?).await?)
    }

    /// Subscribes to one filter, shared ones (`$share/...`) included.
    pub async fn subscribe(&self, filter: &str, qos: QoS) -> Result<Subscription, SubscribeError> {
        let options = SubscriptionOptions {
            qos,
            ..SubscriptionOptions::default()
        };
        self.subscribe_with(&[(filter, options)]).await
    }

    /// Subscribes to several filters, whose messages come out of one [`Subscription`]. It fails only if the
    /// server refuses all of them; see [`Subscription::reasons`].
    pub async fn subscribe_with(
        &self,
        filters: &[(&str, SubscriptionOptions)],
    ) -> Result<Subscription, SubscribeError> {
        let filters = filters
            .iter()
            .map(|(filter, options)| line(filter, *options))
            .collect::<Result<Vec<_>, _>>()?;
        let (stream, sender, receiver) = self.new_stream();
        let operation = Operation::Subscribe { stream, filters };
        match self.submit(operation, Some((stream, sender))).await? {
            Outcome::Subscribed(reasons) => Ok(Subscription::new(self.clone(), stream, receiver, reasons)),
            _ => Err(OperationError::Ended.into()),
        }
    }

    /// Ends the session: what is under way fails, and the server is told. Returns when that is written.
    pub async fn disconnect(&self) {
        let (done, is_done) = oneshot::channel();
        if self
            .inner
            .commands
            .send(Command::Disconnect { done })
            .await
            .is_ok()
        {
            let _ = is_done.await;
        }
    }

    pub(crate) fn timeout(&self) -> Duration {
        self.inner.timeout
    }

    /// Differs from client to client, if the options' seed does.
    pub(crate) fn seed(&self) -> u64 {
        self.inner.seed
    }

    /// Differs from call to call.
    pub(crate) fn next_number(&self) -> u32 {
        self.inner.last_stream.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn new_stream(&self) -> (StreamId, StreamSender, crate::driver::streams::StreamReceiver) {
        let stream = StreamId(self.next_number());
        let (sender, receiver) = mpsc::channel(self.inner.stream_capacity);
        (stream, sender, receiver)
    }

    /// Drops a stream that nobody reads.
    pub(crate) fn end_stream(&self, stream: StreamId, kind: StreamKind) {
        // With a full queue the stream ends with the client; its messages are thrown away until then.
        let _ = self.inner.commands.try_send(Command::EndStream(stream, kind));
    }

    pub(crate) async fn submit(
        &self,
        operation: Operation,
        stream: Option<(StreamId, StreamSender)>,
    ) -> Result<Outcome, OperationError> {
        self.submit_within(self.inner.timeout, operation, stream).await
    }

    pub(crate) async fn submit_within(
        &self,
        timeout: Duration,
        operation: Operation,
        stream: Option<(StreamId, StreamSender)>,
    ) -> Result<Outcome, OperationError> {
        let (done, result) = oneshot::channel();
        let command = Command::Submit {
            operation,
            timeout,
            stream,
            done,
        };
        self.inner
            .commands
            .try_send(command)
            .map_err(|error| match error {
                mpsc::error::TrySendError::Full(_) => OperationError::QueueFull,
                mpsc::error::TrySendError::Closed(_) => OperationError::Ended,
            })?;
        result.await.unwrap_or(Err(OperationError::Ended))
    }
}

/// Why a message was not published.
#[derive(Debug, thiserror::Error)]
pub enum PublishError {
    /// The topic is not one; nothing was sent.
    #[error(transparent)]
    Topic(#[from] TopicError),
    /// The operation failed, or the server refused.
    #[error(transparent)]
    Operation(#[from] OperationError),
}

fn line(filter: &str, options: SubscriptionOptions) -> Result<SubscribeFilter, SubscribeError> {
    let refused = |cause| SubscribeError::Filter {
        filter: filter.to_owned(),
        cause,
    };
    let text = Text::new(filter).map_err(|_| refused(TopicFilterError::Empty))?;
    SubscriptionFilter::parse(text.clone()).map_err(refused)?;
    Ok(SubscribeFilter {
        filter: text,
        options,
    })
}
