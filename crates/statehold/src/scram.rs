//! `statehold scram`

use std::io::{BufRead, IsTerminal};
use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use server::authentication::{ITERATIONS, Secret, entry};

use crate::exit::{Exit, UsageError};
use crate::output;

/// Write a line of the file of `authentication.scram`, for a client with a password.
///
/// The line does not contain the password, but who has it can try passwords: keep the file to yourself.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Scram {
    /// The client's name
    name: String,
    /// Read the password from this file; a line break at its end does not count [default: a line from stdin]
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
    /// How often clients have to hash the password: more makes guessing slower, and connecting
    #[arg(long, value_name = "COUNT", default_value_t = ITERATIONS)]
    iterations: u32,
}

impl Scram {
    pub(crate) fn run(self) -> anyhow::Result<Exit> {
        let password = self.password()?;
        let secret = Secret::of_password(password.as_bytes(), self.iterations)
            .map_err(|error| UsageError(error.to_string()))?;
        let Some(line) = entry(&self.name, &secret) else {
            let why = "a name is one line of text, and does not begin with `#` or a space";
            return Err(UsageError(why.to_owned()).into());
        };
        output::line(line)?;
        Ok(Exit::Done)
    }

    fn password(&self) -> anyhow::Result<String> {
        let mut password = String::new();
        match &self.password_file {
            Some(file) => {
                password = std::fs::read_to_string(file)
                    .with_context(|| format!("cannot read {}", file.display()))?;
            }
            None if std::io::stdin().is_terminal() => {
                // It would be shown while it is typed.
                let why = "no password: give it with --password-file, or on stdin";
                return Err(UsageError(why.to_owned()).into());
            }
            None => {
                let read = std::io::stdin().lock().read_line(&mut password);
                read.context("cannot read stdin")?;
            }
        }
        if password.ends_with('\n') {
            password.pop();
        }
        if password.ends_with('\r') {
            password.pop();
        }
        Ok(password)
    }
}

const EXAMPLES: &str = "\
Examples:
  statehold scram pump-7 --password-file secret >> clients.scram
  openssl rand -base64 18 | tee pump-7.password | statehold scram pump-7 >> clients.scram";
