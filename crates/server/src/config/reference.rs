//! `docs/configuration.md`: every setting with its default, its unit, and what it does.

use std::fmt::Write as _;

use super::settings::{self, Kind, Setting};

pub(super) fn markdown() -> String {
    let mut out = String::from(HEAD);
    let settings = settings::all();
    out.push_str("\n## Top of the file\n");
    rows(
        &mut out,
        settings
            .iter()
            .filter(|setting| !setting.is_table() && setting.table().is_empty()),
    );
    for table in settings.iter().filter(|setting| setting.is_table()) {
        let path = table.path.trim_end_matches("[]").replace("[]", "");
        let title = if table.kind == Kind::Tables {
            format!("[[{path}]]")
        } else {
            format!("[{path}]")
        };
        let _ = write!(out, "\n## `{title}`\n\n{}\n", table.description);
        let inside = |setting: &&Setting| setting.table().replace("[]", "") == path && !setting.is_table();
        rows(&mut out, settings.iter().filter(inside));
    }
    out
}

fn rows<'a>(out: &mut String, settings: impl Iterator<Item = &'a Setting>) {
    out.push_str("\n| setting | takes | default | |\n|---|---|---|---|\n");
    for setting in settings {
        let (takes, meaning) = match &setting.kind {
            Kind::Choice(choices) => {
                let words: Vec<_> = choices.iter().map(|(word, _)| format!("`\"{word}\"`")).collect();
                let each = choices
                    .iter()
                    .map(|(word, meaning)| format!("<br>`{word}`: {meaning}"));
                (
                    words.join(" "),
                    format!("{}{}", setting.description, each.collect::<String>()),
                )
            }
            Kind::Value(name) => ((*name).to_owned(), setting.description.clone()),
            Kind::Table | Kind::Tables | Kind::NamedTables => continue,
        };
        let default = match &setting.default {
            serde_json::Value::Null if setting.is_required => "has to be set".to_owned(),
            serde_json::Value::Null => "not set".to_owned(),
            default => format!("`{default}`"),
        };
        let _ = writeln!(out, "| `{}` | {takes} | {default} | {meaning} |", setting.name());
    }
}

const HEAD: &str = "\
# Settings

`statehold serve --config statehold.toml` reads one TOML file; what it does not set has the default below. The command line
goes before the file. `statehold config check FILE` checks a file, and the certificates, keys, passwords, tokens and policies that it
names, as a server reads them at its start; it names the line of each mistake. `statehold config default` prints a file with every setting, and `statehold config schema` the JSON schema for
editors.

This page is made from the source: `UPDATE=1 cargo test -p server config` writes it anew.

- A *duration* is text: `\"500ms\"`, `\"30s\"`, `\"5min\"`, `\"2h\"`, `\"7d\"`.
- A *size* is text, `\"64 KiB\"`, `\"256 MiB\"`, `\"4 GiB\"` (or `kB`, `MB`, `GB` for powers of ten), or a number of bytes.
";
