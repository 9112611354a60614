//! Text of clients has one form where people read it, and few doors to them.
//!
//! `protocol::Escaped` is the form. The log, the audit log and what commands print have one door each, which escapes all that passes; so
//! nothing else writes to stdout or stderr, makes a log, or escapes in a way of its own.

use crate::Finding;
use crate::io::contains_word;
use crate::source::Source;

/// Who escapes in a way of its own, or takes out what it does not like.
const ESCAPERS: [&str; 5] = [
    "escape_ascii",
    "escape_debug",
    "escape_default",
    "replace(char::is_control",
    "REPLACEMENT_CHARACTER",
];

/// Where `protocol::Escaped` is not what is meant.
const OWN_FORM: [&str; 2] = [
    "crates/protocol/src/escaped.rs",
    // For `Debug`, in failures of tests.
    "crates/store/src/key.rs",
];

/// What writes where people read it.
const WRITERS: [&str; 6] = [
    "stdout()",
    "stderr()",
    "println!",
    "eprintln!",
    "tracing_subscriber::fmt()",
    "tracing_subscriber::registry()",
];

/// The doors, and what stands at them.
const DOORS: [&str; 9] = [
    // The log, and its thread.
    "crates/server/src/logging.rs",
    "crates/server/src/logging/lines.rs",
    // The audit log, where that is stderr.
    "crates/server/src/audit/file.rs",
    // What commands print.
    "crates/statehold/src/output.rs",
    // Bars of progress and prompts, with figures and words of their own.
    "crates/statehold/src/import/progress.rs",
    "crates/statehold/src/backup/progress.rs",
    "crates/statehold/src/bench/load.rs",
    "crates/statehold/src/secret.rs",
    // The size of the terminal.
    "crates/statehold/src/table.rs",
];

/// Forms and doors beside those.
pub fn check(source: &Source) -> Vec<Finding> {
    let path = source.path.as_str();
    let mut findings = Vec::new();
    let is_tested = |name: &str| path.starts_with(&format!("crates/{name}/src/"));
    let is_edge = ["server", "statehold"].into_iter().any(is_tested);
    let is_ours = is_edge
        || [
            "broker",
            "mqtt",
            "session_values",
            "state_service",
            "cluster",
            "store",
            "protocol",
        ]
        .into_iter()
        .any(is_tested);
    if !is_ours || path.ends_with("tests.rs") || path.contains("/tests/") {
        return findings;
    }
    for (number, line) in source.product_lines() {
        for text in ESCAPERS.into_iter().filter(|_| !OWN_FORM.contains(&path)) {
            if contains_word(line, text) {
                let what = format!("`{text}`: text of others is shown as `protocol::Escaped` shows it");
                findings.push(Finding::at_line(path, number, what));
            }
        }
        let is_question = contains_word(line, "is_terminal");
        for text in WRITERS
            .into_iter()
            .filter(|_| is_edge && !is_question && !DOORS.contains(&path))
        {
            if contains_word(line, text) {
                let what = format!("`{text}`: what people read goes through a door that escapes it");
                findings.push(Finding::at_line(path, number, what));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(path: &str, text: &str) -> usize {
        check(&Source::parse(path, text)).len()
    }

    #[test]
    fn forms_of_their_own_and_further_doors_are_found() {
        let escaping = "fn f(key: &[u8]) -> String { key.escape_ascii().to_string() }\n";
        assert_eq!(findings("crates/broker/src/a.rs", escaping), 1);
        assert_eq!(findings("crates/store/src/key.rs", escaping), 0);
        assert_eq!(findings("crates/sim/src/a.rs", escaping), 0);
        let writing = "fn f() { let _ = write!(std::io::stderr(), \"x\"); }\n";
        assert_eq!(findings("crates/server/src/a.rs", writing), 1);
        assert_eq!(findings("crates/statehold/src/output.rs", writing), 0);
        let asking = "fn f() -> bool { std::io::stdout().is_terminal() }\n";
        assert_eq!(findings("crates/statehold/src/get.rs", asking), 0);
        let logging = "fn f() { tracing_subscriber::fmt().init(); }\n";
        assert_eq!(findings("crates/server/src/a.rs", logging), 1);
    }
}
