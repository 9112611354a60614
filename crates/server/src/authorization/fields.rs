//! Reads what is expected from a node, or says what stands there instead.

use super::document::{MistakeAt, Node, Value};
use super::mistake::Mistake;

/// That a node is a table, with known fields, and each once.
pub(super) fn check_fields(
    node: &Node,
    part: &'static str,
    fields: &'static [&'static str],
) -> Result<(), MistakeAt> {
    let Value::Table(entries) = &node.value else {
        return Err(kind(node, part, "a table"));
    };
    for (index, entry) in entries.iter().enumerate() {
        let field = entry.field.clone();
        let mistake = if !fields.contains(&&*field) {
            Mistake::Unknown { part, field, fields }
        } else if entries.iter().take(index).any(|before| before.field == field) {
            Mistake::Twice { field }
        } else {
            continue;
        };
        let line = entry.line;
        return Err(MistakeAt { line, mistake });
    }
    Ok(())
}

pub(super) fn required<'a>(
    node: &'a Node,
    part: &'static str,
    field: &'static str,
) -> Result<&'a Node, MistakeAt> {
    node.get(field)
        .ok_or_else(|| node.mistake(Mistake::Missing { part, field }))
}

pub(super) fn list<T>(
    node: &Node,
    field: &str,
    read: impl Fn(&Node) -> Result<T, MistakeAt>,
) -> Result<Vec<T>, MistakeAt> {
    match &node.value {
        Value::Null => Ok(Vec::new()),
        Value::List(items) => items.iter().map(read).collect(),
        _ => Err(kind(node, field, "a list")),
    }
}

pub(super) fn optional_list<T>(
    node: &Node,
    field: &str,
    read: impl Fn(&Node) -> Result<T, MistakeAt>,
) -> Result<Vec<T>, MistakeAt> {
    node.get(field)
        .map_or(Ok(Vec::new()), |node| list(node, field, read))
}

pub(super) fn texts(node: &Node, field: &str) -> Result<Vec<String>, MistakeAt> {
    optional_list(node, field, |item| text(item, field))
}

pub(super) fn text(node: &Node, field: &str) -> Result<String, MistakeAt> {
    match &node.value {
        Value::Text(text) | Value::Plain(text) => Ok(text.clone()),
        Value::Null => Err(kind(node, field, "a text, and nothing stands here")),
        Value::Other(found) => Err(node.mistake(Mistake::Quotes {
            field: field.to_owned(),
            found,
        })),
        Value::Flag(_) => Err(node.mistake(Mistake::Quotes {
            field: field.to_owned(),
            found: "true or false",
        })),
        Value::List(_) | Value::Table(_) => Err(kind(node, field, "a text")),
    }
}

pub(super) fn flag(node: &Node, field: &str) -> Result<bool, MistakeAt> {
    match &node.value {
        Value::Flag(flag) => Ok(*flag),
        Value::Plain(text) if text == "true" => Ok(true),
        Value::Plain(text) if text == "false" => Ok(false),
        _ => Err(kind(node, field, "true or false")),
    }
}

/// What a word stands for, in whatever case.
pub(super) fn choice<T: Copy, const N: usize>(
    node: &Node,
    field: &'static str,
    choices: &[(&'static str, T); N],
) -> Result<T, MistakeAt> {
    let found = text(node, field)?;
    let known = choices.iter().find(|(name, _)| name.eq_ignore_ascii_case(&found));
    known.map(|(_, value)| *value).ok_or_else(|| {
        node.mistake(Mistake::Choice {
            field,
            found,
            choices: choices.iter().map(|(name, _)| *name).collect(),
        })
    })
}

pub(super) fn kind(node: &Node, field: &str, expected: &'static str) -> MistakeAt {
    node.mistake(Mistake::Kind {
        field: field.to_owned(),
        expected,
    })
}
