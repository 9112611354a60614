//! Wills at their primary owner: from the end of the connection until all nodes have the will.
//!
//! After each change the node looks at the wills of the client again. So what the entries say, and not
//! what has happened before, decides about a will: it may have been removed, cancelled or numbered by
//! another node.

use std::collections::BTreeSet;
use std::time::Instant;

use super::action::WillsAction;
use super::known_will::KnownWill;
use super::place::Place;
use super::will_state::WillState;
use super::{DueAt, Wills};
use crate::publishing::DueWill;
use crate::{ClientId, Dot, Slot};

/// Stage of a will that is watched.
#[derive(Debug)]
pub(super) enum Stage {
    /// Its connection has ended, or its node was given up.
    Waiting {
        /// Time at which this node has noticed that.
        since: Instant,
        due: Instant,
    },
    /// It is on its way to all nodes.
    Firing {
        /// Number that Publishing was asked to go on with. It may have refused that one, which no run
        /// can have given to the will.
        asked: Option<Dot>,
        /// Number under which it is published. None until Publishing has told it.
        number: Option<Dot>,
        /// Numbers that the will has.
        known: BTreeSet<Dot>,
    },
    /// All nodes have it, and its connection may be open elsewhere.
    Published,
    /// It is being removed, or armed again.
    Settled,
}

impl Wills {
    /// Looks at the wills of all slots again: the ring or the members have changed.
    pub(super) fn look_at_all(
        &mut self,
        now: Instant,
        state: &impl WillState,
        actions: &mut Vec<WillsAction>,
    ) {
        let watched = self.watched.keys();
        let lost: Vec<Place> = watched
            .filter(|place| !state.decides(place.slot))
            .cloned()
            .collect();
        for place in lost {
            self.forget(&place, actions);
        }
        self.written.retain(|place, _| state.decides(place.slot));
        for client in state.clients() {
            self.look(now, &client, state, actions);
        }
        self.fire_due(now, state, actions);
    }

    /// Looks at the wills of a slot again.
    pub(super) fn look_at_slot(
        &mut self,
        now: Instant,
        slot: Slot,
        state: &impl WillState,
        actions: &mut Vec<WillsAction>,
    ) {
        let watched = self.watched.range(Place::first_of(slot)..);
        let watched = watched.take_while(|(place, _)| place.slot == slot);
        let watched: BTreeSet<ClientId> = watched.map(|(place, _)| place.client.clone()).collect();
        let written = self.clients_with_written(slot);
        let found = state.clients_of(slot).into_iter();
        for client in watched.into_iter().chain(written).chain(found) {
            self.look(now, &client, state, actions);
        }
        self.fire_due(now, state, actions);
    }

    /// Looks at the wills of a client again.
    pub(super) fn look_at_client(
        &mut self,
        now: Instant,
        client: &ClientId,
        state: &impl WillState,
        actions: &mut Vec<WillsAction>,
    ) {
        self.look(now, client, state, actions);
        self.fire_due(now, state, actions);
    }

    fn look(
        &mut self,
        now: Instant,
        client: &ClientId,
        state: &impl WillState,
        actions: &mut Vec<WillsAction>,
    ) {
        let decides = state.decides(Slot::of_client(client.as_bytes()));
        let known = if decides { state.wills(client) } else { Vec::new() };
        let is_known = |place: &Place| known.iter().any(|will| will.will == place.will);
        let watched = self.watched.range(Place::of_client(client));
        let gone = watched.map(|(place, _)| place).filter(|place| !is_known(place));
        for place in gone.cloned().collect::<Vec<Place>>() {
            self.forget(&place, actions);
        }
        if decides {
            self.forget_written(client, &known);
        }
        for will in known {
            self.advance(now, Place::new(client.clone(), will.will), &will, state, actions);
        }
    }

    /// Brings a will one step further.
    fn advance(
        &mut self,
        now: Instant,
        place: Place,
        will: &KnownWill,
        state: &impl WillState,
        actions: &mut Vec<WillsAction>,
    ) {
        match self.watched.get(&place) {
            None => self.wait(now, place, will, state, actions),
            Some(Stage::Waiting { since, .. }) => {
                let since = *since;
                self.wait(since, place, will, state, actions);
            }
            Some(Stage::Firing { number: None, .. } | Stage::Settled) => {}
            Some(Stage::Firing {
                asked,
                number: Some(under),
                ..
            }) => {
                let tried = [*asked, Some(*under)];
                self.compare_numbers(now, place, tried, will, state, actions);
            }
            Some(Stage::Published) => self.settle(place, will, state, actions),
        }
    }

    /// Waits until the will is due. One with a number is due at once: another primary owner has begun to
    /// publish it.
    ///
    /// A will whose connection is open is not due. Where it has a number, a side has published it that had
    /// given the node up, and it is armed again: nodes that never did so do not publish it.
    fn wait(
        &mut self,
        since: Instant,
        place: Place,
        will: &KnownWill,
        state: &impl WillState,
        actions: &mut Vec<WillsAction>,
    ) {
        let is_numbered = !will.numbers.is_empty();
        self.forget(&place, actions);
        if !self.is_open(will, state) {
            let due = if is_numbered { since } else { since + will.delay };
            self.due.insert(DueAt {
                due,
                place: place.clone(),
            });
            self.watched.insert(place, Stage::Waiting { since, due });
        } else if is_numbered {
            self.settle(place, will, state, actions);
        }
    }

    /// The connection of a will is open as far as this node knows.
    pub(super) fn is_open(&self, will: &KnownWill, state: &impl WillState) -> bool {
        let run = will.connection.run;
        !will.is_ended && (run == self.run || state.present_run(run.node) == Some(run))
    }

    /// Goes over to another number than those that were tried, if it is the one that counts (rule
    /// `one-number`). Writes the entry of the number anew where this node knows more than when it wrote it.
    fn compare_numbers(
        &mut self,
        now: Instant,
        place: Place,
        tried: [Option<Dot>; 2],
        will: &KnownWill,
        state: &impl WillState,
        actions: &mut Vec<WillsAction>,
    ) {
        self.know_numbers(&place, will);
        let counting = will.counting(self.run, |number| state.has_heard(place.slot, number));
        let Some(counting) = counting else { return };
        let [_, under] = tried;
        let is_other = !tried.contains(&Some(counting.number));
        let is_under = under == Some(counting.number);
        if is_other || is_under && self.is_outdated(&place, will, &counting, state) {
            self.forget(&place, actions);
            self.wait(now, place, will, state, actions);
        }
    }

    /// Remembers the numbers of a will on its way: a peer may route one of them.
    fn know_numbers(&mut self, place: &Place, will: &KnownWill) {
        if let Some(Stage::Firing { known, .. }) = self.watched.get_mut(place) {
            for number in will.numbers.iter().map(|entry| entry.number.number) {
                known.insert(number);
                self.numbers.insert(number, place.clone());
            }
        }
    }

    /// Publishes wills that are due, as long as there is room.
    pub(super) fn fire_due(&mut self, now: Instant, state: &impl WillState, actions: &mut Vec<WillsAction>) {
        while self.has_room() {
            let Some(DueAt { place, .. }) = self.due.first().filter(|first| first.due <= now).cloned() else {
                return;
            };
            self.forget(&place, actions);
            if let Some(will) = find(&place, state) {
                self.fire(&place, &will, state, actions);
            }
        }
    }

    fn fire(
        &mut self,
        place: &Place,
        will: &KnownWill,
        state: &impl WillState,
        actions: &mut Vec<WillsAction>,
    ) {
        let numbered = self.next_number(place, will, state);
        self.firing += 1;
        let stage = Stage::Firing {
            asked: numbered.as_ref().map(|numbered| numbered.number),
            number: None,
            known: BTreeSet::new(),
        };
        self.watched.insert(place.clone(), stage);
        self.know_numbers(place, will);
        actions.push(WillsAction::Publish(DueWill {
            client: place.client.clone(),
            will: place.will,
            content: will.content,
            numbered,
        }));
    }

    /// Publishing has the number of a will. What is not wanted any more is given up.
    pub(super) fn numbered(
        &mut self,
        now: Instant,
        place: &Place,
        under: Dot,
        state: &impl WillState,
        actions: &mut Vec<WillsAction>,
    ) {
        match self.watched.get_mut(place) {
            Some(Stage::Firing {
                number: number @ None,
                known,
                ..
            }) => {
                *number = Some(under);
                known.insert(under);
                self.numbers.insert(under, place.clone());
                self.writes_number(place, under);
                self.look_at_client(now, &place.client, state, actions);
            }
            Some(Stage::Firing {
                number: Some(number), ..
            }) if *number == under => {}
            _ => actions.push(WillsAction::GiveUp { number: under }),
        }
    }

    /// A peer routes a number: it counts, if it is one of a will on its way.
    pub(super) fn routed_by_peer(
        &mut self,
        now: Instant,
        number: Dot,
        state: &impl WillState,
        actions: &mut Vec<WillsAction>,
    ) {
        if let Some(place) = self.numbers.get(&number).cloned() {
            self.look_at_client(now, &place.client, state, actions);
        }
    }

    /// Forgets a will that does not count any more, or that this node does not decide about. Its number
    /// is given up.
    fn forget(&mut self, place: &Place, actions: &mut Vec<WillsAction>) {
        let number = self.remove(place);
        actions.extend(number.map(|number| WillsAction::GiveUp { number }));
    }

    /// Removes the state of a will; gives the number under which it is on its way.
    pub(super) fn remove(&mut self, place: &Place) -> Option<Dot> {
        match self.watched.remove(place)? {
            Stage::Waiting { due, .. } => {
                let place = place.clone();
                self.due.remove(&DueAt { due, place });
                None
            }
            Stage::Firing { number, known, .. } => {
                self.firing -= 1;
                for number in known {
                    self.numbers.remove(&number);
                }
                number
            }
            Stage::Published | Stage::Settled => None,
        }
    }
}

/// Will as the copy has it, while this node decides about it (rule `fire-merged`).
pub(super) fn find(place: &Place, state: &impl WillState) -> Option<KnownWill> {
    if !state.decides(place.slot) {
        return None;
    }
    let mut wills = state.wills(&place.client).into_iter();
    wills.find(|will| will.will == place.will)
}
