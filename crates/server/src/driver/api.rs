//! What the node says to `/api`: each answer is one look at it, or one event.

use broker::inspection::{Client, Piece};
use broker::{Administration, Event};
use tokio::sync::oneshot;

use super::Driver;
use crate::admin::api::{Answered, NodeSaid, OwnState, Place, Question, Said, ServedAt};

impl Driver {
    /// Answers a question, or has what it wants done; that is answered when it is done.
    pub(super) fn api_request(&self, question: Question, answer: oneshot::Sender<Answered>) {
        let said = match question {
            Question::Administer(wanted) => return self.administer(wanted, answer),
            question => self.look(question),
        };
        // Whoever asked may have gone.
        let _ = answer.send(self.answered_by(said));
    }

    /// What an operator wanted is done, or cannot be.
    pub(super) fn administered(&self, question: u64, said: Said) {
        let answered = self.answered_by(said);
        self.administrations.borrow_mut().answer(question, answered);
    }

    /// From here on clients are served at these addresses.
    pub(crate) fn serves_at(&self, listeners: Vec<ServedAt>) {
        self.listeners.replace(listeners);
    }

    fn administer(&self, wanted: Administration, answer: oneshot::Sender<Answered>) {
        let question = self.administrations.borrow_mut().ask(answer);
        self.step_quietly(Event::Administer { question, wanted });
    }

    fn look(&self, question: Question) -> Said {
        let node = self.node.borrow();
        let now = self.clock.now();
        match question {
            Question::Clients(asked) => {
                let Piece { found, next, total } = node.clients_seen(&asked);
                let found = found.into_iter().map(|client| {
                    let place = self.place_of(&client);
                    (client, place)
                });
                let found = found.collect();
                Said::Clients(Piece { found, next, total })
            }
            Question::Client(client_id) => {
                let seen = node.client_seen(&client_id);
                let place = seen.as_ref().and_then(|seen| self.place_of(&seen.client));
                Said::Client(seen.map(|seen| Box::new((seen, place))))
            }
            Question::Subscriptions(asked) => Said::Subscriptions(node.subscriptions_seen(&asked)),
            Question::Retained(asked) => Said::Retained(node.retained_seen(now, &asked)),
            Question::RetainedMessage(topic) => {
                Said::RetainedMessage(node.retained_message(now, topic.as_str()).map(Box::new))
            }
            Question::Rings => Said::Rings(node.slots_of_nodes()),
            Question::Node => {
                let state = node.presence().map(|presence| OwnState {
                    presence,
                    since: self.state_since.get(),
                });
                Said::Node(NodeSaid {
                    state,
                    not_ready: self.health().not_ready,
                    listeners: self.listeners.borrow().clone(),
                })
            }
            Question::SelfTest => Said::SelfTest(self.observed.borrow().self_test.last.clone()),
            Question::Contents => Said::Contents(node.contents()),
            Question::SessionsForBackup(after) => {
                Said::SessionsForBackup(node.sessions_for_backup(now, &after))
            }
            Question::RetainedForBackup(after) => {
                Said::RetainedForBackup(node.retained_for_backup(now, &after))
            }
            // It is no look.
            Question::Administer(_) => Said::Done(false),
        }
    }

    fn answered_by(&self, said: Said) -> Answered {
        Answered {
            node: self.settings.node,
            said,
        }
    }

    /// Place of a client that is connected to this node.
    fn place_of(&self, client: &Client) -> Option<Place> {
        let sockets = self.sockets.borrow();
        let socket = sockets.get(client.connection?.id)?;
        Some(Place {
            address: socket.peer.to_string(),
            listener: socket.origin.listener.to_string(),
        })
    }
}
