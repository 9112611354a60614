//! The node's reports as lines of the audit log.

use broker::Report;
use mqtt::principal::Principal;

use super::{Place, code};
use crate::audit::{Audit, Happened, Shown, Source};

/// Tells the audit log what a report is about, if that belongs there.
pub(crate) fn audit(report: &Report, place: Option<&Place>, audit: &Audit) {
    let Some(happened) = happened(report) else {
        return;
    };
    let source = place.map(|Place { peer, origin }| Source {
        peer: (&peer.to_string()).into(),
        ip: peer.ip(),
        listener: (&origin.listener.to_string()).into(),
    });
    audit.tell(happened, source);
}

/// Record of the audit log for a report, if there is one.
fn happened(report: &Report) -> Option<Happened> {
    let named =
        |principal: &Option<Principal>| principal.as_ref().map(|principal| Shown::from(&*principal.name));
    Some(match report {
        Report::Connected {
            client_id,
            principal,
            session_present,
            ..
        } => Happened::Connected {
            client_id: client_id.as_str().into(),
            principal: named(principal),
            session_present: *session_present,
        },
        Report::Refused {
            client_id,
            reason,
            why,
            ..
        } => Happened::Refused {
            client_id: client_id.as_ref().map(|client_id| client_id.as_str().into()),
            reason: (&code(*reason)).into(),
            why: Shown::sentence(why),
        },
        Report::Disconnected {
            client_id,
            principal,
            reason,
            why,
            topic,
            ..
        } => Happened::Disconnected {
            client_id: client_id.as_str().into(),
            principal: named(principal),
            reason: (&code(*reason)).into(),
            why: Shown::sentence(why),
            topic: topic.as_ref().map(|topic| topic.as_str().into()),
        },
        Report::Denied(denied) => Happened::Denied {
            client_id: denied.client_id.as_str().into(),
            principal: named(&denied.principal),
            right: denied.right,
            resource: (&denied.resource).into(),
            is_withdrawn: denied.is_withdrawn,
        },
        Report::Ended { .. }
        | Report::MemoryLevel { .. }
        | Report::Leader { .. }
        | Report::Leaving
        | Report::LogTooShort { .. }
        | Report::PeerMessageDropped { .. }
        | Report::ReplicationEnded { .. }
        | Report::Relay { .. }
        | Report::Copy { .. }
        | Report::NodeState(_)
        | Report::DiskHeldUp { .. }
        | Report::TimeReckoned { .. }
        | Report::PublishRefused { .. }
        | Report::FiltersRefused { .. }
        | Report::PacketIdUnknown { .. }
        | Report::ClockAhead { .. }
        | Report::Slow(_) => return None,
    })
}
