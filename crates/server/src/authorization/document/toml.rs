//! TOML, with the lines of its parser's spans.

use toml::de::{DeTable, DeValue};

use super::super::mistake::Mistake;
use super::{DEPTH_MAX, Entry, MistakeAt, Node, Value};

/// Reads a file.
pub(super) fn parse(text: &str) -> Result<Node, MistakeAt> {
    let lines = Lines::of(text);
    let table = DeTable::parse(text).map_err(|error| MistakeAt {
        line: error.span().map(|span| lines.line(span.start)),
        mistake: Mistake::Syntax(error.message().to_owned()),
    })?;
    let line = Some(1);
    Ok(Node {
        line,
        value: lines.table(table.get_ref(), 0, line)?,
    })
}

/// Where lines begin.
#[derive(Debug)]
struct Lines(Vec<usize>);

impl Lines {
    fn of(text: &str) -> Self {
        let ends = text.match_indices('\n').map(|(end, _)| end + 1);
        Self(std::iter::once(0).chain(ends).collect())
    }

    fn line(&self, at: usize) -> usize {
        self.0.partition_point(|begin| *begin <= at)
    }

    fn table(&self, table: &DeTable<'_>, depth: usize, line: Option<usize>) -> Result<Value, MistakeAt> {
        let mut entries = Vec::new();
        for (field, value) in table {
            let at = Some(self.line(field.span().start));
            entries.push(Entry {
                line: at,
                field: field.get_ref().clone().into_owned(),
                node: self.node(value.get_ref(), Some(self.line(value.span().start)), depth)?,
            });
        }
        if depth == DEPTH_MAX {
            let mistake = Mistake::Depth;
            return Err(MistakeAt { line, mistake });
        }
        Ok(Value::Table(entries))
    }

    fn node(&self, value: &DeValue<'_>, line: Option<usize>, depth: usize) -> Result<Node, MistakeAt> {
        if depth == DEPTH_MAX {
            let mistake = Mistake::Depth;
            return Err(MistakeAt { line, mistake });
        }
        let value = match value {
            DeValue::String(text) => Value::Text(text.clone().into_owned()),
            DeValue::Boolean(flag) => Value::Flag(*flag),
            DeValue::Integer(_) | DeValue::Float(_) => Value::Other("a number"),
            DeValue::Datetime(_) => Value::Other("a date"),
            DeValue::Array(items) => {
                let items = items.iter();
                let items = items
                    .map(|item| self.node(item.get_ref(), Some(self.line(item.span().start)), depth + 1));
                Value::List(items.collect::<Result<_, _>>()?)
            }
            DeValue::Table(table) => self.table(table, depth + 1, line)?,
        };
        Ok(Node { line, value })
    }
}
