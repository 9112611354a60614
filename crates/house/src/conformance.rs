//! The numbered statements of the MQTT specifications: where the code satisfies each, and which test shows it.
//!
//! `conformance/*.toml` list the statements in our words, with whom they bind:
//!
//! | field | means |
//! |---|---|
//! | `binds` | `"server"`, `"client"` or `"both"` |
//! | `says` | what is demanded |
//! | `code`, `tests` | places, `crate/src/file.rs:function`, beside those where the sources cite the statement |
//! | `same_as` | the statement of version 5.0 that demands the same and is satisfied by the same code |
//! | `not_applicable`, `planned`, `untested` | instead of a test: why there is none |
//!
//! Sources cite a statement as `[MQTT-x.y.z-n]`, one of version 3.1.1 with ` of version 3.1.1` behind it; a citation in a
//! test, or a test that is called `mqtt_x_y_z_n_…` or `mqtt311_x_y_z_n_…`, makes it that statement's test. *Invariant*: what
//! is called tested is cited by the code of the server and by a test of it; that the test is a good one is for people to see.

mod page;
mod references;
mod statements;

use std::collections::BTreeMap;

pub use page::page;
pub use references::{Reference, in_source, in_testdata};
pub use statements::{Binds, Exception, Specification, Statement, StatementId, Version};

use crate::Finding;
use crate::repository::Text;
use crate::source::Source;

/// A file below `crates/` and, in sources, something in it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Relative to `crates/`.
    pub path: String,
    /// A function or a type.
    pub item: Option<String>,
}

/// Where a statement is satisfied and shown.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Evidence {
    /// In the server.
    pub code: Vec<Place>,
    /// Of the server.
    pub tests: Vec<Place>,
}

/// How a statement stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status<'a> {
    /// By code and by a test.
    Tested,
    /// It binds clients only; what the server does about one that breaks it is in the evidence.
    OfClients,
    /// Not by a test, and why.
    Exception(&'a Exception),
    /// Neither, and nothing says why.
    Nothing,
}

impl Evidence {
    fn is_whole(&self) -> bool {
        !self.code.is_empty() && !self.tests.is_empty()
    }
}

/// How a statement stands with its evidence.
pub fn status<'a>(statement: &'a Statement, evidence: &Evidence) -> Status<'a> {
    match &statement.exception {
        Some(exception) => Status::Exception(exception),
        None if statement.binds == Binds::Client => Status::OfClients,
        None if evidence.is_whole() => Status::Tested,
        None => Status::Nothing,
    }
}

/// What the sources and the lists say about each statement.
pub fn evidence(
    specifications: &[Specification],
    sources: &[Source],
    testdata: &[Text],
) -> BTreeMap<StatementId, Evidence> {
    let mut all: BTreeMap<StatementId, Evidence> = BTreeMap::new();
    for statement in specifications.iter().flat_map(Specification::statements) {
        let evidence = all.entry(statement.id).or_default();
        evidence.code.extend(statement.code.iter().cloned());
        evidence.tests.extend(statement.tests.iter().cloned());
    }
    let cited = sources.iter().flat_map(in_source);
    for reference in cited.chain(testdata.iter().flat_map(in_testdata)) {
        let evidence = all.entry(reference.id).or_default();
        if reference.is_of_server_code() {
            evidence.code.push(reference.place);
        } else if reference.is_of_server_test() {
            evidence.tests.push(reference.place);
        }
    }
    for evidence in all.values_mut() {
        for places in [&mut evidence.code, &mut evidence.tests] {
            places.sort();
            places.dedup();
        }
    }
    all
}

/// Statements without evidence, with evidence that contradicts what is said of them, and places that are not there.
pub fn check_statements(
    specification: &Specification,
    evidence: &BTreeMap<StatementId, Evidence>,
    sources: &[Source],
) -> Vec<Finding> {
    let mut findings = Vec::new();
    let nothing = Evidence::default();
    let is_whole = |id: StatementId| evidence.get(&id).is_some_and(Evidence::is_whole);
    for statement in specification.statements() {
        let mut found = |what: String| {
            let what = format!("{}: {what}", statement.id);
            findings.push(Finding::in_file(&specification.path, what));
        };
        let evidence = evidence.get(&statement.id).unwrap_or(&nothing);
        match status(statement, evidence) {
            Status::Nothing if evidence.code.is_empty() => found("no code is said to satisfy it".to_owned()),
            Status::Nothing => found("no test shows it, and nothing says why".to_owned()),
            Status::Exception(Exception::SameAs(same)) if !is_whole(*same) => {
                found(format!("{same} of version 5.0 is not tested itself"));
            }
            Status::Exception(exception) if exception.is_instead_of_tests() && evidence.is_whole() => {
                found(format!("it has code and tests, so it is no longer {exception}"));
            }
            _ => {}
        }
        for (place, is_test) in places(statement) {
            if !references::is_there(place, is_test, sources) {
                found(format!("there is no {place}"));
            }
        }
    }
    findings
}

/// Citations of statements that do not exist.
pub fn check_citations(
    specifications: &[Specification],
    sources: &[Source],
    testdata: &[Text],
) -> Vec<Finding> {
    let exists = |id: StatementId| {
        let mut all = specifications.iter().flat_map(Specification::statements);
        all.any(|statement| statement.id == id)
    };
    let cited = sources.iter().flat_map(in_source);
    cited
        .chain(testdata.iter().flat_map(in_testdata))
        .filter(|reference| !exists(reference.id))
        .map(|reference| {
            let path = format!("crates/{}", reference.place.path);
            let what = format!("version {} has no {}", reference.id.version, reference.id);
            Finding::at_line(&path, reference.line, what)
        })
        .collect()
}

fn places(statement: &Statement) -> impl Iterator<Item = (&Place, bool)> {
    let code = statement.code.iter().map(|place| (place, false));
    code.chain(statement.tests.iter().map(|place| (place, true)))
}

impl std::fmt::Display for Place {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.item {
            Some(item) => write!(to, "{}:{item}", self.path),
            None => write!(to, "{}", self.path),
        }
    }
}

#[cfg(test)]
mod tests;
