//! `statehold lock`

pub(crate) mod exec;
pub(crate) mod guard;
mod running;

use std::ffi::OsString;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use client::{Client, LockOptions};
use rustix::process::Signal;
use tokio::signal::unix::{Signal as Signals, SignalKind, signal};
use tokio::time::timeout;

use self::running::Running;
use crate::duration;
use crate::exit::{self, Exit};
use crate::runtime::block_on;
use crate::server::ServerArgs;

/// Run a command while holding a lock.
///
/// Waits for the lock, runs the command, renews the lock while it runs, and gives it back. The command finds the
/// fencing token in STATEHOLD_FENCING_TOKEN: writes that carry it (`statehold set --fencing-token`) are refused once
/// somebody else had the lock and wrote with theirs.
///
/// The command gets SIGTERM, and SIGKILL after --grace, when somebody else has the lock, and when the lock could not be
/// renewed and its lease ends in --grace (in a third of the lease, if that is shorter). So by default the command has
/// ended when the lease does. The exit code is 6 then.
///
/// SIGTERM, SIGINT, SIGQUIT and SIGHUP are handed on to the command and to all that it has started. If this process is
/// killed, they get SIGTERM, and SIGKILL after --grace. Where stdin is a terminal, the command shares the process group
/// of this one, so that it can read from the terminal. Then signals reach the command alone, and it gets SIGKILL at once
/// if this process is killed.
///
/// Otherwise the exit code is that of the command, 128 and the number of the signal if it was killed by one. Exit code 1
/// without the command having run: the lock was not free in time.
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
    /// How long the command may take to end after SIGTERM [default: a fifth of the lease, at most 10s]
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    grace: Option<Duration>,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
    #[command(flatten)]
    server: ServerArgs,
}

/// Signals that are handed on to the command.
struct HandedOn {
    terminated: Signals,
    interrupted: Signals,
    quit: Signals,
    hung_up: Signals,
}

/// Longest grace by default.
const GRACE_MAX: Duration = Duration::from_secs(10);

impl Lock {
    pub(crate) fn run(self) -> anyhow::Result<Exit> {
        block_on(async {
            let client = Client::connect(self.server.lasting_options()?).await?;
            let lock =
                client::Lock::acquire(&client.state_store(), self.name.clone(), self.options()).await?;
            let exit = self.run_with(&lock).await;
            // The command has ended; a lock that cannot be given back ends with its lease.
            let released = match exit {
                Ok(Exit::LockLost) => timeout(self.lease, lock.release()).await.unwrap_or(Ok(())),
                _ => lock.release().await,
            };
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

    /// Time from SIGTERM to SIGKILL.
    fn grace(&self) -> Duration {
        self.grace.unwrap_or_else(|| GRACE_MAX.min(self.lease / 5))
    }

    async fn run_with(&self, lock: &client::Lock) -> anyhow::Result<Exit> {
        let mut signals = HandedOn::new()?;
        let token = lock.token().to_string();
        let variables = [
            ("STATEHOLD_FENCING_TOKEN", token.as_str()),
            ("STATEHOLD_LOCK", &self.name),
        ];
        let mut running = Running::start(&self.command, variables, self.grace()).await?;
        let exit = loop {
            tokio::select! {
                status = running.ended() => break exit_of(status?),
                why = self.must_stop(lock) => {
                    exit::note(&format!("the lock {} {why}; stopping the command", self.name));
                    running.stop(self.grace()).await?;
                    break Exit::LockLost;
                }
                signal = signals.next() => running.pass_on(signal),
            }
        };
        running.dismiss_guard().await?;
        Ok(exit)
    }

    /// Waits until the command has to be stopped, and says why: so early that it has ended when the lease does.
    async fn must_stop(&self, lock: &client::Lock) -> String {
        // Two renewals have failed by then.
        let left = self.grace().min(self.lease / 3);
        tokio::select! {
            biased;
            lost = lock.lost() => format!("is lost: {lost}"),
            () = lock.lease_ends_within(left) => format!("is not renewed, and its lease ends in {left:?}"),
        }
    }
}

impl HandedOn {
    fn new() -> io::Result<Self> {
        Ok(Self {
            terminated: signal(SignalKind::terminate())?,
            interrupted: signal(SignalKind::interrupt())?,
            quit: signal(SignalKind::quit())?,
            hung_up: signal(SignalKind::hangup())?,
        })
    }

    async fn next(&mut self) -> Signal {
        tokio::select! {
            _ = self.terminated.recv() => Signal::TERM,
            _ = self.interrupted.recv() => Signal::INT,
            _ = self.quit.recv() => Signal::QUIT,
            _ = self.hung_up.recv() => Signal::HUP,
        }
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

#[cfg(test)]
mod tests {
    use clap::Parser;

    use crate::cli::{Cli, Command};

    fn grace(options: &str) -> String {
        let line = format!("statehold lock job {options} -- true");
        let Ok(Cli {
            command: Command::Lock(lock),
        }) = Cli::try_parse_from(line.split_whitespace())
        else {
            panic!("{line}");
        };
        format!("{:?}", lock.grace())
    }

    #[test]
    fn the_grace_is_within_the_lease_unless_it_is_given() {
        assert_eq!(grace(""), "2s");
        assert_eq!(grace("--lease 300ms"), "60ms");
        assert_eq!(grace("--lease 5m"), "10s");
        assert_eq!(grace("--lease 1s --grace 1m"), "60s");
        assert_eq!(grace("--grace 0"), "0ns");
    }
}
