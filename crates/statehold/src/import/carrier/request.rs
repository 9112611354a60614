//! One request, which is sent again where that helps.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use client::{Client, ErrorText, Message, OperationError, SetOptions, SetOutcome, StateStore, StoreError};
use server::clock;

use super::look::Look;

/// How a request ended.
#[derive(Debug)]
pub(super) enum Ended {
    /// It is here.
    CarriedOver { what: &'static str, bytes: u64 },
    /// It is not, and need not be.
    PassedOver(&'static str),
    /// The server does not take it.
    LeftOut { name: Bytes, why: Cow<'static, str> },
    /// The server cannot be reached any more: the others would fail as well.
    Stopped(anyhow::Error),
}

pub(super) const EXPIRED: &str = "had expired";
pub(super) const RETAINED: &str = "retained messages";
pub(in crate::import) const PRESENT: &str = "were there already (--if-absent)";

/// Sets a key.
#[derive(Debug)]
pub(super) struct Set {
    pub(super) store: StateStore,
    /// What it was called.
    pub(super) source: Bytes,
    pub(super) key: Bytes,
    pub(super) value: Bytes,
    pub(super) expires_at: Option<u64>,
    pub(super) if_absent: bool,
}

/// Times that a request is sent while nobody answers. Each waits as long as `--timeout` says.
const ATTEMPTS_MAX: u32 = 8;

/// Before the second one; then twice as long each time.
const FIRST_WAIT: Duration = Duration::from_millis(100);

impl Set {
    pub(super) async fn run(self) -> Ended {
        let mut attempt = 0;
        loop {
            let Some(options) = self.options(attempt > 0) else {
                return Ended::PassedOver(EXPIRED);
            };
            let set = self.store.set(self.key.clone(), self.value.clone(), options);
            let error = match set.await {
                Ok(SetOutcome::Stored { .. }) => {
                    return Ended::CarriedOver {
                        what: "keys",
                        bytes: (self.key.len() + self.value.len()) as u64,
                    };
                }
                Ok(SetOutcome::NotApplied { .. }) => return Ended::PassedOver(PRESENT),
                Err(error) => error,
            };
            match verdict(&error) {
                Verdict::Again if attempt < ATTEMPTS_MAX => wait(attempt).await,
                Verdict::Again | Verdict::Stop => return Ended::Stopped(error.into()),
                Verdict::LeaveOut(why) => {
                    let name = self.source;
                    return Ended::LeftOut { name, why };
                }
            }
            attempt += 1;
        }
    }

    /// `None`: it has expired. Of a request that may have been executed a second one must not find that the key is there.
    fn options(&self, is_repeated: bool) -> Option<SetOptions> {
        let mut options = SetOptions::new();
        if self.if_absent {
            options = if is_repeated {
                options.if_absent_or_equal()
            } else {
                options.if_absent()
            };
        }
        if let Some(at) = self.expires_at {
            let left = at.checked_sub(clock::wall()).filter(|left| *left > 0)?;
            options = options.expires_in(Duration::from_millis(left));
        }
        Some(options)
    }
}

/// Publishes a message that is to be retained; with a look, only where there is none.
pub(super) async fn publish(client: Client, message: Message, look: Option<Arc<Look>>) -> Ended {
    let mut attempt = 0;
    loop {
        let (error, is_looking) = match published(&client, &message, look.as_deref()).await {
            Ok(None) => return carried_over(&message),
            // The answer to an earlier attempt has not come.
            Ok(Some(there)) if attempt > 0 && there == message.payload => return carried_over(&message),
            Ok(Some(_)) => return Ended::PassedOver(PRESENT),
            Err(failed) => failed,
        };
        match verdict(&StoreError::Operation(error.clone())) {
            Verdict::Again if attempt < ATTEMPTS_MAX => wait(attempt).await,
            Verdict::Again | Verdict::Stop => return Ended::Stopped(error.into()),
            Verdict::LeaveOut(why) => {
                let name = Bytes::copy_from_slice(message.topic.as_str().as_bytes());
                let why = match is_looking {
                    true => {
                        format!("whether there is one already cannot be seen (--if-absent): {why}").into()
                    }
                    false => why,
                };
                return Ended::LeftOut { name, why };
            }
        }
        attempt += 1;
    }
}

/// What is there instead, if anything is; on failure, whether that was in looking for it.
async fn published(
    client: &Client,
    message: &Message,
    look: Option<&Look>,
) -> Result<Option<Bytes>, (OperationError, bool)> {
    if let Some(look) = look {
        let there = look.at(message.topic.as_str()).await;
        if let Some(there) = there.map_err(|error| (error, true))? {
            return Ok(Some(there));
        }
    }
    let done = client.publish(message.clone()).await;
    done.map(|_| None).map_err(|error| (error, false))
}

fn carried_over(message: &Message) -> Ended {
    Ended::CarriedOver {
        what: RETAINED,
        bytes: (message.payload.len() + message.topic.as_str().len()) as u64,
    }
}

/// What an error means for what was to be carried over.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Again,
    LeaveOut(Cow<'static, str>),
    Stop,
}

fn verdict(error: &StoreError) -> Verdict {
    match error {
        StoreError::Refused(ErrorText::Unavailable)
        | StoreError::Operation(
            OperationError::TimedOut | OperationError::QueueFull | OperationError::SessionLost,
        ) => Verdict::Again,
        // The clock of this machine: it would be the same with every key.
        StoreError::Refused(ErrorText::TimestampAhead)
        | StoreError::Operation(OperationError::Ended | OperationError::NotSupported { .. }) => Verdict::Stop,
        StoreError::Operation(OperationError::TooLarge { limit, .. }) => {
            let why = format!("larger than the server takes, {limit} bytes (limits.packet_size_max)");
            Verdict::LeaveOut(why.into())
        }
        other => Verdict::LeaveOut(other.to_string().into()),
    }
}

async fn wait(attempt: u32) {
    tokio::time::sleep(FIRST_WAIT * 2_u32.pow(attempt)).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_may_end_well_is_asked_for_again() {
        let unavailable = StoreError::Refused(ErrorText::Unavailable);
        assert_eq!(verdict(&unavailable), Verdict::Again);
        assert_eq!(verdict(&OperationError::TimedOut.into()), Verdict::Again);
        assert_eq!(verdict(&OperationError::Ended.into()), Verdict::Stop);
        let refused = StoreError::Refused(ErrorText::NotAuthorized);
        let Verdict::LeaveOut(why) = verdict(&refused) else {
            panic!("{:?}", verdict(&refused));
        };
        assert!(why.contains("not authorized"), "{why}");
        // One reason for all of them, whatever their sizes.
        let too_large = |size| verdict(&OperationError::TooLarge { size, limit: 9 }.into());
        assert_eq!(too_large(10), too_large(11));
    }
}
