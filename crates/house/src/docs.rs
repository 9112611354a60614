//! Links of the pages, their length, and the names of decisions.

use std::collections::BTreeMap;

use crate::Finding;
use crate::repository::Text;
use crate::source::Source;

/// Pages that have to stay short, and their lines.
pub const PAGES_MAX: [(&str, usize); 2] = [("ARCHITECTURE.md", 300), ("STYLE.md", 200)];

/// Links to files and headings that are not there. `exists` tells of a path relative to the repository.
pub fn check_links(pages: &[Text], exists: &dyn Fn(&str) -> bool) -> Vec<Finding> {
    let mut findings = Vec::new();
    for page in pages {
        for (line, target) in links(&page.text) {
            let (path, heading) = target.split_once('#').unwrap_or((target.as_str(), ""));
            let path = if path.is_empty() {
                page.path.clone()
            } else {
                resolve(&page.path, path)
            };
            let linked = pages.iter().find(|other| other.path == path);
            if linked.is_none() && !exists(&path) {
                findings.push(Finding::at_line(
                    &page.path,
                    line,
                    format!("`{target}` leads nowhere"),
                ));
            } else if let Some(linked) = linked
                && !heading.is_empty()
                && !headings(&linked.text).contains(&heading.to_owned())
            {
                findings.push(Finding::at_line(
                    &page.path,
                    line,
                    format!("`{target}`: there is no such heading"),
                ));
            }
        }
    }
    findings
}

/// Pages that a source names and that are not there.
pub fn check_mentions(source: &Source, exists: &dyn Fn(&str) -> bool) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (index, line) in source.text.lines().enumerate() {
        for (at, _) in line.match_indices("docs/") {
            let in_path =
                |letter: &char| letter.is_ascii_alphanumeric() || matches!(letter, '/' | '.' | '_' | '-');
            let path: String = line[at..].chars().take_while(in_path).collect();
            let path = path.trim_end_matches('.');
            if path.ends_with(".md") && !exists(path) {
                findings.push(Finding::at_line(
                    &source.path,
                    index + 1,
                    format!("there is no {path}"),
                ));
            }
        }
    }
    findings
}

/// Pages that have grown too long.
pub fn check_length(pages: &[Text]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, lines_max) in PAGES_MAX {
        let lines = pages
            .iter()
            .find(|page| page.path == path)
            .map(|page| page.text.lines().count());
        match lines {
            None => findings.push(Finding::in_file(path, "is missing")),
            Some(lines) if lines > lines_max => {
                findings.push(Finding::in_file(
                    path,
                    format!("{lines} lines, at most {lines_max}"),
                ));
            }
            Some(_) => {}
        }
    }
    findings
}

/// Decisions whose file is not called `YYYY-MM-DD-name.md`, two with one name, and those that the list leaves out.
pub fn check_decisions(pages: &[Text]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut names: BTreeMap<&str, &str> = BTreeMap::new();
    let list = pages
        .iter()
        .find(|page| page.path == "docs/decisions/README.md")
        .map_or("", |page| page.text.as_str());
    for page in pages {
        let Some(file) = page
            .path
            .strip_prefix("docs/decisions/")
            .filter(|file| *file != "README.md")
        else {
            continue;
        };
        let Some(name) = name_of_decision(file) else {
            findings.push(Finding::in_file(
                &page.path,
                "a decision is called YYYY-MM-DD-name.md",
            ));
            continue;
        };
        if let Some(other) = names.insert(name, &page.path) {
            findings.push(Finding::in_file(&page.path, format!("has the name of {other}")));
        }
        if !list.contains(&format!("]({file})")) {
            findings.push(Finding::in_file(&page.path, "is not in docs/decisions/README.md"));
        }
    }
    findings
}

fn name_of_decision(file: &str) -> Option<&str> {
    let (date, name) = (
        file.get(..10)?,
        file.get(10..)?.strip_prefix('-')?.strip_suffix(".md")?,
    );
    let digits = date.bytes().enumerate().all(|(index, byte)| match index {
        4 | 7 => byte == b'-',
        _ => byte.is_ascii_digit(),
    });
    (digits && !name.is_empty()).then_some(name)
}

/// Line and target of each link to a file of the repository; code is left out.
fn links(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut in_code = false;
    for (index, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
        }
        if in_code {
            continue;
        }
        let prose: String = line.split('`').step_by(2).collect();
        for (at, _) in prose.match_indices("](") {
            let target = prose[at + 2..].split(')').next().unwrap_or_default();
            let elsewhere = target.contains("://") || target.starts_with("mailto:");
            if !elsewhere {
                found.push((index + 1, target.to_owned()));
            }
        }
    }
    found
}

fn resolve(page: &str, target: &str) -> String {
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "." | "" => {}
            ".." => {
                parts.pop();
            }
            _ => parts.push(part),
        }
    }
    parts.join("/")
}

/// The anchors that a page's headings get.
fn headings(text: &str) -> Vec<String> {
    let anchor = |title: &str| -> String {
        let kept = title
            .chars()
            .filter(|letter| letter.is_alphanumeric() || matches!(letter, ' ' | '-' | '_'));
        kept.collect::<String>().to_lowercase().replace(' ', "-")
    };
    let titles = text.lines().filter(|line| line.starts_with('#'));
    titles
        .map(|line| anchor(line.trim_start_matches('#').trim()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(path: &str, text: &str) -> Text {
        Text {
            path: path.to_owned(),
            text: text.to_owned(),
        }
    }

    #[test]
    fn links_that_lead_nowhere_are_found() {
        let pages = [
            page(
                "README.md",
                "[a](docs/a.md) [b](docs/b.md)\n[c](docs/a.md#the-end) [d](docs/a.md#no) [e](#me)\n# Me",
            ),
            page(
                "docs/a.md",
                "## The end\n[up](../README.md) [code](../Cargo.toml) [out](https://example.org/x)\n`[no](x)`",
            ),
        ];
        let findings = check_links(&pages, &|path| path == "Cargo.toml");
        let places: Vec<_> = findings
            .iter()
            .map(|finding| (finding.place.as_str(), finding.what.as_str()))
            .collect();
        assert_eq!(
            places,
            [
                ("README.md:1", "`docs/b.md` leads nowhere"),
                ("README.md:2", "`docs/a.md#no`: there is no such heading"),
            ]
        );
    }

    #[test]
    fn a_source_that_names_a_missing_page_is_found() {
        let source = Source::parse(
            "crates/a/src/a.rs",
            "//! See docs/a.md.\n//! And docs/b.md, docs/.\nfn a() {}",
        );
        let findings = check_mentions(&source, &|path| path == "docs/a.md");
        assert_eq!(
            findings,
            [Finding::at_line("crates/a/src/a.rs", 2, "there is no docs/b.md")]
        );
    }

    #[test]
    fn code_has_no_links() {
        assert_eq!(links("```\n[a](b)\n```\n"), []);
    }

    #[test]
    fn a_page_that_has_grown_or_is_missing_is_found() {
        let findings = check_length(&[page("STYLE.md", &"x\n".repeat(201))]);
        assert_eq!(findings.len(), 2);
    }

    #[test]
    fn decisions_have_dates_and_names_of_their_own() {
        let list = "[a](2026-01-01-a.md) [b](2026-01-02-b.md) [a](2026-02-01-a.md)";
        let good = [
            page("docs/decisions/README.md", list),
            page("docs/decisions/2026-01-01-a.md", ""),
        ];
        assert_eq!(check_decisions(&good), []);
        let bad = [
            page("docs/decisions/README.md", list),
            page("docs/decisions/2026-01-01-a.md", ""),
            page("docs/decisions/2026-02-01-a.md", ""),
            page("docs/decisions/storage.md", ""),
            page("docs/decisions/2026-01-03-c.md", ""),
        ];
        assert_eq!(check_decisions(&bad).len(), 3);
    }
}
