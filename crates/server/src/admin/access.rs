//! Who may ask for an admin page: whoever has a token of the right scope, where there are tokens.
//!
//! A right token is always let in. Wrong ones are counted by address; from one that sends many they are not even logged any more.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::http::{HeaderMap, StatusCode, header};
use tokio::sync::watch;

use super::tokens::{Scope, Tokens};
use crate::bucket::Bucket;
use crate::clock;
use crate::metrics::Counts;

/// What is asked of requests.
#[derive(Debug)]
pub(super) struct Access {
    /// `None`: there is no file; then reading is open, and nothing can be changed.
    tokens: Option<watch::Receiver<Arc<Tokens>>>,
    failures: Mutex<Failures>,
    refused: Mutex<Counts>,
}

/// Why a request is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal {
    /// It has no token.
    Missing,
    /// Its token is not known.
    Unknown,
    /// The same, from an address that has sent many.
    TooMany,
    /// Its token is not for that.
    Scope,
    /// There are no tokens, and without one nothing is changed.
    NoTokens,
    /// Another name than the server's.
    Host,
    /// A web page of another origin asks.
    CrossSite,
    /// What changes something has to be JSON, which no form of a web page can send.
    ContentType,
}

impl Access {
    pub(super) fn new(tokens: Option<watch::Receiver<Arc<Tokens>>>) -> Self {
        Self {
            tokens,
            failures: Mutex::default(),
            refused: Mutex::default(),
        }
    }

    /// Whether a request from an address may do what takes this scope; then the name of its token, if it has needed one.
    pub(super) fn check(
        &self,
        from: IpAddr,
        headers: &HeaderMap,
        scope: Scope,
    ) -> Result<Option<String>, Refusal> {
        let Some(tokens) = &self.tokens else {
            return if scope == Scope::Read {
                Ok(None)
            } else {
                Err(Refusal::NoTokens)
            };
        };
        let token = bearer(headers).ok_or(Refusal::Missing)?;
        let tokens = Arc::clone(&tokens.borrow());
        match tokens.find(token) {
            Some((name, has)) if has >= scope => Ok(Some(name.to_owned())),
            Some(_) => Err(Refusal::Scope),
            None => {
                let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
                let is_one_of_many = failures.count(from, clock::instant());
                Err(if is_one_of_many {
                    Refusal::TooMany
                } else {
                    Refusal::Unknown
                })
            }
        }
    }

    pub(super) fn count(&self, refusal: Refusal) {
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        *refused.entry(refusal.name()).or_default() += 1;
    }

    /// Requests that were refused, by cause.
    pub(super) fn refused(&self) -> Counts {
        self.refused
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

/// The token of `Authorization: Bearer`, if there is one and nothing else.
fn bearer(headers: &HeaderMap) -> Option<&[u8]> {
    let mut all = headers.get_all(header::AUTHORIZATION).iter();
    let (only, None) = (all.next()?, all.next()) else {
        return None;
    };
    let (scheme, token) = only.as_bytes().split_at_checked(BEARER.len())?;
    scheme.eq_ignore_ascii_case(BEARER).then_some(token)
}

const BEARER: &[u8] = b"Bearer ";

/// Wrong tokens by address.
#[derive(Debug, Default)]
struct Failures {
    /// Of those that an address may still send; a full one is as good as none.
    left: BTreeMap<IpAddr, Bucket>,
}

/// Each wrong token is remembered for so long.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(6);

/// So many of one address are remembered at once before it sends too many.
const FAILURES_MAX: u32 = 10;

/// Addresses that are remembered; beyond it the one that is forgotten next gives its place to another.
const ADDRESSES_MAX: usize = 1_024;

impl Failures {
    /// One more; true if it is one too many.
    fn count(&mut self, from: IpAddr, now: Instant) -> bool {
        let from = network(from);
        if self.left.len() >= ADDRESSES_MAX && !self.left.contains_key(&from) {
            self.left.retain(|_, bucket| bucket.full_at() > Some(now));
            let next = self.left.iter().min_by_key(|(_, bucket)| bucket.full_at());
            let next = next.map(|(address, _)| *address);
            if let Some(next) = next.filter(|_| self.left.len() >= ADDRESSES_MAX) {
                self.left.remove(&next);
            }
        }
        let bucket = self
            .left
            .entry(from)
            .or_insert_with(|| Bucket::new(FORGOTTEN_AFTER, FORGOTTEN_AFTER * FAILURES_MAX));
        !bucket.take(now)
    }
}

/// Whoever has an address of version 6 has all that begin with the same 64 bits.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => address.into(),
        IpAddr::V6(address) => IpAddr::V6((u128::from(address) & !u128::from(u64::MAX)).into()),
    }
}

impl Refusal {
    pub(super) fn status(self) -> StatusCode {
        match self {
            Self::Missing | Self::Unknown => StatusCode::UNAUTHORIZED,
            Self::TooMany => StatusCode::TOO_MANY_REQUESTS,
            Self::Scope | Self::NoTokens | Self::CrossSite => StatusCode::FORBIDDEN,
            Self::Host => StatusCode::MISDIRECTED_REQUEST,
            Self::ContentType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
        }
    }

    /// As metrics call it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Missing => "no_token",
            Self::Unknown => "unknown_token",
            Self::TooMany => "too_many",
            Self::Scope => "scope",
            Self::NoTokens => "no_tokens",
            Self::Host => "host",
            Self::CrossSite => "cross_site",
            Self::ContentType => "content_type",
        }
    }

    /// For who asked.
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::Missing => "a token is needed: Authorization: Bearer TOKEN\n",
            Self::Unknown => "the token is not known\n",
            Self::TooMany => "too many tokens that are not known\n",
            Self::Scope => {
                "the token is not for this: a change needs the scope write, a backup the scope backup\n"
            }
            Self::NoTokens => "nothing can be changed without a token; see the setting admin.tokens\n",
            Self::Host => "this server is not known by that name; see the setting admin.host_names\n",
            Self::CrossSite => "requests of web pages of other origins are not answered\n",
            Self::ContentType => {
                "Content-Type: application/json is needed, of a restore application/octet-stream\n"
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn an_address_sends_only_so_many_wrong_tokens() {
        let (mut failures, start) = (Failures::default(), clock::instant());
        let mut passed = |from: &str, after_ms: u64| {
            let now = start + Duration::from_millis(after_ms);
            (0..100).filter(|_| !failures.count(address(from), now)).count()
        };
        assert_eq!(passed("192.0.2.1", 0), 10);
        assert_eq!(passed("192.0.2.2", 0), 10);
        assert_eq!(passed("192.0.2.1", 6_000), 1);
        assert_eq!(passed("192.0.2.1", 600_000), 10);
        assert_eq!(passed("2001:db8::1", 0), 10);
        assert_eq!(passed("2001:db8::ffff", 0), 0);
        assert_eq!(passed("2001:db8:0:1::1", 0), 10);
        assert_eq!(passed("::ffff:192.0.2.2", 0), 0);
    }

    #[test]
    fn addresses_are_remembered_only_so_many_at_once() {
        let (mut failures, now) = (Failures::default(), clock::instant());
        for number in 0..5_000_u32 {
            assert!(!failures.count(IpAddr::V4(number.into()), now));
        }
        assert_eq!(failures.left.len(), ADDRESSES_MAX);
    }

    #[test]
    fn only_one_bearer_token_counts() {
        let headers = |values: &[&'static str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(header::AUTHORIZATION, value.parse().expect("a header"));
            }
            headers
        };
        assert_eq!(bearer(&headers(&["Bearer abc"])), Some(&b"abc"[..]));
        assert_eq!(bearer(&headers(&["bearer abc"])), Some(&b"abc"[..]));
        for none in [
            &[][..],
            &["Basic abc"],
            &["abc"],
            &["Bearer"],
            &["Bearer a", "Bearer b"],
        ] {
            assert_eq!(bearer(&headers(none)), None, "{none:?}");
        }
    }
}
