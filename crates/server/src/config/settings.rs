//! The list of settings, read off the JSON schema of [`Config`].

use schemars::Schema;
use schemars::generate::SchemaSettings;
use serde_json::Value;

use super::Config;

/// One setting, or one table of settings.
#[derive(Debug, Clone)]
pub(super) struct Setting {
    /// As in `limits.receive_maximum`; the tables of an array are `listeners[]`.
    pub(super) path: String,
    /// The doc comment, as one paragraph.
    pub(super) description: String,
    pub(super) kind: Kind,
    /// As the file would say it; `Null` for a table and for what has no default.
    pub(super) default: Value,
    /// The table that it is in cannot do without it.
    pub(super) is_required: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Kind {
    /// `[path]`
    Table,
    /// `[[path]]`
    Tables,
    /// `[path]`, of which there may be several with names of the file's own: `NAME` in the path.
    NamedTables,
    /// One of these words; each with its description.
    Choice(Vec<(String, String)>),
    /// Anything else, as the reference calls it.
    Value(&'static str),
}

impl Setting {
    /// The last part of the path.
    pub(super) fn name(&self) -> &str {
        let path = self.path.trim_end_matches("[]");
        path.rsplit_once('.').map_or(path, |(_, name)| name)
    }

    /// The table that the setting is in; empty for the top of the file.
    pub(super) fn table(&self) -> &str {
        let path = self.path.trim_end_matches("[]");
        path.rsplit_once('.').map_or("", |(table, _)| table)
    }

    pub(super) fn is_table(&self) -> bool {
        matches!(self.kind, Kind::Table | Kind::Tables | Kind::NamedTables)
    }

    /// Whether it is a table whose names are not settings.
    pub(super) fn is_table_of_text(&self) -> bool {
        self.kind == Kind::Value(TABLE_OF_TEXT)
    }

    /// Whether every server has it, if only by its default. A listener has what its table says, and no table below it
    /// unless the file has one.
    pub(super) fn is_always_there(&self) -> bool {
        !self.path.starts_with(LISTENER) && !self.is_named() && !self.is_of_cluster()
    }

    /// Whether it is, or is in, the table that only nodes of a cluster have.
    fn is_of_cluster(&self) -> bool {
        let below = self.path.strip_prefix(CLUSTER);
        below.is_some_and(|below| below.is_empty() || below.starts_with('.'))
    }

    /// Whether it is, or is in, one of several tables with names of the file's own.
    fn is_named(&self) -> bool {
        self.path.ends_with(NAME) || self.path.contains(&format!("{NAME}."))
    }

    /// Whether it is a table that a server or a listener has or has not, or is in one.
    pub(super) fn is_of_optional_table(&self) -> bool {
        if self.is_named() || self.is_of_cluster() {
            return true;
        }
        let below = self.path.strip_prefix(LISTENER).unwrap_or_default();
        self.is_table() && !below.is_empty() || below.contains('.')
    }
}

/// Stands for a name of the file's own.
pub(super) const NAME: &str = ".NAME";

/// As the reference calls a table whose names are not settings.
const TABLE_OF_TEXT: &str = "table of text";

/// The table that only nodes of a cluster have.
const CLUSTER: &str = "cluster";

/// What the path of each setting of a listener begins with.
const LISTENER: &str = "listeners[].";

/// All settings by name, each table before what is in it.
pub(super) fn all() -> Vec<Setting> {
    let mut settings = Vec::new();
    collect("", &schema(true).to_value(), &mut settings);
    settings
}

/// The schema as it is published.
pub(super) fn schema_json() -> String {
    let mut text = serde_json::to_string_pretty(&schema(false)).expect("a schema is plain JSON");
    text.push('\n');
    text
}

fn schema(inline: bool) -> Schema {
    let settings = SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = inline);
    settings.into_generator().into_root_schema_for::<Config>()
}

fn collect(prefix: &str, table: &Value, into: &mut Vec<Setting>) {
    let Some(properties) = table["properties"].as_object() else {
        return;
    };
    let required = table["required"].as_array().into_iter().flatten();
    let required: Vec<_> = required.filter_map(Value::as_str).collect();
    for (name, schema) in properties {
        let path = if prefix.is_empty() {
            name.clone()
        } else {
            format!("{prefix}.{name}")
        };
        let kind = kind(schema);
        let path = match kind {
            Kind::Tables => format!("{path}[]"),
            Kind::NamedTables => format!("{path}{NAME}"),
            _ => path,
        };
        let is_table = matches!(kind, Kind::Table | Kind::Tables | Kind::NamedTables);
        into.push(Setting {
            path: path.clone(),
            description: text(&schema["description"]),
            default: if is_table {
                Value::Null
            } else {
                schema["default"].clone()
            },
            is_required: required.contains(&name.as_str()),
            kind,
        });
        collect(&path, schema, into);
        collect(&path, &schema["items"], into);
        collect(&path, &schema["additionalProperties"], into);
    }
}

fn kind(schema: &Value) -> Kind {
    if schema["properties"].is_object() {
        return Kind::Table;
    }
    if schema["items"]["properties"].is_object() {
        return Kind::Tables;
    }
    if schema["additionalProperties"]["properties"].is_object() {
        return Kind::NamedTables;
    }
    if let Some(choices) = schema["oneOf"].as_array() {
        let choice = |choice: &Value| (text(&choice["const"]), text(&choice["description"]));
        return Kind::Choice(choices.iter().map(choice).collect());
    }
    let is_type = |name: &str| match &schema["type"] {
        Value::String(only) => only == name,
        // A setting that may be left out.
        Value::Array(several) => several.iter().any(|one| one == name),
        _ => false,
    };
    Kind::Value(match schema["format"].as_str() {
        Some("duration") => "duration",
        Some("optional-duration") => "duration or `\"none\"`",
        Some("size") => "size",
        Some("memory") => "size, `\"auto\"`, `\"none\"`, or a profile",
        Some("size-or-auto") => "size or `\"auto\"`",
        Some("count-or-auto") => "whole number or `\"auto\"`",
        _ if is_type("integer") => "whole number",
        _ if is_type("boolean") => "`true` or `false`",
        _ if is_type("array") => "list of text",
        _ if is_type("object") => TABLE_OF_TEXT,
        _ => "text",
    })
}

/// A doc comment as one paragraph.
fn text(value: &Value) -> String {
    value
        .as_str()
        .unwrap_or_default()
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
}
