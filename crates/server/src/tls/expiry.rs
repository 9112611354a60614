//! When certificates and lists of revoked ones expire: a figure for each, and a reminder in the log.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mqtt::now::Now;
use tokio::sync::watch;

use super::x509;
use crate::metrics::{self, Figures};

/// When a certificate, or a list of revoked ones, expires.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Expiry {
    /// Seconds since the Unix epoch.
    pub(crate) at: i64,
    pub(crate) kind: Kind,
    /// As in `listeners[0].tls.cert`.
    pub(crate) setting: String,
    pub(crate) file: String,
    /// Of the certificate; of a list its issuer.
    pub(crate) subject: String,
    /// The serial number of the certificate, the number of the list.
    pub(crate) number: String,
    /// Seconds since the Unix epoch, if it does not hold before.
    begins: Option<i64>,
}

/// When all that is used at the moment expires.
#[derive(Debug, Clone, Default)]
pub(crate) struct Expiries(pub(super) Vec<watch::Receiver<Arc<[Expiry]>>>);

/// What expires.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Certificate,
    RevocationList,
}

/// Says once a day what expires soon.
#[derive(Debug)]
pub(super) struct Reminder {
    /// `expiry_warning`
    ahead: Duration,
    said_at: Option<Instant>,
}

/// How often the same is said again.
const REMIND_EVERY: Duration = Duration::from_hours(24);

impl Expiries {
    pub(crate) fn extend(&mut self, others: Self) {
        self.0.extend(others.0);
    }

    /// As `/metrics` shows it.
    pub(crate) fn show(&self, figures: &mut Figures) {
        for expiry in self.0.iter().flat_map(|expiries| expiries.borrow().to_vec()) {
            let figures = match expiry.kind {
                Kind::Certificate => &mut figures.certificates,
                Kind::RevocationList => &mut figures.revocation_lists,
            };
            figures.push(metrics::Expiry {
                setting: expiry.setting,
                file: expiry.file,
                subject: expiry.subject,
                number: expiry.number,
                at: expiry.at,
            });
        }
    }
}

impl Expiry {
    pub(super) fn of_certificate(setting: &str, file: &Path, found: x509::Certificate) -> Self {
        Self {
            at: found.not_after,
            kind: Kind::Certificate,
            setting: setting.to_owned(),
            file: file.display().to_string(),
            subject: found.subject,
            number: found.serial,
            begins: Some(found.not_before),
        }
    }

    /// `None` for a list that holds for ever.
    pub(super) fn of_list(setting: &str, file: &Path, found: x509::RevocationList) -> Option<Self> {
        Some(Self {
            at: found.next_update?,
            kind: Kind::RevocationList,
            setting: setting.to_owned(),
            file: file.display().to_string(),
            subject: found.issuer,
            number: found.number,
            begins: None,
        })
    }

    /// What is wrong with it, or will soon be.
    fn trouble(&self, now: i64, ahead: i64) -> Option<Trouble> {
        if self.at < now {
            Some(Trouble::Expired)
        } else if self.begins.is_some_and(|begins| begins > now) {
            Some(Trouble::NotYetValid)
        } else {
            (self.at.saturating_sub(now) < ahead).then_some(Trouble::ExpiresSoon)
        }
    }

    fn say(&self, trouble: Trouble, now: i64) {
        let (setting, file, subject, number) = (&self.setting, &self.file, &self.subject, &self.number);
        let days = self.at.abs_diff(now) / SECONDS_OF_A_DAY;
        let what = match self.kind {
            Kind::Certificate => "a certificate",
            Kind::RevocationList => "a list of revoked certificates",
        };
        match trouble {
            Trouble::Expired => {
                tracing::error!(setting, file, subject, number, days, "{what} has expired");
            }
            Trouble::NotYetValid => {
                tracing::error!(setting, file, subject, number, "{what} is not valid yet");
            }
            Trouble::ExpiresSoon => {
                tracing::warn!(setting, file, subject, number, days, "{what} expires soon");
            }
        }
    }
}

/// What an operator has to know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Trouble {
    Expired,
    NotYetValid,
    ExpiresSoon,
}

impl Reminder {
    pub(super) fn new(ahead: Duration) -> Self {
        Self { ahead, said_at: None }
    }

    /// Says what has to be known, unless that was said today.
    pub(super) fn look(&mut self, expiries: &[Expiry], now: Now) {
        let is_due = |said_at| now.instant.saturating_duration_since(said_at) >= REMIND_EVERY;
        if !self.said_at.is_none_or(is_due) {
            return;
        }
        self.said_at = Some(now.instant);
        let seconds = |millis: u128| i64::try_from(millis / 1_000).unwrap_or(i64::MAX);
        let (wall, ahead) = (seconds(now.wall.into()), seconds(self.ahead.as_millis()));
        for expiry in expiries {
            if let Some(trouble) = expiry.trouble(wall, ahead) {
                expiry.say(trouble, wall);
            }
        }
    }

    /// What is there is new: it is said again.
    pub(super) fn forget(&mut self) {
        self.said_at = None;
    }
}

const SECONDS_OF_A_DAY: u64 = 24 * 3_600;

#[cfg(test)]
mod tests {
    use super::*;

    fn expiry(begins: i64, at: i64) -> Expiry {
        Expiry {
            at,
            kind: Kind::Certificate,
            setting: "listeners[0].tls.cert".to_owned(),
            file: "server.pem".to_owned(),
            subject: "CN=server".to_owned(),
            number: "01".to_owned(),
            begins: Some(begins),
        }
    }

    #[test]
    fn trouble_is_seen_ahead() {
        let trouble = |now| expiry(100, 1_000).trouble(now, 50);
        assert_eq!(trouble(99), Some(Trouble::NotYetValid));
        assert_eq!(trouble(100), None);
        assert_eq!(trouble(950), None);
        assert_eq!(trouble(951), Some(Trouble::ExpiresSoon));
        assert_eq!(trouble(1_000), Some(Trouble::ExpiresSoon));
        assert_eq!(trouble(1_001), Some(Trouble::Expired));
    }

    #[test]
    fn it_is_said_once_a_day_and_when_files_are_new() {
        let start = crate::clock::now();
        let mut reminder = Reminder::new(Duration::from_hours(1));
        let is_said = |hours: u64, reminder: &mut Reminder| {
            let before = reminder.said_at;
            let now = Now {
                instant: start.after(Duration::from_hours(hours)),
                ..start
            };
            reminder.look(&[], now);
            reminder.said_at != before
        };
        assert!(is_said(0, &mut reminder));
        assert!(!is_said(23, &mut reminder));
        assert!(is_said(24, &mut reminder));
        reminder.forget();
        assert!(is_said(25, &mut reminder));
    }
}
