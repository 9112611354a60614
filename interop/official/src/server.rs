//! A `statehold serve` of one test's own: on free ports, in a data directory that goes with it.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

/// A running server. It is killed when this goes out of scope; a failed test shows its log first.
pub struct Server {
    process: Child,
    mqtt: SocketAddr,
    data: TempDir,
}

impl Server {
    /// Starts a server on a free port and an empty data directory.
    pub fn start() -> Self {
        let data = TempDir::new().expect("a temporary directory");
        let (process, mqtt) = spawn(data.path(), "127.0.0.1:0");
        Self { process, mqtt, data }
    }

    /// Where it listens for MQTT.
    pub fn mqtt(&self) -> SocketAddr {
        self.mqtt
    }

    /// Kills the server without a warning.
    pub fn kill(&mut self) {
        self.process.kill().expect("the server is ours to kill");
        self.process.wait().expect("a killed process can be waited for");
    }

    /// Starts a killed server again on the same address and the same data.
    pub fn start_again(&mut self) {
        let (process, mqtt) = spawn(self.data.path(), &self.mqtt.to_string());
        assert_eq!(mqtt, self.mqtt, "it listens where it was told to");
        self.process = process;
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Both fail only when the process is gone already, which is what they are for.
        let _ = self.process.kill();
        let _ = self.process.wait();
        if std::thread::panicking()
            && let Ok(log) = std::fs::read_to_string(log_file(self.data.path()))
        {
            eprintln!("--- the server's log ---\n{log}");
        }
    }
}

fn spawn(data: &Path, listen: &str) -> (Child, SocketAddr) {
    let log = File::options()
        .create(true)
        .append(true)
        .open(log_file(data))
        .expect("a log file");
    let mut process = Command::new(binary())
        .args([
            "serve",
            "--listen",
            listen,
            "--admin",
            "127.0.0.1:0",
            "--data-dir",
        ])
        .arg(data.join("data"))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(log)
        .spawn()
        .expect("statehold is built; STATEHOLD_BIN names another one");
    let output = process.stdout.take().expect("stdout is a pipe");
    let ready = BufReader::new(output)
        .lines()
        .map_while(Result::ok)
        .find(|line| line.starts_with("statehold ready "))
        .unwrap_or_else(|| panic!("the server ended before it was ready: {}", read_log(data)));
    let mqtt = ready
        .split(' ')
        .find_map(|word| word.strip_prefix("mqtt="))
        .and_then(|address| address.parse().ok())
        .unwrap_or_else(|| panic!("no address in {ready:?}"));
    (process, mqtt)
}

/// `STATEHOLD_BIN`, else what the main workspace built last as a release, else as a debug build.
fn binary() -> PathBuf {
    if let Some(path) = std::env::var_os("STATEHOLD_BIN") {
        return path.into();
    }
    let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target");
    let release = target.join("release/statehold");
    if release.exists() {
        release
    } else {
        target.join("debug/statehold")
    }
}

fn log_file(data: &Path) -> PathBuf {
    data.join("server.log")
}

fn read_log(data: &Path) -> String {
    std::fs::read_to_string(log_file(data)).unwrap_or_default()
}
