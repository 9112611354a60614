//! Store plane of the node: lets groups of the state store work, and hands on what other nodes send.

use bytes::Bytes;
use cluster::control::CONTROL;
use cluster::peer_header::{self, PeerError};
use cluster::{GroupId, NodeId};
use mqtt::now::Now;
use state_service::{Output, StateStoreService};

use crate::invoking::drop_message;
use crate::node::{Action, Node};
use crate::relay::RELAY;
use crate::replication::REPLICATION;

impl Node {
    /// Lets a group work, and delivers what comes out of it.
    pub(crate) fn with_group(
        &mut self,
        now: Now,
        group: GroupId,
        actions: &mut Vec<Action>,
        work: impl FnOnce(&mut StateStoreService, &mut Vec<Output>),
    ) {
        let mut outputs = std::mem::take(&mut self.outputs);
        if let Some(service) = self.groups.get_mut(group) {
            work(service, &mut outputs);
        }
        for output in outputs.drain(..) {
            self.state_store_output(now, group, output, actions);
        }
        self.outputs = outputs;
    }

    /// Lets all groups work, one after the other.
    pub(crate) fn with_each_group(
        &mut self,
        now: Now,
        actions: &mut Vec<Action>,
        mut work: impl FnMut(&mut StateStoreService, &mut Vec<Output>),
    ) {
        for group in self.groups.ids() {
            self.with_group(now, group, actions, &mut work);
        }
    }

    /// Another node is there, though its message is not whole yet.
    pub(crate) fn heard(&mut self, now: Now, from: NodeId, actions: &mut Vec<Action>) {
        self.with_each_group(now, actions, |service, outputs| service.heard(now, from, outputs));
        self.with_control(now, actions, |control, _, outputs, actions| {
            control.heard(now, from, outputs, actions);
        });
    }

    /// Another node's store plane has something to say.
    pub(crate) fn peer_message(
        &mut self,
        now: Now,
        from: NodeId,
        message: &Bytes,
        actions: &mut Vec<Action>,
    ) {
        let mut dropped = None;
        match peer_header::group_of(message) {
            Ok(group) if self.groups.get(group).is_some() => {
                self.with_group(now, group, actions, |service, outputs| {
                    dropped = service.message(now, from, message, outputs).err();
                });
            }
            Ok(REPLICATION) => self.replication_message(now, from, message, actions),
            Ok(RELAY) => self.relay_message(now, from, message, actions),
            Ok(CONTROL) if self.control.is_some() => self.control_message(now, from, message, actions),
            Ok(group) => dropped = Some(PeerError::Group { group }),
            Err(error) => dropped = Some(error),
        }
        if let Some(error) = dropped {
            drop_message(from, error, actions);
        }
    }
}
