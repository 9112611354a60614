//! Where the value of a placeholder ends.
//!
//! A pattern must not say the same for two values: with `{principal.username}-*`, `a` would have what is for `a-b`. So a
//! placeholder has a *word* of its own, in which nothing but fixed text stands beside it. Words end at separators: `/`, and
//! every character that is neither letter nor digit nor one of `-_.@`, which names have. What is not so is no policy.
//!
//! A separator other than `/` may be part of a name as well. Where it is what parts a placeholder from a wildcard or from
//! another placeholder, no value with it stands for any placeholder of the policy.
//!
//! Invariant: for a pattern that is taken, and values without the [`Ends`] of its policy, a text has one value for each
//! placeholder at most.

use std::collections::BTreeSet;

use super::placeholders::Placeholder;
use super::subject::Subject;

/// What has a meaning in a text beside placeholders.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Syntax {
    /// `*`, `?` and classes.
    Keys,
    /// `*`
    ClientIds,
    /// Nothing within a level.
    Topics,
}

/// Characters that are in no value that stands for a placeholder of a policy.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Ends(BTreeSet<char>);

/// A placeholder, and what its value may not have in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Open {
    placeholder: Placeholder,
    excluded: Vec<char>,
}

/// Why a text with placeholders means more than one thing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AmbiguityError {
    /// A wildcard or another placeholder in its word.
    #[error(
        "nothing ends the placeholder, so that a client called `a` would have what is for `a-b`: write `{instead}`"
    )]
    Word {
        /// What says one thing.
        instead: String,
    },
    /// Stars before and behind it.
    #[error(
        "stars stand before and behind a placeholder, so that its value could be anywhere: write out what stands before it, or end with it"
    )]
    Place,
}

/// A part of a text as it is written.
#[derive(Debug, Clone, Copy)]
struct Token {
    kind: Kind,
    from: usize,
    to: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Fixed(char),
    Placeholder,
    /// One character, whatever it is.
    Character,
    /// Any sequence.
    Star,
}

/// What ends a value in every text, and is never part of one.
const LEVEL: char = '/';

/// Characters of names that are neither letters nor digits.
const OF_NAMES: [char; 4] = ['-', '_', '.', '@'];

impl Ends {
    /// Takes in a text of the policy. One that is refused for something else has none.
    pub(super) fn add(&mut self, text: &str, syntax: Syntax) {
        if let Some(tokens) = tokens(text, syntax) {
            self.0.extend(ends_of(&tokens));
        }
    }
}

impl Open {
    pub(super) fn new(placeholder: Placeholder, ends: &Ends) -> Self {
        let excluded = std::iter::once(LEVEL).chain(ends.0.iter().copied());
        Self {
            placeholder,
            excluded: excluded.collect(),
        }
    }

    /// What it stands for, if that can be nothing else.
    pub(super) fn value<'a>(&self, subject: &'a Subject) -> Option<&'a str> {
        let value = self.placeholder.value(subject)?;
        (!value.contains(&self.excluded[..])).then_some(value)
    }
}

/// Refuses a text that means more than one thing.
pub(super) fn check(text: &str, syntax: Syntax) -> Result<(), AmbiguityError> {
    let Some(tokens) = tokens(text, syntax) else {
        return Ok(());
    };
    if neighbours(&tokens).is_some() {
        let instead = separated(text, syntax);
        return Err(match check(&instead, syntax) {
            Ok(()) => AmbiguityError::Word { instead },
            Err(error) => error,
        });
    }
    let is_star = |token: &Token| token.kind == Kind::Star;
    let first = tokens.iter().position(is_star).unwrap_or(tokens.len());
    let last = tokens.iter().rposition(is_star).unwrap_or(0);
    let is_between =
        |(place, token): (usize, &Token)| token.kind == Kind::Placeholder && first < place && place < last;
    if tokens.iter().enumerate().any(is_between) {
        return Err(AmbiguityError::Place);
    }
    Ok(())
}

/// Whether a word ends here.
fn is_separator(character: char) -> bool {
    !character.is_alphanumeric() && !OF_NAMES.contains(&character)
}

/// The first placeholder that has something open beside it in its word, with that; the one that comes first is the first.
fn neighbours(tokens: &[Token]) -> Option<(Token, Token)> {
    let words = tokens.split(|token| matches!(token.kind, Kind::Fixed(character) if is_separator(character)));
    for word in words {
        let open: Vec<_> = word.iter().filter(|token| !token.is_fixed()).collect();
        for pair in open.windows(2) {
            if let [one, other] = pair
                && (one.kind == Kind::Placeholder || other.kind == Kind::Placeholder)
            {
                return Some((**one, **other));
            }
        }
    }
    None
}

/// The separators by which values are told from what else is open between two `/`.
fn ends_of(tokens: &[Token]) -> BTreeSet<char> {
    let mut ends = BTreeSet::new();
    for part in tokens.split(|token| token.kind == Kind::Fixed(LEVEL)) {
        let has_placeholder = part.iter().any(|token| token.kind == Kind::Placeholder);
        let open = part.iter().filter(|token| !token.is_fixed()).count();
        if !has_placeholder || open < 2 {
            continue;
        }
        ends.extend(part.iter().filter_map(|token| match token.kind {
            Kind::Fixed(character) if is_separator(character) => Some(character),
            _ => None,
        }));
    }
    ends
}

/// The text with a `/` wherever a placeholder has something open beside it.
fn separated(text: &str, syntax: Syntax) -> String {
    let mut text = text.to_owned();
    while let Some((one, other)) = tokens(&text, syntax).as_deref().and_then(neighbours) {
        let between = &text[one.to..other.from];
        let between = if between.contains(char::is_alphanumeric) {
            if one.kind == Kind::Placeholder {
                format!("/{between}")
            } else {
                format!("{between}/")
            }
        } else {
            "/".to_owned()
        };
        text.replace_range(one.to..other.from, &between);
    }
    text
}

impl Token {
    fn is_fixed(&self) -> bool {
        matches!(self.kind, Kind::Fixed(_))
    }
}

/// The parts of a text. `None` if it is none that a policy may have, which is told elsewhere.
fn tokens(text: &str, syntax: Syntax) -> Option<Vec<Token>> {
    let mut tokens = Vec::new();
    let mut from = 0;
    while let Some(character) = text[from..].chars().next() {
        let rest = &text[from..];
        let (kind, length) = match (character, syntax) {
            ('{', _) => (Kind::Placeholder, rest.find('}')? + 1),
            ('*', Syntax::Keys | Syntax::ClientIds) => (Kind::Star, 1),
            ('?', Syntax::Keys) => (Kind::Character, 1),
            ('[', Syntax::Keys) => (Kind::Character, class_length(rest)?),
            _ => (Kind::Fixed(character), character.len_utf8()),
        };
        let to = from + length;
        tokens.push(Token { kind, from, to });
        from = to;
    }
    Some(tokens)
}

/// Bytes of the class that a text begins with. A `]` that comes first is an element.
fn class_length(text: &str) -> Option<usize> {
    let start = if text[1..].starts_with('!') { 2 } else { 1 };
    let first = text[start..].chars().next()?.len_utf8();
    Some(start + first + text[start + first..].find(']')? + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(text: &str, syntax: Syntax, instead: &str) {
        let instead = instead.to_owned();
        assert_eq!(
            check(text, syntax),
            Err(AmbiguityError::Word { instead }),
            "{text}"
        );
    }

    #[test]
    fn a_placeholder_has_a_word_of_its_own() {
        for (text, syntax) in [
            ("{principal.username}", Syntax::ClientIds),
            ("{principal.username}/*", Syntax::ClientIds),
            ("*/{principal.username}", Syntax::ClientIds),
            ("pump-{principal.username}", Syntax::ClientIds),
            ("{principal.username}:*", Syntax::ClientIds),
            ("clients/{principal.clientId}/*", Syntax::Keys),
            ("c:{principal.clientId}:*", Syntax::Keys),
            ("{principal.username}/[ab]?*/x", Syntax::Keys),
            ("a*/{principal.username}", Syntax::Keys),
            (
                "a/{principal.clientId}-status/+/{principal.username}/#",
                Syntax::Topics,
            ),
            ("{principal.clientId}*", Syntax::Topics),
            ("a?*[b]", Syntax::Keys),
        ] {
            assert_eq!(check(text, syntax), Ok(()), "{text}");
        }
    }

    #[test]
    fn what_could_be_of_two_clients_is_refused_with_what_to_write() {
        let ids = Syntax::ClientIds;
        word("{principal.username}-*", ids, "{principal.username}/*");
        word("{principal.username}*", ids, "{principal.username}/*");
        word("{principal.username}_x*", ids, "{principal.username}/_x*");
        word("*-{principal.username}", ids, "*/{principal.username}");
        word("a*b{principal.username}", ids, "a*b/{principal.username}");
        let keys = Syntax::Keys;
        word("c{principal.clientId}?", keys, "c{principal.clientId}/?");
        word(
            "c/{principal.clientId}[0-9]",
            keys,
            "c/{principal.clientId}/[0-9]",
        );
        word("{principal.clientId}[]*]", keys, "{principal.clientId}/[]*]");
        word(
            "a/{principal.clientId}{principal.username}/*",
            keys,
            "a/{principal.clientId}/{principal.username}/*",
        );
        word(
            "a/{principal.attributes.site}-{principal.username}/#",
            Syntax::Topics,
            "a/{principal.attributes.site}/{principal.username}/#",
        );
        for text in [
            "*/{principal.clientId}/*",
            "*:{principal.clientId}:*",
            "*{principal.clientId}*",
        ] {
            assert_eq!(check(text, keys), Err(AmbiguityError::Place), "{text}");
        }
    }

    #[test]
    fn a_separator_that_parts_values_is_in_none() {
        let ends = |text: &str, syntax| {
            let mut ends = Ends::default();
            ends.add(text, syntax);
            ends.0.into_iter().collect::<String>()
        };
        assert_eq!(ends("c:{principal.clientId}:*", Syntax::Keys), ":");
        assert_eq!(ends("c:{principal.clientId}", Syntax::Keys), "");
        assert_eq!(ends("*/c:{principal.clientId}", Syntax::Keys), "");
        assert_eq!(
            ends("{principal.clientId}|{principal.username}/x", Syntax::Topics),
            "|"
        );
        assert_eq!(
            ends("{principal.clientId", Syntax::Keys),
            "",
            "it is refused elsewhere"
        );
    }
}
