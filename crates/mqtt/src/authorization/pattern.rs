//! Patterns of keys and of client ids, with placeholders.
//!
//! In patterns of keys, `*` is any sequence, `?` one character, `[ab]`, `[a-z]` and `[!a]` one character of a class; in those of
//! client ids only `*` has a meaning. What stands for a placeholder is taken as it is: a client whose id is `*` gets what
//! `*` is called and no more. A key need not be UTF-8; then a byte that is no part of a character is one for `?`.
//!
//! Invariant: what is `clients/{principal.clientId}/*` for one client is never so for another (`ends.rs`).

use super::Policy;
use super::ends::{self, AmbiguityError, Ends, Open, Syntax};
use super::placeholders::{Piece, PlaceholderError, pieces};
use super::subject::Subject;

/// A compiled pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pattern(Vec<Element>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Element {
    Literal(Box<[u8]>),
    Placeholder(Open),
    /// `*`
    Sequence,
    /// `?`
    Character,
    Class {
        negated: bool,
        ranges: Vec<(char, char)>,
    },
}

/// Why a pattern is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// Nothing at all.
    #[error("it is empty")]
    Empty,
    /// What is between braces.
    #[error(transparent)]
    Placeholder(#[from] PlaceholderError),
    /// A `[` without its `]`, or a class without an element.
    #[error("a character class is not closed or empty")]
    Class,
    /// Two clients could have the same by it.
    #[error(transparent)]
    Ambiguous(#[from] AmbiguityError),
    /// More than [`Policy::PATTERN_ELEMENTS_MAX`].
    #[error(
        "it has more than {} wildcards, placeholders and texts between them",
        Policy::PATTERN_ELEMENTS_MAX
    )]
    TooManyElements,
}

impl Pattern {
    /// A pattern of keys.
    pub(super) fn of_keys(text: &str, ends: &Ends) -> Result<Self, PatternError> {
        let mut elements = Vec::new();
        for piece in non_empty(text)? {
            match piece {
                Piece::Text(text) => push_glob(&mut elements, text)?,
                Piece::Placeholder(placeholder) => {
                    elements.push(Element::Placeholder(Open::new(placeholder, ends)));
                }
            }
        }
        ends::check(text, Syntax::Keys)?;
        Self::new(elements)
    }

    /// A pattern of client ids.
    pub(super) fn of_client_ids(text: &str, ends: &Ends) -> Result<Self, PatternError> {
        let mut elements = Vec::new();
        for piece in non_empty(text)? {
            match piece {
                Piece::Text(text) => {
                    let mut literals = text.split('*');
                    push_literal(&mut elements, literals.next().unwrap_or_default());
                    for literal in literals {
                        elements.push(Element::Sequence);
                        push_literal(&mut elements, literal);
                    }
                }
                Piece::Placeholder(placeholder) => {
                    elements.push(Element::Placeholder(Open::new(placeholder, ends)));
                }
            }
        }
        ends::check(text, Syntax::ClientIds)?;
        Self::new(elements)
    }

    fn new(mut elements: Vec<Element>) -> Result<Self, PatternError> {
        elements.dedup_by(|next, before| *next == Element::Sequence && *before == Element::Sequence);
        if elements.len() > Policy::PATTERN_ELEMENTS_MAX {
            return Err(PatternError::TooManyElements);
        }
        Ok(Self(elements))
    }

    /// Whether all of the text matches.
    ///
    /// After a mismatch the last `*` takes one character more; those before it need not be looked at again.
    pub(super) fn matches(&self, text: &[u8], subject: &Subject) -> bool {
        let (mut at, mut rest) = (0, text);
        let mut last_sequence = None;
        loop {
            let after = match self.0.get(at) {
                Some(Element::Sequence) => {
                    last_sequence = Some((at + 1, rest));
                    Some(rest)
                }
                Some(element) => element.strip(rest, subject),
                None if rest.is_empty() => return true,
                None => None,
            };
            if let Some(after) = after {
                (at, rest) = (at + 1, after);
                continue;
            }
            let Some((after_sequence, from)) = last_sequence else {
                return false;
            };
            let Some((_, from)) = split_character(from) else {
                return false;
            };
            last_sequence = Some((after_sequence, from));
            (at, rest) = (after_sequence, from);
        }
    }

    /// The only text that matches, if there is only one for all clients.
    pub(super) fn literal(&self) -> Option<&[u8]> {
        match self.0.as_slice() {
            [Element::Literal(literal)] => Some(literal),
            _ => None,
        }
    }

    /// What every text that matches begins with, for all clients.
    pub(super) fn prefix(&self) -> &[u8] {
        match self.0.first() {
            Some(Element::Literal(literal)) => literal,
            _ => &[],
        }
    }
}

impl Element {
    /// What is left of the text after what this matches at its start.
    fn strip<'a>(&self, text: &'a [u8], subject: &Subject) -> Option<&'a [u8]> {
        match self {
            Self::Literal(literal) => text.strip_prefix(&**literal),
            Self::Placeholder(open) => text.strip_prefix(open.value(subject)?.as_bytes()),
            Self::Sequence => Some(text),
            Self::Character => Some(split_character(text)?.1),
            Self::Class { negated, ranges } => {
                let (character, rest) = split_character(text)?;
                let character = character?;
                let is_in = ranges.iter().any(|(from, to)| (*from..=*to).contains(&character));
                (is_in != *negated).then_some(rest)
            }
        }
    }
}

fn non_empty(text: &str) -> Result<Vec<Piece<'_>>, PatternError> {
    if text.is_empty() {
        return Err(PatternError::Empty);
    }
    Ok(pieces(text)?)
}

fn push_literal(elements: &mut Vec<Element>, literal: &str) {
    if !literal.is_empty() {
        elements.push(Element::Literal(literal.as_bytes().into()));
    }
}

fn push_glob(elements: &mut Vec<Element>, text: &str) -> Result<(), PatternError> {
    let mut rest = text;
    while let Some(at) = rest.find(['*', '?', '[']) {
        let (literal, wildcard) = rest.split_at(at);
        push_literal(elements, literal);
        let (kind, after) = wildcard.split_at(1);
        rest = after;
        elements.push(match kind {
            "*" => Element::Sequence,
            "?" => Element::Character,
            _ => class(&mut rest)?,
        });
    }
    push_literal(elements, rest);
    Ok(())
}

/// Reads a class up to and with its `]`. A `]` that comes first is an element.
fn class(rest: &mut &str) -> Result<Element, PatternError> {
    let negated = rest.starts_with('!');
    let inside = &rest[usize::from(negated)..];
    let first = inside.chars().next().ok_or(PatternError::Class)?;
    let end = inside[first.len_utf8()..].find(']').ok_or(PatternError::Class)? + first.len_utf8();
    *rest = &inside[end + 1..];

    let mut ranges = Vec::new();
    let mut characters = inside[..end].chars();
    while let Some(from) = characters.next() {
        let mut ahead = characters.clone();
        match (ahead.next(), ahead.next()) {
            (Some('-'), Some(to)) => {
                ranges.push((from, to));
                characters = ahead;
            }
            _ => ranges.push((from, from)),
        }
    }
    Ok(Element::Class { negated, ranges })
}

/// The first character of a text, `None` for a byte that is no part of one, and what comes after it.
fn split_character(text: &[u8]) -> Option<(Option<char>, &[u8])> {
    // Four bytes are the longest character.
    let chunk = text[..text.len().min(4)].utf8_chunks().next()?;
    match chunk.valid().chars().next() {
        Some(character) => Some((Some(character), &text[character.len_utf8()..])),
        None => Some((None, &text[1..])),
    }
}
