//! Patterns of a SCAN: a glob over the whole key as UTF-8 text.
//!
//! `*` is any sequence (also an empty one), `?` one character, `[ab]`, `[a-z]` and `[!a]` one character of a
//! class. A metacharacter is escaped as a class of one element: `[*]`, `[[]`, `[]]`. There are no braces and no
//! backslash, and nothing is special about `/`, `^` or `**`. This is what the `glob` crate does, which the official
//! clients test against, apart from its `**`.
//!
//! A pattern is compiled once and then matched in time linear in the key. It is cut at its stars; the first
//! and the last segment are anchored, each one between is searched for from where the one before ended. A
//! segment of literals is found by the standard library's linear search, one with wildcards by Shift-And: bit `i`
//! of the state says that the text read so far ends with the segment's first `i + 1` elements.

use std::collections::BTreeSet;

/// A compiled pattern.
#[derive(Debug, Clone)]
pub struct Glob {
    segments: Option<Segments>,
}

/// Why a pattern is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum GlobError {
    /// A `[` without its `]`, or a class without an element.
    #[error("a character class of the pattern is not closed or empty")]
    Class,
    /// More than [`Glob::SEARCHED_SEGMENTS_MAX`] segments with wildcards between stars, or one of them has more than
    /// [`Glob::SEARCHED_ELEMENTS_MAX`] elements, or all of them more than [`Glob::SEARCHED_RANGES_MAX`] ranges.
    #[error("the pattern has too many wildcards between stars")]
    TooComplex,
}

/// The pattern, cut at its stars.
#[derive(Debug, Clone)]
struct Segments {
    /// Anchored at the start of the key.
    first: Vec<Element>,
    /// What `first` begins with as far as it is literal.
    prefix: String,
    /// What follows the first star; `None` if there is no star, so that `first` must match the whole key.
    rest: Option<Rest>,
}

#[derive(Debug, Clone)]
struct Rest {
    searched: Vec<Searched>,
    /// Anchored at the end of the key.
    last: Vec<Element>,
}

/// A segment between two stars; not empty.
#[derive(Debug, Clone)]
enum Searched {
    Literal(String),
    Wild(Box<ShiftAnd>),
}

/// What matches one character.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Element {
    Character(char),
    Any,
    Class {
        negated: bool,
        ranges: Vec<(char, char)>,
    },
}

#[derive(Debug, Clone)]
struct ShiftAnd {
    elements: Vec<Element>,
    /// For each ASCII character, which elements match it.
    ascii: [u128; 128],
    /// The same for all other characters: from which one on, up to the next.
    others: Vec<(u32, u128)>,
}

impl Glob {
    /// How many segments with wildcards there may be between stars.
    pub const SEARCHED_SEGMENTS_MAX: usize = 64;
    /// How many characters such a segment may match: the bits of the state of its search.
    pub const SEARCHED_ELEMENTS_MAX: usize = 128;
    /// How many ranges and single characters the classes of all such segments may have together.
    pub const SEARCHED_RANGES_MAX: usize = 512;

    /// Compiles a pattern. One that is not UTF-8 is legal and matches nothing.
    pub fn compile(pattern: &[u8]) -> Result<Self, GlobError> {
        let Ok(pattern) = std::str::from_utf8(pattern) else {
            return Ok(Self { segments: None });
        };
        let mut parts = Vec::from([Vec::new()]);
        let mut rest = pattern.chars();
        while let Some(character) = rest.next() {
            let element = match character {
                '*' => {
                    parts.push(Vec::new());
                    continue;
                }
                '?' => Element::Any,
                '[' => class(&mut rest)?,
                literal => Element::Character(literal),
            };
            if let Some(part) = parts.last_mut() {
                part.push(element);
            }
        }
        Ok(Self {
            segments: Some(Segments::new(parts)?),
        })
    }

    /// Whether the whole key matches. A key that is not UTF-8 never does.
    pub fn matches(&self, key: &[u8]) -> bool {
        let (Some(segments), Ok(key)) = (&self.segments, std::str::from_utf8(key)) else {
            return false;
        };
        segments.matches(key)
    }

    /// What every key that matches begins with. `None` if no key matches.
    pub fn prefix(&self) -> Option<&[u8]> {
        self.segments.as_ref().map(|segments| segments.prefix.as_bytes())
    }
}

impl Segments {
    fn new(parts: Vec<Vec<Element>>) -> Result<Self, GlobError> {
        let mut parts = parts.into_iter();
        let first = parts.next().unwrap_or_default();
        let literal = first.iter().map_while(|element| match element {
            Element::Character(character) => Some(*character),
            Element::Any | Element::Class { .. } => None,
        });
        let prefix = literal.collect();
        let rest = match parts.next_back() {
            Some(last) => {
                let searched: Vec<_> = parts.filter(|part| !part.is_empty()).collect();
                check(&searched)?;
                let searched = searched.into_iter().map(Searched::new).collect();
                Some(Rest { searched, last })
            }
            None => None,
        };
        Ok(Self { first, prefix, rest })
    }

    fn matches(&self, key: &str) -> bool {
        let Some(key) = strip_start(key, &self.first) else {
            return false;
        };
        let Some(rest) = &self.rest else {
            return key.is_empty();
        };
        let Some(mut key) = strip_end(key, &rest.last) else {
            return false;
        };
        for searched in &rest.searched {
            let Some(end) = searched.find_end(key) else {
                return false;
            };
            key = key.get(end..).unwrap_or_default();
        }
        true
    }
}

impl Searched {
    fn new(elements: Vec<Element>) -> Self {
        let literal = elements.iter().map(|element| match element {
            Element::Character(character) => Some(*character),
            Element::Any | Element::Class { .. } => None,
        });
        if let Some(literal) = literal.collect() {
            return Self::Literal(literal);
        }
        Self::Wild(Box::new(ShiftAnd::new(elements)))
    }

    /// Where its leftmost occurrence ends.
    fn find_end(&self, text: &str) -> Option<usize> {
        match self {
            Self::Literal(literal) => Some(text.find(literal)? + literal.len()),
            Self::Wild(search) => search.find_end(text),
        }
    }
}

impl ShiftAnd {
    fn new(elements: Vec<Element>) -> Self {
        let mut ascii = [0; 128];
        for (character, mask) in (0_u8..).map(char::from).zip(&mut ascii) {
            *mask = mask_of(&elements, character);
        }
        let mut starts = BTreeSet::from([ASCII_END]);
        for (from, to) in elements.iter().flat_map(Element::ranges) {
            starts.extend([from as u32, to as u32 + 1].map(|start| start.max(ASCII_END)));
        }
        // Between two starts all characters are the same to all elements; the first may be none, and the next one is behind those.
        let first = |start: &u32| char::from_u32(*start).unwrap_or('\u{E000}');
        let others = starts
            .iter()
            .map(|start| (*start, mask_of(&elements, first(start))));
        Self {
            others: others.collect(),
            elements,
            ascii,
        }
    }

    fn mask(&self, character: char) -> u128 {
        let character = character as u32;
        if let Some(mask) = self.ascii.get(character as usize) {
            return *mask;
        }
        let behind = self.others.partition_point(|(start, _)| *start <= character);
        let found = behind.checked_sub(1).and_then(|place| self.others.get(place));
        found.map_or(0, |(_, mask)| *mask)
    }

    fn find_end(&self, text: &str) -> Option<usize> {
        let accepting = 1 << (self.elements.len() - 1);
        let mut state: u128 = 0;
        for (start, character) in text.char_indices() {
            state = (state << 1 | 1) & self.mask(character);
            if state & accepting != 0 {
                return Some(start + character.len_utf8());
            }
        }
        None
    }
}

impl Element {
    fn matches(&self, character: char) -> bool {
        match self {
            Self::Character(expected) => *expected == character,
            Self::Any => true,
            Self::Class { negated, ranges } => {
                let is_in = ranges.iter().any(|(from, to)| (*from..=*to).contains(&character));
                is_in != *negated
            }
        }
    }

    fn range_count(&self) -> usize {
        match self {
            Self::Character(_) | Self::Any => 0,
            Self::Class { ranges, .. } => ranges.len(),
        }
    }

    /// Where what it says of characters changes.
    fn ranges(&self) -> Vec<(char, char)> {
        match self {
            Self::Character(character) => vec![(*character, *character)],
            Self::Any => Vec::new(),
            Self::Class { ranges, .. } => ranges.clone(),
        }
    }
}

/// Refuses segments whose search would take long to prepare.
fn check(searched: &[Vec<Element>]) -> Result<(), GlobError> {
    let is_literal = |element: &Element| matches!(element, Element::Character(_));
    let wild = searched.iter().filter(|segment| !segment.iter().all(is_literal));
    let ranges: usize = wild.clone().flatten().map(Element::range_count).sum();
    let longest = wild.clone().map(Vec::len).max().unwrap_or(0);
    let is_too_complex = wild.count() > Glob::SEARCHED_SEGMENTS_MAX
        || longest > Glob::SEARCHED_ELEMENTS_MAX
        || ranges > Glob::SEARCHED_RANGES_MAX;
    if is_too_complex {
        return Err(GlobError::TooComplex);
    }
    Ok(())
}

/// The first character that is not ASCII.
const ASCII_END: u32 = 0x80;

/// Which of the elements match the character, the first one in the lowest bit.
fn mask_of(elements: &[Element], character: char) -> u128 {
    let matching = elements
        .iter()
        .enumerate()
        .filter(|(_, element)| element.matches(character));
    matching.fold(0, |mask, (index, _)| mask | 1 << index)
}

/// What is left of the text after a start that matches the elements.
fn strip_start<'a>(text: &'a str, elements: &[Element]) -> Option<&'a str> {
    let mut rest = text.chars();
    elements
        .iter()
        .all(|element| rest.next().is_some_and(|next| element.matches(next)))
        .then_some(rest.as_str())
}

/// What is left of the text before an end that matches the elements.
fn strip_end<'a>(text: &'a str, elements: &[Element]) -> Option<&'a str> {
    let mut rest = text.chars();
    let mut elements = elements.iter().rev();
    elements
        .all(|element| rest.next_back().is_some_and(|next| element.matches(next)))
        .then_some(rest.as_str())
}

/// Reads a class up to and with its `]`. A `]` that comes first is an element.
fn class(rest: &mut std::str::Chars<'_>) -> Result<Element, GlobError> {
    let negated = rest.as_str().starts_with('!');
    if negated {
        rest.next();
    }
    let inside = rest.as_str();
    let first = inside.chars().next().ok_or(GlobError::Class)?;
    let after_first = inside.get(first.len_utf8()..).unwrap_or_default();
    let end = first.len_utf8() + after_first.find(']').ok_or(GlobError::Class)?;
    let (elements, after) = inside.split_at(end);
    *rest = after.get(1..).unwrap_or_default().chars();

    let mut ranges = Vec::new();
    let mut elements = elements.chars();
    while let Some(from) = elements.next() {
        let mut ahead = elements.clone();
        match (ahead.next(), ahead.next()) {
            (Some('-'), Some(to)) => {
                ranges.push((from, to));
                elements = ahead;
            }
            _ => ranges.push((from, from)),
        }
    }
    Ok(Element::Class { negated, ranges })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, key: &str) -> bool {
        Glob::compile(pattern.as_bytes()).unwrap().matches(key.as_bytes())
    }

    fn check(pattern: &str, matching: &[&str], others: &[&str]) {
        for key in matching {
            assert!(matches(pattern, key), "{pattern} should match {key}");
        }
        for key in others {
            assert!(!matches(pattern, key), "{pattern} should not match {key}");
        }
    }

    #[test]
    fn a_pattern_without_wildcards_is_the_whole_key() {
        check("key", &["key"], &["key1", "akey", "ke", "KEY", ""]);
        check("", &[""], &["a"]);
        check("{a,b}", &["{a,b}"], &["a", "b"]);
        check("a\\*", &["a\\", "a\\b"], &["a*"]);
    }

    #[test]
    fn a_star_is_any_sequence() {
        check("*", &["", "a", "a/b", "\n", "é"], &[]);
        check("key*", &["key", "key1", "key/1"], &["ke", "akey"]);
        check("*key", &["key", "akey", "keykey"], &["key1"]);
        check(
            "a*b*c",
            &["abc", "aXbXc", "abbcc", "abcbc"],
            &["ab", "acb", "abcd"],
        );
        check("a**c", &["ac", "abc"], &["ab"]);
        check("*aab*", &["aab", "aaab", "xaaaby"], &["aa", "abab"]);
        check("ab*ba", &["abba", "abXba"], &["aba", "ab", "ba"]);
    }

    #[test]
    fn a_question_mark_is_one_character() {
        check("k?y", &["key", "k?y", "kéy", "k😀y"], &["ky", "keey"]);
        check("*?é*", &["aé", "xxaéyy"], &["é", "éa"]);
        check("*??", &["ab", "abc", "éé"], &["a", ""]);
    }

    #[test]
    fn a_class_is_one_of_its_characters_or_ranges() {
        check("k[ab]", &["ka", "kb"], &["kc", "k", "kab"]);
        check("k[a-c]", &["ka", "kb", "kc"], &["kd", "k-"]);
        check("k[!a-c]", &["kd", "k-", "ké"], &["ka", "k"]);
        check("k[a-cx-z0]", &["kb", "ky", "k0"], &["kd", "k1"]);
        check("k[a-]", &["ka", "k-"], &["kb"]);
        check("k[-a]", &["ka", "k-"], &["kb"]);
        check("k[^a]", &["k^", "ka"], &["kb"]);
        check("k[z-a]", &[], &["ka", "kz", "k-", "km"]);
        check("*[0-9][0-9]*", &["x12", "12", "a1b22c"], &["x1", "1a2"]);
        check("*[é-ü]x*", &["aéxb", "öx"], &["ax", "é"]);
    }

    #[test]
    fn a_class_of_one_element_escapes_a_metacharacter() {
        check("k[*]", &["k*"], &["k", "kx"]);
        check("k[?]", &["k?"], &["kx"]);
        check("k[[]", &["k["], &["k"]);
        check("k[]]", &["k]"], &["k"]);
        check("k[!]]", &["kx"], &["k]"]);
        check("k[!!]", &["kx"], &["k!"]);
        check("k]", &["k]"], &[]);
    }

    #[test]
    fn a_class_that_is_not_closed_or_empty_is_malformed() {
        for pattern in ["[", "k[", "[]", "[!", "[!]", "[a", "[a-", "[]a", "a*[b"] {
            assert_eq!(
                Glob::compile(pattern.as_bytes()).unwrap_err(),
                GlobError::Class,
                "{pattern}"
            );
        }
    }

    #[test]
    fn what_is_not_utf_8_matches_nothing() {
        assert!(!Glob::compile(b"*").unwrap().matches(b"k\xff"));
        assert!(!Glob::compile(b"\xff*").unwrap().matches(b"\xff"));
        assert_eq!(Glob::compile(b"\xff*").unwrap().prefix(), None);
    }

    #[test]
    fn the_prefix_is_what_precedes_the_first_metacharacter() {
        for (pattern, prefix) in [
            ("key*x", "key"),
            ("k?y", "k"),
            ("é[a]", "é"),
            ("*", ""),
            ("key", "key"),
        ] {
            assert_eq!(
                Glob::compile(pattern.as_bytes()).unwrap().prefix().unwrap(),
                prefix.as_bytes()
            );
        }
    }

    #[test]
    fn a_pattern_that_makes_others_back_track_is_matched_in_linear_time() {
        let key = "a".repeat(100_000);
        let pattern = format!("{}b", "*a".repeat(30_000));
        assert!(!matches(&pattern, &key));
        let pattern = format!("*{}?b*", "a".repeat(120));
        assert!(!matches(&pattern, &key));
    }

    #[test]
    fn wildcards_between_stars_have_a_limit() {
        let longest = format!("*{}*", "?".repeat(Glob::SEARCHED_ELEMENTS_MAX));
        assert!(matches(&longest, &"x".repeat(Glob::SEARCHED_ELEMENTS_MAX)));
        assert!(!matches(&longest, &"x".repeat(Glob::SEARCHED_ELEMENTS_MAX - 1)));
        let too_complex = [
            format!("*{}*", "?".repeat(Glob::SEARCHED_ELEMENTS_MAX + 1)),
            format!("*[{}]*", "a".repeat(Glob::SEARCHED_RANGES_MAX + 1)),
            format!("*[{0}]?*[{0}]?*", "a".repeat(Glob::SEARCHED_RANGES_MAX / 2 + 1)),
            "*?".repeat(Glob::SEARCHED_SEGMENTS_MAX + 2),
        ];
        for pattern in too_complex {
            assert_eq!(
                Glob::compile(pattern.as_bytes()).unwrap_err(),
                GlobError::TooComplex
            );
        }
        assert!(Glob::compile("?".repeat(10_000).as_bytes()).is_ok());
    }
}
