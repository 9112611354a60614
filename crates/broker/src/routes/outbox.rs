//! What is on its way to one node: numbered items that are kept until the node says that it has them durably.
//!
//! A frame says after which item its first one comes, so whoever takes it sees whether something is missing. What is missing is
//! sent again from there on, in order. Nothing before the first item of the outbox is missing for anybody: it was confirmed, or given up.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{BufMut, Bytes};
use cluster::NodeId;
use mqtt::now::Now;
use mqtt::subscriptions::Point;
use protocol::topic::SubscriptionFilter;

use super::messages::{self, CameBy, LOST, MESSAGE, OWED, REDIRECTED, is_route};
use super::waits::{WaitId, Waits};

/// Shares that a message was forwarded for.
pub(super) type Shares = Box<[(Arc<SubscriptionFilter>, Option<Point>)]>;

/// Items of one link, in their order.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    items: VecDeque<Outgoing>,
    /// How many of them were sent.
    sent: usize,
    /// The bytes of these that are not on disk there.
    sent_bytes: u64,
    bytes: u64,
    /// How many of them are no messages.
    routes: usize,
    /// The number of the latest one.
    latest: u64,
    /// The latest that is no message.
    latest_route: u64,
    /// Everything up to here is confirmed or given up.
    settled: u64,
    /// Who waits for which item to be on disk there.
    disk_waits: VecDeque<(u64, WaitId)>,
    /// Who waits for which item to be taken there.
    taken_waits: VecDeque<(u64, WaitId)>,
    /// Who waits for which message.
    message_waits: VecDeque<(u64, WaitId)>,
    /// Who waits for which route.
    route_waits: VecDeque<(u64, WaitId)>,
    /// The latest that tells of the loss of a node.
    latest_loss: u64,
    /// Who waits for which of these to be taken there.
    loss_waits: VecDeque<(u64, WaitId)>,
    /// Everything up to here was taken there.
    taken: u64,
    /// Everything up to here is on disk there, as far as it has said so since it was sent again.
    on_disk: u64,
}

/// An item.
#[derive(Debug)]
pub(super) struct Outgoing {
    number: u64,
    kind: u8,
    /// When a message came.
    pub(super) since: Option<Instant>,
    /// What is this receiver's alone.
    head: Vec<u8>,
    /// What all receivers get.
    pub(super) body: Bytes,
    pub(super) shares: Shares,
    pub(super) came_by: CameBy,
}

/// Bytes of a frame, unless one item has more.
const FRAME_BYTES: usize = 256 << 10;

/// Bytes that are sent and not on disk there, unless one item has more: what leaders say to their followers goes the same way, and must
/// not stand behind much else. What is on disk there does not count, although it may not be durable: it waits for copies at other nodes then, which may
/// have to come here, and two nodes with this much on the way to each other would wait for each other for ever.
const SENT_BYTES_MAX: u64 = 4 << 20;

/// What an item counts for besides its bytes.
const ITEM: u64 = 128;

impl Outbox {
    /// Appends a change of this node's routes.
    pub(super) fn push_route(&mut self, kind: u8, body: Bytes) {
        self.push_other(kind, body);
        self.latest_route = self.latest;
        self.routes += 1;
    }

    /// Appends what is neither a route nor a message. It has to be told again when the node has started anew, if it still matters.
    pub(super) fn push_other(&mut self, kind: u8, body: Bytes) {
        self.push(Outgoing {
            number: 0,
            kind,
            since: None,
            head: Vec::new(),
            body,
            shares: Shares::default(),
            came_by: CameBy::default(),
        });
    }

    /// Appends that a node is lost. Returns its number.
    pub(super) fn push_loss(&mut self, body: Bytes) -> u64 {
        self.push_other(LOST, body);
        self.latest_loss = self.latest;
        self.latest
    }

    /// Appends a message that was on its way to a node that is lost.
    pub(super) fn push_redirected(&mut self, since: Option<Instant>, body: Bytes, came_by: CameBy) {
        self.push(Outgoing {
            number: 0,
            kind: REDIRECTED,
            since,
            head: messages::came_by(&came_by),
            body,
            shares: Shares::default(),
            came_by,
        });
    }

    /// Appends a message that is owed to the node since it was lost.
    pub(super) fn push_owed(&mut self, since: Option<Instant>, head: Vec<u8>, body: Bytes) {
        self.push(Outgoing {
            number: 0,
            kind: OWED,
            since,
            head,
            body,
            shares: Shares::default(),
            came_by: CameBy::default(),
        });
    }

    /// What was on its way, and who waits for it. Everything is still there.
    pub(super) fn messages(&self) -> impl Iterator<Item = (&Outgoing, Vec<WaitId>)> {
        let messages = self.items.iter().filter(|item| item.is_message());
        messages.map(|item| (item, self.waiting_for(item.number)))
    }

    /// Appends a message.
    pub(super) fn push_message(&mut self, now: Now, head: Vec<u8>, body: Bytes, shares: Shares) {
        self.push(Outgoing {
            number: 0,
            kind: MESSAGE,
            since: Some(now.instant),
            head,
            body,
            shares,
            came_by: CameBy::default(),
        });
    }

    fn push(&mut self, item: Outgoing) {
        self.latest += 1;
        self.bytes += item.size();
        self.items.push_back(Outgoing {
            number: self.latest,
            ..item
        });
    }

    /// Lets somebody wait until the latest item is confirmed.
    pub(super) fn wait_for_message(&mut self, wait: WaitId, waits: &mut Waits) {
        waits.add(wait);
        self.message_waits.push_back((self.latest, wait));
    }

    /// Lets somebody wait until the latest item was taken there.
    pub(super) fn wait_until_taken(&mut self, wait: WaitId, waits: &mut Waits) {
        waits.add(wait);
        self.taken_waits.push_back((self.latest, wait));
    }

    /// Lets somebody wait until the latest item is on disk there.
    pub(super) fn wait_for_disk(&mut self, wait: WaitId, waits: &mut Waits) {
        waits.add(wait);
        self.disk_waits.push_back((self.latest, wait));
    }

    /// Lets somebody wait until the node knows of all losses that it was told of, if it does not.
    pub(super) fn wait_for_losses(&mut self, wait: WaitId, waits: &mut Waits) {
        if self.latest_loss > self.taken.max(self.settled) {
            waits.add(wait);
            self.loss_waits.push_back((self.latest_loss, wait));
        }
    }

    /// Those who wait for the disk there.
    pub(super) fn disk_waits(&self) -> Vec<WaitId> {
        self.disk_waits.iter().map(|(_, wait)| *wait).collect()
    }

    /// Those who wait for the message of this number.
    pub(super) fn waiting_for(&self, number: u64) -> Vec<WaitId> {
        let waits = &self.message_waits;
        let first = waits.partition_point(|(of, _)| *of < number);
        let of_number = waits.iter().skip(first).take_while(|(of, _)| *of == number);
        of_number.map(|(_, wait)| *wait).collect()
    }

    /// Lets somebody wait until all routes are confirmed; false if they are.
    pub(super) fn wait_for_routes(&mut self, wait: WaitId, waits: &mut Waits) -> bool {
        if self.latest_route <= self.settled {
            return false;
        }
        waits.add(wait);
        self.route_waits.push_back((self.latest_route, wait));
        true
    }

    /// These have waited for everything to be announced: from now on for the latest of it.
    pub(super) fn wait_for_latest_route(&mut self, waiting: &mut Vec<WaitId>) {
        let latest = self.latest_route;
        self.route_waits
            .extend(waiting.drain(..).map(|wait| (latest, wait)));
    }

    /// Lets somebody wait for all messages so far; false if there is none that somebody waits for.
    pub(super) fn wait_for_messages(&mut self, wait: WaitId, waits: &mut Waits) -> bool {
        let Some((number, _)) = self.message_waits.back().copied() else {
            return false;
        };
        waits.add(wait);
        self.message_waits.push_back((number, wait));
        true
    }

    /// Everything up to here is durable there. Says how many messages that is, and who has waited for it.
    pub(super) fn confirm(&mut self, durable: u64, over: &mut Vec<WaitId>) -> u64 {
        self.note_on_disk(durable);
        let mut messages = 0;
        while self.items.front().is_some_and(|item| item.number <= durable) {
            messages += u64::from(self.pop());
        }
        self.settled = self.settled.max(durable.min(self.latest));
        end_waits(&mut self.taken_waits, self.settled, over);
        end_waits(&mut self.disk_waits, self.settled, over);
        end_waits(&mut self.message_waits, self.settled, over);
        end_waits(&mut self.route_waits, self.settled, over);
        end_waits(&mut self.loss_waits, self.settled, over);
        messages
    }

    /// Everything up to here is on disk there.
    pub(super) fn on_disk(&mut self, on_disk: u64, over: &mut Vec<WaitId>) {
        self.note_on_disk(on_disk);
        end_waits(&mut self.disk_waits, on_disk, over);
    }

    /// Everything up to here was taken there: routes and losses are in force as soon as they are known, and need no disk.
    pub(super) fn taken(&mut self, taken: u64, over: &mut Vec<WaitId>) {
        self.taken = self.taken.max(taken);
        end_waits(&mut self.route_waits, taken, over);
        end_waits(&mut self.taken_waits, taken, over);
        end_waits(&mut self.loss_waits, taken, over);
    }

    /// Sends everything behind this item again.
    pub(super) fn rewind(&mut self, taken: u64) -> u64 {
        let before = self.sent;
        self.sent = self
            .items
            .partition_point(|item| item.number <= taken)
            .min(before);
        self.on_disk = self.on_disk.min(taken);
        let sent = self.items.iter().take(self.sent);
        let under_way = sent.filter(|item| item.number > self.on_disk);
        self.sent_bytes = under_way.map(Outgoing::size).sum();
        (before - self.sent) as u64
    }

    /// Nobody waits for the node any more. Says how many messages it does not get.
    pub(super) fn give_up(&mut self, over: &mut Vec<WaitId>) -> u64 {
        self.confirm(self.latest, over)
    }

    /// Takes out what will be announced anew; who waited for it has to wait for that.
    pub(super) fn forget_routes(&mut self, waiting: &mut Vec<WaitId>) {
        self.items.retain(|item| !is_route(item.kind));
        self.bytes = self.items.iter().map(Outgoing::size).sum();
        self.sent = 0;
        self.sent_bytes = 0;
        self.on_disk = 0;
        self.routes = 0;
        self.latest_route = 0;
        waiting.extend(self.route_waits.drain(..).map(|(_, wait)| wait));
    }

    /// The number of the latest item.
    pub(super) fn latest(&self) -> u64 {
        self.latest
    }

    /// Everything up to here is confirmed or given up.
    pub(super) fn settled(&self) -> u64 {
        self.settled
    }

    /// The item of this number, if it is not settled.
    pub(super) fn get(&self, number: u64) -> Option<&Outgoing> {
        let place = self.items.binary_search_by_key(&number, |item| item.number);
        self.items.get(place.ok()?)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.items.len()
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn routes(&self) -> usize {
        self.routes
    }

    /// What was not sent, as frames; as much of it as may be on its way at a time.
    pub(super) fn frames(&mut self, now: Now, incarnation: u32, mut send: impl FnMut(Bytes)) {
        while self.sent < self.items.len() && self.sent_bytes < SENT_BYTES_MAX {
            let after = match self.sent.checked_sub(1) {
                Some(before) => self.items[before].number,
                None => 0,
            };
            let first = self.items[self.sent].size() as usize;
            let mut bytes = messages::items(incarnation, after, self.settled, first.max(1_024));
            while let Some(item) = self.items.get(self.sent) {
                item.put(now, &mut bytes);
                self.sent += 1;
                if item.number > self.on_disk {
                    self.sent_bytes += item.size();
                }
                if bytes.len() >= FRAME_BYTES {
                    break;
                }
            }
            send(bytes.freeze());
        }
    }

    /// A frame that says up to where items were sent, for who may lack the last ones.
    pub(super) fn reminder(&self, incarnation: u32) -> Option<Bytes> {
        let last = self.items.get(self.sent.checked_sub(1)?)?;
        Some(messages::items(incarnation, last.number, self.settled, 0).freeze())
    }

    /// What was sent up to here stands in nobody's way.
    fn note_on_disk(&mut self, on_disk: u64) {
        let on_disk = on_disk.min(self.latest);
        if on_disk <= self.on_disk {
            return;
        }
        let place = |number: u64| self.items.partition_point(|item| item.number <= number);
        let (first, end) = (place(self.on_disk), place(on_disk).min(self.sent));
        let there = self.items.range(first.min(end)..end);
        self.sent_bytes -= there.map(Outgoing::size).sum::<u64>();
        self.on_disk = on_disk;
    }

    /// Takes out the first; whether it is a message.
    fn pop(&mut self) -> bool {
        let Some(item) = self.items.pop_front() else {
            return false;
        };
        assert!(item.number <= self.on_disk, "what is durable is on disk");
        self.bytes -= item.size();
        self.sent = self.sent.saturating_sub(1);
        self.routes -= usize::from(is_route(item.kind));
        item.is_message()
    }
}

impl Outgoing {
    /// How long ago it was made.
    pub(super) fn waited(&self, now: Now) -> Duration {
        self.since.map_or(Duration::ZERO, |since| {
            now.instant.saturating_duration_since(since)
        })
    }

    pub(super) fn is_for_subscriptions(&self) -> bool {
        self.kind == REDIRECTED || self.head.first() == Some(&1)
    }

    /// Under which numbers it was on its way to nodes that are lost, when `lost` is, too. `said`: of which losses before it that node was told, and under which
    /// numbers: a message that came behind one was also for sessions that it was to take over.
    pub(super) fn came_by(&self, lost: NodeId, said: &BTreeMap<NodeId, u64>) -> CameBy {
        let is_behind = |(_, at): &(&NodeId, &u64)| self.kind == MESSAGE && **at < self.number;
        let behind = said
            .iter()
            .filter(is_behind)
            .map(|(before, _)| (*before, u64::MAX));
        let known = self.came_by.iter().copied();
        let latest = behind.chain(known).chain([(lost, self.number)]);
        let all: Vec<_> = latest.collect();
        all[all.len().saturating_sub(messages::CAME_BY_MAX)..].into()
    }

    fn is_message(&self) -> bool {
        matches!(self.kind, MESSAGE | REDIRECTED)
    }

    fn size(&self) -> u64 {
        ITEM + (self.head.len() + self.body.len()) as u64
    }

    fn put(&self, now: Now, bytes: &mut bytes::BytesMut) {
        let mut start = Vec::with_capacity(5 + self.head.len());
        start.put_u8(self.kind);
        if self.is_message() || self.kind == OWED {
            start.put_u32(u32::try_from(self.waited(now).as_millis()).unwrap_or(u32::MAX));
        }
        messages::put_item(bytes, self.number, [&start, &self.head, &self.body]);
    }
}

fn end_waits(waits: &mut VecDeque<(u64, WaitId)>, settled: u64, over: &mut Vec<WaitId>) {
    while let Some((_, wait)) = waits.pop_front_if(|(number, _)| *number <= settled) {
        over.push(wait);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::epoch;

    fn sent(outbox: &mut Outbox) -> usize {
        let now = Now {
            instant: epoch(),
            wall: 0,
            system_wall: 0,
        };
        let mut bytes = 0;
        outbox.frames(now, 1, |frame| bytes += frame.len());
        bytes
    }

    #[test]
    fn no_more_is_on_its_way_than_may_be_and_the_rest_follows_what_is_confirmed() {
        let mut outbox = Outbox::default();
        let mebibyte = Bytes::from(vec![0; 1 << 20]);
        for _ in 0..8 {
            outbox.push_route(messages::ADD, mebibyte.clone());
        }
        let first = sent(&mut outbox);
        assert!((4 << 20..5 << 20).contains(&first), "{first}");
        assert_eq!(sent(&mut outbox), 0);
        outbox.confirm(2, &mut Vec::new());
        let more = sent(&mut outbox);
        assert!((2 << 20..3 << 20).contains(&more), "{more}");
        assert_eq!(outbox.rewind(2), 4, "what is missing is sent again");
        assert!((4 << 20..5 << 20).contains(&sent(&mut outbox)));
        outbox.confirm(8, &mut Vec::new());
        assert_eq!((sent(&mut outbox), outbox.bytes(), outbox.sent_bytes), (0, 0, 0));
    }

    #[test]
    fn what_is_on_disk_there_is_in_nobodys_way_until_it_is_sent_again() {
        let mut outbox = Outbox::default();
        let mebibyte = Bytes::from(vec![0; 1 << 20]);
        for _ in 0..16 {
            outbox.push_route(messages::ADD, mebibyte.clone());
        }
        let four = 4 << 20..5 << 20;
        assert!(four.contains(&sent(&mut outbox)));
        outbox.on_disk(4, &mut Vec::new());
        assert!(four.contains(&sent(&mut outbox)), "nothing is durable");
        assert_eq!((outbox.len(), outbox.settled()), (16, 0));
        outbox.confirm(2, &mut Vec::new());
        assert_eq!(sent(&mut outbox), 0, "that was on disk before");
        assert_eq!(outbox.rewind(0), 6, "the node has started anew");
        assert!(four.contains(&sent(&mut outbox)));
        outbox.on_disk(8, &mut Vec::new());
        let more = sent(&mut outbox);
        assert!((6 << 20..7 << 20).contains(&more), "two of them it has: {more}");
        outbox.give_up(&mut Vec::new());
        assert_eq!((outbox.bytes(), outbox.sent_bytes), (0, 0));
    }
}
