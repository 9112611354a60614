//! Why rules are no policy.

use std::fmt;

use super::Policy;
use super::pattern::PatternError;
use super::rules::{BrokerMethod, RuleIndex};
use super::topics::RuleTopicError;

/// Why rules are no policy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    /// A rule has a mistake.
    #[error("{place}: {problem}")]
    Rule {
        /// Where.
        place: Box<Place>,
        /// What.
        problem: Problem,
    },
    /// More than [`Policy::RULES_MAX`].
    #[error("there are {rules} rules, at most {} are taken", Policy::RULES_MAX)]
    TooManyRules {
        /// How many.
        rules: usize,
    },
    /// More than [`Policy::TEXTS_MAX`].
    #[error(
        "there are {texts} names, topics and keys in the rules, at most {} are taken",
        Policy::TEXTS_MAX
    )]
    TooManyTexts {
        /// How many.
        texts: usize,
    },
}

/// Where in the rules something stands, by the names of the file format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Which rule.
    pub rule: RuleIndex,
    /// Which part of it, and which of several resources, counted from 0.
    pub part: (&'static str, Option<usize>),
    /// Which field of that, and which of several texts, counted from 0.
    pub field: (&'static str, Option<usize>),
}

/// What is wrong with a part of a rule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// A topic that is none.
    #[error("`{text}`: {error}")]
    Topic {
        /// As written.
        text: String,
        /// Why.
        error: RuleTopicError,
    },
    /// A pattern of client ids or keys that is none.
    #[error("`{text}`: {error}")]
    Pattern {
        /// As written.
        text: String,
        /// Why.
        error: PatternError,
    },
    /// Who may publish or subscribe to nothing need not be told so.
    #[error("{method} needs a topic")]
    NoTopic {
        /// What is allowed.
        method: BrokerMethod,
    },
    /// A rule about keys without one.
    #[error("there is no key")]
    NoKey,
    /// The state store has no such key.
    #[error("a key is empty")]
    EmptyKey,
    /// A line of attributes that would be about all clients.
    #[error("no attribute is named; all clients are `clientIds: [\"*\"]`")]
    NoAttribute,
}

impl Problem {
    pub(super) fn topic(text: &str, error: RuleTopicError) -> Self {
        let text = text.to_owned();
        Self::Topic { text, error }
    }

    pub(super) fn pattern(text: &str, error: PatternError) -> Self {
        let text = text.to_owned();
        Self::Pattern { text, error }
    }
}

impl Place {
    pub(super) fn in_rule(index: RuleIndex) -> Self {
        Self {
            rule: index,
            part: ("", None),
            field: ("", None),
        }
    }

    pub(super) fn at(
        self,
        part: &'static str,
        number: Option<usize>,
        field: &'static str,
        entry: Option<usize>,
    ) -> Self {
        Self {
            part: (part, number),
            field: (field, entry),
            ..self
        }
    }

    pub(super) fn error(self, problem: Problem) -> PolicyError {
        PolicyError::Rule {
            place: Box::new(self),
            problem,
        }
    }
}

/// People count from 1.
impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rule {}", self.rule)?;
        for (name, number) in [self.part, self.field] {
            if !name.is_empty() {
                write!(f, ", {name}")?;
            }
            if let Some(number) = number {
                write!(f, " {}", number + 1)?;
            }
        }
        Ok(())
    }
}
