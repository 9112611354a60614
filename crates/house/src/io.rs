//! No I/O, clock, thread, lock or `async` left of the edge; and one reader of the clock at the edge.

use crate::Finding;
use crate::layers::SANS_IO;
use crate::source::Source;

/// What a crate without I/O must not say.
const FORBIDDEN: [(&str, &str); 13] = [
    ("tokio", "tokio belongs to the edge"),
    ("std::net", "sockets belong to the edge"),
    ("std::fs", "files belong to the edge"),
    ("std::thread", "threads belong to the edge"),
    ("std::env", "the environment is read by the binary"),
    ("std::process", "processes belong to the edge"),
    ("Mutex<", "one thread owns the state"),
    ("RwLock<", "one thread owns the state"),
    ("Instant::now", "take `now` as an argument"),
    (".elapsed()", "it reads the clock: subtract from `now`"),
    ("SystemTime::now", "take the wall clock as an argument"),
    ("async fn", "state machines have `step`, not `async`"),
    (".await", "state machines have `step`, not `async`"),
];

/// The same, as it stands in a grouped `use std::{...}`.
const FORBIDDEN_IN_STD: [&str; 5] = ["net", "fs", "thread", "env", "process"];

/// Where the clock is read at the edge.
const CLOCKS: [&str; 2] = ["crates/server/src/clock.rs", "crates/client/src/clock.rs"];

/// Commands for developers beside a crate without I/O.
const COMMANDS: [&str; 2] = ["crates/sim/src/main.rs", "crates/session_plane/model/src/main.rs"];

/// Whether the file has to do without I/O.
pub fn is_sans_io(path: &str) -> bool {
    let in_crate = |name: &str| path.starts_with(&format!("crates/{name}/"));
    let is_pure =
        SANS_IO.into_iter().any(in_crate) || in_crate("sim") || path.starts_with("crates/client/src/core");
    is_pure && !COMMANDS.contains(&path)
}

/// I/O in files that have to do without.
pub fn check(source: &Source) -> Vec<Finding> {
    if !is_sans_io(&source.path) {
        return Vec::new();
    }
    let mut findings = Vec::new();
    for (number, line) in source.product_lines() {
        for (text, why) in FORBIDDEN {
            if contains_word(line, text) {
                findings.push(Finding::at_line(&source.path, number, format!("`{text}`: {why}")));
            }
        }
    }
    findings.extend(check_grouped(source));
    findings
}

/// `use std::{fmt, fs};`, over any number of lines.
fn check_grouped(source: &Source) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut statement: Option<(usize, String)> = None;
    for (number, line) in source.product_lines() {
        if line.trim_start().starts_with("use std::{") {
            statement = Some((number, String::new()));
        }
        let Some((start, text)) = &mut statement else {
            continue;
        };
        text.push_str(line);
        if line.contains(';') {
            for module in FORBIDDEN_IN_STD
                .iter()
                .filter(|module| contains_word(text, module))
            {
                findings.push(Finding::at_line(
                    &source.path,
                    *start,
                    format!("`std::{module}` belongs to the edge"),
                ));
            }
            statement = None;
        }
    }
    findings
}

/// Readers of the clock at the edge, other than a `clock.rs`.
pub fn check_clock(source: &Source) -> Vec<Finding> {
    let at_the_edge = [
        "crates/server/src/",
        "crates/client/src/",
        "crates/statehold/src/",
        "crates/storage/src/",
    ];
    let is_clock = CLOCKS.contains(&source.path.as_str()) || source.path.ends_with("/clock.rs");
    if is_clock || !at_the_edge.iter().any(|folder| source.path.starts_with(folder)) {
        return Vec::new();
    }
    let reads = |line: &str| contains_word(line, "Instant::now") || contains_word(line, "SystemTime::now");
    let lines = source.product_lines().filter(|(_, line)| reads(line));
    lines
        .map(|(number, _)| Finding::at_line(&source.path, number, "only clock.rs reads the clock"))
        .collect()
}

/// Whether `text` stands in `line` and is not a part of longer words.
pub fn contains_word(line: &str, text: &str) -> bool {
    let in_word =
        |letter: Option<char>| letter.is_some_and(|letter| letter.is_alphanumeric() || letter == '_');
    let begins = text.starts_with(|letter: char| letter.is_alphanumeric());
    let ends = text.ends_with(|letter: char| letter.is_alphanumeric());
    line.match_indices(text).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + text.len()..].chars().next();
        let is_part = (begins && in_word(before)) || (ends && in_word(after));
        !is_part
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(path: &str, text: &str) -> usize {
        check(&Source::parse(path, text)).len()
    }

    #[test]
    fn every_kind_of_io_is_found() {
        for text in [
            "use tokio::net::TcpStream;",
            "let file = std::fs::read(path);",
            "use std::{fmt, fs};",
            "use std::{\n    fmt,\n    fs::File,\n};",
            "use std::net::SocketAddr;",
            "let now = Instant::now();",
            "let waited = started.elapsed();",
            "let now = std::time::SystemTime::now();",
            "pub async fn step() {}",
            "socket.read().await",
            "state: Arc<Mutex<State>>,",
        ] {
            assert_eq!(findings("crates/broker/src/node.rs", text), 1, "{text}");
            assert_eq!(findings("crates/client/src/core/session.rs", text), 1, "{text}");
            assert_eq!(findings("crates/server/src/driver.rs", text), 0, "{text}");
        }
    }

    #[test]
    fn words_in_comments_literals_tests_and_longer_words_are_not() {
        for text in [
            "// tokio would be wrong here\n",
            "let a = \"std::fs\";",
            "#[cfg(test)]\nmod tests {\n fn a() { Instant::now(); }\n}",
            "let tokio_like = my_tokio;",
            "use std::{fmt, fstream};",
        ] {
            assert_eq!(findings("crates/broker/src/node.rs", text), 0, "{text}");
        }
    }

    #[test]
    fn the_clock_is_read_in_one_place() {
        let count = |path| check_clock(&Source::parse(path, "let a = Instant::now();")).len();
        assert_eq!(count("crates/server/src/driver.rs"), 1);
        assert_eq!(count("crates/server/src/clock.rs"), 0);
        assert_eq!(count("crates/server/tests/it/main.rs"), 0);
    }
}
