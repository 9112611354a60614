//! `statehold config`

use std::path::PathBuf;

use clap::{Args, Subcommand};
use server::config::Config;

use crate::exit::{self, Exit, UsageError};
use crate::output;
use crate::serve::SettingsArgs;

/// Check a configuration file, or describe one.
#[derive(Debug, Args)]
pub(crate) struct ConfigCommand {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Say what is wrong with a file, by line, and with the files that it names; exit code 3 if anything is
    ///
    /// Certificates, keys, passwords, tokens and policies are read as the server reads them. Ports and the data directory are not looked at.
    /// With the options that the server is to be started with: a file may be right with them alone.
    Check {
        /// The file
        #[arg(default_value = "statehold.toml")]
        file: PathBuf,
        // In a box: the others have nothing.
        #[command(flatten)]
        settings: Box<SettingsArgs>,
    },
    /// Write the JSON schema of the file, for editors
    Schema,
    /// Write a file with every setting described and at its default
    Default,
}

impl ConfigCommand {
    pub(crate) fn run(self) -> anyhow::Result<Exit> {
        match self.action {
            Action::Check { file, settings } => {
                let config = Config::load(Some(&file), &settings.overrides())?;
                let warnings = server::check(&config).map_err(|error| UsageError(error.to_string()))?;
                for warning in warnings {
                    exit::note(&format!("warning: {warning}"));
                }
                output::line(format!("{} is valid", file.display()))?;
            }
            Action::Schema => output::line(Config::schema_json().trim_end())?,
            Action::Default => output::line(Config::default_toml().trim_end())?,
        }
        Ok(Exit::Done)
    }
}
