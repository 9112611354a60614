//! What YAML, JSON and TOML have in common, as far as a policy needs it: texts, lists and tables, and where each begins.
//!
//! Nothing is interpreted that looks like something else: a plain `017` or `yes` of YAML is the text that stands there. Anchors,
//! aliases and tags of YAML are refused, so that a file cannot become larger than it is.

mod json;
mod toml;
mod yaml;

use super::mistake::Mistake;

/// A value, and where it begins.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Node {
    /// Counted from 1; `None` in JSON.
    pub(super) line: Option<usize>,
    pub(super) value: Value,
}

/// A value.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    /// Also what is left empty in YAML.
    Null,
    Text(String),
    /// Something of YAML that is not between quotes.
    Plain(String),
    Flag(bool),
    /// Something that no policy has, with what it is called.
    Other(&'static str),
    List(Vec<Node>),
    Table(Vec<Entry>),
}

/// A field of a table.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Entry {
    pub(super) line: Option<usize>,
    pub(super) field: String,
    pub(super) node: Node,
}

/// How a policy is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    Yaml,
    Json,
    Toml,
}

/// A mistake, and where.
#[derive(Debug, PartialEq)]
pub(super) struct MistakeAt {
    pub(super) line: Option<usize>,
    pub(super) mistake: Mistake,
}

impl Format {
    pub(super) fn parse(self, text: &str) -> Result<Node, MistakeAt> {
        match self {
            Self::Yaml => yaml::parse(text),
            Self::Json => json::parse(text),
            Self::Toml => toml::parse(text),
        }
    }
}

impl Node {
    /// A mistake at this place.
    pub(super) fn mistake(&self, mistake: Mistake) -> MistakeAt {
        MistakeAt {
            line: self.line,
            mistake,
        }
    }

    /// The node of a field, if this is a table that has it.
    pub(super) fn get(&self, field: &str) -> Option<&Self> {
        let Value::Table(entries) = &self.value else {
            return None;
        };
        entries
            .iter()
            .find(|entry| entry.field == field)
            .map(|entry| &entry.node)
    }

    /// One of a list, if this is one.
    pub(super) fn item(&self, index: usize) -> Option<&Self> {
        let Value::List(items) = &self.value else {
            return None;
        };
        items.get(index)
    }
}

/// How deep values may be within each other; a whole resource needs nine.
const DEPTH_MAX: usize = 32;
