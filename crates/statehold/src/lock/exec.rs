//! Process that becomes the command of `statehold lock` at a terminal, and gets SIGKILL when that is gone.
//!
//! The command shares the process group of `statehold lock` there, and of what has started that: no guard may stop this group. The
//! kernel sends the parent-death signal to the command alone; a program with more privileges (setuid) does not get it.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

use anyhow::Context;
use clap::Args;
use rustix::process::{Pid, getppid};

use crate::exit::Exit;

/// Become the command of `statehold lock`. Started by `statehold lock` itself.
#[derive(Debug, Args)]
pub(crate) struct LockExec {
    /// Process id of `statehold lock`
    parent: i32,
    /// The command and its arguments
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

impl LockExec {
    pub(crate) fn run(self) -> anyhow::Result<Exit> {
        die_with_parent()?;
        // It may have gone before the signal was asked for.
        if getppid() != Pid::from_raw(self.parent) {
            return Ok(Exit::LockLost);
        }
        let [program, arguments @ ..] = self.command.as_slice() else {
            return Ok(Exit::Usage);
        };
        let error = Command::new(program).args(arguments).exec();
        Err(error).with_context(|| format!("cannot run {}", program.display()))
    }
}

#[cfg(target_os = "linux")]
fn die_with_parent() -> io::Result<()> {
    let killed = Some(rustix::process::Signal::KILL);
    Ok(rustix::process::set_parent_process_death_signal(killed)?)
}

/// Other systems have no such signal.
#[cfg(not(target_os = "linux"))]
fn die_with_parent() -> io::Result<()> {
    Ok(())
}
