//! Parts with nodes whose certificate does not hold any more: because a list of revoked certificates says so, because its authority is
//! not trusted any more, or because its time is over.
//!
//! It is what [`crate::revocation`] is for clients. Each connection is judged as the handshake on it was: one that this node has made
//! by what it asks of those that it dials, one that was made to it by what it asks of those that connect.

use std::rc::Rc;
use std::time::Duration;

use cluster::NodeId;
use rustls::Error;
use rustls::pki_types::CertificateDer;

use super::{Incoming, PeerTls, Shared, tls};
use crate::peers::outgoing::Outgoing;

/// How often certificates are looked at when nothing has changed: no node stays longer than this after the end of its certificate.
const LOOK_EVERY: Duration = Duration::from_hours(1);

/// A connection that may have to end.
enum Connection {
    Dialled(Rc<Outgoing>),
    Accepted(Rc<Incoming>),
}

/// Looks until the server stops, where nodes talk by TLS.
pub(super) async fn watch(shared: Rc<Shared>) {
    let Some(tls) = shared.tls.clone() else {
        return;
    };
    let mut verifier = tls.verifier();
    loop {
        // Who has connected meanwhile may have been let in by what was asked before.
        let contacts_changed = shared.contacts_changed.notified();
        verifier.mark_unchanged();
        look(&shared, &tls).await;
        tokio::select! {
            changed = verifier.changed() => if changed.is_err() { return },
            () = contacts_changed => {}
            () = tokio::time::sleep(LOOK_EVERY) => {}
        }
    }
}

/// Checks all connections, on the thread of handshakes, since signatures take long.
async fn look(shared: &Shared, tls: &PeerTls) {
    let Some(handshakes) = &shared.handshakes else {
        return;
    };
    let connections = connections(shared);
    let chains: Vec<_> = connections.iter().map(Connection::shown).collect();
    let tls = tls.clone();
    let checked = handshakes.spawn(async move { objections(&tls, &chains) });
    // The thread ends only with the server.
    for (connection, objection) in connections.iter().zip(checked.await.unwrap_or_default()) {
        if let Some(why) = objection {
            shared.certificate_refused(connection.node(), &tls::explain_error(&why));
            connection.end();
        }
    }
}

fn connections(shared: &Shared) -> Vec<Connection> {
    let (outgoing, incoming) = (shared.outgoing.borrow(), shared.incoming.borrow());
    let dialled = outgoing.values().filter(|one| !one.is_closing.get());
    let accepted = incoming.values().filter(|one| !one.is_closing.get());
    let dialled = dialled.map(|one| Connection::Dialled(Rc::clone(one)));
    dialled
        .chain(accepted.map(|one| Connection::Accepted(Rc::clone(one))))
        .collect()
}

impl Connection {
    fn node(&self) -> NodeId {
        match self {
            Self::Dialled(outgoing) => outgoing.node,
            Self::Accepted(incoming) => incoming.founder.node,
        }
    }

    fn shown(&self) -> Shown {
        match self {
            Self::Dialled(outgoing) => Shown::ByDialled(outgoing.certificates()),
            Self::Accepted(incoming) => Shown::ByAccepted(incoming.certificates.clone()),
        }
    }

    fn end(&self) {
        match self {
            Self::Dialled(outgoing) => outgoing.close(),
            Self::Accepted(incoming) => incoming.end(),
        }
    }
}

/// What a node has shown in the handshake.
enum Shown {
    ByDialled(Vec<CertificateDer<'static>>),
    ByAccepted(Vec<CertificateDer<'static>>),
}

fn objections(tls: &PeerTls, all: &[Shown]) -> Vec<Option<Error>> {
    let objection = |shown: &Shown| match shown {
        Shown::ByDialled(chain) => tls.objection_to_dialled(chain),
        Shown::ByAccepted(chain) => tls.objection_to_accepted(chain),
    };
    all.iter().map(objection).collect()
}
