//! The example file: what the defaults say, commented out. Tables that a listener may have or not are only shown.

use std::fmt::Write as _;

use serde_json::Value;

use super::settings::{self, Kind, Setting};
use super::{Config, Listener};

/// Columns of a line of the file.
const WIDTH: usize = 100;

pub(super) fn default_toml() -> String {
    let mut out = String::from(
        "# Settings of a Statehold server. Each line that begins with \"#\" and a name is the default.\n",
    );
    let settings = settings::all();
    let tables = std::iter::once("").chain(settings.iter().filter(|s| s.is_table()).map(|s| s.path.as_str()));
    for table in tables {
        if let Some(setting) = settings.iter().find(|setting| setting.path == table) {
            out.push('\n');
            comment(&mut out, &setting.description);
            out.push_str(&header(setting));
        }
        for setting in settings
            .iter()
            .filter(|setting| !setting.is_table() && is_in(setting, table))
        {
            out.push('\n');
            comment(&mut out, &setting.description);
            if let Kind::Choice(choices) = &setting.kind {
                for (word, meaning) in choices {
                    comment(&mut out, &format!("- \"{word}\": {meaning}"));
                }
            }
            let _ = writeln!(out, "{}{} = {}", sign(setting), setting.name(), shown(setting));
        }
    }
    out
}

/// Tables have to stay open for the settings in them to be uncommented one by one; an array of tables is commented out, since
/// each header is one more listener.
fn header(table: &Setting) -> String {
    let path = table.path.replace("[]", "");
    match table.kind {
        Kind::Tables => format!("{}[[{path}]]\n", sign(table)),
        _ if table.is_of_optional_table() => format!("{}[{path}]\n", sign(table)),
        _ => format!("[{path}]\n"),
    }
}

/// What stands before a line that says no default is, like prose, set off by a space.
fn sign(setting: &Setting) -> &'static str {
    let has_default = setting.is_always_there() || setting.is_table() || !value(setting).is_null();
    if setting.is_of_optional_table() || !has_default {
        "# "
    } else {
        "#"
    }
}

fn is_in(setting: &Setting, table: &str) -> bool {
    setting.table().replace("[]", "") == table.replace("[]", "")
}

/// What the file would say for the default. Settings of a listener have no default in the schema: those of the first
/// listener stand here.
fn value(setting: &Setting) -> Value {
    match setting.table() {
        "listeners[]" => first_listener(setting.name()),
        _ => setting.default.clone(),
    }
}

/// The value as the file shows it; dots for what has no default.
fn shown(setting: &Setting) -> String {
    match (value(setting), &setting.kind) {
        (Value::Null, Kind::Value("whole number")) => "1000".to_owned(),
        (Value::Null, _) => "\"...\"".to_owned(),
        (value, _) => value.to_string(),
    }
}

fn first_listener(name: &str) -> Value {
    let listener = Config::default()
        .listeners
        .into_iter()
        .next()
        .unwrap_or_else(Listener::default);
    serde_json::to_value(listener).expect("a listener is plain JSON")[name].clone()
}

fn comment(out: &mut String, text: &str) {
    let mut line = String::from("#");
    for word in text.split(' ') {
        if line.len() + 1 + word.len() > WIDTH {
            out.push_str(&line);
            out.push('\n');
            line = String::from("#");
        }
        line.push(' ');
        line.push_str(word);
    }
    out.push_str(&line);
    out.push('\n');
}
