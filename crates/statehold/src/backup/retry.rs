//! Repeated tries of what fails while a node restarts, or while a group elects its leader.

use std::time::{Duration, Instant};

use server::{AdminClientError, clock};

use crate::exit;

/// Failure that may be over soon.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct Passing(pub(super) String);

/// Tries of one thing, until it succeeds or the time for it is over.
#[derive(Debug)]
pub(super) struct Tries {
    /// When it failed first.
    began: Option<Instant>,
    time: Duration,
    said: String,
}

/// Pause between two tries: an election takes longer.
const PAUSE: Duration = Duration::from_millis(500);

impl Tries {
    /// Tries for so long after the first failure.
    pub(super) fn within(time: Duration) -> Self {
        Self {
            began: None,
            time,
            said: String::new(),
        }
    }

    /// Waits before the next try, and says on stderr why there is one.
    ///
    /// # Errors
    /// The error itself, if it does not pass, or if the time is over.
    pub(super) async fn after(&mut self, error: anyhow::Error) -> anyhow::Result<()> {
        let now = clock::instant();
        let began = *self.began.get_or_insert(now);
        let left = self.time.saturating_sub(now.duration_since(began));
        if left.is_zero() || !is_passing(&error) {
            return Err(error);
        }
        let told = exit::told(&error);
        if told != self.said {
            exit::note(&format!("{told}; trying again for {} s", left.as_secs().max(1)));
            self.said = told;
        }
        tokio::time::sleep(PAUSE.min(left)).await;
        Ok(())
    }
}

/// Whether the same may succeed later.
fn is_passing(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause.is::<Passing>()
            || matches!(
                cause.downcast_ref(),
                Some(
                    AdminClientError::NoAnswer { .. }
                        | AdminClientError::Refused {
                            status: 409 | 503,
                            ..
                        }
                )
            )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exit::UsageError;

    fn refused(status: u16) -> anyhow::Error {
        let why = "no".to_owned();
        AdminClientError::Refused { status, why }.into()
    }

    #[test]
    fn only_what_passes_is_tried_again() {
        let unanswered = AdminClientError::NoAnswer {
            url: "http://a:8080".to_owned(),
            error: "connection refused".to_owned(),
        };
        for passing in [
            refused(409),
            refused(503),
            unanswered.into(),
            anyhow::Error::new(Passing("it moves".to_owned())).context("while it was read"),
        ] {
            assert!(is_passing(&passing), "{passing:#}");
        }
        for lasting in [
            refused(401),
            refused(403),
            refused(404),
            UsageError("no".to_owned()).into(),
        ] {
            assert!(!is_passing(&lasting), "{lasting:#}");
        }
    }
}
