//! The page that is made of all this.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::{Binds, Evidence, Exception, Place, Specification, Statement, StatementId, Status, status};

/// The whole of docs/conformance.md.
pub fn page(specifications: &[Specification], evidence: &BTreeMap<StatementId, Evidence>) -> String {
    let mut out = OPENING.to_owned();
    summary(specifications, evidence, &mut out);
    for specification in specifications {
        let _ = write!(out, "\n## MQTT {}\n", specification.version);
        for (title, statements) in &specification.groups {
            let _ = write!(out, "\n### {title} in {}\n\n", specification.version);
            out.push_str("| statement | demands | how it stands | code | tests |\n|---|---|---|---|---|\n");
            for statement in statements {
                row(statement, &evidence_of(statement, evidence), &mut out);
            }
        }
    }
    out
}

fn summary(specifications: &[Specification], evidence: &BTreeMap<StatementId, Evidence>, out: &mut String) {
    out.push_str("\n|");
    for specification in specifications {
        let _ = write!(out, " | {}", specification.version);
    }
    out.push_str(" |\n|---");
    for _ in specifications {
        out.push_str("|---:");
    }
    out.push_str("|\n");
    for (name, counts) in LINES {
        let _ = write!(out, "| {name}");
        for specification in specifications {
            let is_counted = |statement: &&Statement| counts(statement, &evidence_of(statement, evidence));
            let count = specification.statements().filter(is_counted).count();
            let _ = write!(out, " | {count}");
        }
        out.push_str(" |\n");
    }
}

fn row(statement: &Statement, evidence: &Evidence, out: &mut String) {
    let stands = match status(statement, evidence) {
        Status::Tested => "tested".to_owned(),
        Status::OfClients if evidence.tests.is_empty() => "binds clients".to_owned(),
        Status::OfClients => "binds clients; the server's part is tested".to_owned(),
        Status::Exception(exception) => exception.to_string(),
        Status::Nothing => "nothing".to_owned(),
    };
    let (code, tests) = (places(&evidence.code), places(&evidence.tests));
    let _ = writeln!(
        out,
        "| {} | {} | {stands} | {code} | {tests} |",
        statement.id, statement.says
    );
}

/// Files with what is meant in them.
fn places(places: &[Place]) -> String {
    let mut files: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for place in places {
        files
            .entry(&place.path)
            .or_default()
            .extend(place.item.as_deref());
    }
    let shown = files.into_iter().map(|(path, items)| match &items[..] {
        [] => format!("`{path}`"),
        items => format!("`{path}`: {}", items.join(", ")),
    });
    shown.collect::<Vec<_>>().join("; ")
}

fn evidence_of(statement: &Statement, evidence: &BTreeMap<StatementId, Evidence>) -> Evidence {
    evidence.get(&statement.id).cloned().unwrap_or_default()
}

type Counts = fn(&Statement, &Evidence) -> bool;

/// The lines of the summary.
const LINES: [(&str, Counts); 9] = [
    ("statements", |_, _| true),
    ("that bind clients only", |statement, _| {
        statement.binds == Binds::Client
    }),
    ("of these, the server's part is tested", |statement, evidence| {
        status(statement, evidence) == Status::OfClients && !evidence.tests.is_empty()
    }),
    ("**that bind the server**", |statement, _| is_of_server(statement)),
    ("of these, tested", |statement, evidence| {
        is_of_server(statement) && status(statement, evidence) == Status::Tested
    }),
    (
        "the same as one of version 5.0, by the same code",
        |statement, _| is_of_server(statement) && matches!(statement.exception, Some(Exception::SameAs(_))),
    ),
    ("not tested", |statement, _| {
        is_of_server(statement) && matches!(statement.exception, Some(Exception::Untested(_)))
    }),
    ("planned", |statement, _| {
        is_of_server(statement) && matches!(statement.exception, Some(Exception::Planned(_)))
    }),
    ("not applicable", |statement, _| {
        is_of_server(statement) && matches!(statement.exception, Some(Exception::NotApplicable(_)))
    }),
];

fn is_of_server(statement: &Statement) -> bool {
    statement.binds != Binds::Client
}

const OPENING: &str = "<!-- Made by `UPDATE=1 cargo test -p house conformance`; a test compares it. -->

# Conformance

The numbered statements of [MQTT 5.0](https://docs.oasis-open.org/mqtt/mqtt/v5.0/mqtt-v5.0.html) and
[MQTT 3.1.1](https://docs.oasis-open.org/mqtt/mqtt/v3.1.1/mqtt-v3.1.1.html), in our words: where the server satisfies each, and which test
shows it. Paths are below `crates/`. What is called tested is cited by code and by a test of the server, which the build checks;
the specification's own text is what counts.
";
