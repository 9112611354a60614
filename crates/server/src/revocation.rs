//! Sends clients away whose certificate does not hold any more: because a list of revoked certificates says so, because its authority is
//! not trusted any more, or because its time is over.
//!
//! A handshake looks at the certificate once. Here those of the clients that are connected are looked at again, when the files have
//! changed and every now and then: a few at a time, on the thread of handshakes, since checking signatures takes longer than most
//! of what the node does.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use broker::Event;
use mqtt::ids::ConnectionId;
use rustls::pki_types::CertificateDer;
use tokio::runtime::Handle;
use tokio::sync::watch;

use crate::driver::Driver;
use crate::listener::Origin;
use crate::tls::{ClientVerifier, explanation};

/// The clients of one listener with `client_ca`.
pub(crate) struct Revocation {
    pub(crate) driver: Rc<Driver>,
    pub(crate) origin: Arc<Origin>,
    /// What is asked of certificates at the moment.
    pub(crate) verifier: watch::Receiver<Option<Arc<ClientVerifier>>>,
    /// Where certificates are checked.
    pub(crate) handshakes: Handle,
}

/// How often certificates are looked at when no file has changed: nobody stays longer than this after the end of its certificate.
const LOOK_EVERY: Duration = Duration::from_hours(1);

/// Certificates that are checked before handshakes have their turn.
const AT_ONCE: usize = 16;

impl Revocation {
    /// Looks until the server stops.
    pub(crate) async fn run(mut self) {
        loop {
            tokio::select! {
                changed = self.verifier.changed() => if changed.is_err() { return },
                () = tokio::time::sleep(LOOK_EVERY) => {}
            }
            let verifier = self.verifier.borrow_and_update().clone();
            if let Some(verifier) = verifier {
                self.look(&verifier).await;
            }
        }
    }

    async fn look(&self, verifier: &Arc<ClientVerifier>) {
        for some in self.driver.accepted_by(&self.origin).chunks(AT_ONCE) {
            let certificates = |id: &ConnectionId| Some((*id, self.driver.certificates_of(*id)?));
            let chains: Vec<_> = some.iter().filter_map(certificates).collect();
            let verifier = Arc::clone(verifier);
            let checked = self
                .handshakes
                .spawn(async move { objections(&verifier, &chains) });
            // The thread ends only with the server.
            for (connection, why) in checked.await.unwrap_or_default() {
                self.driver.step(Event::Dismissed { connection, why });
            }
        }
    }
}

fn objections(
    verifier: &ClientVerifier,
    chains: &[(ConnectionId, Vec<CertificateDer<'static>>)],
) -> Vec<(ConnectionId, String)> {
    let objection = |(id, chain): &(ConnectionId, Vec<_>)| {
        let error = verifier.objection(chain)?;
        Some((
            *id,
            format!(
                "the certificate does not hold any more: {}",
                explanation::of_error(&error)
            ),
        ))
    };
    chains.iter().filter_map(objection).collect()
}
