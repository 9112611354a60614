//! Topic names and topic filters (MQTT 5.0 section 4.7).
//!
//! They are compared byte by byte, with case and without normalization [MQTT-4.7.3-4]; empty levels are levels.
//! Their length is limited by [`Text`] [MQTT-4.7.3-3]; how many levels are good for anybody is for the broker to
//! say, which finds out with `level_count`.

use std::fmt;

use crate::byte_search;
use crate::text::Text;

/// A topic name: one character or more, no wildcard. [MQTT-4.7.0-1] [MQTT-4.7.3-1]
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TopicName(Text);

/// A topic filter, which may have wildcards; for a shared subscription without `$share/<name>/`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TopicFilter(Text);

/// What a client subscribes to: a filter, of its own or shared.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SubscriptionFilter {
    /// The share's name if it is a shared subscription.
    pub share: Option<Text>,
    /// The filter.
    pub filter: TopicFilter,
}

/// Why a text is no topic name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TopicNameError {
    /// [MQTT-4.7.3-1]
    #[error("the topic name is empty")]
    Empty,
    /// [MQTT-4.7.0-1]
    #[error("the topic name contains a wildcard")]
    Wildcard,
}

/// Why a text is no topic filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TopicFilterError {
    /// [MQTT-4.7.3-1]
    #[error("the topic filter is empty")]
    Empty,
    /// `#` not last, or a wildcard that does not fill its level. [MQTT-4.7.1-1] [MQTT-4.7.1-2]
    #[error("a wildcard is misplaced")]
    MisplacedWildcard,
    /// `$share/` without a name or without a filter, or a name with a wildcard. [MQTT-4.8.2-1] [MQTT-4.8.2-2]
    #[error("the shared subscription has no valid share name and filter")]
    Share,
}

impl TopicName {
    /// Parses a topic name.
    pub fn parse(text: Text) -> Result<Self, TopicNameError> {
        if text.is_empty() {
            return Err(TopicNameError::Empty);
        }
        if byte_search::has_wildcard(text.as_bytes()) {
            return Err(TopicNameError::Wildcard);
        }
        Ok(Self(text))
    }

    /// The name as text.
    pub fn text(&self) -> &Text {
        &self.0
    }

    /// The name as a string.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// What the slashes separate; some may be empty.
    pub fn levels(&self) -> impl DoubleEndedIterator<Item = &str> {
        self.0.split('/')
    }

    /// How many levels there are: at least one.
    pub fn level_count(&self) -> usize {
        count_levels(&self.0)
    }

    /// The same name in memory of its own.
    #[must_use]
    pub fn detached(&self) -> Self {
        Self(self.0.detached())
    }
}

impl TopicFilter {
    /// Parses a topic filter that is not a shared subscription's. [MQTT-4.7.1-1] [MQTT-4.7.1-2]
    pub fn parse(text: Text) -> Result<Self, TopicFilterError> {
        if text.is_empty() {
            return Err(TopicFilterError::Empty);
        }
        if byte_search::has_wildcard(text.as_bytes()) {
            let mut levels = text.split('/').rev();
            let last = levels.next().unwrap_or_default();
            let is_misplaced = |level: &str| level.contains(['+', '#']) && level != "+";
            if (last != "#" && is_misplaced(last)) || levels.any(is_misplaced) {
                return Err(TopicFilterError::MisplacedWildcard);
            }
        }
        Ok(Self(text))
    }

    /// The filter as text.
    pub fn text(&self) -> &Text {
        &self.0
    }

    /// The filter as a string.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// What the slashes separate; some may be empty.
    pub fn levels(&self) -> impl DoubleEndedIterator<Item = &str> {
        self.0.split('/')
    }

    /// How many levels there are: at least one.
    pub fn level_count(&self) -> usize {
        count_levels(&self.0)
    }

    /// True if it has no wildcard.
    pub fn is_exact(&self) -> bool {
        !byte_search::has_wildcard(self.0.as_bytes())
    }

    /// Whether a message to `topic` is for this filter. Wildcards at the start do not match `$` topics.
    /// [MQTT-4.7.2-1]
    pub fn matches(&self, topic: &str) -> bool {
        if topic.starts_with('$') && self.0.starts_with(['+', '#']) {
            return false;
        }
        let mut names = topic.split('/');
        for level in self.0.split('/') {
            match (level, names.next()) {
                ("#", _) => return true,
                ("+", Some(_)) => {}
                (level, Some(name)) if level == name => {}
                _ => return false,
            }
        }
        names.next().is_none()
    }

    /// The same filter in memory of its own.
    #[must_use]
    pub fn detached(&self) -> Self {
        Self(self.0.detached())
    }
}

impl SubscriptionFilter {
    /// Parses what a SUBSCRIBE or UNSUBSCRIBE names. [MQTT-4.8.2-1] [MQTT-4.8.2-2]
    pub fn parse(text: Text) -> Result<Self, TopicFilterError> {
        let Some(shared) = text.strip_prefix(SHARE_PREFIX) else {
            return Ok(Self {
                share: None,
                filter: TopicFilter::parse(text)?,
            });
        };
        let (share, filter) = shared.split_once('/').ok_or(TopicFilterError::Share)?;
        if share.is_empty() || byte_search::has_wildcard(share.as_bytes()) || filter.is_empty() {
            return Err(TopicFilterError::Share);
        }
        let part = |part: &str| {
            Text::from_bytes(text.as_bytes().slice_ref(part.as_bytes())).map_err(|_| TopicFilterError::Share)
        };
        Ok(Self {
            share: Some(part(share)?),
            filter: TopicFilter::parse(part(filter)?)?,
        })
    }

    /// The same filter in memory of its own.
    #[must_use]
    pub fn detached(&self) -> Self {
        Self {
            share: self.share.as_ref().map(Text::detached),
            filter: self.filter.detached(),
        }
    }
}

impl fmt::Display for TopicName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for TopicFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// As a SUBSCRIBE would name it.
impl fmt::Display for SubscriptionFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(share) = &self.share {
            write!(f, "{SHARE_PREFIX}{share}/")?;
        }
        fmt::Display::fmt(&self.filter, f)
    }
}

fn count_levels(text: &str) -> usize {
    1 + text.bytes().filter(|byte| *byte == b'/').count()
}

const SHARE_PREFIX: &str = "$share/";

#[cfg(test)]
mod tests;
