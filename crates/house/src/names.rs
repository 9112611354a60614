//! Names that say nothing, and words that the glossary keeps for something else.

use crate::Finding;
use crate::source::Source;

/// Words that say nothing in the name of a type or a file.
const EMPTY_WORDS: [&str; 11] = [
    "manager", "helper", "helpers", "util", "utils", "common", "base", "impl", "info", "object", "wrapper",
];

/// Words that say nothing when they are the whole name of a type.
const EMPTY_ALONE: [&str; 3] = ["context", "handler", "data"];

/// Names of files that collect what has no name.
const EMPTY_FILES: [&str; 4] = ["types", "misc", "helpers", "prelude"];

/// Names of types and files that break the rules. `banned` are the words of the glossary.
pub fn check(source: &Source, banned: &[Banned]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let file = source
        .path
        .rsplit('/')
        .next()
        .unwrap_or_default()
        .trim_end_matches(".rs");
    let tests_of = |word: &str| source.path.contains("/tests/") && word == "common";
    for word in words(file) {
        if (EMPTY_WORDS.contains(&word.as_str()) || EMPTY_FILES.contains(&file)) && !tests_of(&word) {
            findings.push(Finding::in_file(
                &source.path,
                format!("`{word}` in a file name says nothing"),
            ));
        }
        findings.extend(banned_word(banned, &word).map(|why| Finding::in_file(&source.path, why)));
    }
    for (number, line) in source.code_lines() {
        if let Some(name) = declared(line, &["struct ", "enum ", "trait ", "type ", "union "]) {
            findings.extend(type_name(name).map(|what| Finding::at_line(&source.path, number, what)));
        }
        if let Some(name) = declared(
            line,
            &[
                "struct ", "enum ", "trait ", "type ", "fn ", "mod ", "const ", "static ",
            ],
        ) {
            for word in words(name) {
                findings.extend(
                    banned_word(banned, &word).map(|why| Finding::at_line(&source.path, number, why)),
                );
            }
        }
    }
    findings
}

/// A word of the glossary's last column, and the one to use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Banned {
    /// In lower case.
    pub word: String,
    /// What to say.
    pub instead: String,
}

/// Words in code font in the column "Not" of the glossary: those that have no other meaning in this code.
pub fn banned_in(glossary: &str) -> Vec<Banned> {
    let mut banned = Vec::new();
    for row in glossary.lines().filter(|line| line.starts_with("| **")) {
        let mut cells = row.trim_matches('|').split('|');
        let instead = cells
            .next()
            .unwrap_or_default()
            .split("**")
            .nth(1)
            .unwrap_or_default()
            .to_owned();
        let last = cells.next_back().unwrap_or_default();
        let quoted = last.split('`').skip(1).step_by(2);
        banned.extend(quoted.map(|word| Banned {
            word: word.to_lowercase(),
            instead: instead.clone(),
        }));
    }
    banned
}

fn banned_word(banned: &[Banned], word: &str) -> Option<String> {
    let found = banned.iter().find(|banned| banned.word == word)?;
    Some(format!("`{word}`: the glossary says `{}`", found.instead))
}

fn type_name(name: &str) -> Option<String> {
    let words = words(name);
    let alone = words.len() == 1 && EMPTY_ALONE.contains(&words[0].as_str());
    let empty = words.iter().find(|word| EMPTY_WORDS.contains(&word.as_str()));
    let service = words.contains(&"service".to_owned()) && name != "StateStoreService";
    if alone || service {
        return Some(format!("`{name}` says nothing"));
    }
    empty.map(|word| format!("`{word}` in `{name}` says nothing"))
}

/// The name that a line declares with one of the keywords.
fn declared<'a>(line: &'a str, keywords: &[&str]) -> Option<&'a str> {
    let mut rest = line.trim_start();
    for prefix in [
        "pub(crate) ",
        "pub(super) ",
        "pub ",
        "async ",
        "const fn ",
        "unsafe ",
    ] {
        rest = match rest.strip_prefix(prefix) {
            Some(after) if prefix == "const fn " => return name_at(after),
            Some(after) => after,
            None => rest,
        };
    }
    keywords
        .iter()
        .find_map(|keyword| rest.strip_prefix(keyword))
        .and_then(name_at)
}

fn name_at(text: &str) -> Option<&str> {
    let end = text
        .find(|letter: char| !letter.is_alphanumeric() && letter != '_')
        .unwrap_or(text.len());
    (end > 0).then(|| &text[..end])
}

/// The words of a name, in lower case: `QueueFull`, `queue_full` and `QUEUE_FULL` have the same two.
fn words(name: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut before = '_';
    for letter in name.chars() {
        let begins = before == '_' || (letter.is_uppercase() && !before.is_uppercase());
        match words.last_mut() {
            _ if letter == '_' => {}
            Some(word) if !begins => word.extend(letter.to_lowercase()),
            _ => words.push(letter.to_lowercase().collect()),
        }
        before = letter;
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(path: &str, text: &str) -> usize {
        let banned = banned_in(
            "| **session** / `Session` | means | `channel` |\n| **queue** | x | backlog, `buffer` |\n",
        );
        check(&Source::parse(path, text), &banned).len()
    }

    #[test]
    fn names_that_say_nothing_are_found() {
        for text in [
            "pub struct SessionManager;",
            "enum HelperKind {}",
            "pub(crate) trait Handler {",
            "struct Context<'a> {",
            "type NodeImpl = u8;",
            "pub struct QuotaService;",
        ] {
            assert_eq!(count("crates/broker/src/node.rs", text), 1, "{text}");
        }
        for path in [
            "crates/broker/src/utils.rs",
            "crates/broker/src/types.rs",
            "crates/broker/src/session_helper.rs",
        ] {
            assert_eq!(count(path, ""), 1, "{path}");
        }
    }

    #[test]
    fn words_of_the_glossary_are_found() {
        assert_eq!(count("crates/broker/src/node.rs", "pub fn open_channel() {}"), 1);
        assert_eq!(
            count("crates/broker/src/node.rs", "pub const BUFFER_MAX: u8 = 1;"),
            1
        );
        assert_eq!(count("crates/broker/src/buffer.rs", ""), 1);
    }

    #[test]
    fn good_names_are_not() {
        for text in [
            "pub struct StateStoreService;",
            "pub struct RequestContext;",
            "pub enum CorrelationData {}",
            "pub fn information() {}",
            "struct Implied;",
            "let channel = 1;",
        ] {
            assert_eq!(count("crates/broker/src/node.rs", text), 0, "{text}");
        }
    }

    #[test]
    fn a_name_has_its_words() {
        assert_eq!(words("QueueFull"), ["queue", "full"]);
        assert_eq!(words("QUEUE_FULL"), ["queue", "full"]);
        assert_eq!(words("queue_full"), ["queue", "full"]);
    }
}
