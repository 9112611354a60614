//! Tokens of Kubernetes service accounts, as enhanced authentication. The API server says whether a token is right.
//!
//! A token that was right is not reviewed again for a short while. It lets in for as long as it lasts; the kubelet gives the client the
//! next one before, and the client brings it with AUTH.

mod review;

use std::cell::{Cell, RefCell};

use hyper::header::{AUTHORIZATION, HeaderName, HeaderValue};
use mqtt::principal::{Attributes, Principal};
use protocol::ReasonCode;

use self::review::{AccountName, Claimed, NoAnswer, Reviewed};
use super::attempts::Attempts;
use super::known_client::KnownClient;
use super::outage::Outage;
use super::remembered::{Fingerprints, Remembered};
use super::verdict::{Refusal, Verdict};
use super::{Asked, AuthenticationError};
use crate::https_client::header_file::{self, HeaderFileError};
use crate::https_client::{HttpsClient, RequestLimits, TlsFiles, Url};
use crate::watched_file::WatchedFile;
use crate::{clock, config};

/// The method `"k8s-sat"`.
#[derive(Debug)]
pub(super) struct K8sSatMethod {
    settings: config::K8sSat,
    client: HttpsClient,
    /// That of the server itself, as a header.
    own_token: WatchedFile<HeaderValue, HeaderFileError>,
    outage: Outage,
    /// Whether the operator knows that annotations cannot be read.
    is_told: Cell<bool>,
    fingerprints: Fingerprints,
    known: RefCell<Remembered<KnownClient>>,
}

/// As Authentication Method.
const METHOD: &str = "K8S-SAT";

/// As settings call it.
const SETTING: &str = "authentication.k8s_sat";

/// Tokens that are remembered: some hundred bytes each.
const REMEMBERED_MAX: usize = 10_000;

/// All annotations of an object have 256 KiB at most; the rest of a service account is small.
const ANSWER_BYTES_MAX: usize = 512 * 1_024;

impl K8sSatMethod {
    pub(super) fn load(settings: &config::K8sSat) -> Result<Self, AuthenticationError> {
        let url = Url::parse(&settings.api_server, false).map_err(|error| AuthenticationError::Address {
            setting: "authentication.k8s_sat.api_server",
            error,
        })?;
        let files = TlsFiles {
            ca: settings.ca.clone(),
            ..TlsFiles::default()
        };
        let limits = RequestLimits {
            timeout: settings.timeout,
            requests_max: settings.requests_max,
            body_bytes_max: ANSWER_BYTES_MAX,
        };
        let client = HttpsClient::new(url, files, limits).map_err(|error| AuthenticationError::Tls {
            setting: "authentication.k8s_sat.ca",
            error,
        })?;
        let own_token = WatchedFile::load(SETTING, &settings.token_file, header_file::bearer);
        Ok(Self {
            client,
            own_token: own_token.map_err(AuthenticationError::K8sToken)?,
            outage: Outage::new(SETTING),
            is_told: Cell::default(),
            fingerprints: Fingerprints::new(),
            known: RefCell::new(Remembered::new(REMEMBERED_MAX)),
            settings: settings.clone(),
        })
    }

    pub(super) async fn answer(&self, asked: &Asked, attempts: &Attempts) -> Verdict {
        let question = &asked.question;
        if question.method.as_deref() != Some(METHOD) {
            return Verdict::NotMine;
        }
        let data = question.data.as_deref().unwrap_or_default();
        let token = str::from_utf8(data).ok().zip(Claimed::of(data));
        let Some((token, claimed)) = token else {
            return wrong("the Authentication Data is no token of a service account");
        };
        if claimed
            .expires_at
            .is_some_and(|expires_at| expires_at <= clock::wall())
        {
            return wrong("the token has expired");
        }
        let of = self.fingerprints.of(&[Some(data)]);
        if let Some(known) = self.known.borrow().get(of, clock::instant()) {
            return known.verdict(None);
        }
        if attempts.are_exhausted(asked) {
            return Verdict::Refused(Refusal::too_many());
        }
        let principal = match self.find_out(token).await {
            Ok(principal) => principal,
            Err(verdict) => return verdict,
        };
        let known = KnownClient {
            principal,
            expires_at: claimed.expires_at,
        };
        let verdict = known.verdict(None);
        let until = clock::instant() + self.settings.remember;
        self.known.borrow_mut().insert(of, known, until);
        verdict
    }

    pub(super) fn look(&self) {
        self.own_token.look();
    }

    /// What was said is forgotten, too: who reloads wants to see what holds.
    pub(super) fn reload(&self) {
        self.own_token.reload();
        self.known.borrow_mut().forget_all();
        self.is_told.set(false);
    }

    /// Whose token it is, if it is right.
    async fn find_out(&self, token: &str) -> Result<Principal, Verdict> {
        let account = match self.review(token).await? {
            Reviewed::Right(account) => account,
            Reviewed::Wrong(why) => return Err(wrong(why)),
        };
        let name = account.principal();
        let name = name.ok_or_else(|| wrong("the token is not of a service account"))?;
        let attributes = if self.settings.annotations {
            self.annotations(&account).await?
        } else {
            Attributes::default()
        };
        Ok(Principal::new(name, attributes))
    }

    async fn review(&self, token: &str) -> Result<Reviewed, Verdict> {
        let audiences = &self.settings.audiences;
        let body = review::request(token, audiences);
        let response = self
            .client
            .post_json(review::REVIEWS, &self.headers(), body)
            .await;
        let response = response.map_err(|error| self.failed(&error))?;
        let reviewed = review::reviewed(response.status, &response.body, audiences);
        let reviewed = reviewed.map_err(|error| self.failed(&error))?;
        self.outage.answered();
        Ok(reviewed)
    }

    /// The attributes of a service account. Without the right to read them there are none, which allows less.
    async fn annotations(&self, account: &AccountName) -> Result<Attributes, Verdict> {
        let response = self.client.get_at(&account.path(), &self.headers()).await;
        let response = response.map_err(|error| self.failed(&error))?;
        match response.status {
            200 => review::attributes(&response.body).map_err(|error| self.failed(&error)),
            403 => {
                if !self.is_told.replace(true) {
                    tracing::error!(
                        "the server may not read the annotations of service accounts: principals have no attributes"
                    );
                }
                Ok(Attributes::default())
            }
            404 => Err(wrong("there is no such service account any more")),
            other => Err(self.failed(&NoAnswer::Status(other))),
        }
    }

    fn headers(&self) -> [(HeaderName, HeaderValue); 1] {
        [(AUTHORIZATION, HeaderValue::clone(&self.own_token.current()))]
    }

    fn failed(&self, error: &dyn std::fmt::Display) -> Verdict {
        self.outage.failed(error);
        Verdict::Refused(Refusal::unavailable(
            "the API server of Kubernetes does not answer",
        ))
    }
}

fn wrong(why: &'static str) -> Verdict {
    Verdict::wrong(ReasonCode::NotAuthorized, why)
}
