//! Accepts connections.

use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use broker::PolicyId;
use rustix::io::Errno;
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use crate::admission::{Admission, Place, Places};
use crate::authentication::Policy;
use crate::bound_socket::{BoundSocket, ReservedPort};
use crate::client_address::ClientAddress;
use crate::clock;
use crate::config::{self, ListenAddress};
use crate::driver::Driver;
use crate::error::RunError;
use crate::handshake::Layers;
use crate::revocation::Revocation;
use crate::socket::{self, Socket};
use crate::stream::Stream;
use crate::tls::{ClientVerifier, Tls};

/// One address where clients connect, and what they speak below MQTT.
#[derive(Debug)]
pub(crate) struct Listener {
    /// `None`: clients are turned away by the system.
    socket: Option<BoundSocket>,
    /// Its port, while it is closed.
    reserved: Option<ReservedPort>,
    settings: config::Listener,
    layers: Layers,
    admission: Admission,
    origin: Arc<Origin>,
    /// What is asked of the certificates of clients, if they are asked for any.
    verifier: Option<watch::Receiver<Option<Arc<ClientVerifier>>>>,
}

/// What each connection keeps of the listener that accepted it.
#[derive(Debug)]
pub(crate) struct Origin {
    /// The listener's address, for the log.
    pub(crate) listener: ListenAddress,
    /// How its clients say who they are; `None`: nobody asks.
    pub(crate) policy: Option<Arc<Policy>>,
    /// What its clients may do; `None`: everything.
    pub(crate) authorization: Option<PolicyId>,
}

/// What accepting needs of the server.
#[derive(Debug, Clone)]
pub(crate) struct Acceptor {
    pub(crate) driver: Rc<Driver>,
    /// Where handshakes run; there is one if any listener has layers.
    pub(crate) handshakes: Option<Handle>,
    /// `limits.connect_timeout`
    pub(crate) connect_timeout: Duration,
    /// `limits.handshakes_max`
    pub(crate) handshakes_max: usize,
    /// As many connections as the process has descriptors for.
    pub(crate) descriptors: Places,
}

/// Connections accepted before others have their turn.
const ACCEPTS_AT_ONCE: usize = 32;

/// How long to wait when the system has no descriptor left.
const PAUSE_WITHOUT_DESCRIPTORS: Duration = Duration::from_millis(50);

impl Listener {
    /// Binds an address. Has to be called within a tokio runtime.
    pub(crate) fn bind(
        settings: &config::Listener,
        layers: Layers,
        authorization: Option<PolicyId>,
    ) -> Result<Self, RunError> {
        let socket = BoundSocket::bind(settings);
        let socket = socket.map_err(|error| cannot_bind(&settings.address, error))?;
        let listener = socket.address().map_err(RunError::System)?;
        let policy = Policy::of(settings, &listener);
        Ok(Self {
            socket: Some(socket),
            reserved: None,
            settings: settings.clone(),
            layers,
            admission: Admission::new(settings),
            origin: Arc::new(Origin {
                listener,
                policy,
                authorization,
            }),
            verifier: None,
        })
    }

    /// Clients of a listener with TLS stay only as long as their certificates hold.
    pub(crate) fn with_tls(mut self, tls: &Tls) -> Self {
        self.verifier = tls.verifier();
        let origin = Arc::get_mut(&mut self.origin).expect("nothing was accepted yet");
        if let Some(policy) = &mut origin.policy {
            let policy = Arc::get_mut(policy).expect("nobody was asked yet");
            policy.verifier.clone_from(&self.verifier);
        }
        self
    }

    /// Sends clients away whose certificate does not hold any more, where they are asked for one.
    pub(crate) fn revocation(&self, acceptor: &Acceptor) -> Option<Revocation> {
        Some(Revocation {
            driver: Rc::clone(&acceptor.driver),
            origin: Arc::clone(&self.origin),
            verifier: self.verifier.clone()?,
            handshakes: acceptor.handshakes.clone()?,
        })
    }

    /// Whether MQTT begins with the first byte.
    pub(crate) fn is_plain(&self) -> bool {
        self.layers.is_none()
    }

    /// Where it really is.
    pub(crate) fn address(&self) -> &ListenAddress {
        &self.origin.listener
    }

    /// Turns clients away until [`Listener::open`]. Its port stays its own: a cluster may be waited for long.
    pub(crate) fn close(&mut self) -> Result<(), RunError> {
        self.socket = None;
        if let ListenAddress::Ip(address) = self.origin.listener {
            let reserved = ReservedPort::bind(address);
            self.reserved = Some(reserved.map_err(|error| cannot_bind(self.address(), error))?);
        }
        Ok(())
    }

    /// Lets clients come again after [`Listener::close`].
    pub(crate) fn open(&mut self) -> Result<(), RunError> {
        let socket = match self.reserved.take() {
            Some(reserved) => reserved.listen().map(BoundSocket::Tcp),
            None => BoundSocket::bind(&self.settings),
        };
        self.socket = Some(socket.map_err(|error| cannot_bind(self.address(), error))?);
        Ok(())
    }

    /// Accepts until it is dropped.
    pub(crate) async fn accept(mut self, acceptor: Acceptor) {
        let handshakes = Arc::new(Semaphore::new(acceptor.handshakes_max));
        let mut is_failing = false;
        for accepted in 1_usize.. {
            if accepted.is_multiple_of(ACCEPTS_AT_ONCE) {
                tokio::task::yield_now().await;
            }
            let permit = if self.is_plain() {
                None
            } else {
                // Whoever comes while all are under way waits in the system's backlog.
                Arc::clone(&handshakes).acquire_owned().await.ok()
            };
            let Some(socket) = &self.socket else {
                return;
            };
            match socket.accept().await {
                Ok((stream, peer)) => {
                    is_failing = false;
                    self.admit(&acceptor, stream, peer, permit);
                }
                Err(error) => {
                    // Told once, not for every connection that waits.
                    if !std::mem::replace(&mut is_failing, true) {
                        tracing::error!(listener = %self.origin.listener, "cannot accept connections: {}", cannot_accept(&error));
                    }
                    tokio::time::sleep(PAUSE_WITHOUT_DESCRIPTORS).await;
                }
            }
        }
    }

    fn admit(
        &mut self,
        acceptor: &Acceptor,
        stream: Stream,
        peer: ClientAddress,
        permit: Option<OwnedSemaphorePermit>,
    ) {
        let accepted = clock::instant();
        let places = match self.admission.admit(&acceptor.descriptors, accepted) {
            Ok(places) => places,
            Err(turned_away) => {
                tracing::debug!(%peer, listener = %self.origin.listener, why = turned_away.name(), "closed a connection: a limit is reached");
                return acceptor.driver.turned_away(turned_away.name());
            }
        };
        let origin = Arc::clone(&self.origin);
        let Some(handle) = acceptor.handshakes.as_ref().filter(|_| !self.is_plain()) else {
            return Accepted {
                stream,
                peer,
                origin,
                at: accepted,
                places,
            }
            .serve(&acceptor.driver);
        };
        let layers = self.layers.clone().put_on(stream, peer, acceptor.connect_timeout);
        let handshake = handle.spawn(layers);
        let driver = Rc::clone(&acceptor.driver);
        tokio::task::spawn_local(async move {
            let ended = handshake.await;
            drop(permit);
            match ended {
                Ok((peer, Ok(stream))) => Accepted {
                    stream,
                    peer,
                    origin,
                    at: accepted,
                    places,
                }
                .serve(&driver),
                Ok((peer, Err(error))) if error.is_silent() => {
                    tracing::debug!(%peer, listener = %origin.listener, "closed connection: {error}");
                }
                Ok((peer, Err(error))) => {
                    driver.observed.borrow_mut().handshakes_failed += 1;
                    tracing::info!(%peer, listener = %origin.listener, "rejected handshake: {error}");
                }
                Err(error) => tracing::debug!(%peer, %error, "a handshake was given up"),
            }
        });
    }
}

/// Why the system gives no connection, and what to do about it.
fn cannot_accept(error: &io::Error) -> String {
    let advice = match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::MFILE) => {
            "; this process has no file descriptors left: raise its limit (ulimit -Hn, LimitNOFILE=, docker --ulimit nofile=), \
             or lower limits.connections_max"
        }
        Some(Errno::NFILE) => "; this machine has no file descriptors left: raise fs.file-max (sysctl)",
        Some(Errno::NOBUFS | Errno::NOMEM) => "; this machine has no memory left for sockets",
        _ => "",
    };
    format!("{error}{advice}; it is tried again until it works")
}

fn cannot_bind(address: &ListenAddress, error: io::Error) -> RunError {
    let address = address.clone();
    RunError::Bind { address, error }
}

/// A connection on which MQTT begins.
struct Accepted {
    stream: Stream,
    peer: ClientAddress,
    origin: Arc<Origin>,
    at: Instant,
    places: [Place; 2],
}

impl Accepted {
    fn serve(self, driver: &Rc<Driver>) {
        let peer = self.peer;
        let Some(id) = driver.reserve() else {
            tracing::warn!(%peer, "closed a connection: the limit of connections is reached");
            return driver.turned_away("server_connections");
        };
        let waited = clock::instant() - self.at;
        let socket = Rc::new(Socket::new(id, peer, self.origin, self.stream));
        let serving = socket::run(Rc::clone(driver), socket, waited);
        let places = self.places;
        tokio::task::spawn_local(async move {
            serving.await;
            drop(places);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_descriptors_the_log_says_what_to_do() {
        let said = |errno: Errno| cannot_accept(&io::Error::from(errno));
        assert!(
            said(Errno::MFILE).contains("LimitNOFILE="),
            "{}",
            said(Errno::MFILE)
        );
        assert!(
            said(Errno::NFILE).contains("fs.file-max"),
            "{}",
            said(Errno::NFILE)
        );
        assert!(!said(Errno::CONNABORTED).contains("raise"));
    }
}
