//! Process that ends the command when `statehold lock` is gone, however it went: SIGKILL leaves no time to do it oneself.
//!
//! The guard reads a pipe whose other end only `statehold lock` has. When the pipe ends without a goodbye, the guard stops its process
//! group, which the command is in with all that it has started: SIGTERM, and SIGKILL after the grace. The signals that
//! `statehold lock` passes on to the group do nothing to the guard.
//!
//! A parent-death signal of the kernel would reach the command alone, and could not be SIGTERM first and SIGKILL later.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use rustix::process::{Pid, Signal, getpid, kill_process_group};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, Command};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::sleep;

use crate::exit::Exit;
use crate::output;
use crate::runtime::block_on;

/// End the command of `statehold lock` when that is gone. Started by `statehold lock` itself.
#[derive(Debug, Args)]
pub(crate) struct LockGuard {
    /// Milliseconds from SIGTERM to SIGKILL
    grace_ms: u64,
}

/// A running guard, as `statehold lock` has it. Dropped without [`dismiss`](Self::dismiss), it stops its group.
#[derive(Debug)]
pub(super) struct Guard {
    child: Child,
    pipe: ChildStdin,
    group: Pid,
}

const READY: &str = "ready";
const DONE: &str = "done";

impl Guard {
    /// Starts a guard, and waits until signals do nothing to it.
    pub(super) async fn start(grace: Duration) -> anyhow::Result<Self> {
        let grace_ms = u64::try_from(grace.as_millis()).unwrap_or(u64::MAX);
        let mut child = Command::new(own_program()?)
            .args(["lock-guard", &grace_ms.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .context("cannot start the guard of the command")?;
        let group = pid_of(&child).context("the guard has no process id")?;
        let pipe = child.stdin.take().context("the guard has no stdin")?;
        let said = child.stdout.take().context("the guard has no stdout")?;
        let said = BufReader::new(said).lines().next_line().await?;
        if said.as_deref() != Some(READY) {
            anyhow::bail!("the guard of the command has ended");
        }
        Ok(Self { child, pipe, group })
    }

    /// The process group that it leads.
    pub(super) fn group(&self) -> Pid {
        self.group
    }

    /// Ends it: the command has ended.
    pub(super) async fn dismiss(self) -> io::Result<()> {
        let Self {
            mut child, mut pipe, ..
        } = self;
        // It may have been killed with the group.
        let _ = pipe.write_all(format!("{DONE}\n").as_bytes()).await;
        // It reads to the end of the pipe.
        drop(pipe);
        child.wait().await?;
        Ok(())
    }
}

impl LockGuard {
    pub(crate) fn run(self) -> anyhow::Result<Exit> {
        block_on(async {
            let passed_on = [
                SignalKind::terminate(),
                SignalKind::interrupt(),
                SignalKind::quit(),
                SignalKind::hangup(),
            ];
            let _without_effect = passed_on
                .map(signal)
                .into_iter()
                .collect::<io::Result<Vec<_>>>()?;
            output::line(READY)?;
            let said = io::read_to_string(io::stdin().lock())?;
            if said.trim_end() != DONE {
                kill_process_group(getpid(), Signal::TERM)?;
                sleep(Duration::from_millis(self.grace_ms)).await;
                kill_process_group(getpid(), Signal::KILL)?;
            }
            Ok(Exit::Done)
        })
    }
}

pub(super) fn pid_of(child: &Child) -> Option<Pid> {
    Pid::from_raw(i32::try_from(child.id()?).ok()?)
}

/// The running program: its file may have been replaced since.
pub(super) fn own_program() -> io::Result<PathBuf> {
    let own = Path::new("/proc/self/exe");
    if own.exists() {
        Ok(own.to_owned())
    } else {
        std::env::current_exe()
    }
}
