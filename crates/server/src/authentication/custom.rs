//! A server of one's own that decides, asked over HTTPS for each client that comes.
//!
//! What it has said of some credentials holds for a short while, so that clients that come back do not all ask. A server that
//! does not answer refuses nobody for good: the client is told to try later.

mod contract;

use std::cell::RefCell;

use mqtt::principal::Principal;
use protocol::{ReasonCode, Text};

use self::contract::{Allowed, Said};
use super::attempts::Attempts;
use super::known_client::KnownClient;
use super::outage::Outage;
use super::remembered::{Fingerprint, Fingerprints, Remembered};
use super::verdict::{Cause, Refusal, Verdict};
use super::{Asked, AuthenticationError, x509};
use crate::https_client::{Headers, HttpsClient, RequestLimits, TlsFiles, Url};
use crate::{clock, config};

/// The method `"custom"`.
#[derive(Debug)]
pub(super) struct CustomMethod {
    settings: config::Custom,
    client: HttpsClient,
    /// With the version of the contract.
    path: String,
    headers: Headers,
    outage: Outage,
    fingerprints: Fingerprints,
    allowed: RefCell<Remembered<KnownClient>>,
    denied: RefCell<Remembered<ReasonCode>>,
}

/// As settings call it.
const SETTING: &str = "authentication.custom";

/// Credentials that are remembered, of each kind: some hundred bytes each.
const REMEMBERED_MAX: usize = 10_000;

/// Names, attributes and times; nobody has more to say.
const ANSWER_BYTES_MAX: usize = 64 * 1_024;

impl CustomMethod {
    pub(super) fn load(settings: &config::Custom) -> Result<Self, AuthenticationError> {
        let url = Url::parse(&settings.url, false).map_err(|error| AuthenticationError::Address {
            setting: "authentication.custom.url",
            error,
        })?;
        let separator = if url.path().contains('?') { '&' } else { '?' };
        let path = format!("{}{separator}api-version={}", url.path(), contract::API_VERSION);
        let files = TlsFiles {
            ca: settings.ca.clone(),
            cert: settings.cert.clone(),
            key: settings.key.clone(),
        };
        let limits = RequestLimits {
            timeout: settings.timeout,
            requests_max: settings.requests_max,
            body_bytes_max: ANSWER_BYTES_MAX,
        };
        let client = HttpsClient::new(url, files, limits).map_err(|error| AuthenticationError::Tls {
            setting: SETTING,
            error,
        })?;
        let headers = Headers::load(SETTING, &settings.headers, &settings.header_files);
        Ok(Self {
            path,
            headers: headers.map_err(AuthenticationError::Headers)?,
            client,
            outage: Outage::new(SETTING),
            fingerprints: Fingerprints::new(),
            allowed: RefCell::new(Remembered::new(REMEMBERED_MAX)),
            denied: RefCell::new(Remembered::new(REMEMBERED_MAX)),
            settings: settings.clone(),
        })
    }

    pub(super) async fn answer(&self, asked: &Asked, attempts: &Attempts) -> Verdict {
        if !self.is_mine(asked) {
            return Verdict::NotMine;
        }
        let of = self.fingerprint(asked);
        if let Some(verdict) = of.and_then(|of| self.remembered(of)) {
            return verdict;
        }
        if attempts.are_exhausted(asked) {
            return Verdict::Refused(Refusal::too_many());
        }
        let said = match self.ask(asked).await {
            Ok(said) => said,
            Err(verdict) => return verdict,
        };
        match said {
            Said::Allowed(allowed) => self.let_in(asked, of, allowed),
            Said::Denied(reason) => {
                let until = clock::instant() + self.settings.remember_denied;
                if let Some(of) = of {
                    self.denied.borrow_mut().insert(of, reason, until);
                }
                denied(reason)
            }
            Said::TryLater(reason) => Verdict::Refused(Refusal {
                cause: Cause::Unavailable,
                reason,
                why: "the server that knows says that the client should try later".into(),
            }),
        }
    }

    pub(super) fn look(&self) {
        self.headers.look();
    }

    /// What was said is forgotten, too: who reloads wants to see what holds.
    pub(super) fn reload(&self) {
        self.headers.reload();
        self.allowed.borrow_mut().forget_all();
        self.denied.borrow_mut().forget_all();
    }

    fn is_mine(&self, asked: &Asked) -> bool {
        let question = &asked.question;
        if let Some(method) = &question.method {
            return self
                .settings
                .enhanced_methods
                .iter()
                .any(|ours| **ours == **method);
        }
        let credentials = question.credentials.as_ref();
        !asked.certificates.is_empty()
            || credentials
                .is_some_and(|credentials| credentials.username.is_some() || credentials.password.is_some())
    }

    async fn ask(&self, asked: &Asked) -> Result<Said, Verdict> {
        let headers = self.headers.current();
        let body = contract::request(asked);
        let response = self.client.post_json(&self.path, &headers, body).await;
        let said = match &response {
            Ok(response) => {
                contract::answer(response.status, &response.body).map_err(|error| self.failed(&error))
            }
            Err(error) => Err(self.failed(error)),
        };
        if said.is_ok() {
            self.outage.answered();
        }
        said
    }

    fn failed(&self, error: &dyn std::fmt::Display) -> Verdict {
        self.outage.failed(error);
        Verdict::Refused(Refusal::unavailable(
            "the server that knows who clients are does not answer",
        ))
    }

    fn let_in(&self, asked: &Asked, of: Option<Fingerprint>, allowed: Allowed) -> Verdict {
        let Some(name) = allowed.name.or_else(|| name_of(asked)) else {
            let why = "the server that knows who clients are names nobody, nor does the client";
            return Verdict::wrong(ReasonCode::NotAuthorized, why);
        };
        let known = KnownClient {
            principal: Principal::new(name, allowed.attributes),
            expires_at: allowed.expires_at,
        };
        let verdict = known.verdict(allowed.data);
        if let Some(of) = of {
            let until = clock::instant() + self.settings.remember;
            self.allowed.borrow_mut().insert(of, known, until);
        }
        verdict
    }

    fn remembered(&self, of: Fingerprint) -> Option<Verdict> {
        let now = clock::instant();
        if let Some(reason) = self.denied.borrow().get(of, now) {
            return Some(denied(*reason));
        }
        let allowed = self.allowed.borrow();
        allowed.get(of, now).map(|known| known.verdict(None))
    }

    /// Of everything that the server is told. `None` for an Authentication Method: its data may count once only.
    fn fingerprint(&self, asked: &Asked) -> Option<Fingerprint> {
        let question = &asked.question;
        let credentials = question
            .credentials
            .as_ref()
            .filter(|_| question.method.is_none())?;
        let listener = asked.policy.listener.to_string();
        let address = asked.peer.ip().map(|ip| ip.to_string());
        let mut parts = vec![
            Some(credentials.client_id.as_str().as_bytes()),
            credentials.username.as_ref().map(|name| name.as_str().as_bytes()),
            credentials.password.as_deref(),
            Some(listener.as_bytes()),
            address.as_ref().map(|address| address.as_bytes()),
        ];
        parts.extend(asked.certificates.iter().map(|der| Some(&**der)));
        Some(self.fingerprints.of(&parts))
    }
}

/// Who the client was before, or what its certificate calls it; only a client without one is called as it calls itself.
fn name_of(asked: &Asked) -> Option<Text> {
    let question = &asked.question;
    if let Some(before) = &question.principal {
        return Some(before.name.clone());
    }
    if !asked.certificates.is_empty() {
        return x509::name_of(asked);
    }
    let credentials = question.credentials.as_ref()?;
    credentials.username.clone().filter(|name| !name.is_empty())
}

fn denied(reason: ReasonCode) -> Verdict {
    Verdict::wrong(reason, "the server that knows who clients are says no")
}
