//! Topics of rules: which messages may be published, and which filters subscribed to.
//!
//! A filter is allowed by a rule if every topic that matches the filter matches the rule's: then a client gets no message that the
//! rule does not name. So wildcards of the client are covered by wildcards of the rule only.
//!
//! Invariant: what stands for a placeholder is (part of) one level. It cannot bring a `/` or a wildcard along, because it
//! is compared with a level of the client's that has none; it cannot make a topic begin with `$`; and it is one value (`ends.rs`).

use std::collections::BTreeMap;

use protocol::topic::TopicFilterError;
use protocol::{Text, TopicFilter};

use super::Policy;
use super::ends::{self, AmbiguityError, Ends, Open, Syntax};
use super::entries::{Entries, Entry, Search};
use super::placeholders::{Piece, PlaceholderError, pieces};
use super::subject::Subject;

/// The topic of a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RuleTopic(Vec<Level>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Level {
    Name(Box<str>),
    /// `+`
    Any,
    /// `#`
    Rest,
    Open(OpenLevel),
}

/// A level with placeholders.
#[derive(Debug, Clone, PartialEq, Eq)]
struct OpenLevel(Vec<Part>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Text(Box<str>),
    Placeholder(Open),
}

/// Why a topic of a rule is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RuleTopicError {
    /// What is between braces.
    #[error(transparent)]
    Placeholder(#[from] PlaceholderError),
    /// It would be no topic filter, whoever the client is.
    #[error(transparent)]
    Filter(#[from] TopicFilterError),
    /// It has a character that no topic has, or is longer than any.
    #[error("it cannot be the topic of any message")]
    Text,
    /// Two clients could have the same by it.
    #[error(transparent)]
    Ambiguous(#[from] AmbiguityError),
    /// More than [`Policy::TOPIC_LEVELS_MAX`].
    #[error("it has more than {} levels", Policy::TOPIC_LEVELS_MAX)]
    Levels,
    /// A client would choose which topic of the server it is.
    #[error("its first level begins with $ and has a placeholder")]
    Reserved,
}

/// The topics of all rules, and who may have them: a tree of their levels.
#[derive(Debug, Default)]
pub(super) struct TopicTree {
    /// Of the topics that end here.
    ending: Entries,
    /// Of the topics that go on with `#` and end.
    rest: Entries,
    names: BTreeMap<Box<str>, TopicTree>,
    any: Option<Box<TopicTree>>,
    open: Vec<(OpenLevel, TopicTree)>,
}

impl RuleTopic {
    pub(super) fn parse(text: &str, ends: &Ends) -> Result<Self, RuleTopicError> {
        let pieces = pieces(text)?;
        let sample: String = pieces.iter().map(Piece::sample).collect();
        TopicFilter::parse(Text::new(sample).map_err(|_| RuleTopicError::Text)?)?;
        ends::check(text, Syntax::Topics)?;

        let mut levels = vec![Vec::new()];
        for piece in pieces {
            match piece {
                Piece::Text(text) => {
                    for (index, text) in text.split('/').enumerate() {
                        if index > 0 {
                            levels.push(Vec::new());
                        }
                        if let Some(level) = levels.last_mut().filter(|_| !text.is_empty()) {
                            level.push(Part::Text(text.into()));
                        }
                    }
                }
                Piece::Placeholder(placeholder) => {
                    if let Some(level) = levels.last_mut() {
                        level.push(Part::Placeholder(Open::new(placeholder, ends)));
                    }
                }
            }
        }
        if levels.len() > Policy::TOPIC_LEVELS_MAX {
            return Err(RuleTopicError::Levels);
        }
        let levels: Vec<_> = levels.into_iter().map(Level::new).collect();
        match levels.first() {
            Some(Level::Open(open)) if open.begins_with_dollar() => Err(RuleTopicError::Reserved),
            _ => Ok(Self(levels)),
        }
    }

    /// Whether every topic that matches the filter matches this, which is what it says of a single rule. A topic is the filter of itself.
    pub(super) fn covers(&self, filter: &str, subject: &Subject) -> bool {
        let mut levels = self.0.as_slice();
        for (index, asked) in filter.split('/').enumerate() {
            let is_first = index == 0;
            let is_reserved = is_first && asked.starts_with('$');
            let Some((level, after)) = levels.split_first() else {
                return false;
            };
            let is_covered = match level {
                Level::Rest => return !is_reserved,
                Level::Any if asked == "#" => return is_first && matches!(after, [Level::Rest]),
                Level::Any => !is_reserved,
                Level::Name(name) => **name == *asked,
                Level::Open(open) => !is_reserved && open.matches(asked, subject),
            };
            if !is_covered {
                return false;
            }
            levels = after;
        }
        matches!(levels, [] | [Level::Rest])
    }
}

impl Level {
    fn new(parts: Vec<Part>) -> Self {
        match parts.as_slice() {
            [] => Self::Name("".into()),
            [Part::Text(text)] => match &**text {
                "+" => Self::Any,
                "#" => Self::Rest,
                _ => Self::Name(text.clone()),
            },
            _ => Self::Open(OpenLevel(parts)),
        }
    }
}

impl OpenLevel {
    fn begins_with_dollar(&self) -> bool {
        matches!(self.0.first(), Some(Part::Text(text)) if text.starts_with('$'))
    }

    fn matches(&self, level: &str, subject: &Subject) -> bool {
        if matches!(level, "+" | "#") {
            return false;
        }
        let mut rest = level;
        for part in &self.0 {
            let text = match part {
                Part::Text(text) => Some(&**text),
                Part::Placeholder(placeholder) => placeholder.value(subject),
            };
            let Some(after) = text.and_then(|text| rest.strip_prefix(text)) else {
                return false;
            };
            rest = after;
        }
        rest.is_empty()
    }
}

impl TopicTree {
    pub(super) fn insert(&mut self, topic: &RuleTopic, entry: Entry) {
        let mut at = self;
        for level in &topic.0 {
            at = match level {
                Level::Name(name) => at.names.entry(name.clone()).or_default(),
                Level::Any => at.any.get_or_insert_default(),
                Level::Rest => return at.rest.push(entry),
                Level::Open(open) => at.open_child(open),
            };
        }
        at.ending.push(entry);
    }

    fn open_child(&mut self, level: &OpenLevel) -> &mut Self {
        let known = self.open.iter().position(|(open, _)| open == level);
        let at = known.unwrap_or_else(|| {
            self.open.push((level.clone(), Self::default()));
            self.open.len() - 1
        });
        &mut self.open[at].1
    }

    /// Shows the search all rules with a topic that covers the filter. A topic is the filter of itself.
    pub(super) fn find(&self, filter: &str, search: &mut Search<'_>) {
        let (first, after) = split_level(filter);
        match first {
            // What `#` matches has a first level, and `+/#` says no more.
            "#" => {
                search.look_at(&self.rest);
                if let Some(any) = &self.any {
                    search.look_at(&any.rest);
                }
            }
            name if name.starts_with('$') => {
                if let Some(child) = self.names.get(name) {
                    child.find_below(after, search);
                }
            }
            _ => self.find_below(Some(filter), search),
        }
    }

    /// The same for a topic, but only rules that name its first levels, so many of them as it has: not those in which a wildcard stands
    /// for them.
    pub(super) fn find_named(&self, topic: &str, levels: usize, search: &mut Search<'_>) {
        let (level, after) = split_level(topic);
        let named = self.names.get(level);
        let open = self.open.iter().filter(|_| !level.starts_with('$'));
        let subject = search.subject;
        let open = open.filter(|(open, _)| open.matches(level, subject));
        for child in named.into_iter().chain(open.map(|(_, child)| child)) {
            match after {
                Some(after) if levels > 1 => child.find_named(after, levels - 1, search),
                _ => child.find_below(after, search),
            }
        }
    }

    fn find_below(&self, filter: Option<&str>, search: &mut Search<'_>) {
        search.look_at(&self.rest);
        let Some(filter) = filter else {
            return search.look_at(&self.ending);
        };
        let (level, after) = split_level(filter);
        if level == "#" {
            return;
        }
        if let Some(any) = &self.any {
            any.find_below(after, search);
        }
        if level == "+" {
            return;
        }
        if let Some(child) = self.names.get(level) {
            child.find_below(after, search);
        }
        for (open, child) in &self.open {
            if open.matches(level, search.subject) {
                child.find_below(after, search);
            }
        }
    }
}

impl Piece<'_> {
    /// A text of the same kind.
    fn sample(&self) -> &str {
        match self {
            Self::Text(text) => text,
            Self::Placeholder(_) => "x",
        }
    }
}

fn split_level(filter: &str) -> (&str, Option<&str>) {
    match filter.split_once('/') {
        Some((level, after)) => (level, Some(after)),
        None => (filter, None),
    }
}
