//! Accepts connections.

use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mqtt::policies::PolicyId;
use rustix::io::Errno;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::admission::{Admission, ClientPlaces, Places};
use crate::authentication::Policy;
use crate::bound_socket::{BoundSocket, ReservedPort};
use crate::client_address::{ClientAddress, SourceNetwork};
use crate::clock;
use crate::config::{self, ListenAddress};
use crate::driver::Driver;
use crate::error::RunError;
use crate::handshake::{HandshakeError, Layers, Shaken};
use crate::revocation::Revocation;
use crate::socket::{self, Socket};
use crate::standing::{Patience, Standing, Stranger};
use crate::strangers::{GaveWay, Place, PoolLimits, Strangers};
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
    strangers: Strangers,
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
}

/// Connections accepted before others have their turn.
const ACCEPTS_AT_ONCE: usize = 32;

/// How long to wait when the system has no descriptor left.
const PAUSE_WITHOUT_DESCRIPTORS: Duration = Duration::from_millis(50);

impl Listener {
    /// Binds an address, with these limits for strangers and, in the whole process, for clients. Has to be called within a tokio
    /// runtime.
    pub(crate) fn bind(
        settings: &config::Listener,
        layers: Layers,
        authorization: Option<PolicyId>,
        (strangers, clients): (PoolLimits, &Places),
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
            admission: Admission::new(settings, clients),
            strangers: Strangers::new(listener.to_string(), strangers),
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

    /// The waiting places of its connections.
    pub(crate) fn strangers(&self) -> &Strangers {
        &self.strangers
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
        let mut is_failing = false;
        for accepted in 1_usize.. {
            if accepted.is_multiple_of(ACCEPTS_AT_ONCE) {
                tokio::task::yield_now().await;
            }
            let Some(socket) = &self.socket else {
                return;
            };
            match socket.accept().await {
                Ok((stream, peer)) => {
                    is_failing = false;
                    self.admit(&acceptor, stream, peer);
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

    fn admit(&mut self, acceptor: &Acceptor, stream: Stream, peer: ClientAddress) {
        let now = clock::instant();
        let turned_away = |why| {
            tracing::debug!(%peer, listener = %self.origin.listener, why, "closed a connection: a limit is reached");
        };
        let clients = match self.admission.admit(now) {
            Ok(clients) => clients,
            Err(limit) => {
                turned_away(limit.name());
                return acceptor.driver.turned_away(limit.name());
            }
        };
        let patience = Patience {
            whole: acceptor.connect_timeout,
        };
        let handshakes = acceptor.handshakes.as_ref().filter(|_| !self.is_plain());
        let protected_until = match handshakes {
            Some(_) => patience.for_handshake(now),
            None => patience.for_packet(now),
        };
        // The balancer's address says nothing of its clients.
        let network = match self.layers.proxy_protocol {
            true => SourceNetwork::Unnamed,
            false => SourceNetwork::of(peer),
        };
        let entered = self.strangers.enter(network, now, protected_until);
        let (place, gave_way) = match entered {
            Ok(entered) => entered,
            Err(why) => return turned_away(why.name()),
        };
        let accepted = Accepted {
            peer,
            origin: Arc::clone(&self.origin),
            at: now,
            clients,
            patience,
            gave_way,
        };
        let Some(handle) = handshakes else {
            return accepted.serve(stream, place, &acceptor.driver);
        };
        let layers = self.layers.clone();
        let shaking = handle.spawn(layers.put_on(stream, peer, place, patience.whole));
        let driver = Rc::clone(&acceptor.driver);
        let handle = handle.clone();
        driver.handshake_begins();
        tokio::task::spawn_local(async move {
            end_handshake(&driver, accepted, handle, shaking).await;
            driver.handshake_ends();
        });
    }
}

/// Waits until MQTT begins, or does not.
async fn end_handshake(
    driver: &Rc<Driver>,
    mut accepted: Accepted,
    handshakes: Handle,
    mut shaking: JoinHandle<Ended>,
) {
    let listener = &accepted.origin.listener;
    let mut ended = tokio::select! {
        ended = &mut shaking => ended,
        () = accepted.gave_way.happened() => {
            shaking.abort();
            tracing::debug!(peer = %accepted.peer, %listener, "closed connection: its place was needed for another one during its handshake");
            return;
        }
    };
    if let Ok((_, shaken)) = &mut ended {
        look_again(&handshakes, shaken).await;
    }
    match ended {
        Ok((peer, Ok(Shaken { stream, place, .. }))) => {
            accepted.peer = peer;
            place.protect_until(accepted.patience.for_packet(clock::instant()));
            accepted.serve(stream, place, driver);
        }
        Ok((peer, Err(error))) if error.is_silent() => {
            tracing::debug!(%peer, %listener, "closed connection: {error}");
        }
        Ok((peer, Err(error))) => {
            driver.observed.borrow_mut().handshakes_failed += 1;
            tracing::info!(%peer, %listener, "rejected handshake: {error}");
        }
        Err(error) => tracing::debug!(peer = %accepted.peer, %error, "a handshake was given up"),
    }
}

/// Looks at a client's certificate again for as long as something else is asked of it than when it was looked at. From here on
/// `revocation.rs` does that.
async fn look_again(handshakes: &Handle, shaken: &mut Result<Shaken, HandshakeError>) {
    while let Ok(Shaken {
        stream,
        verified: Some(verified),
        ..
    }) = shaken
        && !verified.is_current()
    {
        let (chain, mut looking) = (stream.peer_certificates().to_vec(), verified.clone());
        let looked = handshakes.spawn(async move {
            let objection = looking.objection(&chain);
            (looking, objection)
        });
        // The thread ends only with the server.
        match looked.await {
            Ok((_, Some(why))) => *shaken = Err(HandshakeError::Revoked(why)),
            Ok((looked, None)) => *verified = looked,
            Err(_) => return,
        }
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

/// What came of handshakes, and from where the connection really is.
type Ended = (ClientAddress, Result<Shaken, HandshakeError>);

/// A connection that was accepted.
struct Accepted {
    peer: ClientAddress,
    origin: Arc<Origin>,
    at: Instant,
    clients: ClientPlaces,
    patience: Patience,
    gave_way: GaveWay,
}

impl Accepted {
    /// MQTT begins.
    fn serve(self, stream: Stream, place: Place, driver: &Rc<Driver>) {
        let Self {
            peer,
            origin,
            at,
            clients,
            patience,
            mut gave_way,
        } = self;
        let id = match driver.reserve() {
            Ok(id) => id,
            Err(limit) => {
                tracing::warn!(%peer, listener = %origin.listener, limit, "closed a connection: a limit is reached");
                return driver.turned_away(limit);
            }
        };
        let waited = clock::instant() - at;
        let standing = Standing::Stranger(Stranger {
            place,
            clients,
            patience,
        });
        let socket = Socket::new(id, peer, origin, stream).with_standing(standing);
        let socket = Rc::new(socket);
        let weak = Rc::downgrade(&socket);
        // At once, so that it is among those that are looked at when certificates are revoked.
        driver.opened(&socket, waited);
        tokio::task::spawn_local(socket::run(Rc::clone(driver), socket));
        // It ends when the client is known, or has gone.
        tokio::task::spawn_local(async move {
            if gave_way.heard().await
                && let Some(socket) = weak.upgrade()
            {
                tracing::debug!(%peer, listener = %socket.origin.listener, "closed a connection: its place was needed for another one");
                socket.cut();
            }
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
