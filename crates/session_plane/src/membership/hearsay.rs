//! Hearsay: what this node learns of others from the ring markers of a present peer.
//!
//! A view that lacks a node which the peer's last view had convicts that node, in the incarnation
//! that the last view names. The convicted peer is told. It refutes with a higher incarnation in
//! its next marker, and stays. Otherwise it is given up half a `silence_max` after the last answer.
//!
//! Two peers that cannot reach each other convict each other, one `silence_max` apart at most. Such
//! a conviction is *mutual*: refutations do not help, and the higher node goes. It ends when the
//! two meet again, or one is given up.

use std::collections::BTreeMap;
use std::time::Instant;

use cluster::NodeId;

use super::peer::Suspicion;
use super::{Action, ConvictionError, MarkerError, Membership, NotPresent, SWIM_INCARNATION_MAX};
use crate::{PresentNode, Run, SwimIncarnation, View};

/// One stay of a run among the present nodes, as others name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stay {
    /// Run.
    pub run: Run,
    /// Incarnation.
    pub incarnation: SwimIncarnation,
}

impl Membership {
    /// Receives the view of a ring marker in the stream of `from`, in the order of the stream. The
    /// first one of a stay is the Welcome.
    ///
    /// # Errors
    ///
    /// [`MarkerError`] where the view cannot be the peer's.
    pub fn receive_marker(
        &mut self,
        now: Instant,
        from: NodeId,
        view: &View,
        actions: &mut Vec<Action>,
    ) -> Result<(), MarkerError> {
        let told = self.check_marker(from, view)?;
        self.record_heard(now, from)?;
        let peer = self.peer_mut(from)?;
        peer.present.state = told.state;
        peer.raise_incarnation(told.incarnation);
        let before = peer.view.replace(view.clone());
        for present in view.nodes() {
            self.see_present(from, present, before.as_ref());
        }
        let known_before = before.iter().flat_map(View::nodes);
        for lost in known_before.filter(|lost| view.find(lost.run.node).is_none()) {
            self.convict(from, lost, actions);
        }
        Ok(())
    }

    /// Receives from `from` that another peer has given this node up. The node refutes: its next
    /// ring marker has a higher incarnation.
    ///
    /// # Errors
    ///
    /// [`ConvictionError`] where the peer cannot know of such a conviction.
    pub fn receive_conviction(
        &mut self,
        now: Instant,
        from: NodeId,
        convicted: Stay,
    ) -> Result<(), ConvictionError> {
        let Stay { run, incarnation } = convicted;
        if run != self.own.run {
            let own = self.own.run;
            return Err(ConvictionError::OtherRun { own, found: run });
        }
        if incarnation > self.issued {
            let issued = self.issued;
            return Err(ConvictionError::NeverIssued { incarnation, issued });
        }
        self.record_heard(now, from)?;
        if incarnation >= self.own.incarnation && incarnation < SWIM_INCARNATION_MAX {
            self.own.incarnation = SwimIncarnation(incarnation.0 + 1);
            self.issued = self.issued.max(self.own.incarnation);
        }
        Ok(())
    }

    /// `from` has `present` in its view; `before` is the view that it had before.
    fn see_present(&mut self, from: NodeId, present: &PresentNode, before: Option<&View>) {
        let node = present.run.node;
        if self.find(node).is_none_or(|known| known.run != present.run) {
            return;
        }
        // Two that meet again have nothing against each other.
        let has_met = before.is_some_and(|before| before.find(node).is_none());
        if let Ok(peer) = self.peer_mut(from)
            && has_met
        {
            peer.convicted.remove(&node);
        }
        if let Ok(peer) = self.peer_mut(node) {
            if has_met {
                peer.convicted.remove(&from);
            }
            // Others are believed about suspects only: each node tells of its own incarnation.
            if peer.suspicion.is_some() {
                peer.raise_incarnation(present.incarnation);
            }
        }
    }

    /// `from` has given `lost` up, which its last view had.
    fn convict(&mut self, from: NodeId, lost: &PresentNode, actions: &mut Vec<Action>) {
        let node = lost.run.node;
        let Some(peer) = self.peer(node).filter(|peer| peer.present.run == lost.run) else {
            return;
        };
        let is_old = lost.incarnation < peer.present.incarnation;
        let is_mutual = peer.convicted.contains(&from);
        if let Ok(witness) = self.peer_mut(from) {
            witness.convicted.insert(node);
        }
        if is_mutual {
            self.drop_suspicion(node, from);
            self.drop_suspicion(from, node);
        } else if !is_old {
            self.suspect(from, lost, actions);
        }
    }

    fn suspect(&mut self, by: NodeId, lost: &PresentNode, actions: &mut Vec<Action>) {
        let (to, run, incarnation) = (lost.run.node, lost.run, lost.incarnation);
        if let Ok(peer) = self.peer_mut(to) {
            peer.present.incarnation = incarnation;
            peer.suspicion = Some(Suspicion { incarnation, by });
            let convicted = Stay { run, incarnation };
            actions.push(Action::SendConviction { to, convicted });
        }
    }

    /// Drops the suspicion of `node` by `witness`: a mutual conviction takes its place.
    fn drop_suspicion(&mut self, node: NodeId, witness: NodeId) {
        if let Ok(peer) = self.peer_mut(node) {
            peer.suspicion = peer.suspicion.filter(|suspicion| suspicion.by != witness);
        }
    }

    /// Peers that go for a mutual conviction, each with the one that stays for it.
    ///
    /// In ascending order each peer stays, unless it and a lower one that stays have given each
    /// other up. So witnesses choose alike, and of two groups without a link one stays whole.
    pub(super) fn going(&self) -> BTreeMap<NodeId, NodeId> {
        let mut going = BTreeMap::new();
        for (node, peer) in self.peers_with_ids() {
            let has_convicted = |rival: &NodeId| {
                let rival = self.peer(*rival);
                rival.is_some_and(|rival| rival.convicted.contains(&node))
            };
            let mut rivals = peer.convicted.range(..node);
            let stays = rivals.find(|rival| !going.contains_key(*rival) && has_convicted(rival));
            if let Some(stays) = stays {
                going.insert(node, *stays);
            }
        }
        going
    }

    /// Entry of `from` in its own view, if the view can be its.
    fn check_marker(&self, from: NodeId, view: &View) -> Result<PresentNode, MarkerError> {
        let peer = self.peer(from).ok_or(NotPresent { node: from })?;
        let run = peer.present.run;
        let told = view.find(from).filter(|told| told.run == run);
        let told = told.ok_or(MarkerError::LacksSender { run })?;
        let own = view.find(self.own.run.node).filter(|own| own.run == self.own.run);
        let own = own.ok_or(MarkerError::LacksThisNode { run })?;
        if own.incarnation > self.issued {
            let (incarnation, issued) = (own.incarnation, self.issued);
            return Err(MarkerError::NeverIssued {
                run,
                incarnation,
                issued,
            });
        }
        let mut nodes = view.nodes().iter();
        match nodes.find(|present| present.incarnation > SWIM_INCARNATION_MAX) {
            Some(present) => Err(MarkerError::IncarnationOutOfRange {
                run,
                node: present.run.node,
                incarnation: present.incarnation,
            }),
            None => Ok(*told),
        }
    }
}
