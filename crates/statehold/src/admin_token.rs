//! `statehold admin-token`

use clap::{Args, ValueEnum};
use server::admin::{Scope, new_token};

use crate::exit::{self, Exit, UsageError};
use crate::output;

/// Make a token for the admin pages, and its line for the file of `admin.tokens`.
///
/// The token is shown once, on stderr, and can be found nowhere afterwards; the line, on stdout, is of no use to who steals it.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct AdminToken {
    /// Whose it is, for the log
    name: String,
    /// What it is good for
    #[arg(long)]
    scope: ScopeArg,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum ScopeArg {
    /// Look at /metrics
    Read,
    /// That, and make backups: `statehold backup create`
    Backup,
    /// That, and change what can be changed: POST /reload
    Write,
}

impl AdminToken {
    pub(crate) fn run(self) -> anyhow::Result<Exit> {
        let scope = match self.scope {
            ScopeArg::Read => Scope::Read,
            ScopeArg::Backup => Scope::Backup,
            ScopeArg::Write => Scope::Write,
        };
        let Some((token, line)) = new_token(&self.name, scope) else {
            let why = "a name has no spaces and colons, and does not begin with `#`";
            return Err(UsageError(why.to_owned()).into());
        };
        output::line(line)?;
        exit::note(&format!("the token of {}, shown only now: {token}", self.name));
        Ok(Exit::Done)
    }
}

const EXAMPLES: &str = "\
Examples:
  statehold admin-token prometheus --scope read >> admin.tokens
  statehold admin-token ops --scope write >> admin.tokens
  curl -H \"Authorization: Bearer $TOKEN\" http://localhost:8080/metrics
  curl -H \"Authorization: Bearer $TOKEN\" -H \"Content-Type: application/json\" -X POST http://localhost:8080/reload";
