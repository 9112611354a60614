//! A history of real clients: lines of JSON, as `statehold bench history` writes them.
//!
//! | `kind` | members |
//! |---|---|
//! | `request` | `key`; `call` (`get`, `set`, `delete`), `value`, `condition` (`missing`, `missing_or` with `expected`), `lives` in milliseconds, `only`, `token`; `invoked`; `answered` with `outcome` (`found`, `missing`, `stored`, `deleted`, `not_met`, `fenced`), `version` and, where something was found, `found` |
//! | `watch` | `key`, `registered`, `stopped` unless the connection was lost, `changes`: each `at`, `version` and, unless it is a deletion, `value` |
//! | `held` | `lock`, `holder`, `token`, `from`, `until` |
//!
//! Moments are in nanoseconds since the Unix epoch, versions and tokens are `[wall, counter]`. What a line does not say is not known: a
//! request without `answered` may have been executed, or not.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::Value;

use super::{
    Call, Change, Condition, End, Explained, Held, Operation, Outcome, Tolerance, Version, Watched, explain,
};

/// What real clients asked and were told.
#[derive(Debug, Default)]
pub struct Recorded {
    requests: BTreeMap<String, Vec<Operation>>,
    watches: Vec<Watched>,
    held: BTreeMap<String, Vec<Held>>,
}

/// What was looked at.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Checked {
    /// Keys.
    pub keys: u64,
    /// Requests about them.
    pub requests: u64,
    /// Of these, those that nobody knows the outcome of.
    pub unknown: u64,
    /// Keys whose history is too long to find an order in.
    pub not_known: u64,
    /// Registrations.
    pub watches: u64,
    /// Changes that were notified.
    pub changes: u64,
    /// Of these, those that came twice.
    pub twice: u64,
    /// Times for which a lock was held.
    pub held: u64,
}

impl Recorded {
    /// Reads the lines of one history, or of several one after the other.
    ///
    /// # Errors
    /// The first line that cannot be read.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut recorded = Self::default();
        for (line, number) in text.lines().zip(1..) {
            recorded
                .add(line)
                .map_err(|why| format!("line {number}: {why}"))?;
        }
        Ok(recorded)
    }

    /// Whether L1, L2 and L3 hold.
    ///
    /// # Errors
    /// The first promise that does not.
    pub fn check(&self, tolerance: Tolerance) -> Result<Checked, String> {
        let mut checked = Checked::default();
        for (key, history) in &self.requests {
            checked.keys += 1;
            checked.requests += history.len() as u64;
            let unknown = history
                .iter()
                .filter(|operation| operation.answered.is_none())
                .count();
            checked.unknown += unknown as u64;
            let explained = explain(history, tolerance)
                .map_err(|violation| format!("L1: {key}: {}", violation.explain(history)))?;
            checked.not_known += u64::from(explained == Explained::NotKnown);
        }
        for watched in &self.watches {
            let history = self.requests.get(&watched.key).map_or(&[][..], Vec::as_slice);
            checked.watches += 1;
            checked.changes += watched.changes.len() as u64;
            checked.twice += watched.check(history)?;
        }
        for held in self.held.values() {
            checked.held += held.len() as u64;
            super::held::check(held, tolerance.early)?;
        }
        Ok(checked)
    }

    fn add(&mut self, line: &str) -> Result<(), String> {
        let line: Value = serde_json::from_str(line).map_err(|error| error.to_string())?;
        match text(&line, "kind")?.as_str() {
            "request" => {
                let key = text(&line, "key")?;
                self.requests.entry(key).or_default().push(request(&line)?);
            }
            "watch" => self.watches.push(watch(&line)?),
            "held" => {
                let held = held(&line)?;
                self.held.entry(held.lock.clone()).or_default().push(held);
            }
            other => return Err(format!("there is no kind {other:?}")),
        }
        Ok(())
    }
}

impl fmt::Display for Checked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            keys,
            requests,
            unknown,
            not_known,
            watches,
            changes,
            twice,
            held,
        } = self;
        write!(
            f,
            "{requests} requests about {keys} keys ({unknown} with an unknown outcome; {not_known} keys too hard to decide), {changes} changes in \
             {watches} watches ({twice} twice), locks held {held} times"
        )
    }
}

fn request(line: &Value) -> Result<Operation, String> {
    let token = || optional(line, "token", version);
    let call = match text(line, "call")?.as_str() {
        "get" => Call::Get,
        "set" => Call::Set {
            value: text(line, "value")?,
            condition: condition(line)?,
            lives: optional(line, "lives", number)?,
            token: token()?,
        },
        "delete" => Call::Delete {
            only: optional(line, "only", text)?,
            token: token()?,
        },
        other => return Err(format!("there is no call {other:?}")),
    };
    let invoked = number(line, "invoked")?;
    let Some(answered) = optional(line, "answered", number)? else {
        return Ok(Operation::unknown(call, invoked));
    };
    if answered < invoked {
        return Err("it was answered before it was asked".to_owned());
    }
    Ok(Operation::answered(call, invoked, answered, outcome(line)?))
}

fn condition(line: &Value) -> Result<Condition, String> {
    Ok(match optional(line, "condition", text)?.as_deref() {
        None => Condition::Always,
        Some("missing") => Condition::Missing,
        Some("missing_or") => Condition::MissingOr(text(line, "expected")?),
        Some(other) => return Err(format!("there is no condition {other:?}")),
    })
}

fn outcome(line: &Value) -> Result<Outcome, String> {
    let version = || version(line, "version");
    Ok(match text(line, "outcome")?.as_str() {
        "found" => Outcome::Found(text(line, "found")?, version()?),
        "missing" => Outcome::Missing,
        "stored" => Outcome::Stored(version()?),
        "deleted" => Outcome::Deleted(version()?),
        "not_met" => Outcome::NotMet(version()?),
        "fenced" => Outcome::Fenced,
        other => return Err(format!("there is no outcome {other:?}")),
    })
}

fn watch(line: &Value) -> Result<Watched, String> {
    let changes = line
        .get("changes")
        .and_then(Value::as_array)
        .ok_or("no changes")?;
    let change = |change: &Value| {
        Ok(Change {
            at: number(change, "at")?,
            value: optional(change, "value", text)?,
            version: version(change, "version")?,
        })
    };
    Ok(Watched {
        key: text(line, "key")?,
        registered: number(line, "registered")?,
        end: optional(line, "stopped", number)?.map_or(End::Lost, End::Stopped),
        changes: changes.iter().map(change).collect::<Result<_, String>>()?,
    })
}

fn held(line: &Value) -> Result<Held, String> {
    Ok(Held {
        lock: text(line, "lock")?,
        holder: text(line, "holder")?,
        token: version(line, "token")?,
        from: number(line, "from")?,
        until: number(line, "until")?,
    })
}

fn text(line: &Value, name: &str) -> Result<String, String> {
    let text = line.get(name).and_then(Value::as_str);
    text.map(str::to_owned)
        .ok_or_else(|| format!("{name} is no string"))
}

fn number(line: &Value, name: &str) -> Result<u64, String> {
    let number = line.get(name).and_then(Value::as_u64);
    number.ok_or_else(|| format!("{name} is no number"))
}

fn version(line: &Value, name: &str) -> Result<Version, String> {
    let parts = line.get(name).and_then(Value::as_array).map(Vec::as_slice);
    let Some([wall, counter]) = parts else {
        return Err(format!("{name} is no version"));
    };
    let both = wall.as_u64().zip(counter.as_u64());
    both.ok_or_else(|| format!("{name} is no version"))
}

/// `None` where the line does not say it, or says null.
fn optional<T>(
    line: &Value,
    name: &str,
    read: impl Fn(&Value, &str) -> Result<T, String>,
) -> Result<Option<T>, String> {
    match line.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(_) => read(line, name).map(Some),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SET: &str = r#"{"kind":"request","key":"k","call":"set","value":"a","invoked":1,"answered":2,"outcome":"stored","version":[10,1]}"#;
    const FOUND: &str = r#"{"kind":"request","key":"k","call":"get","invoked":3,"answered":4,"outcome":"found","found":"a","version":[10,1]}"#;
    const GONE: &str =
        r#"{"kind":"request","key":"k","call":"get","invoked":3,"answered":4,"outcome":"missing"}"#;

    fn check(lines: &[&str]) -> Result<Checked, String> {
        Recorded::parse(&lines.join("\n"))?.check(Tolerance::default())
    }

    #[test]
    fn every_kind_of_line_is_read() {
        let checked = check(&[
            SET,
            FOUND,
            r#"{"kind":"request","key":"k","call":"set","value":"b","condition":"missing_or","expected":"a","lives":5000,"token":[3,0],"invoked":5,"answered":null}"#,
            r#"{"kind":"request","key":"k","call":"delete","only":"c","token":[3,0],"invoked":6,"answered":7,"outcome":"not_met","version":[10,1]}"#,
            r#"{"kind":"watch","key":"k","registered":0,"stopped":4,"changes":[{"at":2,"version":[10,1],"value":"a"}]}"#,
            r#"{"kind":"held","lock":"l","holder":"h","token":[1,1],"from":1,"until":2}"#,
        ]);
        let expected = Checked {
            keys: 1,
            requests: 4,
            unknown: 1,
            watches: 1,
            changes: 1,
            held: 1,
            ..Checked::default()
        };
        assert_eq!(checked, Ok(expected));
    }

    #[test]
    fn a_lost_write_is_found() {
        assert!(check(&[SET, GONE]).unwrap_err().starts_with("L1: k:"));
    }

    #[test]
    fn a_stale_read_is_found() {
        let newer = SET
            .replace("[10,1]", "[11,1]")
            .replace(r#""a""#, r#""b""#)
            .replace(r#""answered":2"#, r#""answered":3"#)
            .replace(r#""invoked":1"#, r#""invoked":2"#);
        let later = FOUND.replace(r#""invoked":3,"answered":4"#, r#""invoked":4,"answered":5"#);
        assert!(check(&[SET, &newer, &later]).is_err());
        assert!(check(&[SET, &newer]).is_ok());
    }

    #[test]
    fn a_missed_notification_is_found() {
        let watch = r#"{"kind":"watch","key":"k","registered":0,"stopped":4,"changes":[]}"#;
        assert!(check(&[SET, watch]).unwrap_err().starts_with("L3:"));
    }

    #[test]
    fn two_holders_are_found() {
        let first = r#"{"kind":"held","lock":"l","holder":"a","token":[1,1],"from":1,"until":9}"#;
        let second = r#"{"kind":"held","lock":"l","holder":"b","token":[2,1],"from":5,"until":9}"#;
        assert!(check(&[first, second]).unwrap_err().starts_with("L2:"));
    }

    #[test]
    fn what_cannot_be_read_is_an_error() {
        for line in [
            "",
            "{}",
            r#"{"kind":"strange"}"#,
            &SET.replace("stored", "strange"),
            &SET.replace(r#""answered":2"#, r#""answered":0"#),
            &SET.replace("[10,1]", "[10]"),
            &SET.replace("[10,1]", "10"),
            &SET.replace(r#""invoked":1"#, r#""invoked":-1"#),
        ] {
            let error = Recorded::parse(&format!("{FOUND}\n{line}\n")).unwrap_err();
            assert!(error.starts_with("line 2: "), "{line}: {error}");
        }
    }
}
