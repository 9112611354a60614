//! One line of the audit log: a JSON object, its members in the order of `docs/audit.md`.

use std::fmt::Write as _;

use super::{Happened, Source};

/// Bytes of a text of a client that a line shows at most.
const SHOWN_MAX: usize = 1_024;

const MS_PER_DAY: u64 = 86_400_000;

/// A line that is put together.
#[derive(Debug)]
pub(super) struct Line(String);

/// What stands in `kind`.
pub(super) fn kind(happened: &Happened) -> &'static str {
    match happened {
        Happened::Started => "started",
        Happened::Connected { .. } => "connected",
        Happened::Refused { .. } => "refused",
        Happened::Denied(denied) if denied.is_withdrawn => "withdrawn",
        Happened::Denied(_) => "denied",
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
            .text("kind", kind)
    }

    pub(super) fn happened(self, happened: &Happened) -> Line {
        match happened {
            Happened::Started => self.text("version", env!("CARGO_PKG_VERSION")),
            Happened::Connected {
                client_id,
                principal,
                session_present,
            } => self
                .text("client_id", client_id)
                .optional("principal", principal.as_deref())
                .truth("session_present", *session_present),
            Happened::Refused {
                client_id,
                reason,
                why,
            } => self
                .optional("client_id", client_id.as_deref())
                .text("reason", reason)
                .text("why", why),
            Happened::Denied(denied) => {
                let principal = denied.principal.as_ref().map(|principal| &*principal.name);
                self.text("client_id", &denied.client_id)
                    .optional("principal", principal)
                    .text("right", denied.right.name())
                    .text("resource", &denied.resource)
            }
            Happened::Disconnected {
                client_id,
                reason,
                why,
            } => self
                .text("client_id", client_id)
                .text("reason", reason)
                .text("why", why),
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
                self.optional("token", token.as_deref()).text("path", path)
            }
            Happened::AdminRefused { path, cause } => self.text("path", path).text("cause", cause),
            Happened::Stopped => self,
        }
    }

    pub(super) fn source(self, source: Option<&Source>) -> Line {
        match source {
            None => self,
            Some(source) => self.text("peer", &source.peer).text("listener", &source.listener),
        }
    }

    pub(super) fn text(mut self, name: &str, text: &str) -> Line {
        let shown = &text[..text.floor_char_boundary(SHOWN_MAX)];
        // What is left out is marked: nobody can hide the end of a name behind its length.
        let more = if shown.len() < text.len() { "…" } else { "" };
        let quoted = serde_json::Value::from(format!("{shown}{more}"));
        let _ = write!(self.0, ",\"{name}\":{quoted}");
        self
    }

    pub(super) fn optional(self, name: &str, text: Option<&str>) -> Line {
        match text {
            Some(text) => self.text(name, text),
            None => self,
        }
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
