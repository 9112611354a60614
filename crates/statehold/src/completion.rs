//! `statehold completion`: what a shell needs to complete commands and options.

use clap::{Args, CommandFactory, ValueEnum};
use clap_complete::Shell;

use crate::cli::Cli;
use crate::exit::Exit;
use crate::output;

/// Print the completions of commands and options for a shell.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Completion {
    /// Which
    shell: ShellArg,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum ShellArg {
    Bash,
    Zsh,
    Fish,
    Powershell,
}

impl Completion {
    pub(crate) fn run(self) -> anyhow::Result<Exit> {
        let shell = match self.shell {
            ShellArg::Bash => Shell::Bash,
            ShellArg::Zsh => Shell::Zsh,
            ShellArg::Fish => Shell::Fish,
            ShellArg::Powershell => Shell::PowerShell,
        };
        let mut script = Vec::new();
        clap_complete::generate(shell, &mut Cli::command(), "statehold", &mut script);
        output::raw(&script)?;
        Ok(Exit::Done)
    }
}

const EXAMPLES: &str = "\
Examples:
  statehold completion bash > /etc/bash_completion.d/statehold
  statehold completion zsh > ~/.zfunc/_statehold               with `fpath+=~/.zfunc` before `compinit` in .zshrc
  statehold completion fish > ~/.config/fish/completions/statehold.fish
  statehold completion powershell >> $PROFILE";
