//! Log lines on stderr.

mod event;
mod lines;

use std::io;
use std::sync::Arc;

use thiserror::Error;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::ParseError;
use tracing_subscriber::util::TryInitError;

pub use self::lines::Logging;
use crate::config::{Log, LogFormat};

/// The environment variable that goes before `log.level`.
pub const LEVEL_VARIABLE: &str = "STATEHOLD_LOG";

/// Why there is no log.
#[derive(Debug, Error)]
pub enum LoggingError {
    /// The level, of the settings or of the environment, is none.
    #[error("{origin}: {error}")]
    Level {
        /// Who said it.
        origin: &'static str,
        /// What is wrong with it.
        error: LevelError,
    },
    /// The system has no thread for it.
    #[error("cannot start the log: {0}")]
    Thread(#[from] io::Error),
    /// The process has a log already.
    #[error("logging was started before")]
    Started(#[from] TryInitError),
}

/// Text that is not a level.
#[derive(Debug, Error)]
#[error(
    "`{text}` is not a log level: write error, warn, info, debug or trace, or for example info,broker=debug"
)]
pub struct LevelError {
    text: String,
    source: Option<ParseError>,
}

/// Writes log lines to stderr from here on, for the whole process. What still waits is written when the result is dropped.
///
/// # Errors
/// If the level is none, or there is a log already.
pub fn start(settings: &Log) -> Result<Logging, LoggingError> {
    let filter = wanted(settings)?;
    let limit = Arc::new(event::Limit::new(settings.rate_max));
    let ended = Arc::clone(&limit);
    let (lines, logging) = lines::start(io::stderr(), move || ended.end_window())?;
    let colours = settings.format == LogFormat::Text && io::IsTerminal::is_terminal(&io::stderr());
    let format = settings.format;
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(lines)
        .with_ansi(colours)
        .event_format(event::Lines { format, limit })
        .finish();
    tracing_subscriber::util::SubscriberInitExt::try_init(subscriber)?;
    Ok(logging)
}

/// Whether the log can be started with these settings.
pub(crate) fn check(settings: &Log) -> Result<(), LoggingError> {
    wanted(settings).map(drop)
}

/// What the environment lets through, or else the settings.
fn wanted(settings: &Log) -> Result<EnvFilter, LoggingError> {
    let from_environment = std::env::var(LEVEL_VARIABLE)
        .ok()
        .filter(|level| !level.is_empty());
    let (level, origin) = match &from_environment {
        Some(level) => (level, LEVEL_VARIABLE),
        None => (&settings.level, "log.level"),
    };
    filter(level).map_err(|error| LoggingError::Level { origin, error })
}

/// What `log.level` lets through.
pub(crate) fn filter(level: &str) -> Result<EnvFilter, LevelError> {
    // `EnvFilter` takes a bare word for the name of a part of the program, so that `inof` would silence everything.
    let known = |directive: &str| match directive.rsplit_once('=') {
        Some((_, level)) => LEVELS.contains(&level),
        None => LEVELS.contains(&directive),
    };
    if !level.split(',').all(known) {
        return Err(LevelError {
            text: level.to_owned(),
            source: None,
        });
    }
    EnvFilter::builder().parse(level).map_err(|source| LevelError {
        text: level.to_owned(),
        source: Some(source),
    })
}

const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_told_from_what_is_none() {
        for level in [
            "info",
            "error",
            "off",
            "info,broker=debug",
            "server::driver=trace",
        ] {
            assert!(filter(level).is_ok(), "{level}");
        }
        for level in ["", "inof", "info,broker", "broker=loud", "info;debug"] {
            assert!(filter(level).is_err(), "{level:?}");
        }
    }
}
