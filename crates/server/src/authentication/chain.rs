//! The methods of all listeners, and how one is found for a client.
//!
//! A listener's methods are tried in their order. Each says whether the client's credentials are of its kind; the first whose they
//! are decides, and no other is asked. So a wrong password is not tried as something else.

use std::time::Duration;

use mqtt::authentication::Answer;
use protocol::{ReasonCode, Text};

use super::attempts::Attempts;
use super::custom::CustomMethod;
use super::jwt::JwtMethod;
#[cfg(feature = "kubernetes")]
use super::k8s_sat::K8sSatMethod;
use super::password::PasswordMethod;
use super::scram::ScramMethod;
use super::verdict::{Cause, Refusal, Verdict};
use super::x509::X509Method;
use super::{Asked, AuthenticationError};
use crate::client_address::SourceNetwork;
use crate::clock;
use crate::config::{AuthenticationMethod, Config};
use crate::strangers::{PoolLimits, Strangers};

/// All methods that any listener has.
#[derive(Debug)]
pub(crate) struct Methods {
    all: Vec<Entry>,
    attempts: Attempts,
    /// `limits.connect_timeout`
    within: Duration,
    under_way_max: usize,
}

/// One method, and how busy it is.
#[derive(Debug)]
struct Entry {
    name: AuthenticationMethod,
    method: Method,
    under_way: Strangers,
}

/// A way to say who one is. What it needs it reads from files when the server starts, and anew when they change.
#[derive(Debug)]
pub(super) enum Method {
    Scram(ScramMethod),
    Jwt(JwtMethod),
    #[cfg(feature = "kubernetes")]
    K8sSat(K8sSatMethod),
    Custom(CustomMethod),
    Password(PasswordMethod),
    X509(X509Method),
}

/// What came of a question.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) answer: Answer,
    /// If the client was refused: by which method, and why.
    pub(crate) failed: Option<(&'static str, Cause)>,
}

/// As metrics call it when no method has decided.
const NO_METHOD: &str = "none";

impl Methods {
    /// Reads the files. `None` if no listener asks.
    pub(crate) fn load(config: &Config) -> Result<Option<Self>, AuthenticationError> {
        let of_listeners = config
            .listeners
            .iter()
            .flat_map(|listener| &listener.authentication);
        let mut names: Vec<_> = of_listeners.copied().collect();
        names.sort_unstable();
        names.dedup();
        // One that waits for something slow leaves the other half of a listener's places to the others.
        let under_way_max = (config.limits.strangers_max as usize / 2).max(1);
        let limits = PoolLimits {
            places: under_way_max,
            of_network: (under_way_max / 4).max(1),
        };
        let all = names.into_iter().map(|name| {
            Ok(Entry {
                name,
                method: Method::load(name, config)?,
                under_way: Strangers::new(format!("authentication {}", name.name()), limits),
            })
        });
        let all = all.collect::<Result<Vec<_>, AuthenticationError>>()?;
        Ok((!all.is_empty()).then_some(Self {
            all,
            attempts: Attempts::new(&config.authentication),
            within: config.limits.connect_timeout,
            under_way_max,
        }))
    }

    /// Finds out who the client is.
    pub(super) async fn answer(&self, asked: &Asked) -> Outcome {
        let outcome = tokio::time::timeout(self.within, self.try_all(asked)).await;
        let outcome = outcome.unwrap_or_else(|_| {
            let why = "it took too long to find out who the client is";
            Outcome::refused(NO_METHOD, Refusal::unavailable(why))
        });
        if let Some((method, cause)) = outcome.failed {
            if cause == Cause::Credentials {
                self.attempts.count(asked.peer);
            }
            let (peer, listener, cause) = (asked.peer, &asked.policy.listener, cause.name());
            let certificates = asked.certificates.len();
            tracing::debug!(%peer, %listener, method, cause, certificates, "a client did not prove who it is");
        }
        outcome
    }

    /// Tries the listener's methods in their order.
    async fn try_all(&self, asked: &Asked) -> Outcome {
        let mut unknown = None;
        for name in &asked.policy.methods {
            let Some(entry) = self.all.iter().find(|entry| entry.name == *name) else {
                continue;
            };
            let verdict = entry.answer(asked, &self.attempts, self.within).await;
            match verdict {
                Verdict::NotMine => {}
                Verdict::Unknown(refusal) => unknown = Some((entry.name.name(), refusal)),
                Verdict::Answer(answer) => return Outcome::answered(entry.name, asked, answer),
                Verdict::Refused(refusal) => return Outcome::refused(entry.name.name(), refusal),
            }
        }
        match unknown {
            Some((name, refusal)) => Outcome::refused(name, refusal),
            None => nobodys(asked),
        }
    }

    /// What methods do without being asked, for as long as the server runs.
    pub(super) async fn keep(&self) {
        futures_util::future::join_all(self.all.iter().map(|entry| entry.method.keep())).await;
    }

    /// Looks at the files, and takes those anew that have changed and no longer do.
    pub(super) fn look(&self) {
        self.all.iter().for_each(|entry| entry.method.look());
    }

    /// How many questions are under way at each method.
    pub(crate) fn pools(&self) -> Vec<Strangers> {
        self.all.iter().map(|entry| entry.under_way.clone()).collect()
    }

    /// Takes all files anew.
    pub(super) fn reload(&self) {
        self.all.iter().for_each(|entry| entry.method.reload());
    }

    /// Questions that may be under way: more than the methods have, for those whose answers wait to be taken.
    pub(super) fn under_way_max(&self) -> usize {
        (self.all.len() + 1) * self.under_way_max
    }
}

impl Entry {
    /// Asks the method, if it has a place: a question of an address with many under way gives way to one with few.
    async fn answer(&self, asked: &Asked, attempts: &Attempts, within: Duration) -> Verdict {
        let now = clock::instant();
        let entered = self
            .under_way
            .enter(SourceNetwork::of(asked.peer), now, now + within);
        let Ok((_place, mut gave_way)) = entered else {
            return Verdict::busy();
        };
        tokio::select! {
            biased;
            verdict = self.method.answer(asked, attempts) => verdict,
            () = gave_way.happened() => Verdict::busy(),
        }
    }
}

impl Method {
    fn load(name: AuthenticationMethod, config: &Config) -> Result<Self, AuthenticationError> {
        let settings = &config.authentication;
        Ok(match name {
            AuthenticationMethod::Scram => Self::Scram(ScramMethod::load(&settings.scram)?),
            AuthenticationMethod::Jwt => Self::Jwt(JwtMethod::load(&settings.jwt)?),
            #[cfg(feature = "kubernetes")]
            AuthenticationMethod::K8sSat => Self::K8sSat(K8sSatMethod::load(&settings.k8s_sat)?),
            #[cfg(not(feature = "kubernetes"))]
            AuthenticationMethod::K8sSat => return Err(AuthenticationError::NoKubernetes),
            AuthenticationMethod::Custom => Self::Custom(CustomMethod::load(&settings.custom)?),
            AuthenticationMethod::Password => Self::Password(PasswordMethod::load(&settings.password)?),
            AuthenticationMethod::X509 => Self::X509(X509Method::load(&settings.x509)?),
        })
    }

    /// What can be guessed is refused while the client's address has no attempts left.
    async fn answer(&self, asked: &Asked, attempts: &Attempts) -> Verdict {
        match self {
            Self::Scram(method) => method.answer(asked, attempts),
            Self::Jwt(method) => method.answer(asked).await,
            #[cfg(feature = "kubernetes")]
            Self::K8sSat(method) => method.answer(asked, attempts).await,
            Self::Custom(method) => method.answer(asked, attempts).await,
            Self::Password(method) => method.answer(asked, attempts).await,
            Self::X509(method) => method.answer(asked),
        }
    }

    async fn keep(&self) {
        if let Self::Jwt(method) = self {
            method.keep().await;
        }
    }

    fn look(&self) {
        match self {
            Self::Scram(method) => method.look(),
            Self::Jwt(method) => method.look(),
            #[cfg(feature = "kubernetes")]
            Self::K8sSat(method) => method.look(),
            Self::Custom(method) => method.look(),
            Self::Password(method) => method.look(),
            Self::X509(method) => method.look(),
        }
    }

    fn reload(&self) {
        match self {
            Self::Scram(method) => method.reload(),
            Self::Jwt(method) => method.reload(),
            #[cfg(feature = "kubernetes")]
            Self::K8sSat(method) => method.reload(),
            Self::Custom(method) => method.reload(),
            Self::Password(method) => method.reload(),
            Self::X509(method) => method.reload(),
        }
    }
}

impl Outcome {
    /// What a method says. A principal is of its method; who is in and shows to be somebody else has failed.
    fn answered(method: AuthenticationMethod, asked: &Asked, answer: Answer) -> Self {
        let Answer::Accept {
            principal: Some(principal),
            data,
            expires_in,
        } = answer
        else {
            return Self { answer, failed: None };
        };
        let principal = principal.by_method(Text::from_static(method.name()));
        let before = asked.question.principal.as_ref();
        if before.is_some_and(|before| !before.is(&principal)) {
            let why = "the client authenticated again as somebody else";
            return Self::refused(method.name(), Refusal::wrong(ReasonCode::NotAuthorized, why));
        }
        let answer = Answer::Accept {
            principal: Some(principal),
            data,
            expires_in,
        };
        Self { answer, failed: None }
    }

    fn refused(method: &'static str, refusal: Refusal) -> Self {
        let Refusal { cause, reason, why } = refusal;
        Self {
            answer: Answer::Refuse { reason, why },
            failed: Some((method, cause)),
        }
    }
}

/// No method has taken the client's credentials.
fn nobodys(asked: &Asked) -> Outcome {
    let question = &asked.question;
    let credentials = question.credentials.as_ref();
    let (has_name, has_password) = credentials.map_or((false, false), |credentials| {
        (credentials.username.is_some(), credentials.password.is_some())
    });
    let (cause, reason, why) = if question.method.is_some() {
        let why = "the Authentication Method is not supported";
        (Cause::Unsupported, ReasonCode::BadAuthenticationMethod, why)
    } else if has_name || has_password {
        let why = "no method of the listener lets in who has this user name and password";
        (Cause::Unsupported, ReasonCode::NotAuthorized, why)
    } else if asked.policy.allow_anonymous {
        return Outcome {
            answer: Answer::Accept {
                principal: None,
                data: None,
                expires_in: None,
            },
            failed: None,
        };
    } else {
        let why = "the client does not say who it is";
        (Cause::Missing, ReasonCode::NotAuthorized, why)
    };
    let why = why.into();
    Outcome::refused(NO_METHOD, Refusal { cause, reason, why })
}

#[cfg(test)]
mod tests;
