//! Reading a settings file, and saying where in it something is wrong.
//!
//! A file with a mistake is never half used: [`Source::parse`] names each unknown setting, then the first value that is not
//! what its setting takes, by line and column.

use std::fmt;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use thiserror::Error;
use toml::de::{DeTable, DeValue, Deserializer};

use super::Config;
use super::settings::{self, Kind};

/// Why there are no settings.
#[derive(Debug, Error)]
pub enum ConfigError {
    /// The file is not there, may not be read, or is not UTF-8.
    #[error("cannot read the settings file {}: {error}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },

    /// Something in the file is wrong; one line for each problem.
    #[error("{}", lines(problems.iter().map(|(place, problem)| format!("{}:{place}: {problem}", path.display()))))]
    Wrong {
        /// The file.
        path: PathBuf,
        /// Where, and what.
        problems: Vec<(Place, Problem)>,
    },

    /// Values of the command line, or of a [`Config`] made by hand, are wrong; one line for each problem.
    #[error("{}", lines(_0.iter().map(Problem::to_string)))]
    Rejected(Vec<Problem>),
}

/// One thing that is wrong with the settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// As in `limits.receive_maximum`; empty when the file is not TOML.
    pub setting: String,
    /// What is wrong with it, in words for an operator.
    pub message: String,
}

/// A place in a file; both count from one. A column is a character.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The line.
    pub line: usize,
    /// The character in the line.
    pub column: usize,
}

impl Problem {
    pub(super) fn new(setting: &str, message: String) -> Self {
        Self {
            setting: setting.to_owned(),
            message,
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.setting.is_empty() {
            return to.write_str(&self.message);
        }
        write!(to, "`{}`: {}", self.setting, self.message)
    }
}

impl fmt::Display for Place {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{}:{}", self.line, self.column)
    }
}

/// The text of a settings file.
pub(super) struct Source {
    path: PathBuf,
    text: String,
}

impl Source {
    pub(super) fn read(path: &Path) -> Result<Self, ConfigError> {
        match crate::text_file::read(path) {
            Ok(text) => Ok(Self {
                path: path.to_owned(),
                text,
            }),
            Err(error) => Err(ConfigError::Unreadable {
                path: path.to_owned(),
                error,
            }),
        }
    }

    #[cfg(test)]
    pub(super) fn of_text(text: &str) -> Self {
        Self {
            path: PathBuf::from("statehold.toml"),
            text: text.to_owned(),
        }
    }

    /// The settings that the file says, defaults for the others; their values are not checked against each other yet.
    pub(super) fn parse(&self) -> Result<Config, ConfigError> {
        let document = DeTable::parse(&self.text).map_err(|error| self.not_understood(&error, ""))?;
        let unknown = self.unknown(document.get_ref());
        if !unknown.is_empty() {
            return Err(ConfigError::Wrong {
                path: self.path.clone(),
                problems: unknown,
            });
        }
        Config::deserialize(Deserializer::from(document.clone())).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            self.not_understood(&error, &setting_at(document.get_ref(), at))
        })
    }

    /// Adds to each problem where in the file its setting is; what the file does not set is at its first line.
    pub(super) fn locate(&self, problems: Vec<Problem>) -> ConfigError {
        let document = DeTable::parse(&self.text)
            .map(toml::Spanned::into_inner)
            .unwrap_or_default();
        let placed = |problem: Problem| (self.place(offset_of(&document, &problem.setting)), problem);
        ConfigError::Wrong {
            path: self.path.clone(),
            problems: problems.into_iter().map(placed).collect(),
        }
    }

    fn not_understood(&self, error: &toml::de::Error, setting: &str) -> ConfigError {
        let place = self.place(error.span().map_or(0, |span| span.start));
        let message = error
            .message()
            .split('\n')
            .filter(|line| !line.is_empty())
            .collect::<Vec<_>>()
            .join("; ");
        ConfigError::Wrong {
            path: self.path.clone(),
            problems: vec![(place, Problem::new(setting, message))],
        }
    }

    fn unknown(&self, document: &DeTable<'_>) -> Vec<(Place, Problem)> {
        let all = settings::all();
        // What is in them has names of the file's own.
        let free: Vec<String> = all
            .iter()
            .filter(|setting| setting.is_table_of_text())
            .map(|setting| format!("{}.", setting.path))
            .collect();
        let named: Vec<String> = all
            .iter()
            .filter(|setting| setting.kind == Kind::NamedTables)
            .filter_map(|setting| setting.path.strip_suffix(settings::NAME).map(str::to_owned))
            .collect();
        let mut known: Vec<String> = all.into_iter().map(|setting| setting.path).collect();
        known.extend(named.iter().cloned());
        let mut problems = Vec::new();
        visit(document, "", &mut |path, offset| {
            let general = without_names(general(path), &named);
            if free.iter().any(|table| general.starts_with(table)) {
                return;
            }
            // What is inside something unknown is not worth a line of its own.
            let inside_known = general
                .rsplit_once('.')
                .is_none_or(|(table, _)| is_known(&known, table));
            if inside_known && !is_known(&known, &general) {
                let hint = match nearest(&general, &known) {
                    Some(other) => format!("; did you mean `{other}`?"),
                    None => String::new(),
                };
                problems.push((
                    self.place(offset),
                    Problem::new(path, format!("there is no such setting{hint}")),
                ));
            }
        });
        problems
    }

    fn place(&self, offset: usize) -> Place {
        let before = self.text.get(..offset).unwrap_or(&self.text);
        let line_start = before.rfind('\n').map_or(0, |end| end + 1);
        Place {
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
        }
    }
}

fn is_known(known: &[String], path: &str) -> bool {
    known
        .iter()
        .any(|setting| setting.trim_end_matches("[]") == path.trim_end_matches("[]"))
}

/// `listeners[2].address` as `listeners[].address`.
fn general(path: &str) -> String {
    let mut general = String::new();
    for (index, part) in path.split('[').enumerate() {
        match part.split_once(']') {
            Some((_, rest)) if index > 0 => general.extend(["[]", rest]),
            _ => general.push_str(part),
        }
    }
    general
}

/// `authorization.fleet.file` as `authorization.NAME.file`.
fn without_names(path: String, named: &[String]) -> String {
    for table in named {
        if let Some(inside) = path.strip_prefix(table).and_then(|rest| rest.strip_prefix('.')) {
            let below = inside.find('.').map_or("", |dot| &inside[dot..]);
            return format!("{table}{}{below}", settings::NAME);
        }
    }
    path
}

/// Calls `found` with the path and the offset of each key of the file, tables before what is in them.
fn visit(table: &DeTable<'_>, prefix: &str, found: &mut dyn FnMut(&str, usize)) {
    for (key, value) in table {
        let path = if prefix.is_empty() {
            key.get_ref().to_string()
        } else {
            format!("{prefix}.{}", key.get_ref())
        };
        found(&path, key.span().start);
        match value.get_ref() {
            DeValue::Table(inner) => visit(inner, &path, found),
            DeValue::Array(items) => {
                for (index, item) in items.iter().enumerate() {
                    if let DeValue::Table(inner) = item.get_ref() {
                        visit(inner, &format!("{path}[{index}]"), found);
                    }
                }
            }
            _ => {}
        }
    }
}

/// The setting whose value is at `offset`: the last key that begins at or before it.
fn setting_at(document: &DeTable<'_>, offset: usize) -> String {
    let mut nearest = (0, String::new());
    visit(document, "", &mut |path, start| {
        if start <= offset && start >= nearest.0 {
            nearest = (start, path.to_owned());
        }
    });
    nearest.1
}

/// Where the setting is, or the innermost table around it that the file has.
fn offset_of(document: &DeTable<'_>, setting: &str) -> usize {
    let mut best = (0, 0);
    visit(document, "", &mut |path, start| {
        let inside = setting
            .strip_prefix(path)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']));
        if inside && path.len() >= best.0 {
            best = (path.len(), start);
        }
    });
    best.1
}

/// The known setting that is probably meant: few letters away, or the same name in another table.
fn nearest<'a>(unknown: &str, known: &'a [String]) -> Option<&'a str> {
    let name = |path: &str| path.rsplit('.').next().unwrap_or_default().to_owned();
    let close = |path: &&String| distance(unknown, path.trim_end_matches("[]")) <= 1 + unknown.len() / 5;
    let by_distance = known
        .iter()
        .filter(close)
        .min_by_key(|path| distance(unknown, path));
    let by_name = || known.iter().find(|path| name(path) == name(unknown));
    by_distance
        .or_else(by_name)
        .map(|path| path.trim_end_matches("[]"))
}

/// Letters to insert, remove or replace to make one text of the other (Levenshtein).
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (index, letter) in one.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = index + 1;
        for (column, against) in other.iter().enumerate() {
            let replaced = diagonal + usize::from(letter != *against);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(row[column] + 1).min(diagonal + 1);
        }
    }
    row[other.len()]
}

fn lines(items: impl Iterator<Item = String>) -> String {
    items.collect::<Vec<_>>().join("\n")
}
