//! `statehold scram`

use std::path::PathBuf;

use clap::Args;
use server::authentication::{ITERATIONS, Secret, entry};

use crate::exit::{Exit, UsageError};
use crate::{output, secret};

/// Write a line of the file of `authentication.scram`, for a client with a password.
///
/// The line does not contain the password, but who has it can try passwords: keep the file to yourself.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Scram {
    /// The client's name
    name: String,
    /// Read the password from this file; a line break at its end does not count [default: asked for, or a line from stdin]
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
    /// How often clients have to hash the password: more makes guessing slower, and connecting
    #[arg(long, value_name = "COUNT", default_value_t = ITERATIONS)]
    iterations: u32,
}

impl Scram {
    pub(crate) fn run(self) -> anyhow::Result<Exit> {
        let password = secret::read(self.password_file.as_deref())?;
        let secret = Secret::of_password(password.as_bytes(), self.iterations)
            .map_err(|error| UsageError(error.to_string()))?;
        let Some(line) = entry(&self.name, &secret) else {
            let why = "a name is one line of text, and does not begin with `#` or a space";
            return Err(UsageError(why.to_owned()).into());
        };
        output::line(line)?;
        Ok(Exit::Done)
    }
}

const EXAMPLES: &str = "\
Examples:
  statehold scram pump-7 --password-file secret >> clients.scram
  openssl rand -base64 18 | tee pump-7.password | statehold scram pump-7 >> clients.scram";
