//! Values: from an argument, a file, or stdin.

use std::io::{IsTerminal, Read};
use std::path::{Path, PathBuf};

use anyhow::Context;
use bytes::Bytes;
use clap::Args;

use crate::exit::UsageError;

/// A value: the argument, a file, or stdin if it is not a terminal.
#[derive(Debug, Args)]
pub(crate) struct ValueArgs {
    /// The value; without it and without --file it is read from stdin
    pub(crate) value: Option<String>,
    /// Read the value from this file, byte for byte (-: stdin)
    #[arg(long, short = 'f', conflicts_with = "value")]
    pub(crate) file: Option<PathBuf>,
}

impl ValueArgs {
    pub(crate) fn read(self) -> anyhow::Result<Bytes> {
        match (self.value, self.file) {
            (Some(value), _) => Ok(Bytes::from(value)),
            (None, Some(file)) if file == Path::new("-") => stdin(),
            (None, Some(file)) => {
                let value =
                    std::fs::read(&file).with_context(|| format!("cannot read {}", file.display()))?;
                Ok(Bytes::from(value))
            }
            (None, None) if std::io::stdin().is_terminal() => Err(UsageError(
                "no value: give it as an argument, with --file, or on stdin".to_owned(),
            )
            .into()),
            (None, None) => stdin(),
        }
    }
}

fn stdin() -> anyhow::Result<Bytes> {
    let mut value = Vec::new();
    std::io::stdin()
        .lock()
        .read_to_end(&mut value)
        .context("cannot read stdin")?;
    Ok(Bytes::from(value))
}
