//! What a method says of a client's credentials.

use std::borrow::Cow;

use mqtt::authentication::Answer;
use protocol::ReasonCode;

/// What a method says of a client's credentials.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    /// They are of another kind: the next one is asked.
    NotMine,
    /// They are of its kind, and it does not know them: the next one is asked, and the client is refused so if none takes them.
    Unknown(Refusal),
    /// The client is let in, or has to say more.
    Answer(Answer),
    /// The client is refused, and no other method is asked.
    Refused(Refusal),
}

/// Why a client is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) cause: Cause,
    /// For the client.
    pub(super) reason: ReasonCode,
    /// For the operator and the client. Nothing in it may help to find out which credentials exist.
    pub(super) why: Cow<'static, str>,
}

/// Causes of refusals, as metrics tell them apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Cause {
    /// What the client said proves nothing. The only cause that counts as a failed attempt of its address.
    Credentials,
    /// Too many attempts of the client's address have failed.
    Attempts,
    /// The client said nothing.
    Missing,
    /// The client said something that none of the listener's methods takes.
    Unsupported,
    /// More clients are being authenticated with the method than may be.
    Busy,
    /// What the method needs cannot be reached, or did not answer in time.
    Unavailable,
}

impl Cause {
    /// As metrics call it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Credentials => "credentials",
            Self::Attempts => "attempts",
            Self::Missing => "missing",
            Self::Unsupported => "unsupported",
            Self::Busy => "busy",
            Self::Unavailable => "unavailable",
        }
    }
}

impl Verdict {
    /// What the client said proves nothing.
    pub(super) fn wrong(reason: ReasonCode, why: impl Into<Cow<'static, str>>) -> Self {
        Self::Refused(Refusal::wrong(reason, why))
    }

    /// Too many others are being authenticated.
    pub(super) fn busy() -> Self {
        Self::Refused(Refusal {
            cause: Cause::Busy,
            reason: ReasonCode::ServerBusy,
            why: "too many clients say who they are".into(),
        })
    }
}

impl Refusal {
    /// What the client said proves nothing.
    pub(super) fn wrong(reason: ReasonCode, why: impl Into<Cow<'static, str>>) -> Self {
        Self {
            cause: Cause::Credentials,
            reason,
            why: why.into(),
        }
    }

    /// Too many attempts of the client's address have failed.
    pub(super) fn too_many() -> Self {
        Self {
            cause: Cause::Attempts,
            reason: ReasonCode::ConnectionRateExceeded,
            why: "too many attempts from this address have failed".into(),
        }
    }

    /// It cannot be found out at the moment.
    pub(super) fn unavailable(why: impl Into<Cow<'static, str>>) -> Self {
        Self {
            cause: Cause::Unavailable,
            reason: ReasonCode::ServerUnavailable,
            why: why.into(),
        }
    }
}
