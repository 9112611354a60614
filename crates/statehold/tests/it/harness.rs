//! Starts servers and commands, and reads what they write. Nothing here waits for time to pass: a line that is read
//! says that something has happened.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Output, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use tempfile::TempDir;

/// A running `statehold serve`, killed when dropped.
pub(crate) struct Server {
    child: Child,
    _stdout: BufReader<ChildStdout>,
    pub(crate) mqtt: String,
    pub(crate) admin: String,
    directory: TempDir,
}

impl Server {
    pub(crate) fn start() -> Self {
        Self::start_in(TempDir::new().expect("a directory"), "127.0.0.1:0")
    }

    /// In a directory whose `data` may have something in it already.
    pub(crate) fn start_in(directory: TempDir, listen: &str) -> Self {
        let mut child = serve(&directory.path().join("data"), listen)
            .spawn()
            .expect("the server starts");
        let mut stdout = BufReader::new(child.stdout.take().expect("stdout is piped"));
        let mut line = String::new();
        stdout.read_line(&mut line).expect("the server says something");
        let address = |name: &str| {
            let found = line.split_whitespace().find_map(|word| word.strip_prefix(name));
            found
                .unwrap_or_else(|| panic!("no {name} in {line:?}"))
                .to_owned()
        };
        assert!(line.starts_with("statehold ready "), "{line:?}");
        let (mqtt, admin) = (address("mqtt="), address("admin="));
        Self {
            child,
            _stdout: stdout,
            mqtt,
            admin,
            directory,
        }
    }

    /// Kills it as a power cut would, and starts it again at the same address.
    pub(crate) fn restart(mut self) -> Self {
        self.kill();
        self.restart_after_end()
    }

    /// Starts it again at the same address.
    pub(crate) fn restart_after_end(mut self) -> Self {
        let directory = std::mem::replace(&mut self.directory, TempDir::new().expect("a directory"));
        let mqtt = self.mqtt.clone();
        drop(self);
        Self::start_in(directory, &mqtt)
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().expect("the server can be killed");
        self.child.wait().expect("the server ends");
    }

    /// Asks it to stop; its exit code.
    pub(crate) fn terminate(&mut self) -> Option<i32> {
        signal(&self.child, "TERM");
        self.child.wait().expect("the server ends").code()
    }

    pub(crate) fn data_directory(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    /// The body of a page of the admin listener, whose status must be 200.
    pub(crate) fn admin_page(&self, path: &str) -> String {
        admin_page(&self.admin, path)
    }

    /// A command that talks to this server.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let (host, port) = self.mqtt.rsplit_once(':').expect("an address");
        let mut command = statehold(arguments);
        command.env("STATEHOLD_HOST", host).env("STATEHOLD_PORT", port);
        command
    }

    /// Runs a command to its end.
    pub(crate) fn run(&self, arguments: &[&str]) -> Ran {
        run(self.command(arguments))
    }

    /// Starts a command that is talked to.
    pub(crate) fn spawn(&self, arguments: &[&str]) -> Spawned {
        spawn(self.command(arguments))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The body of a page of the admin listener at `address`, whose status must be 200.
pub(crate) fn admin_page(address: &str, path: &str) -> String {
    let (status, body) = page(address, path);
    assert!(status.starts_with("HTTP/1.1 200"), "{status}");
    body
}

/// A page of the admin listener at `address`: its status line and its body.
pub(crate) fn page(address: &str, path: &str) -> (String, String) {
    let mut stream = TcpStream::connect(address).expect("connected");
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n"
    )
    .expect("sent");
    let mut response = String::new();
    stream.read_to_string(&mut response).expect("answered");
    let (head, body) = response.split_once("\r\n\r\n").expect("a response");
    let status = head.lines().next().unwrap_or_default();
    (status.to_owned(), body.to_owned())
}

/// A command that has ended.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: String,
}

impl Ran {
    #[track_caller]
    pub(crate) fn expect(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{self:?}");
        self
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.stdout).expect("text").trim_end()
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// A command that is running.
pub(crate) struct Spawned {
    pub(crate) child: Child,
    _watchdog: Watchdog,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

impl Spawned {
    /// The next line that it writes; empty at the end.
    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        self.stdout.read_line(&mut line).expect("text");
        line.trim_end().to_owned()
    }

    pub(crate) fn write_line(&mut self, line: &str) {
        let stdin = self.stdin.as_mut().expect("stdin is open");
        writeln!(stdin, "{line}").expect("it reads");
    }

    pub(crate) fn signal(&self, name: &str) {
        signal(&self.child, name);
    }

    /// Its exit code.
    pub(crate) fn wait(&mut self) -> Option<i32> {
        self.stdin = None;
        self.child.wait().expect("it ends").code()
    }
}

impl Drop for Spawned {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A server command that has not been started.
pub(crate) fn serve(data_directory: &Path, listen: &str) -> Command {
    let data_directory = data_directory.to_str().expect("text");
    let mut command = statehold(&[
        "serve",
        "--listen",
        listen,
        "--admin",
        "127.0.0.1:0",
        "--data-dir",
        data_directory,
    ]);
    command.stdout(Stdio::piped()).stderr(Stdio::null());
    command
}

/// The binary with these arguments, untouched by the settings of whoever runs the tests.
pub(crate) fn statehold(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_statehold"));
    for name in [
        "STATEHOLD_HOST",
        "STATEHOLD_PORT",
        "STATEHOLD_USERNAME",
        "STATEHOLD_PASSWORD",
    ] {
        command.env_remove(name);
    }
    command.args(arguments).stdin(Stdio::null());
    command
}

pub(crate) fn run(mut command: Command) -> Ran {
    let child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let watchdog = Watchdog::over(&child);
    let Output {
        status,
        stdout,
        stderr,
    } = child.wait_with_output().expect("it runs");
    drop(watchdog);
    Ran {
        code: status.code(),
        stdout,
        stderr: String::from_utf8_lossy(&stderr).into_owned(),
    }
}

/// Starts a command that is talked to.
pub(crate) fn spawn(mut command: Command) -> Spawned {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let stdout = BufReader::new(child.stdout.take().expect("stdout is piped"));
    let stdin = child.stdin.take();
    let watchdog = Watchdog::over(&child);
    Spawned {
        child,
        _watchdog: watchdog,
        stdin,
        stdout,
    }
}

/// Kills a process that hangs, so that a test fails instead of waiting for ever.
pub(crate) struct Watchdog {
    _called_off: mpsc::Sender<()>,
}

impl Watchdog {
    pub(crate) fn over(child: &Child) -> Self {
        let (called_off, is_called_off) = mpsc::channel();
        let pid = child.id().to_string();
        std::thread::spawn(move || {
            if is_called_off.recv_timeout(HANGS_AFTER) == Err(mpsc::RecvTimeoutError::Timeout) {
                // The test fails on what its end looks like.
                let _ = Command::new("kill").args(["-KILL", &pid]).status();
            }
        });
        Self {
            _called_off: called_off,
        }
    }
}

/// Far longer than any test takes on a machine that has much else to do: nodes run for as long as their test.
const HANGS_AFTER: Duration = Duration::from_secs(1_200);

pub(crate) fn signal(child: &Child, name: &str) {
    let status = Command::new("kill")
        .args([format!("-{name}"), child.id().to_string()])
        .status();
    assert!(status.expect("kill runs").success());
}

/// Does asynchronous work on this thread.
pub(crate) fn block_on<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime")
        .block_on(work)
}
