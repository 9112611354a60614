//! `statehold lock`

use std::ffi::OsString;
use std::io::IsTerminal;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use client::{Client, LockOptions};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use tokio::process::{Child, Command};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::timeout;

use crate::duration;
use crate::exit::{self, Exit, UsageError};
use crate::runtime::block_on;
use crate::server::ServerArgs;

/// Run a command while holding a lock.
///
/// Waits for the lock, runs the command, renews the lock while it runs, and gives it back. The command finds the
/// fencing token in STATEHOLD_FENCING_TOKEN: writes that carry it (`statehold set --fencing-token`) are refused once
/// somebody else had the lock and wrote with theirs.
///
/// When the lock is lost, because the server could not be reached for as long as the lease or somebody deleted the
/// key, the command gets SIGTERM, and SIGKILL after --grace; the exit code is 6. SIGTERM, SIGINT and SIGHUP are handed
/// on to the command. Otherwise the exit code is that of the command, 128 and the number of the signal if it was
/// killed by one. Exit code 1 without the command having run: the lock was not free in time.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Lock {
    /// The key of the lock
    name: String,
    /// How long the lock outlives its holder; renewed every third of it
    #[arg(long, default_value = "10s", value_name = "TIME", value_parser = duration::parse_lease)]
    lease: Duration,
    /// Wait no longer than this for the lock; 0: do not wait [default: for ever]
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    wait: Option<Duration>,
    /// The value of the key; two that use the same have the lock together [default: unique]
    #[arg(long, value_name = "NAME")]
    holder: Option<String>,
    /// How long the command may take to end after SIGTERM when the lock is lost
    #[arg(long, default_value = "10s", value_name = "TIME", value_parser = duration::parse)]
    grace: Duration,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
    #[command(flatten)]
    server: ServerArgs,
}

/// The command that runs under the lock.
struct Running {
    child: Child,
    pid: Pid,
    /// It leads a process group of its own, so that signals reach what it started too.
    is_group: bool,
}

impl Lock {
    pub(crate) fn run(self) -> anyhow::Result<Exit> {
        block_on(async {
            let client = Client::connect(self.server.lasting_options()?).await?;
            let lock =
                client::Lock::acquire(&client.state_store(), self.name.clone(), self.options()).await?;
            let exit = self.run_with(&lock).await;
            // The command has ended; a lock that cannot be given back ends with its lease.
            let released = lock.release().await;
            client.disconnect().await;
            let exit = exit?;
            if exit != Exit::LockLost {
                released.context("the command has ended, but the lock could not be given back")?;
            }
            Ok(exit)
        })
    }

    fn options(&self) -> LockOptions {
        let mut options = LockOptions::new(self.lease);
        if let Some(holder) = &self.holder {
            options = options.holder(holder.clone());
        }
        if let Some(wait) = self.wait {
            options = options.wait(wait);
        }
        options
    }

    async fn run_with(&self, lock: &client::Lock) -> anyhow::Result<Exit> {
        let mut terminated = signal(SignalKind::terminate())?;
        let mut interrupted = signal(SignalKind::interrupt())?;
        let mut hung_up = signal(SignalKind::hangup())?;
        let mut running = self.start(lock)?;
        loop {
            tokio::select! {
                status = running.child.wait() => return Ok(exit_of(status?)),
                lost = lock.lost() => {
                    exit::note(&format!("the lock {} is lost: {lost}; stopping the command", self.name));
                    running.stop(self.grace).await?;
                    return Ok(Exit::LockLost);
                }
                _ = terminated.recv() => running.signal(Signal::TERM),
                // A terminal has sent it to the command as well, if they share a process group.
                _ = interrupted.recv() => if running.is_group { running.signal(Signal::INT) },
                _ = hung_up.recv() => running.signal(Signal::HUP),
            }
        }
    }

    fn start(&self, lock: &client::Lock) -> anyhow::Result<Running> {
        let [program, arguments @ ..] = self.command.as_slice() else {
            return Err(UsageError("no command".to_owned()).into());
        };
        // A command of its own process group could not read from the terminal.
        let is_group = !std::io::stdin().is_terminal();
        let mut command = Command::new(program);
        command
            .args(arguments)
            .env("STATEHOLD_FENCING_TOKEN", lock.token().to_string())
            .env("STATEHOLD_LOCK", &self.name)
            .kill_on_drop(true);
        if is_group {
            command.process_group(0);
        }
        let child = command
            .spawn()
            .with_context(|| format!("cannot run {}", program.display()))?;
        let pid = child
            .id()
            .and_then(|id| i32::try_from(id).ok())
            .and_then(Pid::from_raw);
        let pid = pid.context("the command has no process id")?;
        Ok(Running { child, pid, is_group })
    }
}

impl Running {
    fn signal(&self, signal: Signal) {
        // It may have ended this moment.
        let _ = if self.is_group {
            kill_process_group(self.pid, signal)
        } else {
            kill_process(self.pid, signal)
        };
    }

    /// SIGTERM, then SIGKILL.
    async fn stop(&mut self, grace: Duration) -> std::io::Result<()> {
        self.signal(Signal::TERM);
        if timeout(grace, self.child.wait()).await.is_err() {
            self.signal(Signal::KILL);
            self.child.wait().await?;
        } else if self.is_group {
            // What the command left behind must not go on without the lock.
            self.signal(Signal::KILL);
        }
        Ok(())
    }
}

fn exit_of(status: ExitStatus) -> Exit {
    let code = status
        .code()
        .or_else(|| status.signal().map(|signal| 128 + signal));
    Exit::Code(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX))
}

const EXAMPLES: &str = "\
Examples:
  statehold lock nightly-job -- ./job.sh
  statehold lock nightly-job --wait 0 -- ./job.sh           exit code 1 if somebody else has it
  statehold lock pump --lease 5s -- sh -c 'statehold set pump/speed 7 --fencing-token $STATEHOLD_FENCING_TOKEN'";
