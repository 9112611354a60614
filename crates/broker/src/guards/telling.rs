//! What a node tells the guards of its own wills.
//!
//! A will is with one guard at a time. One that is to go to another guard, since the ring has changed, is taken from the former one first: while it is on its way nobody
//! has it. If both had it, both would publish it.
//!
//! A connection that ends while its node is in touch with the guard has its will published here, and the guard is told. A node that was away, for longer than it takes to be given up or nearly so, may
//! have been given up: it asks first, since the guard may have published the will.

use std::time::Duration;

use cluster::NodeId;
use cluster::session_plane::lifecycle::NodeState;
use cluster::write::Write;
use mqtt::ids::{SessionKey, SessionNumber};
use mqtt::now::Now;
use mqtt::records;
use mqtt::records::session::SessionRecord;
use protocol::packet::Will;

use super::messages::WillMessage;
use super::{Guarded, Guards, Stage, Told};
use crate::node::{Action, Node};
use crate::routes::{LinkChange, WaitId};

/// Wills that are looked at before others have their turn.
const VISITED_MAX: usize = 512;

/// How long the others have their turn.
const PAUSE: Duration = Duration::from_millis(1);

/// Who has not answered for so long is asked again: it could not answer if it had given this node up.
const ASK_AGAIN: Duration = Duration::from_secs(1);

/// Numbers in one message.
pub(super) const NUMBERS_MAX: usize = 4_096;

impl Node {
    /// Tells a guard of a connection's will, if the session ends with it; gives something to wait for until the guard has it.
    pub(crate) fn guard_will(&mut self, now: Now, key: SessionKey) -> Option<WaitId> {
        let entry = self.sessions.get(key)?;
        if entry.session.is_durable() || entry.will.is_none() {
            return None;
        }
        let number = entry.session.number;
        let guards = self.guards.as_mut()?;
        let told = guards.told.entry(number).or_insert(Told {
            key,
            stage: Stage::Untold,
            was_told: false,
        });
        if let Stage::Asked(_) = told.stage {
            return None;
        }
        let guard = self.guard_of(key)?;
        let peers = self.peers.as_mut()?;
        if peers.is_behind(guard) {
            self.visit_wills();
            return None;
        }
        let wait = peers.open_wait();
        self.tell_guard(now, number, guard, Some(wait));
        let peers = self.peers.as_mut()?;
        let wait = peers.keep_open(wait)?;
        peers.limit_wait(now, wait);
        Some(wait)
    }

    /// What a guard has of a connection's will may not be the same any more.
    pub(crate) fn guard_will_anew(&mut self, now: Now, key: SessionKey) {
        let number = self.sessions.get(key).map(|entry| entry.session.number);
        let Some((number, guards)) = number.zip(self.guards.as_ref()) else {
            return;
        };
        let stage = guards.told.get(&number).map(|told| told.stage);
        if let Some(Stage::Guarded(guard)) = stage {
            self.tell_guard(now, number, guard, None);
        }
    }

    /// A connection has ended, and nobody guards its will any more. `will`: it is to be published. Gives it back if that is to be done at once; else it is done when
    /// the guard has said that it has not.
    pub(crate) fn take_back_will(
        &mut self,
        now: Now,
        key: SessionKey,
        will: Option<Box<Will>>,
    ) -> Option<Box<Will>> {
        let (Some(guards), Some(peers), Some(entry)) =
            (&mut self.guards, &mut self.peers, self.sessions.get(key))
        else {
            return will;
        };
        let number = entry.session.number;
        let Some(told) = guards.told.remove(&number) else {
            return will;
        };
        let guard = told.stage.node();
        let is_sure = matches!(told.stage, Stage::Guarded(guard) if peers.is_in_touch(now, guard));
        if will.is_none() || is_sure || !told.was_told {
            if let Some(guard) = guard {
                guards.tell(peers, guard, &WillMessage::Gone(vec![number]), None);
            }
            return will;
        }
        let guarded = Guarded {
            client_id: entry.session.client_id.clone(),
            owner: entry.owner.as_deref().cloned(),
            will: *will?,
            is_confirmed: true,
        };
        let own = guards.ask_somebody(now, peers, guard, (number, guarded));
        own.map(|guarded| Box::new(guarded.will))
    }

    /// A guard has let wills go: they are this node's, except those that it has said before to have published.
    pub(super) fn take_let_go(
        &mut self,
        now: Now,
        from: NodeId,
        (question, numbers): (u64, Vec<SessionNumber>),
        actions: &mut Vec<Action>,
    ) {
        let (Some(guards), Some(peers)) = (&mut self.guards, &mut self.peers) else {
            return;
        };
        if question == guards.question {
            peers.trust_again(from);
        }
        let mut own = Vec::new();
        for number in numbers {
            if let Some(told) = guards.told.get_mut(&number)
                && told.stage == Stage::Asked(from)
            {
                told.stage = Stage::Untold;
                guards.visit = Some(guards.visit.map_or(number, |visit| visit.min(number)));
            }
            let asked = guards.asked.extract_if(number..=number, |_, (of, _)| *of == from);
            own.extend(asked.map(|(_, (_, guarded))| guarded));
        }
        for guarded in own {
            self.publish_guarded(now, guarded, actions);
        }
    }

    /// Wills of this node were published by others. If these have gone on without this node, the wills are not published again, whatever becomes of their connections: it
    /// hears of that before it is RUNNING again. If it was RUNNING all the time they were on the smaller side of a split, and the wills are guarded as before.
    pub(super) fn take_published(&mut self, from: NodeId, numbers: Vec<SessionNumber>) {
        let (Some(guards), Some(states)) = (&mut self.guards, &self.states) else {
            return;
        };
        let is_running = states.state_of(guards.own) == NodeState::Running;
        for number in &numbers {
            let Some(guards) = &mut self.guards else { return };
            if is_running {
                let told = guards.told.get_mut(number);
                if let Some(told) = told.filter(|told| told.stage.is_with(from)) {
                    told.stage = Stage::Untold;
                    guards.visit = Some(SessionNumber(0));
                }
                continue;
            }
            let told = guards.told.remove(number);
            let is_known = told.is_some() | guards.asked.remove(number).is_some();
            guards.figures.published_elsewhere += u64::from(is_known);
            let Some(Told { key, stage, .. }) = told else {
                continue;
            };
            if let Some(entry) = self.sessions.get_mut(key) {
                entry.will = None;
                self.sessions.recount(key);
            }
            if let Some(guard) = stage.node().filter(|guard| *guard != from) {
                self.tell_wills(guard, &WillMessage::Gone(vec![*number]));
            }
        }
        self.tell_wills(from, &WillMessage::Heard(numbers));
    }

    /// What becomes of a link is what becomes of what the node guards.
    pub(super) fn note_link_of_guard(
        &mut self,
        now: Now,
        (node, change): (NodeId, LinkChange),
        actions: &mut Vec<Action>,
    ) {
        let Some(guards) = &mut self.guards else { return };
        for told in guards.told.values_mut() {
            if told.stage.is_with(node) {
                told.stage = Stage::Untold;
            }
        }
        match change {
            LinkChange::Lost => guards.hearing.remove(&node),
            _ => guards.hearing.insert(node, false),
        };
        let Some(peers) = &mut self.peers else { return };
        // Others know what it has published, if it has.
        let asked = guards.asked.extract_if(.., |_, (of, _)| *of == node);
        let asked: Vec<_> = asked.map(|(number, (_, guarded))| (number, guarded)).collect();
        let own = asked
            .into_iter()
            .filter_map(|asked| guards.ask_somebody(now, peers, None, asked));
        let own: Vec<Guarded> = own.collect();
        self.visit_wills();
        for guarded in own {
            self.publish_guarded(now, guarded, actions);
        }
    }

    /// Guards have changed, or can be told something: all wills are looked at.
    pub(crate) fn visit_wills(&mut self) {
        if let Some(guards) = &mut self.guards {
            guards.visit = Some(SessionNumber(0));
        }
    }

    /// Goes on with what guards are to be told.
    pub(super) fn go_on_telling(&mut self, now: Now) {
        self.ask_guards_again(now);
        let (Some(guards), Some(peers)) = (&mut self.guards, &mut self.peers) else {
            return;
        };
        let Some(from) = guards.visit else { return };
        if from == SessionNumber(0) {
            for (node, is_begun) in guards.hearing.iter_mut().filter(|(_, is_begun)| !**is_begun) {
                *is_begun = true;
                let begin = super::encode(guards.incarnation, &WillMessage::Begin);
                peers.tell(*node, (super::Subject::Wills, begin), None);
            }
        }
        let numbers = guards.told.range(from..).map(|(number, _)| *number);
        let numbers: Vec<SessionNumber> = numbers.take(VISITED_MAX + 1).collect();
        for (place, number) in numbers.into_iter().enumerate() {
            if place == VISITED_MAX || !self.look_at_will(now, number) {
                if let Some(guards) = &mut self.guards {
                    guards.visit = Some(number);
                    guards.go_on_at = Some(now.instant + PAUSE);
                }
                return;
            }
        }
        let (Some(guards), Some(peers)) = (&mut self.guards, &mut self.peers) else {
            return;
        };
        guards.visit = None;
        let heard: Vec<NodeId> = guards
            .hearing
            .extract_if(.., |_, is_begun| *is_begun)
            .map(|(node, _)| node)
            .collect();
        for node in heard {
            guards.tell(peers, node, &WillMessage::All, None);
        }
    }

    /// Tells whoever is to guard a will, or asks who is not to any more. False if there is no room on the way.
    fn look_at_will(&mut self, now: Now, number: SessionNumber) -> bool {
        let told = self.guards.as_ref().and_then(|guards| guards.told.get(&number));
        let Some(&Told { key, stage, .. }) = told else {
            return true;
        };
        let (Some(guard), Some(peers)) = (self.guard_of(key), &mut self.peers) else {
            return true;
        };
        match stage {
            Stage::Untold if peers.is_reached(guard) => {
                if !peers.has_room(guard) {
                    return false;
                }
                self.tell_guard(now, number, guard, None);
            }
            Stage::Guarded(former) if former != guard && peers.is_reached(guard) => {
                if !peers.has_room(former) {
                    return false;
                }
                if let Some(guards) = &mut self.guards
                    && guards.ask(now, peers, former, vec![number])
                    && let Some(told) = guards.told.get_mut(&number)
                {
                    told.stage = Stage::Asked(former);
                }
            }
            Stage::Untold | Stage::Guarded(_) | Stage::Asked(_) => {}
        }
        true
    }

    /// Tells a node to guard a will, if it is reached.
    fn tell_guard(&mut self, now: Now, number: SessionNumber, guard: NodeId, wait: Option<WaitId>) {
        let (Some(guards), Some(peers)) = (&mut self.guards, &mut self.peers) else {
            return;
        };
        let Some(told) = guards.told.get_mut(&number) else {
            return;
        };
        let Some(entry) = self.sessions.get(told.key) else {
            return;
        };
        let record = SessionRecord {
            owner: entry.owner.as_deref().cloned(),
            ..entry
                .session
                .record(now.wall, entry.expiry, entry.will.as_deref().cloned())
        };
        let Write::Put { value: record, .. } = records::session::put(&entry.session.client_id, &record)
        else {
            return;
        };
        let client_id = entry.session.client_id.clone();
        let message = super::encode(guards.incarnation, &WillMessage::Guard { client_id, record });
        if peers.tell(guard, (super::Subject::Wills, message), wait) {
            told.stage = Stage::Guarded(guard);
            told.was_told = true;
        }
    }

    /// Who is to guard the will of a session.
    fn guard_of(&self, key: SessionKey) -> Option<NodeId> {
        let (guards, states) = (self.guards.as_ref()?, self.states.as_ref()?);
        let entry = self.sessions.get(key)?;
        let owners = states.primary().owners(entry.session.client_id.as_bytes(), 2);
        owners.into_iter().find(|owner| *owner != guards.own)
    }

    /// Asks again who has not answered for long.
    fn ask_guards_again(&mut self, now: Now) {
        let (Some(guards), Some(peers)) = (&mut self.guards, &mut self.peers) else {
            return;
        };
        if guards.ask_again_at.is_none_or(|at| now.instant < at) {
            return;
        }
        guards.ask_again_at = None;
        let asked = guards.told.iter().filter_map(|(number, told)| match told.stage {
            Stage::Asked(guard) => Some((guard, *number)),
            Stage::Untold | Stage::Guarded(_) => None,
        });
        let asked = asked.chain(guards.asked.iter().map(|(number, (guard, _))| (*guard, *number)));
        let mut questions: std::collections::BTreeMap<NodeId, Vec<SessionNumber>> = Default::default();
        for (guard, number) in asked {
            questions.entry(guard).or_default().push(number);
        }
        for (guard, numbers) in questions {
            for numbers in numbers.chunks(NUMBERS_MAX) {
                guards.ask(now, peers, guard, numbers.to_vec());
            }
        }
    }
}

impl Guards {
    /// Asks whether a will of a connection that is gone was published: its guard, or else somebody who knows what others have published. Gives it back if nobody is
    /// reached: on this side of a split nobody has published it.
    fn ask_somebody(
        &mut self,
        now: Now,
        peers: &mut super::Routes,
        guard: Option<NodeId>,
        (number, guarded): (SessionNumber, Guarded),
    ) -> Option<Guarded> {
        let guard = guard.filter(|guard| peers.is_reached(*guard));
        let Some(of) = guard.or_else(|| peers.reached().min()) else {
            return Some(guarded);
        };
        self.ask(now, peers, of, vec![number]);
        self.asked.insert(number, (of, guarded));
        None
    }

    /// Asks a guard to let wills go. False if it is not reached.
    fn ask(
        &mut self,
        now: Now,
        peers: &mut super::Routes,
        guard: NodeId,
        numbers: Vec<SessionNumber>,
    ) -> bool {
        self.question += 1;
        self.ask_again_at.get_or_insert(now.instant + ASK_AGAIN);
        self.tell(peers, guard, &WillMessage::Ask(self.question, numbers), None)
    }
}
