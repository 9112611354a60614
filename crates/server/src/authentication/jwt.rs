//! JSON Web Tokens (RFC 7519) of an issuer whose public keys are known: as password of CONNECT, or as Authentication Data.
//!
//! A token is verified here and now, nobody is asked about it. It lets in for as long as it lasts, so a client that wants to stay
//! brings the next one with AUTH, or connects again.

mod claims;
mod issuer_keys;
mod key_set;
mod token;

use mqtt::authentication::{Answer, Question};
use protocol::ReasonCode;

use self::claims::Verified;
use self::issuer_keys::IssuerKeys;
pub use self::issuer_keys::KeysFileError;
use self::token::{Token, TokenError};
use super::verdict::{Refusal, Verdict};
use super::{Asked, AuthenticationError};
use crate::{clock, config};

#[cfg(feature = "kubernetes")]
pub(super) use self::{claims::millis, token::payload_of};

/// The method `"jwt"`.
#[derive(Debug)]
pub(super) struct JwtMethod {
    settings: config::Jwt,
    keys: IssuerKeys,
}

/// As Authentication Method.
const METHOD: &str = "JWT";

impl JwtMethod {
    pub(super) fn load(settings: &config::Jwt) -> Result<Self, AuthenticationError> {
        Ok(Self {
            keys: IssuerKeys::load(settings)?,
            settings: settings.clone(),
        })
    }

    pub(super) async fn answer(&self, asked: &Asked) -> Verdict {
        let question = &asked.question;
        let Some(token) = token_of(question) else {
            return Verdict::NotMine;
        };
        match self.verify(token).await {
            Ok(None) => Verdict::Refused(Refusal::unavailable("the keys of the issuer are not there yet")),
            Ok(Some(verified)) if self.is_of_username(question, &verified) => {
                Verdict::Answer(Answer::Accept {
                    principal: Some(verified.principal),
                    data: None,
                    expires_in: Some(verified.expires_in),
                })
            }
            Ok(Some(_)) => wrong(TokenError::OtherUsername),
            Err(error) => wrong(error),
        }
    }

    /// Fetches keys, if they have to be fetched, for as long as the server runs.
    pub(super) async fn keep(&self) {
        self.keys.keep().await;
    }

    pub(super) fn look(&self) {
        self.keys.look();
    }

    pub(super) fn reload(&self) {
        self.keys.reload();
    }

    /// `None` if there are no keys.
    async fn verify(&self, token: &[u8]) -> Result<Option<Verified>, TokenError> {
        let verified = self.verify_with_present_keys(token);
        if !matches!(verified, Ok(None) | Err(TokenError::UnknownKey)) || !self.keys.renewed().await {
            return verified;
        }
        self.verify_with_present_keys(token)
    }

    fn verify_with_present_keys(&self, token: &[u8]) -> Result<Option<Verified>, TokenError> {
        let Some(keys) = self.keys.current() else {
            return Ok(None);
        };
        claims::verify(token, &keys, &self.settings, clock::wall()).map(Some)
    }

    fn is_of_username(&self, question: &Question, verified: &Verified) -> bool {
        let credentials = question.credentials.as_ref();
        let username = credentials.and_then(|credentials| credentials.username.as_ref());
        !self.settings.username_is_name || username.is_none_or(|name| *name == verified.principal.name)
    }
}

/// A password that is not made like a token may be one of another method.
fn token_of(question: &Question) -> Option<&[u8]> {
    if let Some(method) = &question.method {
        return (&**method == METHOD).then(|| question.data.as_deref().unwrap_or_default());
    }
    let password = question.credentials.as_ref()?.password.as_deref()?;
    let is_token = !matches!(Token::parse(password), Err(TokenError::Malformed));
    is_token.then_some(password)
}

fn wrong(error: TokenError) -> Verdict {
    Verdict::wrong(ReasonCode::NotAuthorized, error.to_string())
}
