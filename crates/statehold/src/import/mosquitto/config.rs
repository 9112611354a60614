//! `mosquitto.conf` becomes a `statehold.toml`: what has a counterpart, and for each of the rest what to do instead.

mod acl;
mod advice;
mod directives;
mod passwords;
mod settings;
mod translate;

use std::fs::{DirBuilder, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Context;
use serde_json::json;
use server::Config;
use server::config::Overrides;

use self::settings::{Files, Settings};
use crate::exit::{Exit, UsageError};
use crate::output;

/// Something that has no counterpart.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Finding {
    /// File and line.
    place: String,
    /// What stands there, and what to do instead.
    what: String,
}

const SETTINGS: &str = "statehold.toml";
const PASSWORDS: &str = "clients.passwd";

/// Reads the file, and writes what it becomes into a directory; nothing that is there is written over. A dry run only shows it.
pub(super) fn convert(
    path: &Path,
    directory: Option<&Path>,
    is_dry: bool,
    is_json: bool,
) -> anyhow::Result<Exit> {
    let directives = directives::read(path)?;
    let shown = directory.map_or_else(|| Path::new("/etc/statehold").to_path_buf(), Path::to_path_buf);
    let shown = std::path::absolute(&shown).unwrap_or(shown);
    let mut settings = translate::translate(&directives, &shown);
    let files = settings.files();
    check(&files, &mut settings)?;
    let directory = directory.filter(|_| !is_dry);
    if let Some(directory) = directory {
        write(directory, &files)?;
    }
    report(&settings, &files, directory, is_json)
}

/// The settings have to be such that a server takes them; a policy as well.
fn check(files: &Files, settings: &mut Settings) -> anyhow::Result<()> {
    let scratch = scratch_with(files)?;
    let errors: Vec<_> = files
        .all()
        .filter_map(|(name, _)| Some((name.to_owned(), mistake(name, &scratch.join(name))?)))
        .collect();
    std::fs::remove_dir_all(&scratch).context("cannot remove a directory of this command's own")?;
    for (place, error) in errors {
        // Where it was read from is not where it will be.
        let error = error.replace(&format!("{}/", scratch.display()), "");
        let what = format!("a server does not take it as it is: {error}");
        settings.findings.push(Finding { place, what });
    }
    Ok(())
}

/// What is wrong with a file.
fn mistake(name: &str, path: &Path) -> Option<String> {
    match name {
        SETTINGS => Config::load(Some(path), &Overrides::default())
            .err()
            .map(|error| error.to_string()),
        PASSWORDS => None,
        _ => server::authorization::read(path)
            .err()
            .map(|error| error.to_string()),
    }
}

/// A directory with the files, to be checked.
fn scratch_with(files: &Files) -> anyhow::Result<PathBuf> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let scratch = std::env::temp_dir().join(format!("statehold-import-{}-{count}", std::process::id()));
    // It fails if it is there: somebody else has put it there.
    let made = DirBuilder::new().mode(0o700).create(&scratch);
    made.with_context(|| format!("cannot make {}", scratch.display()))?;
    for (name, text) in files.all() {
        create(&scratch.join(name), text, 0o600)?;
    }
    Ok(scratch)
}

fn write(directory: &Path, files: &Files) -> anyhow::Result<()> {
    std::fs::create_dir_all(directory).with_context(|| format!("cannot make {}", directory.display()))?;
    for (name, _) in files.all() {
        let path = directory.join(name);
        if path.exists() {
            let why = format!(
                "{} is there already: name another directory with --output",
                path.display()
            );
            return Err(UsageError(why).into());
        }
    }
    for (name, text) in files.all() {
        let mode = if name == PASSWORDS { 0o600 } else { 0o644 };
        create(&directory.join(name), text, mode)?;
    }
    Ok(())
}

fn create(path: &Path, text: &str, mode: u32) -> anyhow::Result<()> {
    let file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(path);
    let written = file.and_then(|mut file| file.write_all(text.as_bytes()));
    written.with_context(|| format!("cannot write {}", path.display()))
}

fn report(
    settings: &Settings,
    files: &Files,
    directory: Option<&Path>,
    is_json: bool,
) -> anyhow::Result<Exit> {
    let names: Vec<_> = files.all().map(|(name, _)| name).collect();
    if is_json {
        let findings: Vec<_> = (settings.findings.iter())
            .map(|finding| json!({ "place": finding.place, "what": finding.what }))
            .collect();
        let told = json!({
            "source": "mosquitto",
            "written": directory.map(|_| &names),
            "settings": files.settings,
            "without_counterpart": findings,
            "users_without_password": settings.users,
        });
        output::line(told.to_string())?;
    } else {
        let mut lines = Vec::new();
        match directory {
            Some(directory) => lines.extend(
                names
                    .iter()
                    .map(|name| format!("written: {}", directory.join(name).display())),
            ),
            None => lines.push(files.settings.trim_end().to_owned()),
        }
        for finding in &settings.findings {
            lines.push(format!("{}: {}", finding.place, finding.what));
        }
        let file = directory.unwrap_or(Path::new("/etc/statehold")).join(PASSWORDS);
        for user in &settings.users {
            lines.push(format!(
                "needs a password: statehold passwd {} '{}'",
                file.display(),
                user.replace('\'', r"'\''")
            ));
        }
        output::line(lines.join("\n"))?;
    }
    let is_all = settings.findings.is_empty() && settings.users.is_empty();
    Ok(if is_all { Exit::Done } else { Exit::LeftOut })
}

#[cfg(test)]
mod tests;
