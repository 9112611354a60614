//! The life of a server: recover, serve, stop.

use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use broker::Event;
use cluster::forming::{Founder, Founding, Stage, Step};
use mqtt::policies::Policies;
use storage::RolledBack;
use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, watch};
use tokio::task::{JoinHandle, LocalSet};
use tokio::time::timeout;

use crate::admin::api::ServedAt;
use crate::admin::{Admin, AdminRequest};
use crate::admission::Places;
use crate::audit::Audit;
use crate::authentication::{AuthenticationThread, Methods};
use crate::authorization::{self, AuthorizationThread};
use crate::clock::Clock;
use crate::condition::Condition;
use crate::config::{self, Config, Durability, ListenAddress, PeerAddress};
use crate::container;
use crate::descriptors;
use crate::disk_thread::{ClockMarks, DiskThread, Sync};
use crate::driver::{Driver, DriverSettings, Edge, Inputs};
use crate::error::RunError;
use crate::goodbye;
use crate::handshake::{HANDSHAKE_BYTES, Layers};
use crate::handshake_thread::HandshakeThread;
use crate::listener::{Acceptor, Listener};
use crate::machine_memory;
use crate::named_files::NamedFiles;
use crate::notify_socket::NotifySocket;
use crate::peers::{self, PeerEvent, PeerTls, Peers, PeersStart, formation, not_serving};
use crate::self_test;
use crate::slow::SlowLog;
use crate::snapshot_thread::SnapshotThread;
use crate::startup::{self, Opened, Started};
use crate::strangers::{PoolLimits, Strangers};
use crate::tls::{Expiries, Tls};
use crate::traces::{Traces, TracesFiles};
use crate::websocket::Endpoint;

/// Where a server that is ready can be reached.
#[derive(Debug, Clone)]
pub struct Ready {
    /// MQTT listeners, in the order of the settings: what is spoken there, and where.
    pub listeners: Vec<(Scheme, ListenAddress)>,
    /// Where other nodes of the cluster reach this one, if it is in one.
    pub peers: Option<PeerAddress>,
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

/// How long clients of a member wait for the others to elect a leader before they may come all the same.
const AVAILABLE_WITHIN: Duration = Duration::from_secs(3);

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
    let result = served.and_then(|served| {
        let Some((driver, result)) = served else {
            return Ok(());
        };
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

/// With no more connections and strangers than the process has descriptors and memory for.
fn with_room(config: &Config, room: Option<usize>) -> Config {
    let mut config = config.clone();
    let in_memory = strangers_in_memory(&config);
    let limits = &mut config.limits;
    let strangers_max = limits.strangers_max.min(in_memory);
    limits.strangers_max = descriptors::strangers_max(strangers_max, room, config.listeners.len());
    limits.strangers_per_address_max = limits.strangers_per_address_max.min(limits.strangers_max);
    let strangers = strangers_of(&config);
    let connections_max = &mut config.limits.connections_max;
    *connections_max = descriptors::connections_max(*connections_max, room, strangers);
    config
}

/// Strangers at all listeners.
fn strangers_of(config: &Config) -> usize {
    config.limits.strangers_max as usize * config.listeners.len()
}

/// `None`: the server was stopped before there was a node.
async fn serve(
    config: &Config,
    room: Option<usize>,
    shutdown: impl Future<Output = ()>,
    on_ready: impl FnOnce(&Ready),
) -> Result<Option<(Rc<Driver>, Result<(), RunError>)>, RunError> {
    let files = NamedFiles::load(config)?.with_warnings_logged();
    // Addresses are bound before the data directory is read: one in use is told before a long recovery.
    let (mut listeners, tls) = bind(config, files.listeners, room)?;
    let peer_socket = peers::bind(config.cluster.as_ref())?;
    let (peer_tls, peer_files) = files.peers.unzip();
    let (watched, policies) = AuthorizationThread::start(files.policies).map_err(RunError::System)?;
    let expiries = expiries_of(tls.iter().chain(&peer_files));
    let handshakes = start_handshakes(&listeners, tls)?;
    let peer_handshakes = start_peer_handshakes(peer_files)?;
    let notify_socket = NotifySocket::of_process();
    let told = hear_hangups(notify_socket.clone())?;
    let mut shutdown = pin!(shutdown);
    let (admin, mut requests) = Admin::start(&config.admin, files.admin, expiries, shown_limits(config))?;
    let mut opened = startup::open(config, files.encryption)?;
    let (clock, seed) = (Rc::new(clock_of(config, &opened)), opened.random());
    let handle = handshakes.as_ref().map(|thread| thread.handle().clone());
    let joining = Joining {
        socket: peer_socket,
        tls: peer_tls,
        handshakes: peer_handshakes.as_ref().map(|thread| thread.handle().clone()),
        clock: Rc::clone(&clock),
        listeners: &mut listeners,
        admin_url: config.admin.url(admin.address()),
        admin: &admin,
        requests: &mut requests,
    };
    let joined = tokio::select! {
        joined = join(config.cluster.as_ref(), &mut opened, joining) => joined?,
        () = &mut shutdown => return Ok(None),
    };
    let pools = pools(&listeners, &admin, joined.as_ref(), files.methods.as_ref());
    let peer_address = joined.as_ref().map(|joined| joined.peers.address().clone());
    let parts = Parts {
        opened,
        clock,
        joined,
        methods: files.methods,
        policies,
        requests,
        traces: files.traces,
        pools,
    };
    let (driver, mut inputs) = start_driver(config, parts)?;
    recover(&driver, &mut inputs, peer_address.is_some()).await?;
    admin.recovered();

    let acceptor = Acceptor {
        driver: Rc::clone(&driver),
        handshakes: handle,
        connect_timeout: config.limits.connect_timeout,
    };
    let (addresses, accepting) = accept(config, listeners, &acceptor, seed);
    drop(acceptor);
    on_ready(&Ready {
        listeners: addresses,
        peers: peer_address,
        admin: admin.address(),
    });
    notify_socket.serving();

    let accepting = accepting.into_iter().chain([told]).collect();
    let result = serve_on(&driver, &mut inputs, accepting, &notify_socket, shutdown).await;
    drop(watched);
    Ok(Some((driver, result)))
}

/// Serves until something ends it, and ends the service. `accepting`: tasks that let clients in.
async fn serve_on(
    driver: &Rc<Driver>,
    inputs: &mut Inputs,
    accepting: Vec<JoinHandle<()>>,
    notify_socket: &NotifySocket,
    mut shutdown: Pin<&mut impl Future<Output = ()>>,
) -> Result<(), RunError> {
    let ended = tokio::select! {
        fault = driver.run(inputs) => Ended::Failed(fault.into()),
        () = shutdown.as_mut() => Ended::Asked,
        cause = driver.rolled_back() => Ended::RolledBack(cause),
    };
    accepting.iter().for_each(JoinHandle::abort);
    match ended {
        Ended::Asked => {
            notify_socket.stopping();
            let connections = driver.sockets_len();
            tracing::info!(connections, "stopping");
            goodbye::say(driver, inputs).await;
            Ok(())
        }
        Ended::Failed(why) => {
            driver.say_last(&why);
            Err(why)
        }
        Ended::RolledBack(cause) => goodbye::stand_aside(driver, inputs, cause, shutdown).await,
    }
}

/// Why a node serves no longer.
enum Ended {
    /// The server was asked to stop.
    Asked,
    Failed(RunError),
    /// Its data directory is an older copy.
    RolledBack(String),
}

/// A listener's strangers have a sixteenth of the memory for their handshakes, and room for some in any case.
fn strangers_in_memory(config: &Config) -> u32 {
    let memory_max = config.limits.memory_max.bytes(machine_memory::bytes());
    let room = memory_max / STRANGERS_PART / HANDSHAKE_BYTES as u64;
    u32::try_from(room).unwrap_or(u32::MAX).max(STRANGERS_LEAST)
}

/// The part of `limits.memory_max` that strangers of one listener may take, and how many there may be however little that is.
const STRANGERS_PART: u64 = 16;
const STRANGERS_LEAST: u32 = 16;

/// What a node without a cluster doubts of its system clock, as `cluster.clock_skew_max` has it.
const CLOCK_SKEW_MAX: Duration = Duration::from_millis(500);

/// A member of a cluster goes by the clock that the others agree with; they refuse it while its own is wrong.
fn clock_of(config: &Config, opened: &Opened) -> Clock {
    match &config.cluster {
        Some(cluster) => Clock::new(cluster.clock_skew_max),
        None => Clock::going_on_from(opened.mark, CLOCK_SKEW_MAX),
    }
}

/// Waits until the state store can serve.
async fn recover(driver: &Rc<Driver>, inputs: &mut Inputs, is_member: bool) -> Result<(), storage::Fault> {
    let available = driver.run_until_available(inputs);
    if is_member {
        // The others may be away for long: clients may come all the same, and /readyz says what does not work.
        return timeout(AVAILABLE_WITHIN, available).await.unwrap_or(Ok(()));
    }
    available.await
}

/// From here on SIGHUP never ends the process, and those who have files take them anew.
fn hear_hangups(notify_socket: NotifySocket) -> Result<JoinHandle<()>, RunError> {
    let mut hangup = signal(SignalKind::hangup()).map_err(RunError::System)?;
    Ok(tokio::task::spawn_local(async move {
        while hangup.recv().await.is_some() {
            tracing::info!("asked to take files anew");
            notify_socket.reloaded();
        }
    }))
}

/// From here on clients may come, and the one inside does. `seed`: for that one.
fn accept(
    config: &Config,
    listeners: Vec<Listener>,
    acceptor: &Acceptor,
    seed: u64,
) -> (Vec<(Scheme, ListenAddress)>, Vec<JoinHandle<()>>) {
    let (mut addresses, mut accepting) = (Vec::new(), Vec::new());
    let mut served = Vec::new();
    for (settings, listener) in config.listeners.iter().zip(listeners) {
        let scheme = Scheme::of(settings);
        served.push(ServedAt {
            scheme,
            name: listener.address().to_string(),
            address: listener.address().to_string(),
            path: settings
                .websocket
                .as_ref()
                .map(|websocket| websocket.path.clone()),
        });
        addresses.push((scheme, listener.address().clone()));
        if let Some(revocation) = listener.revocation(acceptor) {
            accepting.push(tokio::task::spawn_local(revocation.run()));
        }
        accepting.push(tokio::task::spawn_local(listener.accept(acceptor.clone())));
    }
    acceptor.driver.serves_at(served);
    let policy = authorization::self_test_policy_id(config);
    accepting.extend(self_test::start(
        &config.self_test,
        &acceptor.driver,
        policy,
        seed,
    ));
    (addresses, accepting)
}

/// For who asks.
fn shown_limits(config: &Config) -> serde_json::Value {
    serde_json::to_value(&config.limits).unwrap_or_default()
}

/// What a node needs while it has no cluster yet.
struct Joining<'a> {
    /// `None`: it is to have none.
    socket: Option<TcpListener>,
    tls: Option<PeerTls>,
    handshakes: Option<Handle>,
    clock: Rc<Clock>,
    /// Nobody is served meanwhile.
    listeners: &'a mut [Listener],
    /// Where operators change the cluster.
    admin_url: String,
    admin: &'a Admin,
    requests: &'a mut mpsc::Receiver<AdminRequest>,
}

/// Forms the cluster, or comes back to it. `None`: there is none. A node that is rolled back stays here.
async fn join(
    settings: Option<&config::Cluster>,
    opened: &mut Opened,
    joining: Joining<'_>,
) -> Result<Option<Joined>, RunError> {
    let (Some(settings), Some(socket)) = (settings, joining.socket) else {
        return Ok(None);
    };
    let start = PeersStart {
        settings,
        identity: opened.identity.clone(),
        known_starts: std::mem::take(&mut opened.known_starts),
        clock: joining.clock,
        tls: joining.tls,
        handshakes: joining.handshakes,
        admin_url: joining.admin_url,
        seed: opened.random(),
    };
    let (peers, mut events) = Peers::start(start, socket).map_err(RunError::System)?;
    let is_formed = matches!(opened.stage, Stage::Bound(Step::Formed, _));
    if !is_formed {
        joining.listeners.iter_mut().try_for_each(Listener::close)?;
        joining.admin.recovered();
    }
    let stage = opened.stage.clone();
    let engine = &mut opened.engine;
    let founding = formation::form(&peers, &mut events, joining.requests, engine, stage).await?;
    if let Some(RolledBack { cause }) = opened.rolled_back.take() {
        joining.listeners.iter_mut().try_for_each(Listener::close)?;
        joining.admin.recovered();
        peers.roll_back(&cause);
        not_serving::answer_all(&peers, &Condition::RolledBack(cause), joining.requests).await;
    }
    if !is_formed {
        for listener in joining.listeners {
            listener.open()?;
        }
    }
    Ok(Some(Joined {
        founding,
        peers,
        events,
    }))
}

/// A node's place in its cluster.
struct Joined {
    founding: Founding,
    peers: Peers,
    events: mpsc::Receiver<PeerEvent>,
}

/// Binds the listeners. Returns them and what those with TLS have read.
fn bind(
    config: &Config,
    tls: Vec<Option<Tls>>,
    room: Option<usize>,
) -> Result<(Vec<Listener>, Vec<Tls>), RunError> {
    let clients = Places::new(room.map(|room| descriptors::clients_max(room, strangers_of(config))));
    let strangers = PoolLimits {
        places: config.limits.strangers_max as usize,
        of_network: config.limits.strangers_per_address_max as usize,
    };
    let (mut listeners, mut all_tls) = (Vec::new(), Vec::new());
    for (settings, tls) in config.listeners.iter().zip(tls) {
        let layers = Layers {
            proxy_protocol: settings.proxy_protocol,
            tls: tls.as_ref().map(Tls::current),
            verifier: tls.as_ref().and_then(Tls::verifier),
            websocket: settings
                .websocket
                .as_ref()
                .map(|websocket| Arc::new(Endpoint::new(websocket, config.limits.packet_size_max))),
        };
        let policy = config::authorization::policy_id(&config.authorization, settings);
        let listener = Listener::bind(settings, layers, policy, (strangers, &clients))?;
        listeners.push(match &tls {
            Some(tls) => listener.with_tls(tls),
            None => listener,
        });
        all_tls.extend(tls);
    }
    container::warn_of_loopback(listeners.iter().map(Listener::address));
    Ok((listeners, all_tls))
}

/// When what is shown to clients and nodes expires.
fn expiries_of<'a>(tls: impl Iterator<Item = &'a Tls>) -> Expiries {
    let mut expiries = Expiries::default();
    tls.for_each(|tls| expiries.extend(tls.expiries()));
    expiries
}

/// The places of strangers at all ports, and of questions about them.
fn pools(
    listeners: &[Listener],
    admin: &Admin,
    joined: Option<&Joined>,
    methods: Option<&Methods>,
) -> Vec<Strangers> {
    let of_listeners = listeners.iter().map(Listener::strangers);
    let of_peers = joined.map(|joined| joined.peers.strangers());
    let of_ports = of_listeners.chain([admin.strangers()]).chain(of_peers);
    let of_methods = methods.into_iter().flat_map(Methods::pools);
    of_ports.cloned().chain(of_methods).collect()
}

/// Plain listeners need no thread.
fn start_handshakes(listeners: &[Listener], tls: Vec<Tls>) -> Result<Option<HandshakeThread>, RunError> {
    if listeners.iter().all(Listener::is_plain) {
        return Ok(None);
    }
    let thread = HandshakeThread::start("handshake", tls);
    thread.map(Some).map_err(RunError::System)
}

/// Nodes have a thread of their own, so that handshakes of clients, however many, delay none of theirs.
fn start_peer_handshakes(files: Option<Tls>) -> Result<Option<HandshakeThread>, RunError> {
    let thread = files.map(|files| HandshakeThread::start("peer-handshake", vec![files]));
    thread.transpose().map_err(RunError::System)
}

/// What a driver is made of.
struct Parts {
    opened: Opened,
    clock: Rc<Clock>,
    /// There is none without a cluster.
    joined: Option<Joined>,
    methods: Option<Methods>,
    policies: watch::Receiver<Policies>,
    requests: mpsc::Receiver<AdminRequest>,
    /// `None`: nothing is traced.
    traces: Option<TracesFiles>,
    /// Places of strangers, to be shown.
    pools: Vec<Strangers>,
}

fn driver_settings(config: &Config, node: cluster::NodeId) -> DriverSettings {
    let limits = &config.limits;
    DriverSettings {
        node,
        packet_size_max: limits.packet_size_max,
        filters_per_packet_max: limits.filters_per_packet_max.get() as usize,
        connect_packet_size_max: limits.connect_packet_size_max(),
        memory_max: limits.memory_max.bytes(machine_memory::bytes()),
        outbound_bytes_max: limits.outbound_bytes_max as usize,
    }
}

fn start_driver(config: &Config, mut parts: Parts) -> Result<(Rc<Driver>, Inputs), RunError> {
    let (opened, clock, joined) = (parts.opened, parts.clock, parts.joined);
    let founding = joined.as_ref().map(|joined| &joined.founding);
    let node_id = opened.identity.node;
    let marks = ClockMarks::new(clock.as_ref().clone(), opened.mark);
    let own = joined.as_ref().map(|joined| Founder {
        node: node_id,
        address: joined.peers.address().clone(),
    });
    let Started {
        node,
        actions,
        engine,
        snapshots,
    } = startup::start(
        opened,
        &clock,
        config,
        parts.policies.borrow_and_update().clone(),
        founding,
    )?;
    let sync = match config.durability {
        Durability::Disk => Sync::Always,
        Durability::Memory => Sync::AtStop,
    };
    let (disk, disk_events) =
        DiskThread::start(Box::new(engine), sync, joined.is_some(), marks).map_err(RunError::System)?;
    let (snapshots, snapshot_events) = SnapshotThread::start(snapshots).map_err(RunError::System)?;
    let settings = driver_settings(config, node_id);
    // A connection has one question at a time; only those of connections that are gone could take the room.
    let askers_max = config.limits.connections_max as usize + strangers_of(config);
    let questions_max = askers_max + askers_max / 2;
    let started = parts
        .methods
        .map(|methods| AuthenticationThread::start(methods, questions_max))
        .transpose()
        .map_err(RunError::System)?;
    let (authentication, answers) = started.unzip();
    let (peers, events) = joined.map(|joined| (joined.peers, joined.events)).unzip();
    let edge = Edge {
        authentication,
        peers,
        traces: parts
            .traces
            .map(|files| Traces::start(files, node_id))
            .transpose()?,
        clock,
        settings,
        pools: parts.pools,
    };
    let driver = Rc::new(Driver::new(node, disk, snapshots, edge));
    driver.observed.borrow_mut().slow = SlowLog::new(config.log.slow_operation);
    driver.execute_all(actions);
    if let Some(caller) = own {
        // The others hear where it is when it connects to them.
        driver.step(Event::Called { caller });
    }
    Ok((
        driver,
        Inputs {
            disk: disk_events,
            snapshots: snapshot_events,
            admin: parts.requests,
            answers: answers.unwrap_or_else(nothing),
            policies: parts.policies,
            peers: events.unwrap_or_else(nothing),
        },
    ))
}

/// Where nobody is asked, or nobody else there, there is nothing to wait for.
fn nothing<T>() -> mpsc::Receiver<T> {
    mpsc::channel(1).1
}
