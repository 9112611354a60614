//! The real binary on free ports, in a data directory that goes with the test.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

/// A running `statehold serve`. It is killed when this goes out of scope; a failed test shows its log first.
#[derive(Debug)]
pub(crate) struct Server {
    process: Child,
    mqtt: SocketAddr,
    admin: SocketAddr,
    directory: TempDir,
}

impl Server {
    /// Starts a server on free ports and an empty data directory.
    pub(crate) fn start() -> Self {
        Self::start_with("")
    }

    /// The same, with these settings.
    pub(crate) fn start_with(settings: &str) -> Self {
        let directory = TempDir::new().unwrap();
        std::fs::write(directory.path().join("statehold.toml"), settings).unwrap();
        let (process, mqtt, admin) = spawn(directory.path(), "127.0.0.1:0");
        Self {
            process,
            mqtt,
            admin,
            directory,
        }
    }

    /// Where it listens for MQTT.
    pub(crate) fn mqtt(&self) -> SocketAddr {
        self.mqtt
    }

    /// `kill -9`, and the end of the process.
    pub(crate) fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    /// Starts a killed server again with the same data, on the same address.
    pub(crate) fn start_again(&mut self) {
        let (process, mqtt, admin) = spawn(self.directory.path(), &self.mqtt.to_string());
        assert_eq!(mqtt, self.mqtt);
        self.process = process;
        self.admin = admin;
    }

    /// Copies the data of a server that does not run.
    pub(crate) fn copy_data(&self, to: &Path) {
        copy(&self.directory.path().join("data"), to);
    }

    /// Puts other data in the place of those of a server that does not run.
    pub(crate) fn replace_data(&self, from: &Path) {
        let data = self.directory.path().join("data");
        std::fs::remove_dir_all(&data).unwrap();
        copy(from, &data);
    }

    /// The memory that the process holds, in bytes.
    ///
    /// The second number of `/proc/<pid>/statm` counts resident pages of 4,096 bytes.
    pub(crate) fn resident_bytes(&self) -> u64 {
        let statm = std::fs::read_to_string(format!("/proc/{}/statm", self.process.id())).unwrap();
        let pages: u64 = statm.split(' ').nth(1).unwrap().parse().unwrap();
        pages * 4_096
    }

    /// The body of a page of the admin listener, whose status must be 200.
    pub(crate) fn admin_page(&self, path: &str) -> String {
        let mut stream = TcpStream::connect(self.admin).unwrap();
        write!(
            stream,
            "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        )
        .unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).unwrap();
        let (head, body) = response.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
        body.to_owned()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Both fail only if the process is gone already, which is what they are for.
        let _ = self.process.kill();
        let _ = self.process.wait();
        if std::thread::panicking() {
            println!(
                "--- the end of the server's log ---\n{}",
                log_end(self.directory.path())
            );
        }
    }
}

fn spawn(directory: &Path, listen: &str) -> (Child, SocketAddr, SocketAddr) {
    let log = File::options()
        .create(true)
        .append(true)
        .open(directory.join("log"))
        .unwrap();
    let mut process = Command::new(env!("CARGO_BIN_EXE_statehold"))
        .args([
            "serve",
            "--listen",
            listen,
            "--admin",
            "127.0.0.1:0",
            "--data-dir",
        ])
        .arg(directory.join("data"))
        .arg("--config")
        .arg(directory.join("statehold.toml"))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(log)
        .spawn()
        .unwrap();
    let ready = BufReader::new(process.stdout.take().unwrap())
        .lines()
        .map_while(Result::ok)
        .find(|line| line.starts_with("statehold ready "))
        .unwrap_or_else(|| panic!("the server ended before it was ready:\n{}", log_end(directory)));
    let address = |name: &str| {
        let value = ready.split(' ').find_map(|word| word.strip_prefix(name));
        value.unwrap().parse().unwrap()
    };
    let (mqtt, admin) = (address("mqtt="), address("admin="));
    (process, mqtt, admin)
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// At most the last 40 lines: a test that runs for minutes logs a lot.
fn log_end(directory: &Path) -> String {
    let log = std::fs::read_to_string(directory.join("log")).unwrap_or_default();
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(40)..].join("\n")
}
