//! SCRAM-SHA-256 (RFC 5802 and RFC 7677), the server's side: two messages in, two out.
//!
//! The server keeps no password, only a [`Secret`] that proves one. It remembers nothing between the two messages: what it has to
//! have back travels as the exchange's continuation. Channel binding and authorization identities are not offered.
//!
//! A name that is not known is answered like one that is, with a salt of its own that stays the same.

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::hmac::HMAC_SHA256;
use aws_lc_rs::{digest, hmac, rand};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use mqtt::authentication::{Answer, Question};
use mqtt::principal::Principal;
use protocol::{ReasonCode, Text};

use super::attempts::Attempts;
use super::secret::{ITERATIONS, KEY_BYTES};
use super::secrets_file::{Secrets, SecretsError};
use super::verdict::{Refusal, Verdict};
use super::{Asked, AuthenticationError};
use crate::config;
use crate::watched_file::WatchedFile;

/// The method `"scram"`: the exchange, and the file of secrets.
#[derive(Debug)]
pub(super) struct ScramMethod {
    scram: Scram,
    secrets: WatchedFile<Secrets, SecretsError>,
}

/// As Authentication Method.
const METHOD: &str = "SCRAM-SHA-256";

/// The server's side for all clients.
#[derive(Debug)]
struct Scram {
    /// Decides the salts of names that nobody has.
    unknown: hmac::Key,
}

/// Bytes of randomness in the server's part of a nonce: 24 characters.
const NONCE_BYTES: usize = 18;

/// Names and nonces that no client needs would not fit into an answer.
const PART_BYTES_MAX: usize = 1_024;

/// Two such parts, and extensions that nobody has defined yet.
const FIRST_BYTES_MAX: usize = 4 * PART_BYTES_MAX;

impl ScramMethod {
    pub(super) fn load(settings: &config::Scram) -> Result<Self, AuthenticationError> {
        let secrets = WatchedFile::load("authentication.scram", &settings.file, Secrets::read);
        Ok(Self {
            scram: Scram::new(),
            secrets: secrets.map_err(AuthenticationError::Scram)?,
        })
    }

    pub(super) fn answer(&self, asked: &Asked, attempts: &Attempts) -> Verdict {
        if asked.question.method.as_deref() != Some(METHOD) {
            return Verdict::NotMine;
        }
        if attempts.are_exhausted(asked) {
            return Verdict::Refused(Refusal::too_many());
        }
        let answer = self.scram.answer(&self.secrets.current(), &asked.question);
        answer.map_or_else(
            || {
                let why = "the Authentication Data is no message of SCRAM, or proves nothing";
                Verdict::wrong(ReasonCode::NotAuthorized, why)
            },
            Verdict::Answer,
        )
    }

    pub(super) fn look(&self) {
        self.secrets.look();
    }

    pub(super) fn reload(&self) {
        self.secrets.reload();
    }
}

impl Scram {
    fn new() -> Self {
        Self {
            unknown: hmac::Key::new(HMAC_SHA256, &random::<KEY_BYTES>()),
        }
    }

    /// Answers either message of a client. `None` if it is none, or proves nothing.
    fn answer(&self, secrets: &Secrets, question: &Question) -> Option<Answer> {
        let data = question
            .data
            .as_deref()
            .and_then(|data| str::from_utf8(data).ok());
        let continuation = question.continuation.as_deref().map(str::from_utf8);
        match (data, continuation) {
            (Some(data), None) => self.first(secrets, data, &BASE64.encode(random::<NONCE_BYTES>())),
            (Some(data), Some(Ok(continuation))) => last(secrets, continuation, data),
            _ => None,
        }
    }

    /// The name and a nonce come, salt and iterations go. The continuation is all that both have said.
    fn first(&self, secrets: &Secrets, message: &str, nonce: &str) -> Option<Answer> {
        let client = ClientFirst::parse(message)?;
        let (salt, iterations) = match secrets.get(&client.name) {
            Some(secret) => (BASE64.encode(&secret.salt), secret.iterations),
            None => {
                let salt = hmac::sign(&self.unknown, client.name.as_bytes());
                (
                    BASE64.encode(&salt.as_ref()[..16]),
                    secrets.iterations().unwrap_or(ITERATIONS),
                )
            }
        };
        let answer = format!("r={}{nonce},s={salt},i={iterations}", client.nonce);
        let continuation = Bytes::from(format!("{message},{answer}"));
        Some(Answer::Continue {
            data: Some(Bytes::from(answer)),
            continuation,
        })
    }
}

/// The client's proof comes, the server's goes. `None` also if the proof is wrong.
fn last(secrets: &Secrets, said: &str, message: &str) -> Option<Answer> {
    let (first, server_first) = said.rsplit_once(",r=")?;
    let client = ClientFirst::parse(first)?;
    let nonce = server_first.split(',').next()?;
    let (without_proof, proof) = message.rsplit_once(",p=")?;
    let mut parts = without_proof.split(',');
    // With which channel it is bound is said again where the proof covers it; extensions may follow.
    let header = BASE64.decode(parts.next()?.strip_prefix("c=")?).ok()?;
    if header != client.header.as_bytes() || parts.next()?.strip_prefix("r=")? != nonce {
        return None;
    }
    let secret = secrets.get(&client.name)?;
    let bare = said.strip_prefix(client.header)?;
    let exchanged = format!("{bare},{without_proof}");
    let signature = hmac::sign(
        &hmac::Key::new(HMAC_SHA256, &secret.stored_key),
        exchanged.as_bytes(),
    );
    let proof: [u8; KEY_BYTES] = BASE64.decode(proof).ok()?.try_into().ok()?;
    let mut client_key = proof;
    for (byte, mask) in client_key.iter_mut().zip(signature.as_ref()) {
        *byte ^= mask;
    }
    let stored_key = digest::digest(&digest::SHA256, &client_key);
    verify_slices_are_equal(stored_key.as_ref(), &secret.stored_key).ok()?;
    let proof = hmac::sign(
        &hmac::Key::new(HMAC_SHA256, &secret.server_key),
        exchanged.as_bytes(),
    );
    Some(Answer::Accept {
        principal: Some(Principal::named(Text::new(client.name).ok()?)),
        data: Some(Bytes::from(format!("v={}", BASE64.encode(proof)))),
        expires_in: None,
    })
}

/// `n,,n=name,r=nonce`
#[derive(Debug)]
struct ClientFirst<'a> {
    /// `n,,` or `y,,`: no channel binding.
    header: &'a str,
    name: String,
    nonce: &'a str,
}

impl<'a> ClientFirst<'a> {
    fn parse(message: &'a str) -> Option<Self> {
        let message = (message.len() <= FIRST_BYTES_MAX).then_some(message)?;
        let header = message
            .get(..3)
            .filter(|header| matches!(*header, "n,," | "y,,"))?;
        let mut parts = message.get(3..)?.split(',');
        let name = unescape(parts.next()?.strip_prefix("n=")?)?;
        let nonce = parts.next()?.strip_prefix("r=")?;
        let is_printable = nonce.bytes().all(|byte| byte.is_ascii_graphic());
        let fits = (1..=PART_BYTES_MAX).contains(&nonce.len()) && (1..=PART_BYTES_MAX).contains(&name.len());
        (fits && is_printable).then_some(Self { header, name, nonce })
    }
}

/// `=2C` is a comma and `=3D` an equals sign, which stands for nothing else.
fn unescape(name: &str) -> Option<String> {
    let mut parts = name.split('=');
    let mut out = parts.next()?.to_owned();
    for part in parts {
        let (code, rest) = part.split_at_checked(2)?;
        out.push(match code {
            "2C" => ',',
            "3D" => '=',
            _ => return None,
        });
        out.push_str(rest);
    }
    Some(out)
}

fn random<const BYTES: usize>() -> [u8; BYTES] {
    let mut bytes = [0; BYTES];
    rand::fill(&mut bytes).expect("the system has random numbers");
    bytes
}

#[cfg(test)]
mod tests;
