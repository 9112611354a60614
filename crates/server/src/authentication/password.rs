//! The method `"password"`: user name and password of CONNECT, and a file with a hash of each password.
//!
//! Wrong passwords and names that nobody has are told apart by nothing: not by the answer, nor by what is computed for them. A password that was
//! verified lately is found again without computing its hash.

mod file;
mod hash;
mod hash_threads;
mod turns;
mod verified;

use bytes::Bytes;
use mqtt::authentication::Answer;
use mqtt::principal::Principal;
use protocol::{ReasonCode, Text};

use self::file::{Entry, Passwords};
use self::hash_threads::HashThreads;
use self::verified::Verified;
use super::attempts::Attempts;
use super::verdict::{Refusal, Verdict};
use super::{Asked, AuthenticationError};
use crate::client_address::SourceNetwork;
use crate::config;
use crate::watched_file::WatchedFile;

pub use self::file::{Entry as PasswordEntry, PasswordsError, with_line};
pub use self::hash::PasswordHash;

/// The file, and what computes hashes.
#[derive(Debug)]
pub(super) struct PasswordMethod {
    passwords: WatchedFile<Passwords, PasswordsError>,
    threads: HashThreads,
    verified: Verified,
}

impl PasswordMethod {
    pub(super) fn load(settings: &config::Password) -> Result<Self, AuthenticationError> {
        let passwords = WatchedFile::load("authentication.password", &settings.file, Passwords::read);
        Ok(Self {
            passwords: passwords.map_err(AuthenticationError::Password)?,
            threads: HashThreads::start().map_err(AuthenticationError::Threads)?,
            verified: Verified::new(settings.remembered_max as usize),
        })
    }

    pub(super) async fn answer(&self, asked: &Asked, attempts: &Attempts) -> Verdict {
        let Some((name, password)) = presented(asked) else {
            return Verdict::NotMine;
        };
        let passwords = self.passwords.current();
        let entry = passwords.get(name);
        let refused = |refusal| match entry {
            Some(_) => Verdict::Refused(refusal),
            None => Verdict::Unknown(refusal),
        };
        let seal = entry.map(|entry| self.verified.seal(name, &entry.hash, &password));
        if let (Some(entry), Some(seal)) = (entry, &seal)
            && self.verified.has(seal)
        {
            return accepted(name, entry);
        }
        if attempts.are_exhausted(asked) {
            return refused(Refusal::too_many());
        }
        let hash = match entry {
            Some(entry) => entry.hash.clone(),
            None => {
                let (number, salt) = self.verified.number(name);
                PasswordHash::decoy(passwords.cost_of_unknown(number), &salt)
            }
        };
        let Some(place) = self.threads.place(SourceNetwork::of(asked.peer)).await else {
            return refused(Refusal::unavailable(STOPPING));
        };
        // Others from there may have failed while this one waited.
        if attempts.are_exhausted(asked) {
            return refused(Refusal::too_many());
        }
        match (place.check(hash, password).await, entry, seal) {
            (None, ..) => refused(Refusal::unavailable(STOPPING)),
            (Some(true), Some(entry), Some(seal)) => {
                self.verified.put(seal);
                accepted(name, entry)
            }
            _ => refused(Refusal::wrong(ReasonCode::BadUserNameOrPassword, WRONG)),
        }
    }

    pub(super) fn look(&self) {
        self.passwords.look();
    }

    pub(super) fn reload(&self) {
        self.passwords.reload();
    }
}

/// User name and password, if the client has presented a name and not something else.
fn presented(asked: &Asked) -> Option<(&Text, Bytes)> {
    let question = &asked.question;
    let credentials = question
        .credentials
        .as_ref()
        .filter(|_| question.method.is_none())?;
    let password = credentials.password.clone().unwrap_or_default();
    Some((credentials.username.as_ref()?, password))
}

fn accepted(name: &Text, entry: &Entry) -> Verdict {
    Verdict::Answer(Answer::Accept {
        // Not a part of the packet that it came in.
        principal: Some(Principal::new(name.detached(), entry.attributes.clone())),
        data: None,
        expires_in: None,
    })
}

const WRONG: &str = "the user name or the password is wrong";
const STOPPING: &str = "the server is stopping";

#[cfg(test)]
mod tests;
