//! `statehold man`: the manual pages, of what `--help` says.

use std::path::PathBuf;

use anyhow::Context;
use clap::{Args, CommandFactory};

use crate::cli::Cli;
use crate::exit::Exit;

/// Write manual pages: one for `statehold`, and one for each of its commands.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Man {
    /// Where to; made if it is missing
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,
}

impl Man {
    pub(crate) fn run(self) -> anyhow::Result<Exit> {
        let dir = &self.dir;
        std::fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
        clap_mangen::generate_to(Cli::command().disable_help_subcommand(true), dir)
            .with_context(|| format!("cannot write to {}", dir.display()))?;
        Ok(Exit::Done)
    }
}

const EXAMPLES: &str = "\
Examples:
  statehold man --dir man && man man/statehold-serve.1
  statehold man --dir /usr/local/share/man/man1";
