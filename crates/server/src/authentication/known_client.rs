//! A client that a server elsewhere knows, and for how long it does.

use std::time::Duration;

use bytes::Bytes;
use mqtt::authentication::Answer;
use mqtt::principal::Principal;
use protocol::ReasonCode;

use super::verdict::Verdict;
use crate::clock;

/// Somebody who is let in.
#[derive(Debug, Clone)]
pub(super) struct KnownClient {
    pub(super) principal: Principal,
    /// In milliseconds since the Unix epoch. `None`: what it was known by does not expire.
    pub(super) expires_at: Option<u64>,
}

/// Longer than a connection lasts. What is added to a clock has to have an end.
const EXPIRES_IN_MOST: Duration = Duration::from_secs(10 * 366 * 24 * 3_600);

impl KnownClient {
    /// Whether it is let in now, and with which Authentication Data.
    pub(super) fn verdict(&self, data: Option<Bytes>) -> Verdict {
        let left = self.expires_at.map(|at| at.saturating_sub(clock::wall()));
        if left == Some(0) {
            return Verdict::wrong(ReasonCode::NotAuthorized, "the client's credentials have expired");
        }
        Verdict::Answer(Answer::Accept {
            principal: Some(self.principal.clone()),
            data,
            expires_in: left.map(|left| Duration::from_millis(left).min(EXPIRES_IN_MOST)),
        })
    }
}

#[cfg(test)]
mod tests {
    use protocol::Text;

    use super::*;

    fn expires_in(expires_at: Option<u64>) -> Result<Option<Duration>, Verdict> {
        let known = KnownClient {
            principal: Principal::named(Text::from_static("pump")),
            expires_at,
        };
        match known.verdict(None) {
            Verdict::Answer(Answer::Accept { expires_in, .. }) => Ok(expires_in),
            other => Err(other),
        }
    }

    #[test]
    fn a_client_is_let_in_for_as_long_as_it_is_known() {
        assert_eq!(expires_in(None), Ok(None));
        assert_eq!(expires_in(Some(u64::MAX)), Ok(Some(EXPIRES_IN_MOST)));
        let minute = expires_in(Some(clock::wall() + 60_000))
            .expect("let in")
            .expect("for a while");
        assert!(minute <= Duration::from_secs(60));
        assert!(expires_in(Some(clock::wall())).is_err());
        assert!(expires_in(Some(0)).is_err());
    }
}
