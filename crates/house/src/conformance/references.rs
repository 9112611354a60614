//! Where sources and the texts that tests play cite statements.

use super::{Place, StatementId, Version};
use crate::repository::Text;
use crate::source::Source;

/// One citation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reference {
    /// Of which statement.
    pub id: StatementId,
    /// Where, in terms of what is called so.
    pub place: Place,
    /// Counted from one.
    pub line: usize,
    kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Code,
    Test,
    /// A helper of tests, or a text about our client: shows nothing.
    Neither,
}

impl Reference {
    /// In what runs as the server.
    pub fn is_of_server_code(&self) -> bool {
        self.kind == Kind::Code && is_in(&self.place.path, &CRATES_OF_THE_SERVER)
    }

    /// In what tests the server.
    pub fn is_of_server_test(&self) -> bool {
        let tests_it =
            is_in(&self.place.path, &CRATES_OF_THE_SERVER) || is_in(&self.place.path, &CRATES_WITH_TESTS);
        self.kind == Kind::Test && tests_it
    }
}

/// All citations in a source of `crates/`, and tests that are called after a statement; this crate is no witness.
pub fn in_source(source: &Source) -> Vec<Reference> {
    let Some(path) = source
        .path
        .strip_prefix("crates/")
        .filter(|path| !path.starts_with("house/"))
    else {
        return Vec::new();
    };
    let lines = Lines::of(source);
    let mut found = Vec::new();
    for (index, text) in source.text.lines().enumerate() {
        let line = index + 1;
        let name = lines.function_at(index).and_then(id_in_name);
        for id in ids_in(text).into_iter().chain(name) {
            let item = lines.item_of(index);
            let kind = match &item {
                _ if !source.is_test(line) => Kind::Code,
                Some(Item { index, .. }) if lines.is_test(*index) => Kind::Test,
                _ => Kind::Neither,
            };
            let item = item.map(|item| item.name);
            let place = Place {
                path: path.to_owned(),
                item,
            };
            found.push(Reference {
                id,
                place,
                line,
                kind,
            });
        }
    }
    found
}

/// All citations in a text that a test plays.
pub fn in_testdata(text: &Text) -> Vec<Reference> {
    let Some(path) = text.path.strip_prefix("crates/") else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for (index, line) in text.text.lines().enumerate() {
        let kind = if line.contains(FROM_A_SERVER) {
            Kind::Neither
        } else {
            Kind::Test
        };
        for id in ids_in(line) {
            let place = Place {
                path: path.to_owned(),
                item: None,
            };
            let line = index + 1;
            found.push(Reference {
                id,
                place,
                line,
                kind,
            });
        }
    }
    found
}

/// Whether a place of a list exists, and is a test if it should be.
pub(super) fn is_there(place: &Place, is_test: bool, sources: &[Source]) -> bool {
    let path = format!("crates/{}", place.path);
    let Some(source) = sources.iter().find(|source| source.path == path) else {
        return is_test && place.item.is_none() && place.path.contains("/testdata/");
    };
    let Some(item) = &place.item else { return !is_test };
    let lines = Lines::of(source);
    let mut functions = (0..lines.code.len()).filter(|index| lines.function_at(*index) == Some(item));
    functions.any(|index| source.is_test(index + 1) == is_test && (!is_test || lines.is_test(index)))
}

/// The ids of `[MQTT-3.1.2-22]`, and of 3.1.1 for those of a run that ends with `of version 3.1.1`.
fn ids_in(line: &str) -> Vec<StatementId> {
    let mut found = Vec::new();
    for (at, opening) in line.match_indices("[MQTT-") {
        let rest = &line[at + opening.len()..];
        let Some((number, behind)) = rest.split_once(']') else {
            continue;
        };
        let version = if is_of_311(behind) {
            Version::V311
        } else {
            Version::V5
        };
        found.extend(StatementId::parse(version, number, ['.', '-']));
    }
    found
}

fn is_of_311(behind: &str) -> bool {
    let behind = behind.trim_start();
    match behind
        .strip_prefix("[MQTT-")
        .and_then(|next| next.split_once(']'))
    {
        Some((_, behind)) => is_of_311(behind),
        None => behind.starts_with("of version 3.1.1"),
    }
}

/// `mqtt_3_1_2_22_what_it_means`
fn id_in_name(name: &str) -> Option<StatementId> {
    let (version, numbers) = match (name.strip_prefix("mqtt_"), name.strip_prefix("mqtt311_")) {
        (Some(numbers), _) => (Version::V5, numbers),
        (None, Some(numbers)) => (Version::V311, numbers),
        (None, None) => return None,
    };
    let mut parts: Vec<&str> = numbers.split('_').collect();
    parts.truncate(4);
    StatementId::parse(version, &parts.join("_"), ['_', '_'])
}

fn is_in(path: &str, crates: &[&str]) -> bool {
    path.split('/').next().is_some_and(|name| crates.contains(&name))
}

/// The lines of a source, and what they belong to.
struct Lines<'a> {
    text: Vec<&'a str>,
    code: Vec<&'a str>,
}

/// Something with a name, and its line's index.
struct Item {
    index: usize,
    name: String,
}

impl<'a> Lines<'a> {
    fn of(source: &'a Source) -> Self {
        Self {
            text: source.text.lines().collect(),
            code: source.code.lines().collect(),
        }
    }

    /// What a line is about: below a doc comment the next item, else the function that it is in.
    fn item_of(&self, index: usize) -> Option<Item> {
        let line = self.text[index].trim_start();
        if line.starts_with("//!") {
            return None;
        }
        if line.starts_with("///") {
            let is_item = |line: &&str| !line.trim().is_empty() && !line.trim_start().starts_with("#[");
            let index = (index..self.code.len()).find(|index| is_item(&self.code[*index]))?;
            let name = name_of(self.code[index]);
            return name.map(|name| Item { index, name });
        }
        let index = (0..=index)
            .rev()
            .find(|index| self.function_at(*index).is_some())?;
        self.function_at(index).map(|name| Item {
            index,
            name: name.to_owned(),
        })
    }

    /// The function that begins here.
    fn function_at(&self, index: usize) -> Option<&'a str> {
        let words: Vec<&str> = self.code.get(index)?.split_whitespace().collect();
        let at = words.iter().position(|word| *word == "fn")?;
        words.get(at + 1).map(|word| identifier(word))
    }

    /// Whether the function that begins here is a test.
    fn is_test(&self, index: usize) -> bool {
        let above = self.text[..index].iter().rev().map(|line| line.trim_start());
        let mut attributes = above.take_while(|line| line.starts_with("#[") || line.starts_with("//"));
        attributes.any(|line| line.starts_with("#[test]") || line.starts_with("#[tokio::test"))
    }
}

fn name_of(code: &str) -> Option<String> {
    let is_name = |word: &&str| !word.starts_with("pub") && !WORDS_BEFORE_NAMES.contains(word);
    code.split_whitespace()
        .find(is_name)
        .map(|word| identifier(word).to_owned())
}

fn identifier(word: &str) -> &str {
    let end = word.find(|letter: char| !letter.is_alphanumeric() && letter != '_');
    &word[..end.unwrap_or(word.len())]
}

/// What runs as the server and decides about MQTT.
const CRATES_OF_THE_SERVER: [&str; 5] = ["protocol", "mqtt", "state_service", "broker", "server"];

/// What tests the server from outside.
const CRATES_WITH_TESTS: [&str; 2] = ["sim", "statehold"];

/// In the table of malformed packets: one that our client receives.
const FROM_A_SERVER: &str = "| server |";

const WORDS_BEFORE_NAMES: [&str; 8] = ["async", "const", "enum", "fn", "mod", "static", "struct", "type"];

#[cfg(test)]
mod tests {
    use super::*;

    fn id(version: Version, text: &str) -> StatementId {
        StatementId::parse(version, text, ['.', '-']).unwrap()
    }

    #[test]
    fn each_version_has_citations_of_its_own() {
        let line = "// [MQTT-1.2.3-4]: and [MQTT-3.1.3-8] [MQTT-3.1.3-9] of version 3.1.1, [MQTT-x]";
        let expected = [
            id(Version::V5, "1.2.3-4"),
            id(Version::V311, "3.1.3-8"),
            id(Version::V311, "3.1.3-9"),
        ];
        assert_eq!(ids_in(line), expected);
    }

    #[test]
    fn tests_are_called_after_statements() {
        assert_eq!(
            id_in_name("mqtt_4_7_3_3_at_most_65_535"),
            Some(id(Version::V5, "4.7.3-3"))
        );
        assert_eq!(
            id_in_name("mqtt311_3_1_3_8_x"),
            Some(id(Version::V311, "3.1.3-8"))
        );
        assert_eq!(id_in_name("mqtt_4_3_3_a_client_sees"), None);
    }

    #[test]
    fn a_citation_belongs_to_what_it_is_written_at() {
        let text = "//! [MQTT-1.1.1-1]\n/// [MQTT-1.1.1-2]\n#[derive(Debug)]\npub struct A {}\nfn b() {\n    // [MQTT-1.1.1-3]\n}\n\
                    #[cfg(test)]\nmod tests {\n    #[test]\n    fn mqtt_1_1_1_4_c() {}\n    // [MQTT-1.1.1-5]\n    fn d() {\n        // [MQTT-1.1.1-6]\n    }\n}\n";
        let found = in_source(&Source::parse("crates/broker/src/a.rs", text));
        let shown: Vec<_> = found
            .iter()
            .map(|reference| {
                (
                    reference.id.number,
                    reference.place.item.as_deref(),
                    reference.kind,
                )
            })
            .collect();
        let expected = [
            (1, None, Kind::Code),
            (2, Some("A"), Kind::Code),
            (3, Some("b"), Kind::Code),
            (4, Some("mqtt_1_1_1_4_c"), Kind::Test),
            (5, Some("mqtt_1_1_1_4_c"), Kind::Test),
            (6, Some("d"), Kind::Neither),
        ];
        assert_eq!(shown, expected);
    }

    #[test]
    fn our_client_is_no_witness_for_the_server() {
        let text = "// [MQTT-1.1.1-1]\nfn a() {}\n";
        let found = in_source(&Source::parse("crates/client/src/a.rs", text));
        assert!(found.iter().all(|reference| !reference.is_of_server_code()));
        let table = Text {
            path: "crates/protocol/tests/testdata/malformed.txt".to_owned(),
            text: "5 | server | 81 | [MQTT-1.1.1-1]\n5 | client | 81 | [MQTT-1.1.1-2]\n".to_owned(),
        };
        let found = in_testdata(&table);
        let shown: Vec<_> = found.iter().map(Reference::is_of_server_test).collect();
        assert_eq!(shown, [false, true]);
    }
}
