//! What the server's answers mean for the operations of a [`Session`].

use bytes::Bytes;
use protocol::packet::{Publish, SubAck};
use protocol::state_store::{Notification, Reply};

use super::operation::{Item, Message, OperationError, Outcome};
use super::outgoing::{Ended, Owner};
use super::requests::{self, Asker, Replied, RequestId};
use super::subscriptions::Streams;
use super::watches::is_worth_retrying;
use super::{Action, Now, Session};

impl Session {
    /// A message came: a reply, a notification, or for the subscriptions.
    pub(super) fn published(&mut self, now: Now, publish: Publish, actions: &mut Vec<Action>) {
        let Some(delivery) = self.incoming.arrived(publish.packet_id, publish.qos) else {
            return;
        };
        if publish.topic == *self.requests.response_topic() {
            let replied = self.requests.replied(&publish);
            self.replied(now, replied, actions);
            return self.incoming.taken(delivery);
        }
        let found = if let Some(key) = self.watches.key_of(&publish.topic) {
            self.notified(&key, &publish)
        } else {
            let streams = self.subscriptions.route(&publish);
            if streams.is_empty() && self.parked.takes(&publish) {
                return self.parked.push(delivery, publish);
            }
            Message::received(publish).map(|message| (streams, Item::Message(message)))
        };
        match found {
            Some((streams, item)) if !streams.is_empty() => actions.push(Action::Deliver {
                delivery,
                streams,
                item,
            }),
            _ => self.incoming.taken(delivery),
        }
    }

    /// Delivers what came before anybody subscribed to it.
    pub(super) fn deliver_parked(&mut self, actions: &mut Vec<Action>) {
        for (delivery, publish) in self
            .parked
            .take_matching(|publish| !self.subscriptions.route(publish).is_empty())
        {
            let streams = self.subscriptions.route(&publish);
            match Message::received(publish) {
                Some(message) => actions.push(Action::Deliver {
                    delivery,
                    streams,
                    item: Item::Message(message),
                }),
                None => self.incoming.taken(delivery),
            }
        }
    }

    fn notified(&mut self, key: &Bytes, publish: &Publish) -> Option<(Streams, Item)> {
        let change = Notification::parse(&publish.payload).ok()?;
        let version = requests::version(&publish.properties.user_properties).ok()?;
        let streams = self.watches.changed(key, version.as_ref());
        Some((streams, Item::Change { change, version }))
    }

    fn replied(&mut self, now: Now, replied: Option<Replied>, actions: &mut Vec<Action>) {
        let Some(Replied {
            request,
            asker,
            result,
        }) = replied
        else {
            return;
        };
        self.timeouts.remove_request(request);
        match asker {
            Asker::Operation(operation) => {
                let result = result.map(|(reply, version)| Outcome::Replied { reply, version });
                self.complete(Some(operation), result, actions);
            }
            Asker::Watch(key) => self.watch_answered(now, &key, &result.map(|(reply, _)| reply), actions),
            Asker::Nobody => {}
        }
    }

    /// A registration was answered, or could not be made.
    fn watch_answered(
        &mut self,
        now: Now,
        key: &Bytes,
        result: &Result<Reply, OperationError>,
        actions: &mut Vec<Action>,
    ) {
        if *result == Ok(Reply::Ok) {
            let registered = self.watches.registered(key);
            actions.extend(registered.streams.into_iter().map(Action::Gap));
            for operation in registered.operations {
                self.complete(Some(operation), Ok(Outcome::Watching), actions);
            }
            return;
        }
        if is_worth_retrying(result) {
            return self.watches.put_off(now.instant, key);
        }
        let refused = self.watches.refused(key);
        for stream in refused.streams {
            let error = result.clone().err().unwrap_or(OperationError::MalformedReply);
            actions.push(Action::EndStream { stream, error });
        }
        for operation in refused.operations {
            let result = result
                .clone()
                .map(|reply| Outcome::Replied { reply, version: None });
            self.complete(Some(operation), result, actions);
        }
    }

    /// Deliveries to the server have ended. A request whose delivery went well still waits for its reply.
    pub(super) fn end_deliveries(
        &mut self,
        now: Now,
        ended: impl IntoIterator<Item = Ended>,
        actions: &mut Vec<Action>,
    ) {
        for (owner, result) in ended {
            match (owner, result) {
                (Owner::Operation(operation), result) => self.complete(Some(operation), result, actions),
                (Owner::Request(request), Err(error)) => self.fail_request(now, request, error, actions),
                (Owner::Request(_), Ok(_)) | (Owner::Nobody, _) => {}
            }
        }
    }

    /// A request will not be answered.
    pub(super) fn fail_request(
        &mut self,
        now: Now,
        request: RequestId,
        error: OperationError,
        actions: &mut Vec<Action>,
    ) {
        if let Some(asker) = self.requests.failed(request) {
            self.replied(
                now,
                Some(Replied {
                    request,
                    asker,
                    result: Err(error),
                }),
                actions,
            );
        }
    }

    pub(super) fn subscribed(&mut self, now: Now, suback: SubAck, actions: &mut Vec<Action>) {
        let Some(subscribed) = self.subscriptions.suback(suback, &mut self.ids) else {
            return;
        };
        match subscribed.result {
            Ok(reasons) => self.complete(subscribed.operation, Ok(Outcome::Subscribed(reasons)), actions),
            Err(error) if subscribed.stream == Self::RESPONSES => {
                for request in self.requests.all() {
                    self.outgoing.forget(Owner::Request(request));
                    self.fail_request(now, request, error.clone(), actions);
                }
            }
            // The store hands notifications to the client that registered, subscribed or not.
            Err(_) if subscribed.stream == Self::NOTIFICATIONS => {}
            Err(error) if subscribed.operation.is_some() => {
                self.complete(subscribed.operation, Err(error), actions);
            }
            Err(error) => actions.push(Action::EndStream {
                stream: subscribed.stream,
                error,
            }),
        }
    }
}
