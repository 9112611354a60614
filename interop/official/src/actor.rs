//! One official client with its session running beside it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use azure_iot_operations_mqtt::aio::connection_settings::MqttConnectionSettingsBuilder;
use azure_iot_operations_mqtt::session::{
    Session, SessionExitHandle, SessionManagedClient, SessionMonitor, SessionOptionsBuilder,
};
use azure_iot_operations_protocol::application::ApplicationContextBuilder;
use azure_iot_operations_services::leased_lock::{lease, lock};
use azure_iot_operations_services::state_store::{self, SetCondition, SetOptions};
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// How long a request may take. None comes near it: it is there so that a test ends.
pub const TIMEOUT: Duration = Duration::from_secs(10);

/// An official client: its state store, and its session in a task of its own.
pub struct Actor {
    /// The client id, which is also its name as a holder of leases.
    pub name: String,
    /// The client under test.
    pub store: Arc<state_store::Client>,
    /// Tells whether the session is connected.
    pub monitor: SessionMonitor,
    /// For plain publish and subscribe over the same session.
    pub mqtt: SessionManagedClient,
    exit: SessionExitHandle,
    session: JoinHandle<Result<(), String>>,
}

impl Actor {
    /// Connects `name` to the server at `address`, as the official samples do.
    pub async fn connect(address: SocketAddr, name: &str) -> Self {
        let actor = Self::begin(address, name);
        actor.monitor.connected().await;
        actor
    }

    /// Connects to a server that may be away; `None` if that takes too long.
    pub async fn connect_within(patience: Duration, address: SocketAddr, name: &str) -> Option<Self> {
        let actor = Self::begin(address, name);
        if timeout(patience, actor.monitor.connected()).await.is_ok() {
            return Some(actor);
        }
        actor.abandon();
        None
    }

    fn begin(address: SocketAddr, name: &str) -> Self {
        let settings = MqttConnectionSettingsBuilder::default()
            .client_id(name)
            .hostname(address.ip().to_string())
            .tcp_port(address.port())
            .keep_alive(Duration::from_secs(5))
            .use_tls(false)
            .build()
            .expect("valid settings");
        let options = SessionOptionsBuilder::default()
            .connection_settings(settings)
            .build()
            .expect("valid options");
        let session = Session::new(options).expect("a session");
        let (exit, monitor, mqtt) = (
            session.create_exit_handle(),
            session.create_session_monitor(),
            session.create_managed_client(),
        );
        let store = state_store::Client::new(
            ApplicationContextBuilder::default().build().expect("a context"),
            session.create_managed_client(),
            session.create_session_monitor(),
            state_store::ClientOptionsBuilder::default()
                .build()
                .expect("default options"),
        )
        .expect("a client");
        let session = tokio::spawn(async move { session.run().await.map_err(|error| error.to_string()) });
        Self {
            name: name.into(),
            store: Arc::new(store),
            monitor,
            mqtt,
            exit,
            session,
        }
    }

    /// A lease on `key`, with this client's name as its holder.
    pub fn lease(&self, key: &str) -> lease::Client {
        lease::Client::new(self.store.clone(), key.into(), self.name.clone().into()).expect("a lease client")
    }

    /// A lock on `key`, with this client's name as its holder.
    pub fn lock(&self, key: &str) -> lock::Client {
        lock::Client::new(self.store.clone(), key.into(), self.name.clone().into()).expect("a lock client")
    }

    /// Sets `key` without a condition, an expiry or a fencing token.
    pub async fn set(&self, key: &str, value: &str) -> state_store::Response<bool> {
        self.set_with(key, value, SetOptions::default()).await
    }

    /// Sets `key` under `condition`.
    pub async fn set_if(&self, key: &str, value: &str, set_condition: SetCondition) -> bool {
        self.set_with(
            key,
            value,
            SetOptions {
                set_condition,
                ..SetOptions::default()
            },
        )
        .await
        .response
    }

    /// Sets `key` so that it goes by itself after `expires`.
    pub async fn set_for(&self, key: &str, value: &str, expires: Duration) -> state_store::Response<bool> {
        self.set_with(
            key,
            value,
            SetOptions {
                expires: Some(expires),
                ..SetOptions::default()
            },
        )
        .await
    }

    async fn set_with(&self, key: &str, value: &str, options: SetOptions) -> state_store::Response<bool> {
        self.store
            .set(key.into(), value.into(), TIMEOUT, None, options)
            .await
            .expect("SET is answered")
    }

    /// The value of `key`, if there is one.
    pub async fn get(&self, key: &str) -> Option<Vec<u8>> {
        self.store
            .get(key.into(), TIMEOUT)
            .await
            .expect("GET is answered")
            .response
    }

    /// Deletes `key` and tells how many keys went.
    pub async fn del(&self, key: &str) -> i64 {
        self.store
            .del(key.into(), None, TIMEOUT)
            .await
            .expect("DEL is answered")
            .response
    }

    /// Shuts the state store client down and ends the session the way an application does.
    pub async fn leave(self) {
        self.store.shutdown().await.expect("an orderly shutdown");
        self.exit.try_exit().expect("an orderly exit");
        let ended = self.session.await.expect("the session task does not panic");
        assert_eq!(ended, Ok(()), "the session of {} ended in order", self.name);
    }

    /// Ends without a word to anybody, whatever is under way.
    pub fn abandon(self) {
        self.session.abort();
    }

    /// Whether the session ended by itself. The official session ends when it finds itself taken over, or
    /// reconnected to a server that does not know it any more.
    pub fn session_ended(&self) -> bool {
        self.session.is_finished()
    }
}
