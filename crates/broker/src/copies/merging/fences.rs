//! Since when both nodes get the same: each node says so, behind all that it has sent before.
//!
//! A node that is asked may not have heard yet that the other one has given it up, and has taken sessions over meanwhile: it may seem to know what that one wants, and does not. So it
//! first *sounds* that node, which answers behind all that it wants.

use std::collections::{BTreeMap, BTreeSet};

use cluster::NodeId;
use mqtt::ids::SessionNumber;
use mqtt::now::Now;

use super::messages::MergeMessage;
use crate::node::{Action, Node};
use crate::routes::{LinkChange, Since};

/// Questions of this node, and those of others.
#[derive(Debug, Default)]
pub(in crate::copies) struct Fences {
    latest: u64,
    /// One at a time for each node that sessions give way to.
    open: BTreeMap<NodeId, Fence>,
    /// Sessions whose subscriptions are where they have to be, by the node that they give way to.
    joined: BTreeMap<NodeId, Vec<SessionNumber>>,
    /// Who has asked, about which node; until it is known what that one wants.
    asked: BTreeMap<(NodeId, NodeId), Asked>,
    /// Who has sounded this node, until it has been told everything.
    sounds: BTreeMap<NodeId, u64>,
}

/// Sessions of one question; the others have the next one.
const SESSIONS_MAX: usize = 256;

/// A question.
#[derive(Debug)]
struct Fence {
    number: u64,
    waiting: BTreeSet<NodeId>,
    answers: BTreeMap<NodeId, Since>,
    sessions: Vec<SessionNumber>,
}

/// A question of another node.
#[derive(Debug)]
struct Asked {
    number: u64,
    /// The number under which the node that it is about is sounded. `None`: it has answered.
    sound: Option<u64>,
}

impl Fences {
    pub(in crate::copies) fn is_idle(&self) -> bool {
        self.open.is_empty() && self.asked.is_empty() && self.joined.is_empty() && self.sounds.is_empty()
    }

    /// A session may leave what it has to a node when all have answered.
    pub(super) fn await_all(&mut self, to: NodeId, number: SessionNumber) {
        self.joined.entry(to).or_default().push(number);
    }

    /// The next question, about sessions that give way to this node.
    fn next(&mut self) -> Option<(NodeId, Vec<SessionNumber>)> {
        let mut due = self
            .joined
            .iter_mut()
            .filter(|(to, _)| !self.open.contains_key(to));
        let (to, numbers) = due.next()?;
        let to = *to;
        let rest = numbers.split_off(numbers.len().min(SESSIONS_MAX));
        let first = std::mem::replace(numbers, rest);
        self.joined.retain(|_, numbers| !numbers.is_empty());
        Some((to, first))
    }
}

impl Node {
    /// Asks what there is to ask, answers what can be answered, and goes on with what was answered by all.
    pub(in crate::copies) fn go_on_with_merging(&mut self, now: Now, actions: &mut Vec<Action>) {
        self.answer_after_merging(now, actions);
        self.end_deferrals(now);
        let copies = self.copies.as_ref();
        if copies.is_none_or(|copies| copies.fences.is_idle()) {
            return;
        }
        self.answer_sounds();
        self.answer_fences();
        self.put_up_fences();
        self.pass_fences(now);
    }

    fn put_up_fences(&mut self) {
        loop {
            let (Some(copies), Some(peers)) = (&mut self.copies, &self.peers) else {
                return;
            };
            let Some((to, sessions)) = copies.fences.next() else {
                return;
            };
            let reached: BTreeSet<NodeId> = peers.reached().collect();
            copies.fences.latest += 1;
            let number = copies.fences.latest;
            let fence = Fence {
                number,
                waiting: reached.clone(),
                answers: BTreeMap::new(),
                sessions,
            };
            copies.fences.open.insert(to, fence);
            for node in reached {
                self.tell_merging(node, &MergeMessage::Fence(number, to));
            }
        }
    }

    /// Goes on where all have answered.
    fn pass_fences(&mut self, now: Now) {
        let Some(copies) = &mut self.copies else { return };
        let passed = copies
            .fences
            .open
            .extract_if(.., |_, fence| fence.waiting.is_empty());
        let passed: Vec<_> = passed.collect();
        for (to, fence) in passed {
            self.leave_to(now, (to, fence.sessions), &fence.answers);
        }
    }

    /// A node asks.
    pub(super) fn note_fence(&mut self, from: NodeId, number: u64, of: NodeId) {
        let peers = self.peers.as_ref();
        let is_known = peers.is_some_and(|peers| of == peers.node() || peers.has_node(of));
        let Some(copies) = self.copies.as_mut().filter(|_| is_known) else {
            return;
        };
        copies.fences.latest += 1;
        let sound = Some(copies.fences.latest).filter(|_| of != copies.own.node);
        copies.fences.asked.insert((from, of), Asked { number, sound });
        if let Some(sound) = sound {
            self.tell_merging(of, &MergeMessage::Sound(sound));
        }
    }

    /// A node wants to know when it has been told all that the sessions here want.
    pub(super) fn note_sound(&mut self, from: NodeId, number: u64) {
        if let Some(copies) = &mut self.copies {
            copies.fences.sounds.insert(from, number);
        }
    }

    fn answer_sounds(&mut self) {
        let (Some(copies), Some(peers)) = (&mut self.copies, &self.peers) else {
            return;
        };
        let sounds = copies
            .fences
            .sounds
            .extract_if(.., |node, _| peers.has_announced_to(*node));
        for (node, number) in sounds.collect::<Vec<_>>() {
            self.tell_merging(node, &MergeMessage::Sounded(number));
        }
    }

    /// A node has told this one all that it wants.
    pub(super) fn note_sounded(&mut self, from: NodeId, number: u64) {
        let Some(copies) = &mut self.copies else { return };
        let about = copies.fences.asked.iter_mut().filter(|((_, of), _)| *of == from);
        for (_, asked) in about {
            asked.sound = asked.sound.filter(|sound| *sound > number);
        }
    }

    fn answer_fences(&mut self) {
        let (Some(copies), Some(peers)) = (&mut self.copies, &self.peers) else {
            return;
        };
        let asked = copies.fences.asked.iter();
        let asked = asked.filter(|(_, asked)| asked.sound.is_none());
        let known = asked.filter_map(|((from, of), asked)| {
            let since = peers.since(*from, *of)?;
            Some(((*from, *of), asked.number, since))
        });
        for (key, number, since) in known.collect::<Vec<_>>() {
            if let Some(copies) = &mut self.copies {
                copies.fences.asked.remove(&key);
            }
            self.tell_merging(key.0, &MergeMessage::Fenced(number, since));
        }
    }

    /// A node has answered.
    pub(super) fn note_fenced(&mut self, from: NodeId, number: u64, since: Since) {
        let Some(copies) = &mut self.copies else { return };
        let fence = copies
            .fences
            .open
            .values_mut()
            .find(|fence| fence.number == number);
        if let Some(fence) = fence
            && fence.waiting.remove(&from)
        {
            fence.answers.insert(from, since);
        }
    }

    /// A node is lost, or reached anew.
    pub(in crate::copies) fn note_link_of_fences(&mut self, node: NodeId, change: LinkChange) {
        let Some(copies) = &mut self.copies else { return };
        if matches!(change, LinkChange::Lost | LinkChange::Started) {
            copies.fences.asked.retain(|(from, _), _| *from != node);
            copies.fences.sounds.remove(&node);
        }
        let mut again = Vec::new();
        let about = copies.fences.asked.iter_mut().filter(|((_, of), _)| *of == node);
        // What is lost was not answered, or not in this run.
        for (_, asked) in about {
            copies.fences.latest += 1;
            asked.sound = Some(copies.fences.latest);
            again.push(MergeMessage::Sound(copies.fences.latest));
        }
        copies.fences.open.remove(&node);
        copies.fences.joined.remove(&node);
        for (to, fence) in &mut copies.fences.open {
            if change == LinkChange::Lost {
                fence.waiting.remove(&node);
            } else {
                fence.waiting.insert(node);
                again.push(MergeMessage::Fence(fence.number, *to));
            }
        }
        for question in again {
            self.tell_merging(node, &question);
        }
    }
}
