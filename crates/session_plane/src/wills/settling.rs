//! Wills that all nodes have: removed, kept while their connection may be open elsewhere, or armed
//! again (rule `will-armed`).

use std::time::Instant;

use super::Wills;
use super::action::WillsAction;
use super::firing::{Stage, find};
use super::known_will::KnownWill;
use super::place::Place;
use super::will_state::WillState;
use crate::Dot;

impl Wills {
    /// All nodes have a will. The next one that is due follows.
    pub(super) fn published(
        &mut self,
        now: Instant,
        number: Dot,
        state: &impl WillState,
        actions: &mut Vec<WillsAction>,
    ) {
        let Some(place) = self.numbers.get(&number).cloned() else {
            return;
        };
        let under = match self.watched.get(&place) {
            Some(Stage::Firing { number, .. }) => *number,
            _ => None,
        };
        if under != Some(number) {
            return;
        }
        self.end_firing(now, place, state, actions);
    }

    /// A will that was due may not be published. It is removed as one that was.
    pub(super) fn refused(
        &mut self,
        now: Instant,
        place: Place,
        state: &impl WillState,
        actions: &mut Vec<WillsAction>,
    ) {
        let is_asked = matches!(self.watched.get(&place), Some(Stage::Firing { number: None, .. }));
        if is_asked {
            self.end_firing(now, place, state, actions);
        }
    }

    /// Settles a will that was on its way. The next one that is due has its room.
    fn end_firing(
        &mut self,
        now: Instant,
        place: Place,
        state: &impl WillState,
        actions: &mut Vec<WillsAction>,
    ) {
        self.remove(&place);
        if let Some(will) = find(&place, state) {
            self.settle(place, &will, state, actions);
        }
        self.fire_due(now, state, actions);
    }

    /// Removes a will that was published, arms it again, or keeps it.
    ///
    /// A node that was given up may live, and its connection with it. Its will stays then, with its
    /// number: nothing more is published on this side. When the node comes back, the will is armed
    /// again, so that the end of the connection is published later.
    pub(super) fn settle(
        &mut self,
        place: Place,
        will: &KnownWill,
        state: &impl WillState,
        actions: &mut Vec<WillsAction>,
    ) {
        let client = place.client.clone();
        let mut removes = will.entries.clone();
        let stage = if will.is_ended || !will.has_connection || state.has_ended(will.connection.run) {
            removes.insert(will.connection);
            actions.push(WillsAction::Remove { client, removes });
            Stage::Settled
        } else if self.is_open(will, state) {
            let will = will.will;
            actions.push(WillsAction::Arm {
                client,
                will,
                removes,
            });
            Stage::Settled
        } else {
            Stage::Published
        };
        self.watched.insert(place, stage);
    }
}
