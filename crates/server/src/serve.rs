//! The life of a server: recover, serve, stop.

use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use broker::{Event, Policies};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, watch};
use tokio::task::LocalSet;
use tokio::time::{Instant, timeout_at};

use crate::admin::{Admin, AdminRequest, Health};
use crate::admission::Places;
use crate::audit::Audit;
use crate::authentication::{Answered, AuthenticationThread, Methods};
use crate::authorization::{AuthorizationThread, PolicyFiles};
use crate::clock;
use crate::config::{self, Config, Durability, ListenAddress};
use crate::descriptors;
use crate::disk_thread::{DiskThread, Sync};
use crate::driver::{self, Driver, DriverSettings, Inputs};
use crate::error::RunError;
use crate::handshake::Layers;
use crate::handshake_thread::HandshakeThread;
use crate::listener::{Acceptor, Listener};
use crate::snapshot_thread::SnapshotThread;
use crate::startup::{self, Started};
use crate::tls::{Expiries, Tls};
use crate::websocket::Endpoint;

/// Where a server that is ready can be reached.
#[derive(Debug, Clone)]
pub struct Ready {
    /// MQTT listeners, in the order of the settings: what is spoken there, and where.
    pub listeners: Vec<(Scheme, ListenAddress)>,
    /// The admin pages.
    pub admin: SocketAddr,
}

/// What a listener speaks below MQTT.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scheme {
    /// Nothing.
    Mqtt,
    /// TLS.
    Mqtts,
    /// WebSocket.
    Ws,
    /// WebSocket over TLS.
    Wss,
}

impl Scheme {
    /// All, in the order of the ready line.
    pub const ALL: [Self; 4] = [Self::Mqtt, Self::Mqtts, Self::Ws, Self::Wss];

    /// As in an address.
    pub fn name(self) -> &'static str {
        match self {
            Self::Mqtt => "mqtt",
            Self::Mqtts => "mqtts",
            Self::Ws => "ws",
            Self::Wss => "wss",
        }
    }

    fn of(listener: &config::Listener) -> Self {
        match (&listener.websocket, &listener.tls) {
            (None, None) => Self::Mqtt,
            (None, Some(_)) => Self::Mqtts,
            (Some(_), None) => Self::Ws,
            (Some(_), Some(_)) => Self::Wss,
        }
    }
}

/// How long clients may take to read their DISCONNECT when the server stops.
const GOODBYE: Duration = Duration::from_secs(2);

/// Serves until `shutdown` ends, then says goodbye to all clients, syncs, and returns.
///
/// # Errors
/// If the server cannot start, or the disk fails. What was acknowledged is safe in any case.
pub fn run(
    config: &Config,
    shutdown: impl Future<Output = ()>,
    on_ready: impl FnOnce(&Ready),
) -> Result<(), RunError> {
    config.check()?;
    let room = descriptors::raise_limit();
    let config = &with_room(config, room);
    let (audit, audit_thread) = Audit::start(&config.audit)?;
    // Threads that this one starts take it from here.
    audit.adopt_thread();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(RunError::System)?;
    let local = LocalSet::new();
    let served = local.block_on(&runtime, serve(config, room, shutdown, on_ready));
    // Tasks hold the driver: they go before it can stop its threads.
    drop(local);
    drop(runtime);
    let result = served.and_then(|(driver, result)| {
        if let Some(driver) = Rc::into_inner(driver) {
            driver.stop();
        }
        result
    });
    // After all who tell it something.
    Audit::default().adopt_thread();
    drop(audit_thread);
    result
}

/// With no more connections than the process has descriptors for.
fn with_room(config: &Config, room: Option<usize>) -> Config {
    let mut config = config.clone();
    let connections_max = &mut config.limits.connections_max;
    *connections_max = descriptors::connections_max(*connections_max, room, driver::REFUSED_AT_ONCE_MAX);
    config
}

async fn serve(
    config: &Config,
    room: Option<usize>,
    shutdown: impl Future<Output = ()>,
    on_ready: impl FnOnce(&Ready),
) -> Result<(Rc<Driver>, Result<(), RunError>), RunError> {
    // Addresses are bound first: one in use is told before a long recovery.
    let (listeners, tls) = bind(config)?;
    let methods = Methods::load(config)?;
    let policies = PolicyFiles::load(config)?;
    let (authorization, policies) = AuthorizationThread::start(policies).map_err(RunError::System)?;
    let mut expiries = Expiries::default();
    tls.iter().for_each(|tls| expiries.extend(tls.expiries()));
    let handshakes = start_handshakes(&listeners, tls)?;
    // From here on: it never ends the process, and those who have files take them anew.
    let mut hangup = signal(SignalKind::hangup()).map_err(RunError::System)?;
    let told = tokio::task::spawn_local(async move {
        while hangup.recv().await.is_some() {
            tracing::info!("asked to take files anew");
        }
    });
    let (admin, requests) = Admin::start(&config.admin, expiries)?;
    let (driver, mut inputs) = start_driver(config, methods, policies, requests)?;
    driver.run_until_available(&mut inputs).await?;
    admin.recovered();

    let acceptor = Acceptor {
        driver: Rc::clone(&driver),
        handshakes: handshakes.as_ref().map(|thread| thread.handle().clone()),
        connect_timeout: config.limits.connect_timeout,
        handshakes_max: config.limits.handshakes_max as usize,
        descriptors: Places::new(room),
    };
    let mut addresses = Vec::new();
    let mut accepting = vec![told];
    for (settings, listener) in config.listeners.iter().zip(listeners) {
        let address = listener.address().map_err(RunError::System)?;
        addresses.push((Scheme::of(settings), address));
        if let Some(revocation) = listener.revocation(&acceptor) {
            accepting.push(tokio::task::spawn_local(revocation.run()));
        }
        accepting.push(tokio::task::spawn_local(listener.accept(acceptor.clone())));
    }
    drop(acceptor);
    on_ready(&Ready {
        listeners: addresses,
        admin: admin.address(),
    });

    let result = tokio::select! {
        fault = driver.run(&mut inputs) => Err(fault.into()),
        () = shutdown => Ok(()),
    };
    for task in accepting {
        task.abort();
    }
    if result.is_ok() {
        say_goodbye(&driver, &mut inputs).await;
    }
    drop(authorization);
    Ok((driver, result))
}

/// Binds the listeners, and reads the files of those with TLS.
fn bind(config: &Config) -> Result<(Vec<Listener>, Vec<Tls>), RunError> {
    let (mut listeners, mut all_tls) = (Vec::new(), Vec::new());
    for (index, settings) in config.listeners.iter().enumerate() {
        let tls = settings
            .tls
            .as_ref()
            .map(|tls| Tls::load(&format!("listeners[{index}].tls"), tls))
            .transpose()?;
        let layers = Layers {
            proxy_protocol: settings.proxy_protocol,
            tls: tls.as_ref().map(Tls::current),
            websocket: settings
                .websocket
                .as_ref()
                .map(|websocket| Arc::new(Endpoint::new(websocket, config.limits.packet_size_max))),
        };
        let policy = config::authorization::policy_id(&config.authorization, settings);
        let listener = Listener::bind(settings, layers, policy)?;
        listeners.push(match &tls {
            Some(tls) => listener.with_tls(tls),
            None => listener,
        });
        all_tls.extend(tls);
    }
    Ok((listeners, all_tls))
}

/// Plain listeners need no thread.
fn start_handshakes(listeners: &[Listener], tls: Vec<Tls>) -> Result<Option<HandshakeThread>, RunError> {
    if listeners.iter().all(Listener::is_plain) {
        return Ok(None);
    }
    HandshakeThread::start(tls).map(Some).map_err(RunError::System)
}

fn start_driver(
    config: &Config,
    methods: Option<Methods>,
    mut policies: watch::Receiver<Policies>,
    requests: mpsc::Receiver<AdminRequest>,
) -> Result<(Rc<Driver>, Inputs), RunError> {
    let Started {
        node,
        actions,
        engine,
        snapshots,
    } = startup::start(config, policies.borrow_and_update().clone())?;
    let sync = match config.durability {
        Durability::Disk => Sync::Always,
        Durability::Memory => Sync::AtStop,
    };
    let (disk, disk_events) = DiskThread::start(Box::new(engine), sync).map_err(RunError::System)?;
    let (snapshots, snapshot_events) = SnapshotThread::start(snapshots).map_err(RunError::System)?;
    let settings = DriverSettings {
        packet_size_max: config.limits.packet_size_max,
        outbound_bytes_max: config.limits.outbound_bytes_max as usize,
        connections_max: config.limits.connections_max as usize,
    };
    // A connection has one question at a time; only those of connections that are gone could take the room.
    let questions_max = settings.connections_max + settings.connections_max / 2;
    let started = methods
        .map(|methods| AuthenticationThread::start(methods, questions_max))
        .transpose()
        .map_err(RunError::System)?;
    let (authentication, answers) = started.unzip();
    let driver = Rc::new(Driver::new(node, disk, snapshots, authentication, settings));
    driver.execute_all(actions);
    Ok((
        driver,
        Inputs {
            disk: disk_events,
            snapshots: snapshot_events,
            admin: requests,
            answers: answers.unwrap_or_else(no_answers),
            policies,
        },
    ))
}

/// Where nobody asks there is nothing to wait for.
fn no_answers() -> mpsc::Receiver<Answered> {
    mpsc::channel(1).1
}

/// DISCONNECT to everybody, and time to read it.
async fn say_goodbye(driver: &Rc<Driver>, inputs: &mut Inputs) {
    let connections = driver.sockets_len();
    tracing::info!(connections, "stopping");
    driver.observed.borrow_mut().is_stopping = true;
    driver.step(Event::Stop);
    // The node bounds its part.
    while driver.is_stopping() {
        if let Err(fault) = driver.turn(inputs).await {
            tracing::error!(%fault, "the disk failed while the server stopped");
            return;
        }
    }
    let deadline = Instant::from_std(clock::instant() + GOODBYE);
    let all_gone = async {
        while driver.sockets_len() > 0 {
            driver.turn(inputs).await?;
        }
        Ok::<(), storage::Fault>(())
    };
    match timeout_at(deadline, all_gone).await {
        Ok(Ok(())) => {}
        Ok(Err(fault)) => tracing::error!(%fault, "the disk failed while the server stopped"),
        Err(_) => tracing::info!(
            connections = driver.sockets_len(),
            "some clients did not take their DISCONNECT"
        ),
    }
}

/// What `/healthz` and `/readyz` say.
pub(crate) fn health(driver: &Driver) -> Health {
    let mut health = Health::default();
    if driver.observed.borrow().is_stopping {
        health.not_ready.push("stopping".to_owned());
    }
    if !driver.is_available() {
        health.not_ready.push("the state store is unavailable".to_owned());
    }
    health
}
