//! Messages of other replicas. Whatever a correct peer does not send is found here, before Raft sees it.

use bytes::Bytes;
use raft::StateRole;
use raft::eraftpb::Message;

use super::message::{self, Route};
use super::{Action, MessageError, Replica};
use crate::{Index, NodeId, Term};

impl Replica {
    pub(super) fn receive(&mut self, from: NodeId, bytes: &Bytes, actions: &mut Vec<Action>) {
        let route = Route {
            group: self.config.group,
            from,
            to: self.config.node,
        };
        let mut checked = message::decode(bytes, route).and_then(|message| {
            self.check_against_log(&message)?;
            Ok(message)
        });
        if let Ok(message) = &mut checked {
            self.notice_missing(message, actions);
        }
        let is_heard = checked.as_ref().is_ok_and(|message| !Self::is_short_log(message));
        if is_heard && self.raft.raft.prs().get(from.0).is_some() {
            self.heard.insert(from, self.clock.now());
        }
        let error = match checked {
            Ok(message) if Self::is_short_log(&message) => {
                self.receive_short_log(&message, actions);
                None
            }
            Ok(message) if self.must_not_heed(&message) || self.is_late_word_to_lead(&message) => None,
            Ok(message) => match self.step_raft(message) {
                Ok(()) => None,
                Err(raft::Error::StepPeerNotFound) => Some(MessageError::Stranger),
                Err(_) => Some(MessageError::Impossible),
            },
            Err(error) => Some(error),
        };
        self.pin_election_timeout();
        if let Some(error) = error {
            actions.push(Action::Dropped { from, error });
        }
    }

    /// Takes note that a peer is there.
    pub(super) fn hear(&mut self, from: NodeId) {
        let raft = &mut self.raft.raft;
        if raft.prs().get(from.0).is_some() {
            self.heard.insert(from, self.clock.now());
        }
        if raft.state == StateRole::Leader {
            if let Some(progress) = raft.mut_prs().get_mut(from.0) {
                progress.recent_active = true;
            }
        } else if raft.leader_id == from.0 {
            raft.election_elapsed = 0;
        }
    }

    /// Gives Raft a message. Who is told nothing but what is committed need not say once more what it has.
    fn step_raft(&mut self, message: Message) -> raft::Result<()> {
        use raft::eraftpb::MessageType;

        let is_news = message.msg_type() == MessageType::MsgAppend
            && message.entries.is_empty()
            && Index(message.commit) > self.committed();
        self.raft.step(message)?;
        let said = self.acknowledged;
        let is_known = |answer: &Message| {
            answer.msg_type() == MessageType::MsgAppendResponse
                && !answer.reject
                && Term(answer.term) == said.0
                && Index(answer.index) <= said.1
        };
        if is_news {
            // Should the earlier answer be lost, heartbeats bring the leader to ask again, with nothing new.
            self.raft.raft.msgs.pop_if(|answer| is_known(answer));
        }
        Ok(())
    }

    /// Refuses what no correct peer sends and what Raft would answer with a panic.
    fn check_against_log(&self, message: &Message) -> Result<(), MessageError> {
        use raft::eraftpb::MessageType;

        let raft = &self.raft.raft;
        if self.is_stranger(message) {
            return Err(MessageError::Stranger);
        }
        let log = &raft.raft_log;
        let leads = raft.state == StateRole::Leader && message.term == raft.term;
        let possible = match message.msg_type() {
            MessageType::MsgAppend => !leads,
            MessageType::MsgHeartbeat => !leads,
            MessageType::MsgAppendResponse if leads && !message.reject => message.index <= log.last_index(),
            // This replica asks for votes only when its whole log is durable.
            MessageType::MsgRequestVoteResponse
                if raft.state == StateRole::Candidate && message.term == raft.term =>
            {
                log.persisted == log.last_index()
            }
            _ => true,
        };
        if possible {
            Ok(())
        } else {
            Err(MessageError::Impossible)
        }
    }
}
