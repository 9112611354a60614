//! The lines of `mosquitto.conf` and of the files that it includes.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

/// A line that says something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Directive {
    /// File and line, as errors name them.
    pub(super) place: String,
    pub(super) name: String,
    /// Without spaces around it; may be empty.
    pub(super) value: String,
}

/// Settings are no longer in practice.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// Reads a file, and where it says `include_dir` the files there that end with `.conf`, by name.
pub(super) fn read(path: &Path) -> anyhow::Result<Vec<Directive>> {
    let mut directives = Vec::new();
    for directive in of_file(path)? {
        if directive.name != "include_dir" {
            directives.push(directive);
            continue;
        }
        for included in files_in(Path::new(&directive.value))? {
            for directive in of_file(&included)? {
                if directive.name == "include_dir" {
                    bail!(
                        "{}: include_dir in an included file; Mosquitto takes none either",
                        directive.place
                    );
                }
                directives.push(directive);
            }
        }
    }
    Ok(directives)
}

/// The text of a file of settings.
pub(super) fn text_of(path: &Path) -> anyhow::Result<String> {
    let unreadable = || format!("cannot read {}", path.display());
    let bytes = std::fs::metadata(path).with_context(unreadable)?.len();
    if bytes > FILE_BYTES_MAX {
        bail!("{} is longer than {FILE_BYTES_MAX} bytes", path.display());
    }
    let text = std::fs::read(path).with_context(unreadable)?;
    // A comment may be in any encoding.
    Ok(String::from_utf8_lossy(&text).into_owned())
}

fn of_file(path: &Path) -> anyhow::Result<Vec<Directive>> {
    let name = path.display().to_string();
    Ok(parse(&name, &text_of(path)?))
}

fn parse(file: &str, text: &str) -> Vec<Directive> {
    let lines = text.lines().enumerate();
    let said = lines.filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'));
    said.map(|(index, line)| {
        let (name, value) = line
            .trim()
            .split_once(char::is_whitespace)
            .unwrap_or((line.trim(), ""));
        Directive {
            place: format!("{file}:{}", index + 1),
            name: name.to_owned(),
            value: value.trim().to_owned(),
        }
    })
    .collect()
}

fn files_in(directory: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let listed =
        std::fs::read_dir(directory).with_context(|| format!("cannot read {}", directory.display()))?;
    let mut files = Vec::new();
    for entry in listed {
        let path = entry
            .with_context(|| format!("cannot read {}", directory.display()))?
            .path();
        if path.extension().is_some_and(|extension| extension == "conf") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}
