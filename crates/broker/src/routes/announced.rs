//! What this node tells the others that it wants: each filter once, however many of its sessions are subscribed to it.

use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Unbounded};

use bytes::Bytes;
use protocol::topic::{SubscriptionFilter, TopicFilter};

use super::messages::{self, ADD, BEGIN, END, SHARE};

/// An item about routes: its kind, and what follows that.
pub(super) type RouteItem = (u8, Bytes);

/// The filters of the sessions on this node.
#[derive(Debug, Default)]
pub(super) struct Announced {
    /// With how many sessions are subscribed to each.
    filters: BTreeMap<TopicFilter, u32>,
    /// With how many sharers are connected, and all.
    shares: BTreeMap<SubscriptionFilter, (u32, u32)>,
}

/// How far everything was announced to a node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) enum Cursor {
    #[default]
    Begin,
    Filters(Option<TopicFilter>),
    Shares(Option<SubscriptionFilter>),
    Done,
}

impl Announced {
    /// One more session wants this. True if it is the first.
    pub(super) fn add(&mut self, filter: &TopicFilter) -> bool {
        if let Some(count) = self.filters.get_mut(filter) {
            *count += 1;
            return false;
        }
        self.filters.insert(filter.detached(), 1);
        true
    }

    /// A session does not want this any more. True if nobody does.
    pub(super) fn remove(&mut self, filter: &TopicFilter) -> bool {
        let Some(count) = self.filters.get_mut(filter) else {
            return false;
        };
        *count -= 1;
        let is_last = *count == 0;
        if is_last {
            self.filters.remove(filter);
        }
        is_last
    }

    /// So many share something. True if it were others before.
    pub(super) fn share(&mut self, filter: &SubscriptionFilter, counts: (u32, u32)) -> bool {
        let before = self.shares.get_mut(filter);
        match before {
            Some(before) if *before == counts => false,
            _ if counts.1 == 0 => self.shares.remove(filter).is_some(),
            Some(before) => {
                *before = counts;
                true
            }
            None => {
                self.shares.insert(filter.detached(), counts);
                true
            }
        }
    }

    /// The next items of an announcement of everything.
    pub(super) fn next(&self, cursor: &mut Cursor, count: usize, items: &mut Vec<RouteItem>) {
        match cursor {
            Cursor::Begin => {
                items.push((BEGIN, Bytes::new()));
                *cursor = Cursor::Filters(None);
            }
            Cursor::Filters(last) => {
                let from = last.as_ref().map_or(Unbounded, Excluded);
                let filters = self
                    .filters
                    .range::<TopicFilter, _>((from, Unbounded))
                    .take(count);
                let before = items.len();
                items.extend(filters.clone().map(|(filter, _)| (ADD, bytes_of(filter))));
                *cursor = match filters.last() {
                    Some((latest, _)) if items.len() - before == count => {
                        Cursor::Filters(Some(latest.clone()))
                    }
                    _ => Cursor::Shares(None),
                };
            }
            Cursor::Shares(last) => {
                let from = last.as_ref().map_or(Unbounded, Excluded);
                let shares = self
                    .shares
                    .range::<SubscriptionFilter, _>((from, Unbounded))
                    .take(count);
                let before = items.len();
                let item = |(filter, counts): (&SubscriptionFilter, &(u32, u32))| {
                    (SHARE, messages::share_item(filter, *counts).into())
                };
                items.extend(shares.clone().map(item));
                if let Some((latest, _)) = shares.last()
                    && items.len() - before == count
                {
                    *cursor = Cursor::Shares(Some(latest.clone()));
                } else {
                    items.push((END, Bytes::new()));
                    *cursor = Cursor::Done;
                }
            }
            Cursor::Done => {}
        }
    }

    /// How many filters and shares there are.
    pub(super) fn len(&self) -> usize {
        self.filters.len() + self.shares.len()
    }
}

/// A filter as it is sent.
pub(super) fn bytes_of(filter: &TopicFilter) -> Bytes {
    Bytes::copy_from_slice(filter.as_str().as_bytes())
}
