//! From which of its messages on a node has sent another one the same as this one.
//!
//! Two nodes that have gone on with one session each get, when they have found each other again, what is published at all nodes; before, each got what was published on its
//! side. The publisher's node knows where that changed, by the numbers of what it has sent.

use std::num::NonZeroU64;

use cluster::NodeId;
use cluster::session_plane::announcement::Word;
use mqtt::origin::{MessageId, Origin, Slots};

use super::link::Link;
use super::losses::Lost;
use super::table::Slot;
use super::{Elsewhere, Routes};

/// Losses of one node that are remembered, and those of which one was told. Of more the later ones count, as if what came before had not been sent.
const REMEMBERED_MAX: usize = 16;

/// What a node says to one node of what another one has got as well.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Since {
    /// In which run of the sender.
    pub(crate) incarnation: u32,
    /// What comes behind this number.
    pub(crate) number: u64,
    /// What was given to others because the node was lost: behind the first number of each, up to the second one.
    pub(crate) redirected: Vec<(u64, u64)>,
    /// For a session that it has taken over from one of these only what comes behind the number.
    pub(crate) losses: Vec<LossSaid>,
}

/// A node was told of a loss, and what it was sent before was not for the sessions that it took over then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LossSaid {
    /// Who was lost, after which word.
    pub(crate) lost: NodeId,
    pub(crate) after: Word,
    /// The latest number before.
    pub(crate) number: u64,
}

/// At which loss a session was taken over, of which node.
pub(crate) type TakenAt = (NodeId, Word);

/// Up to where what was sent was not for a session that was taken over: the first loss that counts says it. A later one says more than is so, which is no harm.
fn not_for(taken: Option<TakenAt>, losses: impl DoubleEndedIterator<Item = LossSaid> + Clone) -> u64 {
    let Some((from, at)) = taken else { return 0 };
    let mut of_node = losses.filter(|said| said.lost == from);
    let first = of_node.clone().find(|said| said.after >= at);
    first
        .or_else(|| of_node.next_back())
        .map_or(0, |said| said.number)
}

impl Since {
    /// The latest number that is not for a session of the other node.
    pub(crate) fn of_session(&self, taken: Option<TakenAt>) -> u64 {
        self.number.max(not_for(taken, self.losses.iter().copied()))
    }
}

/// What was on its way to a node that is lost.
#[derive(Debug, Clone, Copy)]
struct Redirection {
    /// Behind the first number, up to the second one.
    range: (u64, u64),
    /// Who has got it instead, or will: a bit for each, without this node.
    given_to: Slots,
}

/// What a link has to know for that.
#[derive(Debug, Default)]
pub(super) struct Sameness {
    /// The latest number when this node was found again.
    found_at: Option<u64>,
    /// The latest number when it was known what those wanted that were found again after that.
    known_at: Vec<(NodeId, u64)>,
    redirected: Vec<Redirection>,
    /// What had been published here when it was lost last, or given up.
    lost_at: u64,
    /// The losses of others since it is there, with numbers of this link, and what had been published here.
    losses: Vec<(LossSaid, u64)>,
    /// It is known what it wants, as far as it said so since it was found.
    pub(super) is_known: bool,
}

impl Sameness {
    /// The node is lost.
    fn lose(&mut self, published: u64) {
        self.lost_at = published;
        self.is_known = false;
        self.known_at.clear();
    }

    /// It is there again.
    pub(super) fn find(&mut self, latest: u64) {
        self.found_at = Some(latest);
    }

    fn note_loss(&mut self, said: LossSaid, published: u64) {
        remember(&mut self.losses, (said, published));
    }

    fn forget(&mut self, node: NodeId) {
        self.known_at.retain(|(known, _)| *known != node);
    }

    fn redirect(&mut self, redirection: Redirection) {
        remember(&mut self.redirected, redirection);
    }
}

fn remember<T>(list: &mut Vec<T>, latest: T) {
    if list.len() == REMEMBERED_MAX {
        list.remove(0);
    }
    list.push(latest);
}

impl Routes {
    /// A client of this node publishes something that is for others as well.
    pub(crate) fn own_origin(&mut self, elsewhere: &Elsewhere) -> Origin {
        self.published += 1;
        let gets = |(slot, link): &(Slot, &Link)| link.is_reached && elsewhere.is_for_node_at(*slot);
        let slots = self.links.iter().filter(gets).map(|(slot, _)| slot);
        Origin::Own {
            number: self.published,
            sent_to: slots.fold(0, |all, slot| all | 1 << slot) & !self.unready,
        }
    }

    /// Of what a client of this node has published last.
    pub(crate) fn latest_id(&self) -> Option<MessageId> {
        Some(MessageId {
            node: self.node,
            run: self.incarnation,
            number: NonZeroU64::new(self.published)?,
        })
    }

    /// Whether another node has got, or gets, what was published here, for a session that it has taken over or for any other.
    pub(crate) fn has_sent(&self, node: NodeId, taken: Option<TakenAt>, origin: Origin) -> bool {
        let (Origin::Own { number, sent_to }, Some(slot)) = (origin, self.slots.get(&node)) else {
            return false;
        };
        let sameness = &self.links[*slot].sameness;
        let losses = sameness.losses.iter();
        let losses = losses.map(|(said, published)| LossSaid {
            number: *published,
            ..*said
        });
        sent_to >> slot & 1 == 1 && number > sameness.lost_at.max(not_for(taken, losses))
    }

    /// From where on `of` gets what `to` gets. `None`: it does not yet.
    pub(crate) fn since(&self, to: NodeId, of: NodeId) -> Option<Since> {
        let link = &self.links[*self.slots.get(&to)?];
        let of_slot = self.slots.get(&of);
        let is_known = of == self.node || {
            let other = &self.links[*of_slot?];
            other.is_reached && other.sameness.is_known
        };
        let sameness = &link.sameness;
        let known_at = sameness.known_at.iter().find(|(node, _)| *node == of);
        let number = known_at.map(|(_, number)| *number).or(sameness.found_at);
        // Neither was lost: then only what comes from here on is the same for certain.
        let number = number.unwrap_or(link.outbox.latest());
        let losses = sameness.losses.iter().map(|(said, _)| *said);
        let got =
            |redirection: &&Redirection| of_slot.is_none_or(|slot| redirection.given_to >> slot & 1 == 1);
        let redirected = sameness.redirected.iter().filter(got);
        is_known.then(|| Since {
            incarnation: self.incarnation,
            number,
            redirected: redirected.map(|redirection| redirection.range).collect(),
            losses: losses.filter(|said| said.number > number).collect(),
        })
    }

    /// Nodes were lost, are there again, or have said what they want.
    pub(super) fn look_for_unready(&mut self) {
        let is_unready = |link: &Link| !link.is_lost && link.finds > 0 && !link.sameness.is_known;
        let unready = self.links.iter().filter(|(_, link)| is_unready(link));
        self.unready = unready.fold(0, |all, (slot, _)| all | 1 << slot);
    }

    /// A node is lost, and the others are about to be told.
    pub(super) fn note_different(&mut self, slot: Slot, Lost { node, after }: Lost) {
        let published = self.published;
        self.links[slot].sameness.lose(published);
        for (_, link) in &mut self.links {
            link.sameness.forget(node);
            // It may not have got it.
            for redirection in &mut link.sameness.redirected {
                redirection.given_to &= !(1 << slot);
            }
            let number = link.outbox.latest();
            let said = LossSaid {
                lost: node,
                after,
                number,
            };
            link.sameness.note_loss(said, published);
        }
    }

    /// A node has said all that it wants.
    pub(super) fn note_known(&mut self, slot: Slot) {
        let (node, finds) = (self.links[slot].node, self.links[slot].finds);
        let was_known = std::mem::replace(&mut self.links[slot].sameness.is_known, true);
        // One that says it anew may have given this node up meanwhile, and has taken sessions over.
        if !was_known && finds == 0 {
            return;
        }
        self.look_for_unready();
        for (_, link) in self.links.iter_mut().filter(|(other, _)| *other != slot) {
            let latest = link.outbox.latest();
            link.sameness.forget(node);
            link.sameness.known_at.push((node, latest));
        }
    }

    /// Whether a node that is reached has been told all that the sessions here want.
    pub(crate) fn has_announced_to(&self, node: NodeId) -> bool {
        let slot = self.slots.get(&node);
        slot.is_some_and(|slot| self.links[*slot].has_announced())
    }

    /// What was on its way to a node does not reach it.
    pub(super) fn note_given_up(&mut self, slot: Slot) {
        self.links[slot].sameness.lost_at = self.published;
    }

    /// What is on its way to a lost node is given to others.
    pub(super) fn note_redirected(&mut self, slot: Slot, heirs: &[NodeId]) {
        let heirs = heirs.iter().filter_map(|node| self.slots.get(node));
        let given_to = heirs.fold(0, |all, slot| all | 1 << slot);
        let link = &mut self.links[slot];
        let range = (link.outbox.settled(), link.outbox.latest());
        if range.0 < range.1 {
            link.sameness.redirect(Redirection { range, given_to });
        }
    }
}
