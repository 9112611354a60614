//! Which operations are under way, and when they and the requests nobody waits for time out.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use super::operation::OperationId;
use super::requests::RequestId;

/// What times out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Timed {
    Operation(OperationId),
    /// A request that belongs to no operation.
    Request(RequestId),
}

/// An operation that has not ended.
#[derive(Debug, Clone, Copy)]
struct Live {
    until: Instant,
    request: Option<RequestId>,
}

#[derive(Debug, Default)]
pub(super) struct Timeouts {
    due: BTreeSet<(Instant, Timed)>,
    operations: BTreeMap<OperationId, Live>,
    requests: BTreeMap<RequestId, Instant>,
}

impl Timeouts {
    pub(super) fn add_operation(&mut self, operation: OperationId, until: Instant) {
        let replaced = self.operations.insert(operation, Live { until, request: None });
        assert!(replaced.is_none(), "operation ids are unique");
        self.due.insert((until, Timed::Operation(operation)));
    }

    /// The operation waits for this request.
    pub(super) fn link(&mut self, operation: OperationId, request: RequestId) {
        if let Some(live) = self.operations.get_mut(&operation) {
            live.request = Some(request);
        }
    }

    pub(super) fn add_request(&mut self, request: RequestId, until: Instant) {
        self.requests.insert(request, until);
        self.due.insert((until, Timed::Request(request)));
    }

    /// False if it has ended before.
    pub(super) fn remove_operation(&mut self, operation: OperationId) -> bool {
        let Some(live) = self.operations.remove(&operation) else {
            return false;
        };
        self.due.remove(&(live.until, Timed::Operation(operation)));
        true
    }

    pub(super) fn remove_request(&mut self, request: RequestId) {
        if let Some(until) = self.requests.remove(&request) {
            self.due.remove(&(until, Timed::Request(request)));
        }
    }

    /// The request that `operation` waits for.
    pub(super) fn request_of(&self, operation: OperationId) -> Option<RequestId> {
        self.operations.get(&operation)?.request
    }

    /// What is due; it stays until it is removed.
    pub(super) fn first_due(&self, now: Instant) -> Option<Timed> {
        let (until, timed) = self.due.first()?;
        (*until <= now).then_some(*timed)
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        self.due.first().map(|(until, _)| *until)
    }

    /// Operations under way.
    pub(super) fn operations(&self) -> usize {
        self.operations.len()
    }

    /// Forgets everything; the operations that were under way.
    pub(super) fn clear(&mut self) -> Vec<OperationId> {
        self.due.clear();
        self.requests.clear();
        std::mem::take(&mut self.operations).into_keys().collect()
    }
}
