//! What other nodes say of retained messages.

use std::ops::ControlFlow;
use std::sync::Arc;

use bytes::Bytes;
use cluster::NodeId;
use cluster::peer_header::PeerError;
use mqtt::now::Now;
use mqtt::records;
use mqtt::records::retained::RetainedRecord;
use mqtt::retained::{Edition, Retained};
use protocol::TopicName;

use super::digests::Buckets;
use super::messages::{self, Listed, Said};
use super::tombstones::{ASK_AGAIN, Postponed, Question};
use super::{RetainedCopies, Tombstones};
use crate::invoking::drop_message;
use crate::node::{Action, Node};
use crate::publishing::Keeping;
use crate::routes::Subject;
use crate::waiting::Waiter;

/// Topics that are looked at for one piece of a list, and what it has at most: about a millisecond.
const LOOKED_AT_MAX: usize = 16_384;
const LISTED_MAX: usize = 1_024;
const LISTED_BYTES: usize = 64 << 10;

/// What a place begins with: it is among the messages, or among the tombstones.
const MESSAGES: u8 = 0;
const TOMBSTONES: u8 = 1;

impl Node {
    /// Another node has something to say of retained messages.
    pub(crate) fn take_about_retained(
        &mut self,
        now: Now,
        from: NodeId,
        body: Bytes,
        actions: &mut Vec<Action>,
    ) {
        let Some(said) = Said::decode(body) else {
            return drop_message(from, PeerError::Damaged, actions);
        };
        match said {
            Said::Set {
                is_new,
                topic,
                record,
            } => match records::retained::decode(topic.as_str().as_bytes(), record.clone(), now) {
                Ok(found) => self.take_edition(now, found, (record, is_new.then_some(from)), actions),
                Err(_) => drop_message(from, PeerError::Damaged, actions),
            },
            Said::Want { ask, topics } => self.give(now, from, ask, &topics),
            Said::Confirm {
                round,
                nodes,
                tombstones,
            } => {
                let question = Question { from, round, nodes };
                self.confirm_tombstones(now, question, tombstones, actions);
            }
            Said::Confirmed { round } => self.tombstones_confirmed(from, round),
            Said::Forget { tombstones } => self.forget_tombstones(&tombstones),
            said => self.compare_with(now, from, said),
        }
    }

    fn compare_with(&mut self, now: Now, from: NodeId, said: Said) {
        self.look_for_nodes_of_retained(now);
        let Some(copies) = &mut self.retained_copies else {
            return;
        };
        let mut out = Vec::new();
        if let Said::List { ask, buckets, place } = said {
            let (place, topics) = list(&self.retained, &copies.tombstones, buckets, &place);
            out.push(Said::Listed { ask, place, topics });
            return self.tell_of_retained(from, out);
        }
        let Some(mut comparison) = copies.comparisons.remove(&from) else {
            return;
        };
        if matches!(said, Said::Compare { is_anew: true, .. }) {
            // What it has confirmed may be lost.
            copies.forgetting.break_off();
        }
        match said {
            Said::Compare {
                round,
                is_anew,
                digests,
            } => comparison.compare(now.instant, (round, is_anew, digests), &copies.digests, &mut out),
            Said::Same { round } => comparison.same(round),
            Said::Differs { round, digests } => {
                comparison.differs(round, &digests, &copies.digests, &mut out);
            }
            Said::Listed { ask, place, topics } => {
                let lacks = |listed: &Listed| copies.lacks(&self.retained, listed);
                comparison.listed(ask, (place, topics), lacks, &mut out);
            }
            Said::Given { ask } => comparison.given(ask, &mut out),
            Said::Done { round } => comparison.done(round),
            _ => {}
        }
        copies.comparisons.insert(from, comparison);
        self.tell_of_retained(from, out);
    }

    /// Another node's edition of a topic counts here, too, if none does that is later. `publisher`: which node has just published it, and has not sent it to this
    /// one as a message.
    fn take_edition(
        &mut self,
        now: Now,
        found: RetainedRecord,
        (record, publisher): (Bytes, Option<NodeId>),
        actions: &mut Vec<Action>,
    ) {
        let Some(copies) = &mut self.retained_copies else {
            return;
        };
        let RetainedRecord {
            topic,
            edition,
            message,
        } = found;
        let Some(edition) = edition else { return };
        if !copies.is_later(&self.retained, &topic, (edition, message.is_none())) {
            // What is later may still be on its way to the disk.
            return self.commits.rely_on_earlier();
        }
        let message = message.map(|message| Arc::new(message.detached().counted(&self.memory.messages)));
        if let Some(message) = &message {
            copies.figures.taken += 1;
            let room = self.retained.check_room(topic.as_str(), message.size());
            copies.figures.over_limit += u64::from(room.is_err());
        }
        self.keep_edition(now, (&topic, edition), message.clone(), record);
        if let Some((message, from)) = message.zip(publisher) {
            // Its publisher's node did not know who has subscribed here a moment ago.
            let mut scratch = std::mem::take(&mut self.routes);
            scratch.elsewhere.clear();
            self.find_routes(&message, &mut scratch);
            let came = self.came_directly(from);
            self.leave_out_taken(&came, &mut scratch);
            self.keep_late(&message, &came);
            if self.is_memory_full() {
                self.drop_waiting(&mut scratch);
            }
            self.deliver_to_routes(now, message, scratch, Keeping::Durable, actions);
        }
    }

    /// Sends what was asked for.
    fn give(&mut self, now: Now, to: NodeId, ask: u64, topics: &[TopicName]) {
        let (Some(copies), Some(peers)) = (&self.retained_copies, &mut self.peers) else {
            return;
        };
        for topic in topics {
            let Some((edition, is_tombstone)) = copies.edition(&self.retained, topic) else {
                continue;
            };
            // One that has expired is as good as taken away.
            let message = self.retained.get(topic.as_str(), now);
            let message = message.filter(|_| !is_tombstone);
            let capacity = message.map_or(0, |message| message.size());
            let mut body = messages::set(false, topic, capacity);
            records::retained::append_value(&mut body, edition, message.map(Arc::as_ref), now);
            peers.tell(to, (Subject::Retained, body.into()), None);
        }
        self.tell_of_retained(to, vec![Said::Given { ask }]);
    }

    /// Asks all nodes whether they know the tombstones that are old enough.
    pub(super) fn begin_forgetting(&mut self, now: Now, actions: &mut Vec<Action>) {
        let Some(copies) = self.retained_copies.as_mut().filter(|copies| copies.may_forget()) else {
            return;
        };
        let grace = self.config.routes.tombstone_grace;
        let Some(made_until) = now.instant.checked_sub(grace) else {
            return;
        };
        let own = copies.own.node;
        let nodes: Vec<NodeId> = copies.comparisons.keys().copied().collect();
        let all = nodes.iter().copied().chain([own]);
        let Some((round, tombstones)) = copies.forgetting.begin(&copies.tombstones, made_until, all) else {
            return;
        };
        let said = Said::Confirm {
            round,
            nodes: nodes.iter().copied().chain([own]).collect(),
            tombstones,
        };
        for node in nodes {
            self.tell_of_retained(node, vec![said.clone()]);
        }
        self.after_all_before(now, (own, round), actions);
    }

    /// The others want to forget these: this node has them as well from now on.
    fn confirm_tombstones(
        &mut self,
        now: Now,
        question: Question,
        tombstones: Vec<(TopicName, Edition)>,
        actions: &mut Vec<Action>,
    ) {
        for (topic, edition) in tombstones {
            let mut record = Vec::new();
            records::retained::append_value(&mut record, edition, None, now);
            let found = RetainedRecord {
                topic,
                edition: Some(edition),
                message: None,
            };
            self.take_edition(now, found, (record.into(), None), actions);
        }
        self.look_for_nodes_of_retained(now);
        self.answer_question(now, question, actions);
    }

    /// Confirms, unless this node knows of one that is not asked: it may have got what a tombstone stands against. Then the question waits
    /// until this node and the one that asks know of the same nodes.
    pub(super) fn answer_question(&mut self, now: Now, question: Question, actions: &mut Vec<Action>) {
        let Some(copies) = &mut self.retained_copies else {
            return;
        };
        if copies
            .comparisons
            .keys()
            .all(|node| question.nodes.contains(node))
        {
            self.after_all_before(now, (question.from, question.round), actions);
        } else {
            copies.postponed = Some(Postponed {
                question,
                again_at: now.instant + ASK_AGAIN,
            });
        }
    }

    /// Confirms when all is on the disk that was written until now, and nothing is on its way any more that was told to other nodes until now.
    fn after_all_before(&mut self, now: Now, (to, round): (NodeId, u64), actions: &mut Vec<Action>) {
        let wait = self.peers.as_mut().and_then(|peers| peers.wait_for_all());
        let waiter = Self::after(wait, Waiter::TombstonesKnown { to, round });
        self.after_commit(now, waiter, actions);
    }

    /// That is so.
    pub(crate) fn tombstones_known(&mut self, to: NodeId, round: u64) {
        let own = self.retained_copies.as_ref().map(|copies| copies.own.node);
        if own == Some(to) {
            self.tombstones_confirmed(to, round);
        } else {
            self.tell_of_retained(to, vec![Said::Confirmed { round }]);
        }
    }

    fn tombstones_confirmed(&mut self, node: NodeId, round: u64) {
        let Some(copies) = &mut self.retained_copies else {
            return;
        };
        let Some(tombstones) = copies.forgetting.confirmed(node, round) else {
            return;
        };
        let nodes: Vec<NodeId> = copies.comparisons.keys().copied().collect();
        self.forget_tombstones(&tombstones);
        let said = Said::Forget { tombstones };
        for node in nodes {
            self.tell_of_retained(node, vec![said.clone()]);
        }
    }

    fn forget_tombstones(&mut self, tombstones: &[(TopicName, Edition)]) {
        let Some(copies) = &mut self.retained_copies else {
            return;
        };
        for (topic, edition) in tombstones {
            if copies.tombstones.get(topic) == Some(*edition) {
                copies.tombstones.remove(topic);
                copies.digests.remove(topic.as_str(), *edition);
                self.commits.write(records::retained::remove(topic));
            }
        }
    }
}

impl RetainedCopies {
    /// Whether an edition counts for a topic instead of what does so here. That nothing is retained any more beats the message of the same edition, which has expired.
    fn is_later(
        &self,
        retained: &Retained,
        topic: &TopicName,
        (edition, is_tombstone): (Edition, bool),
    ) -> bool {
        let here = self.edition(retained, topic);
        here.is_none_or(|here| (edition, is_tombstone) > here)
    }

    fn lacks(&self, retained: &Retained, listed: &Listed) -> bool {
        let here = self.edition(retained, &listed.topic);
        here.is_none_or(|(edition, _)| listed.edition > edition)
    }
}

/// A piece of what there is in these buckets, and the place behind it; empty at the end.
fn list(
    retained: &Retained,
    tombstones: &Tombstones,
    buckets: Buckets,
    place: &[u8],
) -> (Bytes, Vec<Listed>) {
    let (kind, place) = place.split_first().unwrap_or((&MESSAGES, &[]));
    let mut piece = Piece {
        buckets,
        topics: Vec::new(),
        bytes: 0,
        looked_at: 0,
    };
    let mut place = place;
    if *kind == MESSAGES {
        for (key, message, edition) in retained.editions_after(place) {
            let bytes = u32::try_from(message.size()).unwrap_or(u32::MAX);
            if piece.look_at(&message.topic, edition, bytes).is_break() {
                return (place_of(MESSAGES, key), piece.topics);
            }
        }
        place = &[];
    }
    for (topic, edition) in tombstones.after(place) {
        if piece.look_at(topic, edition, 0).is_break() {
            return (place_of(TOMBSTONES, topic.as_str().as_bytes()), piece.topics);
        }
    }
    (Bytes::new(), piece.topics)
}

struct Piece {
    buckets: Buckets,
    topics: Vec<Listed>,
    bytes: usize,
    looked_at: usize,
}

impl Piece {
    /// Adds a topic if it belongs to it. Breaks when the piece is large enough.
    fn look_at(&mut self, topic: &TopicName, edition: Edition, bytes: u32) -> ControlFlow<()> {
        self.looked_at += 1;
        if self.buckets.has(topic.as_str()) {
            self.bytes += topic.as_str().len();
            self.topics.push(Listed {
                topic: topic.clone(),
                edition,
                bytes,
            });
        }
        let is_room = self.topics.len() < LISTED_MAX && self.bytes < LISTED_BYTES;
        if is_room && self.looked_at < LOOKED_AT_MAX {
            ControlFlow::Continue(())
        } else {
            ControlFlow::Break(())
        }
    }
}

fn place_of(kind: u8, place: &[u8]) -> Bytes {
    [&[kind], place].concat().into()
}
