//! Checks of a handshake's message, before it changes anything.

use cluster::NodeId;

use super::{Handshake, Introduction};
use crate::membership::{HandshakeError, Membership, SWIM_INCARNATION_MAX};
use crate::view::NODES_MAX;

impl Membership {
    /// The sender is a member that this node may meet, and its numbers are in their ranges.
    pub(super) fn check_introduction(
        &self,
        from: NodeId,
        introduction: &Introduction,
    ) -> Result<(), HandshakeError> {
        let Introduction {
            run,
            incarnation,
            side,
            ..
        } = *introduction;
        if run.node != from || from == self.own.run.node {
            return Err(HandshakeError::WrongSender { from, found: run });
        }
        let member = self.members.get(&from).filter(|member| !member.is_removed);
        let member = member.ok_or(HandshakeError::UnknownNode { node: from })?;
        if let Some(known) = member.last_start.filter(|known| run.incarnation < *known) {
            return Err(HandshakeError::OlderRun { found: run, known });
        }
        if incarnation.0 == 0 || incarnation > SWIM_INCARNATION_MAX {
            return Err(HandshakeError::IncarnationOutOfRange { run, incarnation });
        }
        let is_alone = side.lowest == from;
        let has_lowest = side.lowest != NodeId(0) && side.lowest <= from;
        if !(1..=NODES_MAX).contains(&side.nodes) || !has_lowest || side.nodes == 1 && !is_alone {
            return Err(HandshakeError::InvalidSide { run, side });
        }
        Ok(())
    }

    /// The higher node answers, the lower one confirms.
    pub(super) fn check_role(&self, from: NodeId, message: &Handshake) -> Result<(), HandshakeError> {
        let own = self.own.run.node;
        let is_ok = match message {
            Handshake::Offer(_) => true,
            Handshake::Answer(_) => from > own,
            Handshake::Confirm(confirm) => {
                let named = confirm.minority;
                from < own && named.is_none_or(|named| named == from || named == own)
            }
        };
        is_ok
            .then_some(())
            .ok_or(HandshakeError::WrongRole { node: from })
    }

    /// A view has room for one node more.
    pub(super) fn check_room(&self) -> Result<(), HandshakeError> {
        self.next_incarnation()?;
        if self.peers().count() + 1 >= NODES_MAX {
            return Err(HandshakeError::ViewFull);
        }
        Ok(())
    }
}
