//! Becoming whole: the one procedure of a new owner, a returning node, sides that meet, and a copy with a hole (section 6 of
//! the specification).
//!
//! An owner asks every present holder, with the positions of the markers that made it an owner. A holder answers when it
//! has taken each run up to there, so that between the answer and the stream nothing is lost.

use super::{Node, Observation, Step};
use crate::copy::{Content, Copy};
use crate::event::{Entry, EntryKind, Event};
use crate::ids::{CLIENTS, ClientId, EventSet, NodeId, NodeSet, Numbers, RUNS, Run, Slot};
use crate::message::{Message, Question, SlotContent};
use crate::rules::Rule;

/// Ticks that a hole stands before all members are asked whether anybody has its numbers.
const CLOSE_AFTER: u32 = 20;

/// An answer that a holder is giving, session by session.
#[derive(Clone, Debug)]
pub struct Answering {
    to: NodeId,
    question: Question,
    /// Sessions that are in the answer.
    sessions: u8,
    answer: Option<SlotContent>,
}

impl Answering {
    /// An answer about `slot` has begun, so that its vector is older than the entries which are still to be added.
    pub(super) fn has_begun(&self, slot: Slot) -> bool {
        self.question.slot == slot && self.answer.is_some()
    }

    /// Keeps an entry that a merge has removed from the copy of `slot`, if the answer has begun with it.
    ///
    /// A node that had dropped it as garbage had dropped with it all that it beats. The answer's vector may not cover that.
    fn keep(&mut self, slot: Slot, removed: &Entry) {
        let answer = self.answer.as_mut().filter(|answer| answer.slot == slot);
        if let Some(answer) = answer.filter(|answer| answer.content.covered.has(removed.dot)) {
            answer.content.entries.insert(*removed);
        }
    }
}

impl Node {
    /// Asks holders, and deals with holes that stay.
    pub(super) fn become_whole(&mut self, step: &mut Step<'_>) {
        for slot in Slot::all() {
            let Some(copy) = self.copy(slot) else { continue };
            if copy.owned && !copy.unanswered.is_empty() {
                self.ask_holders(step, slot);
            }
            self.fill_holes(step, slot);
            self.watch_holes(step, slot);
            self.try_claim(step, slot);
        }
    }

    /// Asks each holder that was not asked yet, once all peers route by a ring in which this node owns the slot.
    fn ask_holders(&mut self, step: &mut Step<'_>, slot: Slot) {
        let peers = self.membership.peers();
        let knows = |peer: NodeId| {
            let ring = self.ring_of(peer);
            ring.is_some_and(|ring| ring.owns(self.id, slot))
        };
        if step.holds(Rule::HolderWaits) && !peers.iter().all(knows) {
            return;
        }
        let mut positions = [0; RUNS];
        for run in peers.iter().filter_map(|peer| self.membership.run_of(peer)) {
            positions[run.index()] = self.receiver.owner_since(slot, run);
        }
        let copy = self.copy_mut(slot);
        let holders = copy.unanswered.minus(copy.asked);
        copy.asked = copy.asked.union(holders);
        let question = Question {
            slot,
            positions,
            lacking: copy.content.holes().of_numbers(),
        };
        for holder in holders.iter() {
            step.send(holder, Message::AskSlot(Box::new(question.clone())));
        }
    }

    /// Asks again for a hole that does not close; with every member present, closes numbers that nobody has.
    fn watch_holes(&mut self, step: &mut Step<'_>, slot: Slot) {
        let peers = self.membership.peers();
        let all_present = self.membership.view.present == step.directory.members;
        let Some(copy) = self.copies[slot.index()].as_mut().filter(|copy| copy.is_merged()) else {
            return;
        };
        if !copy.content.has_hole() {
            copy.hole_since = None;
            copy.closing = None;
            return;
        }
        let age = step.now - *copy.hole_since.get_or_insert(step.now);
        if step.holds(Rule::CloseNumbers) && age > CLOSE_AFTER && all_present {
            match copy.closing.take() {
                Some(asked) => self.close_numbers(step, slot, &asked),
                None => {
                    copy.closing = Some(copy.content.holes());
                    copy.ask_all(peers);
                }
            }
        } else if step.holds(Rule::AskAgain) && age % 15 == 8 {
            copy.ask_all(peers);
        }
    }

    /// Covers numbers that were holes when everybody was asked, and still are: nobody has them. Of a living run only those
    /// before it named this node an owner; the later ones are under way.
    fn close_numbers(&mut self, step: &mut Step<'_>, slot: Slot, asked: &EventSet) {
        let own = self.sender.run.of_numbers();
        let mut reserved = EventSet::default();
        if step.holds(Rule::ReservedStay) {
            reserved = self.publishing.reserved(own);
        }
        for index in 0..step.directory.node_of.len() {
            let run = Run(index as u8);
            let limit = self.closing_limit(step, slot, run);
            let content = &mut self.copy_mut(slot).content;
            let still = content.holes().minus(&reserved);
            let nobodys = asked.of(run).and(still.of(run)).and(limit);
            if !nobodys.is_empty() {
                content.covered.add(run, nobodys);
                step.counters.closed += 1;
                step.observe(Observation::Closed {
                    run,
                    numbers: nobodys,
                });
            }
        }
        self.copy_mut(slot).hole_since = None;
    }

    /// Numbers of `run` that may be closed: of a living run's events only those before it named this node an owner.
    fn closing_limit(&self, step: &Step<'_>, slot: Slot, run: Run) -> Numbers {
        let is_present = self.membership.has_run(step.directory.node(run), run) || run == self.sender.run;
        if is_present && !run.is_of_numbers() {
            Numbers::up_to(self.receiver.owner_since(slot, run))
        } else {
            Numbers::ALL
        }
    }

    /// Takes a question for a slot; a later question of the same asker replaces an earlier one.
    pub(super) fn receive_question(&mut self, from: NodeId, question: Question) {
        let slot = question.slot;
        self.answering
            .retain(|answering| answering.to != from || answering.question.slot != slot);
        self.answering.push(Answering {
            to: from,
            question,
            sessions: 0,
            answer: None,
        });
    }

    /// Goes on with each answer that may be given.
    pub(super) fn answer_questions(&mut self, step: &mut Step<'_>) {
        for mut answering in std::mem::take(&mut self.answering) {
            if !self.may_answer(step, &answering) {
                self.answering.push(answering);
            } else if let Some(answer) = self.continue_answer(step, &mut answering) {
                step.send(answering.to, Message::SlotContent(Box::new(answer)));
            } else {
                self.answering.push(answering);
            }
        }
    }

    /// This node has taken each present run up to the marker that made the asker an owner.
    fn may_answer(&self, step: &Step<'_>, answering: &Answering) -> bool {
        let peers = self.membership.peers().without(answering.to);
        let mut runs = peers.iter().filter_map(|peer| self.membership.run_of(peer));
        let has_taken = |run: Run| self.receiver.taken(run) >= answering.question.positions[run.index()];
        !step.holds(Rule::HolderWaits) || runs.all(has_taken)
    }

    /// Adds the next session; gives the answer when all are in it.
    fn continue_answer(&self, step: &Step<'_>, answering: &mut Answering) -> Option<SlotContent> {
        let slot = answering.question.slot;
        let empty = Copy::default();
        let copy = self.copy(slot).unwrap_or(&empty);
        let answer = answering
            .answer
            .get_or_insert_with(|| self.begin_answer(step, &answering.question, copy));
        if usize::from(answering.sessions) == CLIENTS {
            return answering.answer.take();
        }
        let client = ClientId(answering.sessions);
        let is_last = usize::from(answering.sessions) + 1 == CLIENTS;
        let is_next = |owner: ClientId| owner == client || is_last && owner == ClientId::GROUP;
        let content = &mut answer.content;
        content
            .entries
            .extend(copy.content.entries.iter().filter(|entry| is_next(entry.client)));
        content
            .single
            .extend(copy.content.single.iter().filter(|(owner, _)| is_next(*owner)));
        answering.sessions += 1;
        None
    }

    /// What is as of the begin of an answer: vector, taken intervals, pending events, single dots, own unconfirmed events.
    ///
    /// Entries are added later. A single dot that is added later belongs to a removal whose entry is not in the answer
    /// either, so single dots are gathered with the entries, and from the begin on.
    fn begin_answer(&self, step: &Step<'_>, question: &Question, copy: &Copy) -> SlotContent {
        let slot = question.slot;
        let held = &copy.content;
        let mut content = Content {
            covered: held.covered,
            taken: held.taken,
            needed: held.needed,
            pending: held.pending.clone(),
            ..Content::default()
        };
        if step.holds(Rule::AsOfBegin) {
            content.single = held.single.clone();
        }
        let mut own = Vec::new();
        if step.holds(Rule::OwnUnconfirmed) {
            let run = self.sender.run;
            let unconfirmed = self.sender.unconfirmed(slot, step.copies_min());
            content.taken.add(run, unconfirmed.minus(content.covered.of(run)));
            let events = self.sender.events_for(slot, unconfirmed);
            own = events
                .into_iter()
                .filter(|event: &Event| !held.covered.has(event.dot))
                .collect();
        }
        let numbers = self.numbers_for(step, slot, &question.lacking).into_iter();
        for event in numbers.filter(|event| !held.covered.has(event.dot)) {
            content.taken.insert(event.dot);
            if event.is_for(slot) {
                own.push(event);
            }
        }
        SlotContent {
            slot,
            content,
            own,
            late: copy.abandoned,
            is_merged: self.has_merged_all(),
            reserved: self.publishing.reserved(self.sender.run.of_numbers()),
        }
    }

    /// Merges an answer, at once and as a whole.
    pub(super) fn receive_answer(&mut self, step: &mut Step<'_>, from: NodeId, answer: &SlotContent) {
        let slot = answer.slot;
        let Some(copy) = self.copies[slot.index()].as_mut() else {
            return;
        };
        if !copy.owned || !copy.unanswered.has(from) {
            return;
        }
        step.counters.transfers += 1;
        let before = copy.content.beaters();
        copy.content.merge(step.rules, &answer.content);
        let removed = before
            .difference(&copy.content.entries)
            .filter(|_| step.holds(Rule::AsOfBegin));
        for removed in removed {
            for answering in &mut self.answering {
                answering.keep(slot, removed);
            }
        }
        copy.stop_waiting_for(from);
        copy.has_merged |= copy.unanswered.is_empty();
        if let Some(closing) = copy.closing.as_mut() {
            except_numbers(step, closing, answer);
        }
        for event in &answer.own {
            self.apply(step, slot, event);
        }
        let late = answer.late;
        step.send(from, Message::SlotMerged { slot, late });
        let node = self.id.0;
        step.trace(|| format!("  node {node} merged slot {} of {}", slot.0, from.0));
        self.try_claim(step, slot);
        self.release_losers(step, slot);
    }

    pub(super) fn receive_merged(&mut self, step: &Step<'_>, from: NodeId, slot: Slot, late: bool) {
        let Some(copy) = self.copies[slot.index()].as_mut() else {
            return;
        };
        if late || !copy.abandoned || !step.holds(Rule::LateAnswers) {
            copy.served.insert(from);
        }
    }

    /// A holder has something to give: it is asked.
    pub(super) fn receive_offer(&mut self, from: NodeId, slot: Slot) {
        if let Some(copy) = self.copies[slot.index()].as_mut().filter(|copy| copy.owned) {
            copy.unanswered.insert(from);
            copy.asked.remove(from);
        }
    }

    /// Ends what was under way with a peer that was declared dead.
    pub(super) fn end_transfers(&mut self, step: &Step<'_>, peer: NodeId) {
        let others = self.membership.peers();
        for copy in self.copies.iter_mut().flatten() {
            copy.forget_answers();
            if step.holds(Rule::AskAllAgain) && copy.owned && copy.unanswered.has(peer) {
                copy.ask_all(others);
            }
            copy.stop_waiting_for(peer);
            copy.served.remove(peer);
            if !step.holds(Rule::HolesStay) {
                let holes = copy.content.holes();
                copy.content.needed.remove_all(&holes);
            }
        }
        self.answering.retain(|answering| answering.to != peer);
    }

    /// Deletes a copy that no ring names, when enough owners have merged an answer that began after that.
    ///
    /// If numbers go with it, a ring marker follows. The owners have them, but what one of them told before it merged may count at
    /// other nodes. It does not count any more when they have this marker and what this node tells behind it.
    pub(super) fn delete_abandoned(&mut self, step: &mut Step<'_>) {
        let mut names_numbers = false;
        for slot in Slot::of_sessions() {
            let is_abandoned = self.is_abandoned(slot);
            let owners = self.membership.view.owners(slot);
            let is_answering = self
                .answering
                .iter()
                .any(|answering| answering.question.slot == slot);
            let wanted = self.membership.view.owners_wanted();
            let Some(copy) = self.copies[slot.index()].as_mut() else {
                continue;
            };
            let unserved = owners.minus(copy.served);
            if !is_abandoned {
                copy.abandoned = false;
            } else if !copy.abandoned {
                copy.abandoned = true;
                copy.served = NodeSet::EMPTY;
                offer(step, slot, owners);
            } else if unserved.is_empty() && owners.len() >= wanted && !is_answering {
                step.counters.deleted += 1;
                names_numbers |= self.delete_copy(slot);
            } else if step.now.is_multiple_of(12) {
                offer(step, slot, unserved);
            }
        }
        if names_numbers {
            self.send_marker(step, None);
        }
    }

    /// Deletes a copy. What it knew stays known, as a hole of the routes: this node may have told others of it, and has not
    /// retired it.
    ///
    /// True: entries named QoS 2 numbers of runs that are not present. These numbers are nobody's holes, and this node does not
    /// know them any more. Of runs that are present it tells nothing before it has made another ring marker.
    fn delete_copy(&mut self, slot: Slot) -> bool {
        let Some(deleted) = self.copies[slot.index()].take() else {
            return false;
        };
        let known = deleted.content.known();
        self.copy_mut(Slot::ROUTES).content.needed.add_all(&known);
        let present = self.present_runs().map(|run| run.map(Run::of_numbers));
        let mut numbered = deleted.content.entries.iter().filter_map(Entry::numbered);
        numbered.any(|message| !known.has(message.number) && !present.contains(&Some(message.number.run)))
    }

    /// No ring of a present node names this node as an owner.
    fn is_abandoned(&self, slot: Slot) -> bool {
        let is_named = |peer: NodeId| {
            let ring = self.ring_of(peer);
            ring.is_none_or(|ring| ring.owns(self.id, slot))
        };
        !self.membership.view.owns(self.id, slot) && !self.membership.peers().iter().any(is_named)
    }

    /// Connections of `client` that the copy of `slot` knows, the latest last.
    pub(super) fn connections_in(&self, slot: Slot, client: ClientId) -> Vec<Entry> {
        let Some(copy) = self.copy(slot) else {
            return Vec::new();
        };
        let is_connection = |entry: &&Entry| entry.kind == EntryKind::Connection && entry.client == client;
        let mut connections: Vec<Entry> = copy
            .content
            .entries
            .iter()
            .filter(is_connection)
            .copied()
            .collect();
        connections.sort_by_key(|entry| (entry.clock, entry.dot));
        connections
    }
}

fn offer(step: &mut Step<'_>, slot: Slot, owners: NodeSet) {
    for owner in owners.iter() {
        step.send(owner, Message::Offer { slot });
    }
}

/// Takes out of what is to be closed the numbers of which `answer` does not say that they are nowhere.
fn except_numbers(step: &Step<'_>, closing: &mut EventSet, answer: &SlotContent) {
    if step.holds(Rule::FillFromMerged) && !answer.is_merged {
        let numbers = closing.of_numbers();
        closing.remove_all(&numbers);
    }
    if step.holds(Rule::ReservedStay) {
        closing.remove_all(&answer.reserved);
    }
}
