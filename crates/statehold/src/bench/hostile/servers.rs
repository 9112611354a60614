//! The servers that an adversary meets: processes of this binary, each with its data in a temporary directory.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::Context;

use super::adversary::{Adversary, World};
use crate::bench::clock;

/// One server, or the nodes of a cluster. They end, and their data goes, when this is dropped.
pub(super) struct Servers {
    nodes: Vec<Node>,
    pid: u32,
    mqtt: SocketAddr,
    directory: Option<PathBuf>,
}

struct Node {
    process: Child,
    ready: String,
}

/// Lets clients do what their id stands for: `open-...` anything, any other only what is below its own id. A hundred further
/// rules are about others.
pub(super) fn policy() -> String {
    let mut rules = "rules:\n".to_owned();
    for place in 0..100 {
        rules += &rule(&format!("line-{place}"), &format!("line/{place}/+/#"));
    }
    rules += "- principals: {clientIds: ['*']}\n  brokerResources:\n  - method: Connect\n";
    for method in ["Publish", "Subscribe"] {
        rules += &format!("  - {{method: {method}, topics: ['own/{{principal.clientId}}/#']}}\n");
        rules += &format!("  - {{method: {method}, topics: ['#'], clientIds: ['open-*']}}\n");
    }
    rules
}

fn rule(client_id: &str, topics: &str) -> String {
    let allowed = format!("topics: ['{topics}']");
    format!(
        "- principals: {{clientIds: ['{client_id}']}}\n  brokerResources:\n  - method: Connect\n  - method: Publish\n    {allowed}\n  \
         - method: Subscribe\n    {allowed}\n"
    )
}

impl Servers {
    /// A server that runs already.
    pub(super) fn given(mqtt: SocketAddr, pid: u32) -> Self {
        Self {
            nodes: Vec::new(),
            pid,
            mqtt,
            directory: None,
        }
    }

    /// Starts what the adversary needs, and waits until it is ready.
    pub(super) fn start(adversary: &Adversary, binary: Option<&Path>) -> anyhow::Result<Self> {
        let binary = match binary {
            Some(binary) => binary.to_owned(),
            None => std::env::current_exe()?,
        };
        let name = format!("statehold-hostile-{}-{}", std::process::id(), clock::wall_ms());
        let directory = std::env::temp_dir().join(name);
        fs::create_dir(&directory).with_context(|| directory.display().to_string())?;
        let mut servers = Self {
            nodes: Vec::new(),
            pid: 0,
            mqtt: SocketAddr::from(([127, 0, 0, 1], 0)),
            directory: Some(directory.clone()),
        };
        let peers = match adversary.world {
            World::Cluster => free_addresses(3)?,
            World::Alone | World::Policy => Vec::new(),
        };
        for number in 0..peers.len().max(1) {
            let place = directory.join(number.to_string());
            fs::create_dir(&place)?;
            fs::write(place.join("statehold.toml"), settings(adversary, &place))?;
            fs::write(place.join("policy.yaml"), policy())?;
            // Nobody is in it; whoever asks is asked back all the same.
            fs::write(place.join("clients.scram"), "")?;
            let process = spawn(&binary, &place, number, &peers)?;
            servers.nodes.push(Node {
                process,
                ready: String::new(),
            });
        }
        for (number, node) in servers.nodes.iter_mut().enumerate() {
            node.ready = ready(&mut node.process, &directory.join(number.to_string()))?;
        }
        let first = servers.nodes.first().context("there is a server")?;
        servers.pid = first.process.id();
        servers.mqtt = servers.address("mqtt")?;
        Ok(servers)
    }

    /// Plain MQTT of the server, or of the first node.
    pub(super) fn mqtt(&self) -> SocketAddr {
        self.mqtt
    }

    /// The first address with this name of the first node, as in its line when it is ready: `mqtt`, `ws`, `peers`, `admin`.
    pub(super) fn address(&self, name: &str) -> anyhow::Result<SocketAddr> {
        let all = self.addresses(name)?;
        all.first().copied().with_context(|| format!("no address {name}"))
    }

    /// The last one: of a listener that the adversary's settings add.
    pub(super) fn last_address(&self, name: &str) -> anyhow::Result<SocketAddr> {
        let all = self.addresses(name)?;
        all.last().copied().with_context(|| format!("no address {name}"))
    }

    fn addresses(&self, name: &str) -> anyhow::Result<Vec<SocketAddr>> {
        let words = self.nodes.first().map(|node| node.ready.split(' '));
        let value = words
            .into_iter()
            .flatten()
            .find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
        let all = value.with_context(|| format!("no address {name}"))?;
        Ok(all.split(',').map(str::parse).collect::<Result<_, _>>()?)
    }

    pub(super) fn pid(&self) -> u32 {
        self.pid
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        for node in &mut self.nodes {
            // It may have ended by itself.
            let _ = node.process.kill();
            let _ = node.process.wait();
        }
        if let Some(directory) = &self.directory {
            let _ = fs::remove_dir_all(directory);
        }
    }
}

fn settings(adversary: &Adversary, place: &Path) -> String {
    let authorization = match adversary.world {
        World::Policy => "authorization = \"policy\"\n",
        World::Alone | World::Cluster => "",
    };
    let mut settings = format!(
        "data_dir = '{0}'\n[admin]\naddress = \"127.0.0.1:0\"\n[[listeners]]\naddress = \"127.0.0.1:0\"\n{authorization}\
         [[listeners]]\naddress = \"127.0.0.1:0\"\nallow_anonymous = true\n{authorization}[listeners.websocket]\n",
        place.join("data").display()
    );
    if adversary.world == World::Policy {
        settings += &format!(
            "[authorization.policy]\nfile = '{}'\n",
            place.join("policy.yaml").display()
        );
    }
    settings
        + &adversary
            .settings
            .replace("{place}", &place.display().to_string())
}

fn spawn(binary: &Path, place: &Path, number: usize, peers: &[SocketAddr]) -> anyhow::Result<Child> {
    let log = fs::File::create(place.join("log"))?;
    let mut command = Command::new(binary);
    command
        .arg("serve")
        .arg("--config")
        .arg(place.join("statehold.toml"));
    if let Some(own) = peers.get(number) {
        let all: Vec<_> = peers.iter().map(ToString::to_string).collect();
        command
            .arg("--insecure-peers")
            .args(["--cluster-size", &peers.len().to_string()])
            .args(["--peer-listen", &own.to_string()])
            .args(["--join", &all.join(",")]);
    }
    let spawned = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(log)
        .spawn();
    spawned.context("cannot start a server")
}

/// Waits for the line that says that the server is ready.
fn ready(process: &mut Child, place: &Path) -> anyhow::Result<String> {
    let output = process
        .stdout
        .take()
        .context("the server's output is asked for once")?;
    let mut lines = BufReader::new(output).lines().map_while(Result::ok);
    lines
        .find(|line| line.starts_with("statehold ready "))
        .with_context(|| {
            let log = fs::read_to_string(place.join("log")).unwrap_or_default();
            format!("the server ended before it was ready:\n{log}")
        })
}

/// Addresses that nobody listens at: nodes of a cluster must know each other's before they start.
fn free_addresses(count: usize) -> anyhow::Result<Vec<SocketAddr>> {
    let bound: Vec<_> = (0..count)
        .map(|_| TcpListener::bind("127.0.0.1:0"))
        .collect::<Result<_, _>>()?;
    Ok(bound
        .iter()
        .map(TcpListener::local_addr)
        .collect::<Result<_, _>>()?)
}
