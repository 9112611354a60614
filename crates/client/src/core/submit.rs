//! What callers ask a [`Session`] for, and how it ends.

use std::time::{Duration, Instant};

use bytes::Bytes;
use protocol::packet::{QoS, RetainHandling, SubscribeFilter, SubscriptionOptions};
use protocol::state_store::Request;

use super::operation::{Operation, OperationError, OperationId, Outcome};
use super::outgoing::Owner;
use super::requests::{Asker, NewRequest, RequestId};
use super::timeouts::Timed;
use super::{Action, Now, Session};

impl Session {
    pub(super) fn submit(
        &mut self,
        now: Now,
        operation: OperationId,
        request: Operation,
        timeout: Duration,
        actions: &mut Vec<Action>,
    ) {
        if let Some(error) = self.refusal(&request) {
            return actions.push(Action::Complete {
                operation,
                result: Err(error),
            });
        }
        self.timeouts.add_operation(operation, now.instant + timeout);
        match request {
            Operation::Publish(message) => self.outgoing.push(Owner::Operation(operation), message, None),
            Operation::Subscribe { stream, filters } => {
                self.subscriptions.subscribe(stream, Some(operation), filters);
                self.deliver_parked(actions);
            }
            Operation::Unsubscribe { stream } if self.subscriptions.has(stream) => {
                self.subscriptions.unsubscribe(stream, Some(operation));
            }
            Operation::Unsubscribe { .. } => {
                self.complete(Some(operation), Ok(Outcome::Unsubscribed), actions);
            }
            Operation::Store { request, fencing } => {
                let timestamp = self.clock.now(now.wall);
                let asker = Asker::Operation(operation);
                let request = self.request(
                    now.instant + timeout,
                    NewRequest {
                        asker,
                        request: &request,
                        timestamp,
                        fencing,
                    },
                );
                self.timeouts.link(operation, request);
            }
            Operation::Watch { stream, key } => {
                if self.watches.watch(stream, operation, key) {
                    self.complete(Some(operation), Ok(Outcome::Watching), actions);
                }
            }
            Operation::Unwatch { stream } => {
                let key = self.watches.unwatch(stream);
                self.stop_watching(now, key);
                self.complete(Some(operation), Ok(Outcome::Unwatched), actions);
            }
        }
    }

    /// Why an operation cannot even begin.
    fn refusal(&self, request: &Operation) -> Option<OperationError> {
        if self.connection.is_ended() {
            return Some(OperationError::Ended);
        }
        let is_watch = matches!(request, Operation::Watch { .. });
        let is_full = self.timeouts.operations() >= self.options.operations_max
            || (is_watch && self.watches.len() >= self.options.watches_max);
        is_full.then_some(OperationError::QueueFull)
    }

    /// Puts a request into the queue, and the subscription to its reply before it.
    fn request(&mut self, until: Instant, new: NewRequest<'_>) -> RequestId {
        if !self.subscriptions.has(Self::RESPONSES) {
            let filter = own_filter(self.requests.response_topic().clone());
            self.subscriptions.subscribe(Self::RESPONSES, None, vec![filter]);
        }
        let (id, message) = self.requests.begin(until, new);
        self.outgoing.push(Owner::Request(id), message, Some(until));
        id
    }

    /// Registers the keys that have to be.
    pub(super) fn register_watches(&mut self, now: Now) {
        for key in self.watches.take_needed(now.instant) {
            if !self.subscriptions.has(Self::NOTIFICATIONS)
                && let Some(filter) = self.watches.topic_filter()
            {
                self.subscriptions
                    .subscribe(Self::NOTIFICATIONS, None, vec![own_filter(filter)]);
            }
            self.notify_request(now, Asker::Watch(key.clone()), key, false);
        }
    }

    pub(super) fn stop_watching(&mut self, now: Now, key: Option<Bytes>) {
        if let Some(key) = key {
            self.notify_request(now, Asker::Nobody, key, true);
        }
    }

    fn notify_request(&mut self, now: Now, asker: Asker, key: Bytes, stop: bool) {
        let timestamp = self.clock.now(now.wall);
        let request = Request::KeyNotify { key, stop };
        let new = NewRequest {
            asker,
            request: &request,
            timestamp,
            fencing: None,
        };
        let until = now.instant + REGISTRATION_TIMEOUT;
        let id = self.request(until, new);
        self.timeouts.add_request(id, until);
    }

    /// Ends an operation, unless it has ended.
    pub(super) fn complete(
        &mut self,
        operation: Option<OperationId>,
        result: Result<Outcome, OperationError>,
        actions: &mut Vec<Action>,
    ) {
        if let Some(operation) = operation
            && self.timeouts.remove_operation(operation)
        {
            actions.push(Action::Complete { operation, result });
        }
    }

    pub(super) fn end_overdue(&mut self, now: Now, actions: &mut Vec<Action>) {
        while let Some(timed) = self.timeouts.first_due(now.instant) {
            match timed {
                Timed::Operation(operation) => {
                    let request = self.timeouts.request_of(operation);
                    self.complete(Some(operation), Err(OperationError::TimedOut), actions);
                    self.forget(now, operation, request);
                }
                Timed::Request(request) => {
                    self.timeouts.remove_request(request);
                    self.outgoing.forget(Owner::Request(request));
                    self.fail_request(now, request, OperationError::TimedOut, actions);
                }
            }
        }
    }

    fn forget(&mut self, now: Now, operation: OperationId, request: Option<RequestId>) {
        self.outgoing.forget(Owner::Operation(operation));
        self.subscriptions.forget(operation);
        if let Some(request) = request {
            self.requests.failed(request);
            self.outgoing.forget(Owner::Request(request));
        }
        let key = self.watches.forget(operation);
        self.stop_watching(now, key);
    }

    /// Nothing will be sent any more.
    pub(super) fn end_everything(&mut self, actions: &mut Vec<Action>) {
        for operation in self.timeouts.clear() {
            actions.push(Action::Complete {
                operation,
                result: Err(OperationError::Ended),
            });
        }
        let streams = self.subscriptions.streams().chain(self.watches.streams());
        let streams = streams.filter(|stream| *stream >= Self::FIRST_STREAM);
        actions.extend(streams.map(|stream| Action::EndStream {
            stream,
            error: OperationError::Ended,
        }));
    }
}

/// A subscription to a topic that only this client uses.
fn own_filter(filter: protocol::Text) -> SubscribeFilter {
    let options = SubscriptionOptions {
        qos: QoS::AtLeastOnce,
        retain_handling: RetainHandling::DoNotSend,
        ..SubscriptionOptions::default()
    };
    SubscribeFilter { filter, options }
}

/// How long the registration of a watched key waits for its reply before it is sent again.
const REGISTRATION_TIMEOUT: Duration = Duration::from_secs(10);
