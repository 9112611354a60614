//! `statehold backup`: everything that a cluster has, in one file, and back.

mod create;
mod nodes;
mod progress;
mod restore;
mod retry;
mod verify;

use clap::{Args, Subcommand};

use self::create::Create;
use self::restore::Restore;
use self::verify::Verify;
use crate::exit::Exit;

/// Make a backup of a server or cluster while it serves, check it, and put it back.
///
/// A backup is one file with all keys of the state store, retained messages, and durable sessions with what waits for them. It is
/// not encrypted: whoever can read the file can read all messages in it.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct BackupCommand {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Write a backup of a running server or cluster to a file
    ///
    /// Needs a token of the scope `backup` or `write`. Each group of the state store is as of one moment, and each session; different ones are of different
    /// moments while the command runs. The file has its name only when it is whole; if anything is missing, there is none. What fails because a node
    /// restarts is tried again (--retry-for), and each time the reason is shown on stderr.
    Create(Create),
    /// Check a file, and show what is in it; no server is needed
    Verify(Verify),
    /// Put a backup into a running server or cluster of any number of nodes, which is to be empty
    ///
    /// Needs a token of the scope `write`. Keys keep their versions and fencing tokens, and what is written afterwards gets greater ones. If the
    /// command is broken off, run it again with --merge: what is back already stays as it is.
    Restore(Restore),
}

impl BackupCommand {
    pub(crate) fn run(self) -> anyhow::Result<Exit> {
        match self.what {
            What::Create(create) => create.run(),
            What::Verify(verify) => verify.run(),
            What::Restore(restore) => restore.run(),
        }
    }
}

const EXAMPLES: &str = "\
Examples:
  statehold backup create nightly.backup --token-file token
  statehold backup create nightly.backup --admin http://a:8080 --also http://b:8080 --also http://c:8080
  statehold backup create last.backup --allow-missing --unsafe        the last disk of a cluster, without a majority
  statehold backup verify nightly.backup
  statehold backup restore nightly.backup --admin http://d:8080 --also http://e:8080

All nodes of a cluster have to be named: each has sessions that no other one has. The variables STATEHOLD_ADMIN and
STATEHOLD_ADMIN_TOKEN stand for the options.";
