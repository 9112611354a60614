//! What was carried over and what was not.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use anyhow::Context;
use client::protocol::Escaped;
use serde_json::{Map, Value, json};

use crate::exit::Exit;
use crate::output;

/// What was carried over and what was not, for people and for scripts.
#[derive(Debug)]
pub(super) struct Report {
    source: &'static str,
    is_dry: bool,
    tallies: BTreeMap<&'static str, Tally>,
    passed_over: BTreeMap<&'static str, u64>,
    left_out: BTreeMap<Cow<'static, str>, LeftOut>,
    notes: Vec<String>,
    /// A line for each thing that is left out.
    file: Option<BufWriter<File>>,
}

#[derive(Debug, Default)]
struct Tally {
    count: u64,
    bytes: u64,
}

#[derive(Debug, Default)]
struct LeftOut {
    count: u64,
    examples: Vec<String>,
}

/// Names that are shown of each reason.
const EXAMPLES_MAX: usize = 5;

/// Reasons are of ours or of a server, which could make up any number of them.
const REASONS_MAX: usize = 100;

impl Report {
    pub(super) fn new(source: &'static str, is_dry: bool, file: Option<&Path>) -> anyhow::Result<Self> {
        let create = |path: &Path| {
            let file = File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
            Ok::<_, anyhow::Error>(BufWriter::new(file))
        };
        Ok(Self {
            source,
            is_dry,
            tallies: BTreeMap::new(),
            passed_over: BTreeMap::new(),
            left_out: BTreeMap::new(),
            notes: Vec::new(),
            file: file.map(create).transpose()?,
        })
    }

    /// It is here now, or would be. `what`: in the plural, as in "keys".
    pub(super) fn carried_over(&mut self, what: &'static str, bytes: u64) {
        let tally = self.tallies.entry(what).or_default();
        tally.count += 1;
        tally.bytes += bytes;
    }

    /// It is not carried over, and nobody wants it to be. `why`: as in "were there already".
    pub(super) fn passed_over(&mut self, why: &'static str) {
        *self.passed_over.entry(why).or_default() += 1;
    }

    /// It is not carried over, although it was asked for.
    pub(super) fn left_out(&mut self, name: &[u8], why: impl Into<Cow<'static, str>>) -> anyhow::Result<()> {
        let mut why = why.into();
        if let Some(file) = &mut self.file {
            let mut line = named(name);
            line.insert("reason".to_owned(), why.clone().into());
            writeln!(file, "{}", Value::Object(line)).context("cannot write the report")?;
        }
        if !self.left_out.contains_key(&why) && self.left_out.len() >= REASONS_MAX {
            why = "other reasons".into();
        }
        let left_out = self.left_out.entry(why).or_default();
        left_out.count += 1;
        if left_out.examples.len() < EXAMPLES_MAX {
            left_out.examples.push(shown(name));
        }
        Ok(())
    }

    /// Something else that whoever imports should know.
    pub(super) fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }

    /// How many are here so far.
    pub(super) fn carried_over_count(&self) -> u64 {
        self.tallies.values().map(|tally| tally.count).sum()
    }

    /// How many are left out so far.
    pub(super) fn left_out_count(&self) -> u64 {
        self.left_out.values().map(|left_out| left_out.count).sum()
    }

    /// Shows it; whether anything is left out is the exit code.
    pub(super) fn show(mut self, is_json: bool) -> anyhow::Result<Exit> {
        let whole = self.json();
        if let Some(mut file) = self.file.take() {
            let written = writeln!(file, "{whole}").and_then(|()| file.flush());
            written.context("cannot write the report")?;
        }
        if is_json {
            output::line(whole.to_string())?;
        } else {
            output::raw(self.text().as_bytes())?;
        }
        Ok(if self.left_out.is_empty() {
            Exit::Done
        } else {
            Exit::LeftOut
        })
    }

    fn json(&self) -> Value {
        let carried_over: Map<_, _> = (self.tallies.iter())
            .map(|(what, tally)| {
                let tally = json!({ "count": tally.count, "bytes": tally.bytes });
                (what.replace(' ', "_"), tally)
            })
            .collect();
        let left_out: Vec<_> = (self.left_out.iter())
            .map(|(why, left_out)| {
                json!({ "reason": why, "count": left_out.count, "examples": left_out.examples })
            })
            .collect();
        let passed_over: Vec<_> = (self.passed_over.iter())
            .map(|(why, count)| json!({ "reason": why, "count": count }))
            .collect();
        json!({
            "source": self.source,
            "dry_run": self.is_dry,
            "carried_over": carried_over,
            "passed_over": passed_over,
            "left_out": left_out,
            "notes": self.notes,
        })
    }

    fn text(&self) -> String {
        let mut lines = Vec::new();
        let head = if self.is_dry {
            "would be carried over"
        } else {
            "carried over"
        };
        for (what, tally) in &self.tallies {
            let bytes = crate::table::bytes(&tally.bytes.into());
            lines.push(format!("{head}: {} {what}, {bytes}", tally.count));
        }
        if self.tallies.is_empty() {
            lines.push(format!("{head}: nothing"));
        }
        for (why, count) in &self.passed_over {
            lines.push(format!("passed over: {count} {why}"));
        }
        for (why, left_out) in &self.left_out {
            let examples = left_out.examples.join(", ");
            let more = if left_out.count > left_out.examples.len() as u64 {
                ", ..."
            } else {
                ""
            };
            lines.push(format!("LEFT OUT: {}, {why}: {examples}{more}", left_out.count));
        }
        for note in &self.notes {
            lines.push(format!("note: {note}"));
        }
        if self.is_dry {
            lines.push("nothing was written: this was a dry run".to_owned());
        }
        lines.join("\n") + "\n"
    }
}

/// A name of any bytes as JSON.
fn named(name: &[u8]) -> Map<String, Value> {
    let mut line = Map::new();
    match str::from_utf8(name) {
        Ok(text) => line.insert("name".to_owned(), text.into()),
        Err(_) => line.insert("name_escaped".to_owned(), Escaped::whole(name).to_string().into()),
    };
    line
}

/// A name of any bytes for people: it does nothing to a terminal, and is not too long for one.
pub(super) fn shown(name: &[u8]) -> String {
    Escaped::new(name).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        let mut report = Report::new("redis", false, None).expect("no file");
        report.carried_over("keys", 1_000);
        report.carried_over("keys", 1_000);
        report.passed_over("had expired");
        for number in 0..7 {
            let name = format!("list {number}");
            report.left_out(name.as_bytes(), "a list").expect("no file");
        }
        report
    }

    #[test]
    fn people_see_what_is_left_out_with_examples() {
        let expected = "\
carried over: 2 keys, 2.0 KiB
passed over: 1 had expired
LEFT OUT: 7, a list: list 0, list 1, list 2, list 3, list 4, ...
";
        assert_eq!(report().text(), expected);
        assert_eq!(report().left_out_count(), 7);
    }

    #[test]
    fn scripts_get_all_numbers() {
        let json = report().json();
        assert_eq!(json["carried_over"]["keys"]["count"], 2);
        assert_eq!(json["left_out"][0]["count"], 7);
        assert_eq!(json["left_out"][0]["reason"], "a list");
    }

    #[test]
    fn a_file_has_a_line_for_each_that_is_left_out() {
        let directory = tempfile::TempDir::new().expect("a directory");
        let path = directory.path().join("report");
        let mut report = Report::new("redis", true, Some(&path)).expect("made");
        report.left_out(b"a\xff", "a list").expect("written");
        report.left_out(b"b", "a hash").expect("written");
        assert_eq!(report.show(true).expect("shown"), Exit::LeftOut);
        let written = std::fs::read_to_string(path).expect("there");
        let lines: Vec<_> = written.lines().collect();
        assert_eq!(lines[0], r#"{"name_escaped":"a\\xff","reason":"a list"}"#);
        assert_eq!(lines[1], r#"{"name":"b","reason":"a hash"}"#);
        assert!(
            lines[2].contains(r#""source":"redis""#) && lines.len() == 3,
            "{written}"
        );
    }

    #[test]
    fn names_do_nothing_to_a_terminal() {
        assert_eq!(shown(b"a\x1b[31m"), r"a\u{1b}[31m");
        let long = shown("ä".repeat(900).as_bytes());
        assert_eq!(long, format!("{}…(1800 bytes)", "ä".repeat(128)));
    }

    #[test]
    fn a_server_cannot_make_the_report_grow_without_end() {
        let mut report = Report::new("redis", false, None).expect("no file");
        for number in 0..1_000 {
            report
                .left_out(b"k", format!("reason {number}"))
                .expect("no file");
        }
        assert_eq!(
            (report.left_out.len(), report.left_out_count()),
            (REASONS_MAX + 1, 1_000)
        );
    }
}
