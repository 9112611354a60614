//! Publishing of the world's nodes: numbers of wills, and their routes.

use super::machine::Wait;
use super::{Content, World, index};
use crate::wills::tests::*;

impl World {
    /// Tells the publishing of a node, and does what it says.
    pub(super) fn tell_publishing(&mut self, node: usize, event: PublishingEvent) {
        let mut actions = Vec::new();
        let told = self.machines[node].publishing.step(event, &mut actions);
        assert_eq!(told, Ok(()));
        for action in actions {
            self.publish(node, action);
        }
    }

    fn publish(&mut self, node: usize, action: PublishingAction) {
        match action {
            PublishingAction::WriteWillNumber { client, will, number } => {
                self.write_number(node, &client, will, number);
            }
            PublishingAction::WillNumbered { client, will, number } => {
                self.tell_wills(node, WillsEvent::Numbered { client, will, number });
            }
            PublishingAction::GiveAgain { entry, .. } => self.give(node, entry),
            PublishingAction::AwaitStored {
                client,
                number,
                entry,
                marker,
                ..
            } => {
                let since = self.waits_since(node, &client, number, (entry, marker));
                let wait = Wait { entry, marker, since };
                self.machines[node].waits.insert(number, wait);
                self.complete_waits(node);
            }
            PublishingAction::Route {
                message, to, marker, ..
            } => {
                let number = message.number;
                self.note_route(node, number, message.content);
                self.hear(node, number);
                for to in to.into_iter().map(index) {
                    if to == node {
                        self.confirm_route(node, node, number, marker);
                    } else {
                        self.send(node, to, Content::Route { number, marker });
                    }
                }
            }
            PublishingAction::WillPublished { number } => {
                self.note_published(node, number);
                self.tell_wills(node, WillsEvent::Published { number });
            }
            other => panic!("wills have no exchanges: {other:?}"),
        }
    }

    /// Moment since which a node waits for all others. A wait that is taken up again by the same ring goes on:
    /// no node confirms the entry a second time. It begins anew where the node has learned of another
    /// number, which may be routed.
    fn waits_since(&mut self, node: usize, client: &ClientId, number: Dot, wait: (Dot, u64)) -> u64 {
        let (moment, machine) = (self.moment, &mut self.machines[node]);
        let numbers = machine.state.entries(client, EntryKind::WillNumber);
        let own = numbers.iter().find(|(dot, _)| *dot == wait.0);
        let will = own.and_then(|(_, entry)| entry.fact.named());
        let mut others = numbers.iter().filter(|(_, entry)| entry.fact.named() == will);
        let first = *machine.awaited.entry(wait).or_insert(moment);
        let is_other = |value: &Value| !matches!(value, Value::Number(of) if of.number == number);
        if others.any(|(_, entry)| is_other(&entry.value)) {
            moment
        } else {
            first
        }
    }

    fn write_number(&mut self, node: usize, client: &ClientId, will: Dot, number: WillNumber) {
        let entry = self.machines[node].state.entry(client, EntryKind::Will, will);
        let birth = entry.expect("the will that is due").birth;
        self.note_number(node, client, will, number);
        let fact = Fact::WillNumber { will };
        let value = Value::Number(number);
        let dot = self.make(node, client, BTreeSet::new(), Some((fact, birth, value)));
        let entry = self.machines[node].made[&dot].adds.as_ref();
        let clock = entry.expect("a number is an entry").clock;
        let (number, made) = (number.number, MadeEvent { dot, clock });
        self.tell_publishing(node, PublishingEvent::WillNumberWritten { number, made });
    }

    fn hear(&mut self, node: usize, number: Dot) {
        let (moment, machine) = (self.moment, &mut self.machines[node]);
        machine.heard.entry(number).or_insert(moment);
        machine.state.copy.cover(number);
    }

    pub(super) fn take_route(&mut self, from: usize, to: usize, number: Dot, marker: u64) {
        self.hear(to, number);
        self.tell_wills(to, WillsEvent::RoutedByPeer { number });
        let routed = PublishingEvent::RoutedByPeer {
            from: super::id(from),
            number,
        };
        self.tell_publishing(to, routed);
        self.send(to, from, Content::RouteConfirmed { number, marker });
    }

    pub(super) fn confirm_route(&mut self, from: usize, to: usize, number: Dot, marker: u64) {
        let from = super::id(from);
        let confirmation = RouteConfirmation { from, number, marker };
        self.tell_publishing(to, PublishingEvent::RouteConfirmed(confirmation));
    }
}
