//! Nodes of a cluster on this machine, and what they write.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use tempfile::TempDir;

use crate::harness::{Ran, Spawned, Watchdog, page, run, signal, spawn, statehold};

/// Addresses and directories of a cluster, whose nodes are not running yet.
pub(super) struct Place {
    pub(super) directory: TempDir,
    ip: String,
    first_port: u16,
    /// Options of all nodes.
    pub(super) options: Vec<String>,
}

/// A running node, killed when dropped.
pub(super) struct Member {
    child: Child,
    _watchdog: Watchdog,
    out: Receiver<String>,
    log: Receiver<String>,
    ready: String,
}

/// How often something is asked before it never becomes true: each time a process starts, which takes longer than a hundredth of a second.
pub(super) const TRIES: u32 = 3_000;

/// Far longer than anything here takes on a machine that has much else to do.
const HANGS_AFTER: Duration = Duration::from_secs(600);

impl Place {
    pub(super) fn new() -> Self {
        static PORTS: AtomicU16 = AtomicU16::new(7000);
        // Ports have to be known before anybody listens at them: each process of tests has a loopback address of its own.
        let pid = std::process::id();
        Self {
            directory: TempDir::new().expect("a directory"),
            ip: format!(
                "127.{}.{}.{}",
                64 + (pid >> 16) % 64,
                (pid >> 8) & 0xff,
                pid & 0xff
            ),
            first_port: PORTS.fetch_add(10, Ordering::Relaxed),
            options: vec!["--insecure-peers".to_owned()],
        }
    }

    /// Where a node is, for others.
    pub(super) fn peer(&self, node: u16) -> String {
        format!("{}:{}", self.ip, self.first_port + node)
    }

    pub(super) fn path(&self, name: &str) -> String {
        let path = self.directory.path().join(name);
        path.to_str().expect("text").to_owned()
    }

    pub(super) fn data(&self, node: u16) -> String {
        self.path(&format!("data-{node}"))
    }

    /// Starts a node of a cluster of so many.
    pub(super) fn start(&self, node: u16, size: u16) -> Member {
        Member::spawn(self.command(node, size))
    }

    /// What starts a node; it may be given further options.
    pub(super) fn command(&self, node: u16, size: u16) -> Command {
        self.command_at(node, size, ["127.0.0.1:0"; 2])
    }

    /// With addresses for clients and for the admin pages.
    pub(super) fn command_at(&self, node: u16, size: u16, addresses: [&str; 2]) -> Command {
        self.command_for_peers_at(node, size, addresses, &self.peer(node))
    }

    /// With another address for the other nodes than the one that they know.
    pub(super) fn command_for_peers_at(
        &self,
        node: u16,
        size: u16,
        [mqtt, admin]: [&str; 2],
        peers: &str,
    ) -> Command {
        let join: Vec<_> = (0..size).map(|node| self.peer(node)).collect();
        let mut command = statehold(&["serve", "--listen", mqtt, "--admin", admin]);
        command
            .args(["--data-dir", &self.data(node), "--peer-listen", peers])
            .args(["--join", &join.join(",")])
            .args(["--cluster-size", &size.to_string()])
            .args(&self.options)
            .env_remove("STATEHOLD_LOG");
        command
    }

    /// Starts a whole cluster, and waits until it is formed.
    pub(super) fn start_all(&self, size: u16) -> Vec<Member> {
        let mut members: Vec<_> = (0..size).map(|node| self.start(node, size)).collect();
        members.iter_mut().for_each(Member::wait_ready);
        members
    }
}

impl Member {
    pub(super) fn spawn(mut command: Command) -> Self {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the node starts");
        let watchdog = Watchdog::over(&child);
        let out = lines(child.stdout.take().expect("stdout is piped"));
        let log = lines(child.stderr.take().expect("stderr is piped"));
        Self {
            child,
            _watchdog: watchdog,
            out,
            log,
            ready: String::new(),
        }
    }

    /// Waits until clients may come.
    pub(super) fn wait_ready(&mut self) {
        if let Ok(line) = self.out.recv_timeout(HANGS_AFTER) {
            self.ready = line;
        }
        if !self.ready.starts_with("statehold ready ") {
            let said: Vec<_> = self.log.try_iter().collect();
            panic!("{:?} {said:#?}", self.ready);
        }
    }

    /// Whether clients may come.
    pub(super) fn is_ready(&self) -> bool {
        self.out.try_iter().next().is_some()
    }

    pub(super) fn at(&self, scheme: &str) -> &str {
        let mut words = self.ready.split(' ');
        let found = words.find_map(|word| word.strip_prefix(scheme)?.strip_prefix('='));
        found.unwrap_or_else(|| panic!("no {scheme} in {:?}", self.ready))
    }

    /// Reads the log up to a line with all of these in it.
    #[track_caller]
    pub(super) fn logged(&mut self, texts: &[&str]) -> String {
        let mut before = Vec::new();
        loop {
            match self.log.recv_timeout(HANGS_AFTER) {
                Ok(line) if texts.iter().all(|text| line.contains(text)) => return line,
                Ok(line) => before.push(line),
                Err(_) => panic!("no line with {texts:?} in {before:#?}"),
            }
        }
    }

    fn client(&self, arguments: &[&str]) -> Command {
        let (host, port) = self.at("mqtt").rsplit_once(':').expect("an address");
        let mut command = statehold(arguments);
        command.env("STATEHOLD_HOST", host).env("STATEHOLD_PORT", port);
        command
    }

    /// Runs a command that talks to this node.
    pub(super) fn run(&self, arguments: &[&str]) -> Ran {
        run(self.client(arguments))
    }

    /// Starts a command that talks to this node, and is talked to.
    pub(super) fn begin(&self, arguments: &[&str]) -> Spawned {
        spawn(self.client(arguments))
    }

    /// Sets a key; again while nobody leads.
    pub(super) fn set(&self, key: &str, value: &str) {
        self.until(&["set", key, value]);
    }

    /// The same, to what is in a file.
    pub(super) fn set_file(&self, key: &str, file: &str) {
        self.until(&["set", key, "--file", file]);
    }

    /// A key's value; asked again while nobody leads.
    pub(super) fn get(&self, key: &str) -> String {
        self.until(&["get", key]).text().to_owned()
    }

    /// Runs a command that may be repeated; again while nobody leads.
    #[track_caller]
    pub(super) fn until(&self, arguments: &[&str]) -> Ran {
        self.until_code(arguments, 0)
    }

    /// The same, for one that ends with another code.
    #[track_caller]
    pub(super) fn until_code(&self, arguments: &[&str], code: i32) -> Ran {
        for _ in 0..TRIES {
            let ran = self.run(arguments);
            if ran.code == Some(code) {
                return ran;
            }
        }
        panic!("{arguments:?}: {:?}", self.run(arguments))
    }

    /// A figure of `/metrics`, labels included in its name; 0 if it is not there.
    pub(super) fn figure(&self, name: &str) -> f64 {
        let (_, page) = page(self.at("admin"), "/metrics");
        let line = page
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.map_or(0.0, |number| number.parse().expect("a number"))
    }

    pub(super) fn kill(mut self) {
        self.child.kill().expect("the node can be killed");
        self.child.wait().expect("the node ends");
    }

    /// Waits for its end; its exit code.
    pub(super) fn wait(mut self) -> Option<i32> {
        self.child.wait().expect("it ends").code()
    }

    pub(super) fn signal(&self, name: &str) {
        signal(&self.child, name);
    }

    /// Asks it to stop; its exit code.
    pub(super) fn terminate(mut self) -> Option<i32> {
        self.signal("TERM");
        self.child.wait().expect("the node ends").code()
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What comes out of a process, without keeping it waiting.
fn lines(from: impl Read + Send + 'static) -> Receiver<String> {
    let (tell, told) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(from).lines().map_while(Result::ok) {
            if tell.send(line).is_err() {
                return;
            }
        }
    });
    told
}
