//! The command that runs under the lock, and its guard.

use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::process::ExitStatus;
use std::time::Duration;

use anyhow::Context;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use super::guard::{Guard, own_program, pid_of};
use crate::exit::UsageError;

/// Command that runs under the lock. Dropped before it has ended, it is stopped.
#[derive(Debug)]
pub(super) struct Running {
    child: Child,
    pid: Pid,
    /// The command is in the process group of its guard, so that signals reach what it started too. `None`: it shares the group of
    /// this process, since another group could not read from the terminal.
    guard: Option<Guard>,
}

impl Running {
    /// Starts a command with these variables.
    pub(super) async fn start(
        words: &[OsString],
        variables: [(&str, &str); 2],
        grace: Duration,
    ) -> anyhow::Result<Self> {
        let guard = if io::stdin().is_terminal() {
            None
        } else {
            Some(Guard::start(grace).await?)
        };
        let mut command = match &guard {
            Some(guard) => in_group(words, guard)?,
            None => with_death_signal(words)?,
        };
        let spawned = command.envs(variables).kill_on_drop(true).spawn();
        let child = match spawned {
            Ok(child) => child,
            Err(error) => {
                dismiss(guard).await?;
                return Err(error).with_context(|| format!("cannot run {}", words[0].display()));
            }
        };
        let pid = pid_of(&child).context("the command has no process id")?;
        Ok(Self { child, pid, guard })
    }

    /// Waits until the command itself has ended.
    pub(super) async fn ended(&mut self) -> io::Result<ExitStatus> {
        self.child.wait().await
    }

    /// Passes a signal on, unless a terminal has sent it to the command as well, since they share a process group.
    pub(super) fn pass_on(&self, signal: Signal) {
        let is_typed = matches!(signal, Signal::INT | Signal::QUIT);
        if self.guard.is_some() || !is_typed {
            self.signal(signal);
        }
    }

    /// SIGTERM, then SIGKILL.
    pub(super) async fn stop(&mut self, grace: Duration) -> io::Result<()> {
        self.signal(Signal::TERM);
        if timeout(grace, self.child.wait()).await.is_err() {
            self.signal(Signal::KILL);
            self.child.wait().await?;
        } else if self.guard.is_some() {
            // What the command left behind must not go on without the lock.
            self.signal(Signal::KILL);
        }
        Ok(())
    }

    /// Lets the guard go: the command has ended.
    pub(super) async fn dismiss_guard(self) -> io::Result<()> {
        dismiss(self.guard).await
    }

    fn signal(&self, signal: Signal) {
        // It may have ended this moment.
        let _ = match &self.guard {
            Some(guard) => kill_process_group(guard.group(), signal),
            None => kill_process(self.pid, signal),
        };
    }
}

fn in_group(words: &[OsString], guard: &Guard) -> anyhow::Result<Command> {
    let [program, arguments @ ..] = words else {
        return Err(UsageError("no command".to_owned()).into());
    };
    let mut command = Command::new(program);
    command
        .args(arguments)
        .process_group(guard.group().as_raw_nonzero().get());
    Ok(command)
}

fn with_death_signal(words: &[OsString]) -> anyhow::Result<Command> {
    let mut command = Command::new(own_program()?);
    command
        .args(["lock-exec", &std::process::id().to_string(), "--"])
        .args(words);
    Ok(command)
}

async fn dismiss(guard: Option<Guard>) -> io::Result<()> {
    match guard {
        Some(guard) => guard.dismiss().await,
        None => Ok(()),
    }
}
