//! One line of the audit log: a JSON object, its members in the order of `docs/audit.md`.

use std::fmt::Write as _;

use protocol::Escaped;

use super::{Happened, Source};

const MS_PER_DAY: u64 = 86_400_000;

/// Text as it stands in a line: whatever its origin, it was escaped and cut ([`Escaped`]).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Shown(String);

impl Shown {
    /// A sentence of the server's own, with names in it.
    pub(crate) fn sentence(text: &str) -> Self {
        Self(Escaped::sentence(text).to_string())
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

/// A name, whosever it is.
impl<T: AsRef<str> + ?Sized> From<&T> for Shown {
    fn from(name: &T) -> Self {
        Self(Escaped::new(name.as_ref()).to_string())
    }
}

/// A line that is put together.
#[derive(Debug)]
pub(super) struct Line(String);

/// What stands in `kind`.
pub(super) fn kind(happened: &Happened) -> &'static str {
    match happened {
        Happened::Started => "started",
        Happened::Connected { .. } => "connected",
        Happened::Refused { .. } => "refused",
        Happened::Denied {
            is_withdrawn: true, ..
        } => "withdrawn",
        Happened::Denied { .. } => "denied",
        Happened::Disconnected { .. } => "disconnected",
        Happened::Reloaded { .. } => "reloaded",
        Happened::NotReloaded { .. } => "not_reloaded",
        Happened::AdminChange { .. } => "admin_change",
        Happened::AdminRefused { .. } => "admin_refused",
        Happened::Stopped => "stopped",
    }
}

impl Line {
    pub(super) fn begin(at: u64, sequence: u64, kind: &str) -> Line {
        Line(format!("{{\"time\":\"{}\"", time(at)))
            .number("sequence", sequence)
            .word("kind", kind)
    }

    pub(super) fn happened(self, happened: &Happened) -> Line {
        match happened {
            Happened::Started => self.word("version", env!("CARGO_PKG_VERSION")),
            Happened::Connected {
                client_id,
                principal,
                session_present,
            } => self
                .text("client_id", client_id)
                .optional("principal", principal.as_ref())
                .truth("session_present", *session_present),
            Happened::Refused {
                client_id,
                reason,
                why,
            } => self
                .optional("client_id", client_id.as_ref())
                .text("reason", reason)
                .text("why", why),
            Happened::Denied {
                client_id,
                principal,
                right,
                resource,
                ..
            } => self
                .text("client_id", client_id)
                .optional("principal", principal.as_ref())
                .word("right", right.name())
                .text("resource", resource),
            Happened::Disconnected {
                client_id,
                principal,
                reason,
                why,
                topic,
            } => self
                .text("client_id", client_id)
                .optional("principal", principal.as_ref())
                .text("reason", reason)
                .text("why", why)
                .optional("topic", topic.as_ref()),
            Happened::Reloaded {
                setting,
                before,
                after,
            } => self
                .text("setting", setting)
                .text("before", before)
                .text("after", after),
            Happened::NotReloaded {
                setting,
                error,
                digest,
            } => self
                .text("setting", setting)
                .text("error", error)
                .text("digest", digest),
            Happened::AdminChange { token, path } => {
                self.optional("token", token.as_ref()).text("path", path)
            }
            Happened::AdminRefused { path, cause } => self.text("path", path).word("cause", cause),
            Happened::Stopped => self,
        }
    }

    pub(super) fn source(self, source: Option<&Source>) -> Line {
        match source {
            None => self,
            Some(Source { peer, listener, .. }) => self.text("peer", peer).text("listener", listener),
        }
    }

    fn text(self, name: &str, text: &Shown) -> Line {
        self.word(name, &text.0)
    }

    fn optional(self, name: &str, text: Option<&Shown>) -> Line {
        match text {
            Some(text) => self.text(name, text),
            None => self,
        }
    }

    /// One of the server's own words, or what was escaped before.
    pub(super) fn word(mut self, name: &str, word: &str) -> Line {
        let quoted = serde_json::Value::from(word);
        let _ = write!(self.0, ",\"{name}\":{quoted}");
        self
    }

    pub(super) fn number(mut self, name: &str, number: u64) -> Line {
        let _ = write!(self.0, ",\"{name}\":{number}");
        self
    }

    fn truth(mut self, name: &str, is_true: bool) -> Line {
        let _ = write!(self.0, ",\"{name}\":{is_true}");
        self
    }

    pub(super) fn end(self, text: &mut String) {
        text.push_str(&self.0);
        text.push_str("}\n");
    }
}

/// Unix milliseconds as RFC 3339 has it, in UTC.
pub(crate) fn time(at: u64) -> String {
    let (year, month, day) = date(at / MS_PER_DAY);
    let ms = at % MS_PER_DAY;
    let (hours, minutes, seconds) = (ms / 3_600_000, ms / 60_000 % 60, ms / 1_000 % 60);
    format!(
        "{year:04}-{month:02}-{day:02}T{hours:02}:{minutes:02}:{seconds:02}.{:03}Z",
        ms % 1_000
    )
}

/// The date that is so many days after 1970-01-01. Years begin in March, so that a leap day is the last one of its year.
fn date(days: u64) -> (u64, u64, u64) {
    // Days from 0000-03-01 to 1970-01-01.
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 {
        month_from_march + 3
    } else {
        month_from_march - 9
    };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::time;

    #[test]
    fn times_are_those_of_the_calendar() {
        let cases = [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_399_999, "2000-02-28T23:59:59.999Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (951_868_800_000, "2000-03-01T00:00:00.000Z"),
            (1_795_281_330_007, "2026-11-21T17:15:30.007Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
        ];
        for (at, expected) in cases {
            assert_eq!(time(at), expected);
        }
    }
}
