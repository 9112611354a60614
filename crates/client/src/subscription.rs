//! The messages of a subscription.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_core::Stream;
use protocol::ReasonCode;

use crate::client::Client;
use crate::core::{Item, Message, OperationError, StreamId};
use crate::driver::streams::{StreamKind, StreamReceiver};

/// The messages of a subscription, in the order in which they came; dropping it ends the subscription.
///
/// A message is acknowledged when it is in here. A subscription that is full because nobody reads it holds up
/// the acknowledgements of the whole client, and after its Receive Maximum (1024) of messages everything else,
/// replies of the state store included: give slow readers a client of their own. QoS 0 messages that do not
/// fit are dropped.
#[derive(Debug)]
pub struct Subscription {
    client: Client,
    stream: StreamId,
    receiver: StreamReceiver,
    reasons: Vec<ReasonCode>,
    end: Option<OperationError>,
}

impl Subscription {
    pub(crate) fn new(
        client: Client,
        stream: StreamId,
        receiver: StreamReceiver,
        reasons: Vec<ReasonCode>,
    ) -> Self {
        Self {
            client,
            stream,
            receiver,
            reasons,
            end: None,
        }
    }

    /// The next message, or `None` when no more will come: see [`Subscription::end`].
    pub async fn recv(&mut self) -> Option<Message> {
        std::future::poll_fn(|context| self.poll(context)).await
    }

    /// The server's answer to each filter: the granted QoS, or why not.
    pub fn reasons(&self) -> &[ReasonCode] {
        &self.reasons
    }

    /// Why no more messages will come.
    pub fn end(&self) -> Option<&OperationError> {
        self.end.as_ref()
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Message>> {
        loop {
            match ready!(self.receiver.poll_recv(context)) {
                Some(Ok(Item::Message(message))) => return Poll::Ready(Some(message)),
                Some(Ok(Item::Change { .. } | Item::Gap)) => {}
                Some(Err(error)) => self.end = Some(error),
                None => return Poll::Ready(None),
            }
        }
    }
}

impl Stream for Subscription {
    type Item = Message;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Message>> {
        self.poll(context)
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.client.end_stream(self.stream, StreamKind::Subscription);
    }
}
