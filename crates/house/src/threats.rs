//! The threat model: each attack names the tests that show its defence, and they are there.
//!
//! The last cell of a row has groups, with `;` between them: a file, and after a colon the names of tests in it. A name may end
//! with `...`.

use crate::Finding;
use crate::repository::Text;

/// The heading under which the rows are.
const HEADING: &str = "### Attacks, defences, and the tests that show them";

/// Where files are that have no folder.
const FOLDERS: [(&str, &str); 2] = [
    (".rs", "crates/statehold/tests/it/"),
    (".txt", "crates/sim/tests/testdata/"),
];

/// Rows without a test, and tests that are not there. `files`: all that may be named.
pub fn check(page: &Text, files: &[Text], exists: &dyn Fn(&str) -> bool) -> Vec<Finding> {
    let mut findings = Vec::new();
    let lines = page.text.lines().enumerate();
    let section = lines
        .skip_while(|(_, line)| *line != HEADING)
        .skip(1)
        .take_while(|(_, line)| !line.starts_with('#'));
    let rows = section.filter(|(_, line)| line.starts_with("| ")).skip(1);
    let mut count = 0;
    for (index, row) in rows {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let tests = cells.last().copied().unwrap_or_default();
        if cells.first().is_some_and(|cell| cell.starts_with("**")) {
            continue;
        }
        count += 1;
        let mut named = 0;
        for group in tests.split(';') {
            named += check_group(group, files, exists, &mut |what| {
                findings.push(Finding::at_line(&page.path, index + 1, what));
            });
        }
        if named == 0 {
            findings.push(Finding::at_line(&page.path, index + 1, "no test is named"));
        }
    }
    if count == 0 {
        findings.push(Finding::in_file(&page.path, "there are no attacks"));
    }
    findings
}

/// How many tests or files the group names.
fn check_group(
    group: &str,
    files: &[Text],
    exists: &dyn Fn(&str) -> bool,
    finding: &mut dyn FnMut(String),
) -> usize {
    let mut file: Option<&Text> = None;
    let mut named = 0;
    for (position, name) in group.split('`').enumerate() {
        // Outside of code.
        if position % 2 == 0 {
            continue;
        }
        named += 1;
        if !name.contains('/') && !name.contains(".rs") && !name.contains(".txt") {
            let start = format!("fn {}", name.trim_end_matches('.'));
            if !file.is_some_and(|file| file.text.contains(&start)) {
                finding(format!("there is no test `{name}` in its file"));
            }
            continue;
        }
        let folder = FOLDERS.iter().find(|(ending, _)| name.ends_with(ending));
        let path = match folder {
            Some((_, folder)) if !name.contains('/') => format!("{folder}{name}"),
            _ => name.to_owned(),
        };
        file = files.iter().find(|file| file.path == path);
        if file.is_none() && !exists(&path) {
            finding(format!("there is no {path}"));
        }
    }
    named
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_row(row: &str) -> Vec<String> {
        let page = Text {
            path: "SECURITY.md".to_owned(),
            text: format!("{HEADING}\n\n| attack | defence | test |\n|---|---|---|\n{row}\n## Next\n"),
        };
        let files = [Text {
            path: "crates/statehold/tests/it/passwords.rs".to_owned(),
            text: "#[test]\nfn guessing_hurts_nobody() {}".to_owned(),
        }];
        let exists = |path: &str| path == "crates/sim/tests/testdata/a.txt";
        let findings = check(&page, &files, &exists);
        findings.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn what_is_named_has_to_be_there() {
        assert_eq!(
            check_row("| a | b | `passwords.rs`: `guessing_hurts...`; `a.txt` |"),
            [""; 0]
        );
        assert_eq!(
            check_row("| **a part** | | |\n| a | b | `passwords.rs` |"),
            [""; 0]
        );
        assert_eq!(
            check_row("| a | b | `passwords.rs`: `flattering_hurts` |").len(),
            1
        );
        assert_eq!(check_row("| a | b | `gone.rs` |").len(), 1);
        assert_eq!(check_row("| a | b | |").len(), 1);
        assert_eq!(check_row("").len(), 1);
    }
}
