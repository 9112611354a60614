//! The lists of statements, `conformance/*.toml`.

use std::fmt;

use toml::{Table, Value};

use super::Place;

/// A version of MQTT.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    /// 5.0.
    V5,
    /// 3.1.1.
    V311,
}

/// The number of a statement: `[MQTT-3.1.2-22]` is the 22nd of section 3.1.2.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct StatementId {
    /// The two versions number differently.
    pub version: Version,
    /// Of the specification.
    pub section: [u16; 3],
    /// In the section, from one.
    pub number: u16,
}

/// Who has to satisfy a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Binds {
    /// Clients only.
    Client,
    /// Servers only.
    Server,
    /// Both, or whoever sends or receives.
    Both,
}

/// Why a statement has no test of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Exception {
    /// The statement of version 5.0 that demands the same of the same code.
    SameAs(StatementId),
    /// It is about something that this server does not do, or does not leave out.
    NotApplicable(String),
    /// What it is about is not built yet.
    Planned(String),
    /// Nobody wrote one.
    Untested(String),
}

/// One statement.
#[derive(Debug, Clone)]
pub struct Statement {
    /// Its number.
    pub id: StatementId,
    /// Whom it binds.
    pub binds: Binds,
    /// What it demands.
    pub says: String,
    /// Code that satisfies it and does not cite it.
    pub code: Vec<Place>,
    /// Tests that show it and do not cite it.
    pub tests: Vec<Place>,
    /// Why there are none.
    pub exception: Option<Exception>,
}

/// All statements of a version.
#[derive(Debug, Clone)]
pub struct Specification {
    /// The file.
    pub path: String,
    /// Of MQTT.
    pub version: Version,
    /// Title and statements, each in the order of the specification.
    pub groups: Vec<(String, Vec<Statement>)>,
}

impl Specification {
    /// Reads a list.
    ///
    /// # Errors
    /// What is wrong in it.
    pub fn parse(path: &str, version: Version, text: &str) -> Result<Self, String> {
        let table: Table = text.parse().map_err(|error| format!("{path}: {error}"))?;
        let mut groups = Vec::new();
        for (title, group) in table {
            let group = group.as_table().ok_or(format!("{path}: {title} is no table"))?;
            let mut statements = group
                .iter()
                .map(|(id, fields)| {
                    statement(version, id, fields).ok_or(format!("{path}: {id} is not understood"))
                })
                .collect::<Result<Vec<_>, _>>()?;
            statements.sort_by_key(|statement| statement.id);
            groups.push((title, statements));
        }
        groups.sort_by_key(|(_, statements)| statements.first().map(|statement| statement.id));
        Ok(Self {
            path: path.to_owned(),
            version,
            groups,
        })
    }

    /// All of them, in order.
    pub fn statements(&self) -> impl Iterator<Item = &Statement> {
        self.groups.iter().flat_map(|(_, statements)| statements)
    }
}

impl StatementId {
    /// `3.1.2-22`, or with another letter between the numbers.
    pub fn parse(version: Version, text: &str, between: [char; 2]) -> Option<Self> {
        let mut parts = text.split(between);
        let mut number = || parts.next()?.parse().ok();
        let id = Self {
            version,
            section: [number()?, number()?, number()?],
            number: number()?,
        };
        parts.next().is_none().then_some(id)
    }
}

impl Exception {
    /// Whether tests of its own would contradict it.
    pub fn is_instead_of_tests(&self) -> bool {
        !matches!(self, Self::SameAs(_))
    }
}

/// Nothing but the fields that are known.
fn statement(version: Version, id: &str, fields: &Value) -> Option<Statement> {
    let fields = fields.as_table()?;
    let mut statement = Statement {
        id: StatementId::parse(version, id, ['.', '-'])?,
        binds: Binds::Both,
        says: fields.get("says")?.as_str()?.to_owned(),
        code: Vec::new(),
        tests: Vec::new(),
        exception: None,
    };
    for (name, value) in fields {
        let text = || value.as_str().map(str::to_owned);
        match name.as_str() {
            "says" => {}
            "binds" => statement.binds = binds(value.as_str()?)?,
            "code" => statement.code = places(value)?,
            "tests" => statement.tests = places(value)?,
            "same_as" => {
                let same = StatementId::parse(Version::V5, value.as_str()?, ['.', '-'])?;
                statement.exception = Some(Exception::SameAs(same));
            }
            "not_applicable" => statement.exception = Some(Exception::NotApplicable(text()?)),
            "planned" => statement.exception = Some(Exception::Planned(text()?)),
            "untested" => statement.exception = Some(Exception::Untested(text()?)),
            _ => return None,
        }
    }
    Some(statement)
}

fn binds(text: &str) -> Option<Binds> {
    match text {
        "client" => Some(Binds::Client),
        "server" => Some(Binds::Server),
        "both" => Some(Binds::Both),
        _ => None,
    }
}

fn places(value: &Value) -> Option<Vec<Place>> {
    let place = |value: &Value| {
        let text = value.as_str()?;
        let (path, item) = match text.split_once(':') {
            Some((path, item)) => (path, Some(item.to_owned())),
            None => (text, None),
        };
        Some(Place {
            path: path.to_owned(),
            item,
        })
    };
    value.as_array()?.iter().map(place).collect()
}

impl fmt::Display for Version {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(match self {
            Self::V5 => "5.0",
            Self::V311 => "3.1.1",
        })
    }
}

impl fmt::Display for StatementId {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [chapter, section, subsection] = self.section;
        write!(to, "MQTT-{chapter}.{section}.{subsection}-{}", self.number)
    }
}

impl fmt::Display for Exception {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SameAs(id) => write!(to, "as {id} of version 5.0"),
            Self::NotApplicable(why) => write!(to, "not applicable: {why}"),
            Self::Planned(what) => write!(to, "planned: {what}"),
            Self::Untested(why) => write!(to, "untested: {why}"),
        }
    }
}
