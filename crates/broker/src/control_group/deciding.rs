//! Changes on their way: those that this leader has given to the log, and those that another node was asked to decide.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use cluster::NodeId;
use cluster::control::plan::group_name;
use cluster::control::{Command, decode_command, encode_command};
use cluster::replica;
use mqtt::now::Now;
use state_service::Output;

use super::messages::ControlMessage;
use super::questions::{ClusterAnswer, ClusterChange};
use super::{ControlGroup, to_peer};
use crate::node::Action;

/// Who wants to know what became of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asker {
    /// An operator at this node.
    Here(u64),
    /// One at another node.
    There(NodeId, u64),
}

/// Questions that another node was asked: by its number, whose it is, and until when it is waited for.
#[derive(Debug, Default)]
pub(super) struct Asked {
    questions: BTreeMap<u64, (u64, Instant)>,
    next_number: u64,
}

/// An operator who has waited for so long is told that nobody knows.
const ANSWER_WITHIN: Duration = Duration::from_millis(1_500);

/// Questions of operators that may wait at the same time; one more is refused.
const QUESTIONS_MAX: usize = 64;

const UNKNOWN: &str =
    "nobody who could decide has answered in time; `statehold cluster status` shows whether it was done";

impl Asked {
    /// Another node has answered.
    pub(super) fn answered(
        &mut self,
        number: u64,
        answer: Result<String, String>,
        actions: &mut Vec<Action>,
    ) {
        if let Some((question, _)) = self.questions.remove(&number) {
            answer_here(question, answer, actions);
        }
    }

    /// Tells those who have waited for too long.
    pub(super) fn give_up(&mut self, now: Now, actions: &mut Vec<Action>) {
        let is_over = |_: &u64, (_, until): &mut (u64, Instant)| *until <= now.instant;
        for (_, (question, _)) in self.questions.extract_if(.., is_over) {
            leave_open(Asker::Here(question), UNKNOWN, actions);
        }
    }
}

impl ControlGroup {
    /// Gives a command to the log; `asker` is told when it is applied.
    pub(crate) fn propose(
        &mut self,
        now: Now,
        command: Command,
        asker: Option<Asker>,
        outputs: &mut Vec<Output>,
        actions: &mut Vec<Action>,
    ) {
        if self.deciding.iter().any(|(other, _)| *other == command) && asker.is_none() {
            return;
        }
        let data = encode_command(now.wall, &command);
        self.deciding.push((command, asker));
        self.step(replica::Event::Propose { data }, now, outputs, actions);
    }

    /// Lets another node decide what an operator wants.
    pub(crate) fn ask(
        &mut self,
        now: Now,
        to: NodeId,
        question: u64,
        change: ClusterChange,
        outputs: &mut Vec<Output>,
        actions: &mut Vec<Action>,
    ) {
        let asked = &mut self.asked;
        if asked.questions.len() >= QUESTIONS_MAX {
            let why = "too many changes are waiting for an answer";
            return leave_open(Asker::Here(question), why, actions);
        }
        let number = asked.next_number;
        asked.next_number += 1;
        asked
            .questions
            .insert(number, (question, now.instant + ANSWER_WITHIN));
        outputs.push(to_peer(to, &ControlMessage::Ask { number, change }));
    }

    /// A command was applied.
    pub(super) fn decided(
        &mut self,
        command: &Command,
        outputs: &mut Vec<Output>,
        actions: &mut Vec<Action>,
    ) {
        for asker in self.take_deciding(command) {
            let said = match command {
                Command::Add(founder) => format!("node {} joins", founder.node),
                Command::Remove(node) => format!("node {node} leaves"),
                Command::Lead { group, node } => format!("node {node} is to lead {}", group_name(*group)),
                Command::Joined(_) | Command::Left(_) | Command::Moved(_) => continue,
            };
            answer(asker, Ok(said), outputs, actions);
        }
    }

    /// The log does not take a command at the moment.
    pub(super) fn refused(&mut self, data: &[u8], why: &str, actions: &mut Vec<Action>) {
        let (_, command) = decode_command(data).expect("this node wrote it");
        for asker in self.take_deciding(&command) {
            leave_open(asker, why, actions);
        }
    }

    /// What this leader has proposed may still be committed, or not.
    pub(super) fn lose_leadership(&mut self, actions: &mut Vec<Action>) {
        for (_, asker) in std::mem::take(&mut self.deciding) {
            if let Some(asker) = asker {
                leave_open(asker, UNKNOWN, actions);
            }
        }
    }

    fn take_deciding(&mut self, command: &Command) -> Vec<Asker> {
        let taken = self.deciding.extract_if(.., |(other, _)| other == command);
        taken.filter_map(|(_, asker)| asker).collect()
    }
}

/// Tells who wants to know.
pub(crate) fn answer(
    asker: Asker,
    said: Result<String, String>,
    outputs: &mut Vec<Output>,
    actions: &mut Vec<Action>,
) {
    match asker {
        Asker::Here(question) => answer_here(question, said, actions),
        Asker::There(node, number) => {
            outputs.push(to_peer(node, &ControlMessage::Answer { number, answer: said }));
        }
    }
}

/// Tells an operator at this node that a change is not decided, as far as is known. One at another node is told so there, when nobody
/// has answered for [`ANSWER_WITHIN`].
pub(crate) fn leave_open(asker: Asker, why: &str, actions: &mut Vec<Action>) {
    if let Asker::Here(question) = asker {
        let answer = ClusterAnswer::Open(why.to_owned());
        actions.push(Action::ClusterAnswer { question, answer });
    }
}

fn answer_here(question: u64, said: Result<String, String>, actions: &mut Vec<Action>) {
    let answer = match said {
        Ok(text) => ClusterAnswer::Taken(text),
        Err(text) => ClusterAnswer::Refused(text),
    };
    actions.push(Action::ClusterAnswer { question, answer });
}
