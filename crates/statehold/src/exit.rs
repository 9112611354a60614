//! How the process ends: codes that scripts can rely on.

use std::io;
use std::process::ExitCode;

use client::{ConnectError, LockError, OperationError, PublishError, StoreError, SubscribeError, TopicError};
use server::{AdminClientError, ClientTlsError, ConnectTlsError};

use crate::output;

/// How the process ends; the list in `statehold --help`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    Done,
    NotFound,
    /// An import has not carried over everything.
    LeftOut,
    Refused,
    Usage,
    NoAnswer,
    Failed,
    LockLost,
    /// What another command ended with.
    Code(u8),
}

/// Arguments or settings that cannot be used.
#[derive(Debug)]
pub(crate) struct UsageError(pub(crate) String);

impl std::fmt::Display for UsageError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for UsageError {}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(match exit {
            Exit::Done => 0,
            Exit::NotFound | Exit::LeftOut => 1,
            Exit::Refused => 2,
            Exit::Usage => 3,
            Exit::NoAnswer => 4,
            Exit::Failed => 5,
            Exit::LockLost => 6,
            Exit::Code(code) => code,
        })
    }
}

/// Says what went wrong, and ends with the code that stands for it.
pub(crate) fn report(error: &anyhow::Error) -> ExitCode {
    // `statehold get | head` is not a failure.
    if is_closed_pipe(error) {
        return Exit::Done.into();
    }
    note(&told(error));
    exit_of(error).into()
}

/// An error and its causes in one line, each once: some errors say their cause themselves.
pub(crate) fn told(error: &anyhow::Error) -> String {
    let mut line = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !line.contains(&cause) {
            line.extend([": ", &cause]);
        }
    }
    line
}

/// Says something on stderr: stdout is for what a command was asked for. Where nobody can be told, the exit code says it.
pub(crate) fn note(text: &str) {
    output::said(text);
}

fn is_closed_pipe(error: &anyhow::Error) -> bool {
    error
        .downcast_ref::<io::Error>()
        .is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

fn exit_of(error: &anyhow::Error) -> Exit {
    error.chain().find_map(known).unwrap_or(Exit::Failed)
}

fn known(error: &(dyn std::error::Error + 'static)) -> Option<Exit> {
    if error.is::<UsageError>()
        || error.is::<TopicError>()
        || error.is::<server::config::ConfigError>()
        || error.is::<server::logging::LoggingError>()
        // All are about files that the command names.
        || error.is::<ClientTlsError>()
        || matches!(error.downcast_ref(), Some(ConnectTlsError::Files(_)))
    {
        return Some(Exit::Usage);
    }
    if let Some(error) = error.downcast_ref::<AdminClientError>() {
        return Some(match error {
            AdminClientError::Refused { status: 503, .. } | AdminClientError::NoAnswer { .. } => {
                Exit::NoAnswer
            }
            AdminClientError::Refused { .. } => Exit::Refused,
            AdminClientError::Url(_) | AdminClientError::Token | AdminClientError::Tls(_) => Exit::Usage,
            AdminClientError::Foreign => Exit::Failed,
        });
    }
    if let Some(error) = error.downcast_ref::<ConnectError>() {
        return Some(of_connect(error));
    }
    if let Some(error) = error.downcast_ref::<StoreError>() {
        return Some(of_store(error));
    }
    if let Some(error) = error.downcast_ref::<LockError>() {
        return Some(match error {
            LockError::NotInTime => Exit::NotFound,
            LockError::Store(error) => of_store(error),
        });
    }
    if let Some(error) = error.downcast_ref::<SubscribeError>() {
        return Some(match error {
            SubscribeError::Filter { .. } => Exit::Usage,
            SubscribeError::Operation(error) => of_operation(error),
        });
    }
    if let Some(error) = error.downcast_ref::<PublishError>() {
        return Some(match error {
            PublishError::Topic(_) => Exit::Usage,
            PublishError::Operation(error) => of_operation(error),
        });
    }
    error.downcast_ref::<OperationError>().map(of_operation)
}

fn of_connect(error: &ConnectError) -> Exit {
    match error {
        ConnectError::Options(_) => Exit::Usage,
        ConnectError::Transport { .. } => Exit::NoAnswer,
        ConnectError::Lost {
            cause: client::LossCause::Refused { .. },
            ..
        } => Exit::Refused,
        ConnectError::Lost { .. } => Exit::NoAnswer,
    }
}

fn of_store(error: &StoreError) -> Exit {
    match error {
        StoreError::Refused(_) => Exit::Refused,
        StoreError::Operation(error) => of_operation(error),
    }
}

fn of_operation(error: &OperationError) -> Exit {
    match error {
        OperationError::Refused { .. }
        | OperationError::RefusedByStore { .. }
        | OperationError::TooLarge { .. }
        | OperationError::NotSupported { .. }
        | OperationError::Status { .. } => Exit::Refused,
        OperationError::TimedOut
        | OperationError::Ended
        | OperationError::SessionLost
        | OperationError::QueueFull => Exit::NoAnswer,
        OperationError::MalformedReply => Exit::Failed,
    }
}

#[cfg(test)]
mod tests {
    use anyhow::Context;

    use super::*;

    fn no_certificate() -> ClientTlsError {
        ClientTlsError::NoCertificate {
            file: "ca.pem".into(),
        }
    }

    #[test]
    fn each_failure_has_its_code_also_below_a_context() {
        let refused = StoreError::Refused(client::ErrorText::QuotaExceeded);
        for (error, exit) in [
            (anyhow::Error::new(UsageError("no".to_owned())), Exit::Usage),
            (
                Err::<(), _>(refused).context("while setting").unwrap_err(),
                Exit::Refused,
            ),
            (
                StoreError::Operation(OperationError::TimedOut).into(),
                Exit::NoAnswer,
            ),
            (LockError::NotInTime.into(), Exit::NotFound),
            (no_certificate().into(), Exit::Usage),
            (AdminClientError::Tls(no_certificate()).into(), Exit::Usage),
            (ConnectTlsError::Files(no_certificate()).into(), Exit::Usage),
            (anyhow::anyhow!("something else"), Exit::Failed),
        ] {
            assert_eq!(exit_of(&error), exit, "{error:#}");
        }
    }

    #[test]
    fn a_cause_is_told_once() {
        let full = anyhow::anyhow!("the disk is full")
            .context("cannot write a: the disk is full")
            .context("stopped");
        assert_eq!(told(&full), "stopped: cannot write a: the disk is full");
        assert_eq!(told(&anyhow::anyhow!("b").context("a")), "a: b");
    }
}
