//! Where to connect to, and as whom.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use bytes::Bytes;
use protocol::Text;
use protocol::packet::Will;

use crate::core::{BackoffLimits, Reconnect, SessionOptions};
use crate::driver::tls::{TlsError, TlsOptions};

/// Where to connect to, and as whom.
///
/// ```
/// use std::time::Duration;
/// use statehold_client::{Options, TlsOptions};
///
/// let options = Options::new("broker.example:8883")
///     .client_id("pump-7")
///     .credentials("pump", "secret")
///     .keep_alive(Duration::from_secs(5))
///     .tls(TlsOptions::new().ca_file("ca.pem"));
/// ```
#[derive(Debug, Clone)]
pub struct Options {
    pub(crate) address: String,
    pub(crate) client_id: Option<String>,
    pub(crate) username: Option<String>,
    pub(crate) tls: Option<TlsOptions>,
    pub(crate) timeout: Duration,
    pub(crate) stream_capacity: usize,
    pub(crate) session: SessionOptions,
}

/// Options that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum OptionsError {
    /// Neither `host:port` nor `unix:` with a path.
    #[error("{address:?} is not host:port or unix:path")]
    Address {
        /// As given.
        address: String,
    },
    /// The client id cannot be part of a topic, or it is longer than a string may be.
    #[error("the client id is longer than 32,000 bytes or contains '+', '#' or U+0000")]
    ClientId,
    /// The user name is longer than 65,535 bytes, or it contains U+0000.
    #[error("the user name is too long or contains U+0000")]
    Username,
    /// The password is longer than 65,535 bytes.
    #[error("the password is too long")]
    Password,
    /// Certificates or keys that cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
}

impl Options {
    /// Connects to `address` (`host:port`, or `unix:` and the path of a Unix socket) with a client id drawn at random.
    /// Session expiry 1 h, keep alive 30 s, operations time out after 10 s, reconnects once the first attempt has
    /// succeeded.
    pub fn new(address: impl Into<String>) -> Self {
        let seed = random_seed();
        let session = SessionOptions::new(Text::from_static("unset"), seed);
        Self {
            address: address.into(),
            client_id: None,
            username: None,
            tls: None,
            timeout: Duration::from_secs(10),
            stream_capacity: 1024,
            session,
        }
    }

    /// What the client calls itself. Two clients with one id end each other's connections.
    #[must_use]
    pub fn client_id(mut self, client_id: impl Into<String>) -> Self {
        self.client_id = Some(client_id.into());
        self
    }

    /// User name and password.
    #[must_use]
    pub fn credentials(mut self, username: impl Into<String>, password: impl Into<Bytes>) -> Self {
        self.username = Some(username.into());
        self.session.password = Some(password.into());
        self
    }

    /// Connects with TLS.
    #[must_use]
    pub fn tls(mut self, tls: TlsOptions) -> Self {
        self.tls = Some(tls);
        self
    }

    /// How often something is sent at least; a server that does not answer is gone. Whole seconds, 0: off.
    #[must_use]
    pub fn keep_alive(mut self, keep_alive: Duration) -> Self {
        self.session.keep_alive = u16::try_from(keep_alive.as_secs()).unwrap_or(u16::MAX);
        self
    }

    /// Forgets what the server remembers of an earlier session with this client id.
    ///
    /// Without it messages that were queued for the session meanwhile arrive at once. They wait for 10 s for the
    /// subscription that they are for to be made again, and are thrown away after that.
    #[must_use]
    pub fn clean_start(mut self, clean_start: bool) -> Self {
        self.session.clean_start = clean_start;
        self
    }

    /// How long the server keeps the session while there is no connection, in whole seconds.
    #[must_use]
    pub fn session_expiry(mut self, session_expiry: Duration) -> Self {
        self.session.session_expiry = u32::try_from(session_expiry.as_secs()).unwrap_or(u32::MAX);
        self
    }

    /// How long an operation may take, reconnects included.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// From opening the connection to the server's CONNACK.
    #[must_use]
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.session.connect_timeout = timeout;
        self
    }

    /// When to connect again.
    #[must_use]
    pub fn reconnect(mut self, reconnect: Reconnect) -> Self {
        self.session.reconnect = reconnect;
        self
    }

    /// Waits between attempts to connect.
    #[must_use]
    pub fn backoff(mut self, limits: BackoffLimits) -> Self {
        self.session.backoff = limits;
        self
    }

    /// The message that the server publishes if the connection ends abnormally.
    #[must_use]
    pub fn will(mut self, will: Will) -> Self {
        self.session.will = Some(will);
        self
    }

    /// Whether subscriptions get an identifier, which the server sends with each message. Default true; without it messages are
    /// told apart by their topics. False is for sessions that somebody else goes on with.
    #[must_use]
    pub fn subscription_identifiers(mut self, subscription_identifiers: bool) -> Self {
        self.session.subscription_identifiers = subscription_identifiers;
        self
    }

    /// How many operations may be under way; one more fails with
    /// [`QueueFull`](crate::OperationError::QueueFull). Default 4096.
    #[must_use]
    pub fn operations_max(mut self, operations: usize) -> Self {
        self.session.operations_max = operations.max(1);
        self
    }

    /// How many messages wait for the reader of a [`Subscription`](crate::Subscription) before the client stops
    /// acknowledging. Default 1024.
    #[must_use]
    pub fn stream_capacity(mut self, messages: usize) -> Self {
        self.stream_capacity = messages.max(1);
        self
    }

    /// Decides jitter, correlation data and the random client id, for runs that can be repeated. Processes that
    /// share a client id must have different seeds.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.session.seed = seed;
        self
    }

    /// Checks everything; what is left to do can only fail because of the network.
    pub(crate) fn checked(mut self) -> Result<Self, OptionsError> {
        let is_address = match unix_path(&self.address) {
            Some(path) => !path.is_empty(),
            None => host_and_port(&self.address).is_some(),
        };
        if !is_address {
            return Err(OptionsError::Address {
                address: self.address,
            });
        }
        let client_id = self
            .client_id
            .take()
            .unwrap_or_else(|| format!("statehold-{:016x}", self.session.seed));
        if client_id.is_empty() || client_id.len() > CLIENT_ID_BYTES_MAX || client_id.contains(['+', '#']) {
            return Err(OptionsError::ClientId);
        }
        self.session.client_id = Text::new(client_id).map_err(|_| OptionsError::ClientId)?;
        if let Some(username) = self.username.take() {
            self.session.username = Some(Text::new(username).map_err(|_| OptionsError::Username)?);
        }
        if self
            .session
            .password
            .as_ref()
            .is_some_and(|password| password.len() > Text::LENGTH_MAX)
        {
            return Err(OptionsError::Password);
        }
        Ok(self)
    }

    /// Whom a certificate has to be for, if nothing else is said.
    pub(crate) fn host(&self) -> &str {
        if unix_path(&self.address).is_some() {
            return "localhost";
        }
        host_and_port(&self.address).map_or("", |(host, _)| host.trim_matches(['[', ']']))
    }
}

/// The path of an address that is a Unix socket's.
pub(crate) fn unix_path(address: &str) -> Option<&str> {
    address.strip_prefix("unix:")
}

fn host_and_port(address: &str) -> Option<(&str, u16)> {
    let (host, port) = address.rsplit_once(':')?;
    Some((host, port.parse().ok()?))
}

/// From the randomness that seeds the standard library's hash maps.
fn random_seed() -> u64 {
    RandomState::new().hash_one("statehold")
}

/// In base 16 it has to fit into the topic of notifications.
const CLIENT_ID_BYTES_MAX: usize = 32_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_checked_before_anything_is_connected() {
        let is_fine = |options: Options| options.checked().is_ok();
        assert!(is_fine(Options::new("localhost:1883")));
        assert!(is_fine(Options::new("[::1]:1883").client_id("a/b:c")));
        assert!(is_fine(Options::new("unix:/run/statehold.sock")));
        assert!(!is_fine(Options::new("localhost")));
        assert!(!is_fine(Options::new("unix:")));
        assert!(!is_fine(Options::new("localhost:1883").client_id("a+")));
        assert!(!is_fine(Options::new("localhost:1883").client_id("")));
        assert!(!is_fine(Options::new("localhost:1883").credentials("a\0", "")));
    }

    #[test]
    fn a_certificate_is_expected_for_the_host() {
        assert_eq!(Options::new("broker.example:8883").host(), "broker.example");
        assert_eq!(Options::new("[::1]:8883").host(), "::1");
        assert_eq!(Options::new("unix:/run/a:1").host(), "localhost");
    }

    #[test]
    fn a_random_client_id_differs_from_client_to_client() {
        let id = || {
            Options::new("localhost:1883")
                .checked()
                .unwrap()
                .session
                .client_id
        };
        assert_ne!(id(), id());
    }
}
