//! A server with a settings file, whose log is read.

use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Child, ChildStderr, Command, Stdio};

use tempfile::TempDir;

use crate::harness::{Ran, Spawned, Watchdog, admin_page, run, signal, spawn, statehold};

/// A running `statehold serve --config`, killed when dropped.
pub(crate) struct Configured {
    child: Child,
    ready: String,
    log: BufReader<ChildStderr>,
    _watchdog: Watchdog,
    directory: TempDir,
}

impl Configured {
    /// Starts a server with these settings.
    pub(crate) fn start(settings: &str) -> Self {
        Self::start_in(TempDir::new().expect("a directory"), settings)
    }

    /// Starts a server with these settings in a directory that may have data.
    pub(crate) fn start_in(directory: TempDir, settings: &str) -> Self {
        let command = serve(settings, &directory);
        Self::run_in(directory, command)
    }

    /// Starts a server that may have so many files open.
    pub(crate) fn start_with_descriptors(settings: &str, descriptors: u32) -> Self {
        let directory = TempDir::new().expect("a directory");
        let command = serve(settings, &directory);
        let mut limited = Command::new("sh");
        limited
            .args(["-c", &format!("ulimit -n {descriptors}; exec \"$0\" \"$@\"")])
            .arg(command.get_program())
            .args(command.get_args())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        Self::run_in(directory, limited)
    }

    fn run_in(directory: TempDir, mut command: Command) -> Self {
        let mut child = command.spawn().expect("the server starts");
        let watchdog = Watchdog::over(&child);
        let log = BufReader::new(child.stderr.take().expect("stderr is piped"));
        let mut ready = String::new();
        let mut stdout = BufReader::new(child.stdout.take().expect("stdout is piped"));
        stdout.read_line(&mut ready).expect("the server says something");
        if !ready.starts_with("statehold ready ") {
            let said = log.lines().map_while(Result::ok).collect::<Vec<_>>();
            panic!("{ready:?} {said:?}");
        }
        Self {
            child,
            ready: ready.trim_end().to_owned(),
            log,
            _watchdog: watchdog,
            directory,
        }
    }

    /// What a server with these settings says instead of starting.
    pub(crate) fn refused(settings: &str) -> Ran {
        Self::refused_in(&TempDir::new().expect("a directory"), settings)
    }

    /// The same in a directory that may have data.
    pub(crate) fn refused_in(directory: &TempDir, settings: &str) -> Ran {
        let ran = run(serve(settings, directory));
        assert_ne!(ran.code, Some(0), "{ran:?}");
        ran
    }

    /// Kills it as a power cut would, and starts it again with these settings.
    pub(crate) fn restart(self, settings: &str) -> Self {
        Self::start_in(self.kill(), settings)
    }

    /// Kills it; its directory.
    pub(crate) fn kill(mut self) -> TempDir {
        std::mem::replace(&mut self.directory, TempDir::new().expect("a directory"))
    }

    pub(crate) fn data_directory(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    /// The address of the first listener of a scheme.
    pub(crate) fn at(&self, scheme: &str) -> &str {
        let mut words = self.ready.split(' ');
        let all = words.find_map(|word| word.strip_prefix(scheme)?.strip_prefix('='));
        let all = all.unwrap_or_else(|| panic!("no {scheme} in {}", self.ready));
        all.split(',').next().expect("split has a first part")
    }

    /// The addresses of all listeners of a scheme.
    pub(crate) fn all_at(&self, scheme: &str) -> Vec<String> {
        let mut words = self.ready.split(' ');
        let all = words.find_map(|word| word.strip_prefix(scheme)?.strip_prefix('='));
        let all = all.unwrap_or_else(|| panic!("no {scheme} in {}", self.ready));
        all.split(',').map(str::to_owned).collect()
    }

    pub(crate) fn port(&self, scheme: &str) -> u16 {
        let port = self.at(scheme).rsplit_once(':').expect("an address").1;
        port.parse().expect("a port")
    }

    /// Reads the log up to a line with this text.
    pub(crate) fn logged(&mut self, text: &str) -> String {
        let mut line = String::new();
        while !line.contains(text) {
            line.clear();
            let count = self.log.read_line(&mut line).expect("text");
            assert!(count > 0, "the log ended without {text:?}");
        }
        line
    }

    /// Stops the server; the log from where it was not read yet.
    pub(crate) fn stop(mut self) -> String {
        self.signal("TERM");
        let mut log = String::new();
        self.log.read_to_string(&mut log).expect("text");
        log
    }

    /// A figure of `/metrics`, labels included in its name.
    pub(crate) fn figure(&self, name: &str) -> f64 {
        let page = admin_page(self.at("admin"), "/metrics");
        let line = page
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        let number = line.unwrap_or_else(|| panic!("no {name} in {page}"));
        number.parse().expect("a number")
    }

    /// Resident memory, in KiB.
    pub(crate) fn resident_kib(&self) -> u64 {
        let file = format!("/proc/{}/status", self.child.id());
        let status = std::fs::read_to_string(file).expect("Linux");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let number = line.and_then(|line| line.trim().strip_suffix(" kB"));
        number.expect("resident memory").parse().expect("a number")
    }

    /// Asks it to stop, and waits until it has.
    pub(crate) fn terminate(mut self) {
        self.signal("TERM");
        let mut rest = String::new();
        self.log.read_to_string(&mut rest).expect("text");
        let status = self.child.wait().expect("the server ends");
        assert!(status.success(), "{rest}");
    }

    pub(crate) fn signal(&self, name: &str) {
        signal(&self.child, name);
    }

    /// A command that talks to the listener of a scheme, by the name `localhost`.
    pub(crate) fn command(&self, scheme: &str, arguments: &[&str]) -> Command {
        let mut command = statehold(arguments);
        command
            .env("STATEHOLD_HOST", "localhost")
            .env("STATEHOLD_PORT", self.port(scheme).to_string());
        command
    }

    pub(crate) fn run(&self, scheme: &str, arguments: &[&str]) -> Ran {
        run(self.command(scheme, arguments))
    }

    pub(crate) fn spawn(&self, scheme: &str, arguments: &[&str]) -> Spawned {
        spawn(self.command(scheme, arguments))
    }
}

impl Drop for Configured {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn serve(settings: &str, directory: &TempDir) -> Command {
    let file = directory.path().join("statehold.toml");
    std::fs::write(&file, settings).expect("written");
    let path = |name: &str| directory.path().join(name).to_str().expect("text").to_owned();
    let mut command = statehold(&[
        "serve",
        "--config",
        &path("statehold.toml"),
        "--admin",
        "127.0.0.1:0",
        "--data-dir",
        &path("data"),
        "--durability",
        "memory",
    ]);
    command
        .env_remove("STATEHOLD_LOG")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}
