//! Tables for people: columns as wide as what is in them, and no wider than the terminal.

use std::io::IsTerminal;

use client::protocol::Escaped;
use serde_json::Value;

/// A table whose first row is its head. `width`: of the terminal, if there is one; then the widest columns give way.
pub(crate) fn table(rows: &[Vec<String>], width: Option<usize>) -> String {
    let rows: Vec<Vec<String>> = rows
        .iter()
        .map(|row| row.iter().map(|cell| plain(cell)).collect())
        .collect();
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let widest = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let mut widths: Vec<usize> = (0..columns).map(widest).collect();
    if let Some(width) = width {
        narrow(&mut widths, width);
    }
    let mut table = String::new();
    for row in &rows {
        let cells = row.iter().zip(&widths);
        let line: String = cells
            .map(|(cell, width)| format!("{:width$}  ", cut(cell, *width)))
            .collect();
        table += line.trim_end();
        table.push('\n');
    }
    table
}

/// Columns of the terminal that stdout is; `None`: it is none.
pub(crate) fn terminal_width() -> Option<usize> {
    terminal_size().map(|(columns, _)| columns)
}

/// Columns and lines of it.
pub(crate) fn terminal_size() -> Option<(usize, usize)> {
    let stdout = std::io::stdout();
    if !stdout.is_terminal() {
        return None;
    }
    let size = rustix::termios::tcgetwinsize(stdout).ok()?;
    let (columns, lines) = (usize::from(size.ws_col), usize::from(size.ws_row));
    (columns > 0).then_some((columns, lines))
}

/// What stands in a field of an answer, in one word.
pub(crate) fn cell(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => text.clone(),
        Value::Bool(true) => "yes".to_owned(),
        Value::Bool(false) => "no".to_owned(),
        other => other.to_string(),
    }
}

/// Bytes, as people read them.
pub(crate) fn bytes(value: &Value) -> String {
    let Some(bytes) = value.as_u64() else {
        return cell(value);
    };
    let mut of_unit = bytes as f64;
    for unit in ["B", "KiB", "MiB", "GiB"] {
        if of_unit < 1_024.0 {
            return if unit == "B" {
                format!("{bytes} B")
            } else {
                format!("{of_unit:.1} {unit}")
            };
        }
        of_unit /= 1_024.0;
    }
    format!("{of_unit:.1} TiB")
}

/// What a name of a client can do to a terminal, or to the row below: nothing.
fn plain(cell: &str) -> String {
    Escaped::new(cell).to_string()
}

/// No column gets narrower for others.
const NARROWEST: usize = 8;

/// Spaces between two columns.
const BETWEEN: usize = 2;

/// Takes from the widest until all have room, or all are narrow.
fn narrow(widths: &mut [usize], room: usize) {
    let needed = |widths: &[usize]| widths.iter().sum::<usize>() + BETWEEN * widths.len().saturating_sub(1);
    while needed(widths) > room {
        let Some(widest) = widths.iter_mut().max().filter(|width| **width > NARROWEST) else {
            return;
        };
        *widest -= 1;
    }
}

fn cut(cell: &str, width: usize) -> String {
    if cell.chars().count() <= width {
        return cell.to_owned();
    }
    let mut kept: String = cell.chars().take(width.saturating_sub(1)).collect();
    kept.push('…');
    kept
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn rows(rows: &[&[&str]]) -> Vec<Vec<String>> {
        let row = |row: &&[&str]| row.iter().map(|cell| (*cell).to_owned()).collect();
        rows.iter().map(row).collect()
    }

    #[test]
    fn columns_are_as_wide_as_what_is_in_them() {
        let rows = rows(&[
            &["NAME", "N"],
            &["a-long-name-of-a-client", "1"],
            &["\u{1b}[31m\u{202e}\n", "20"],
        ]);
        let expected = "\
NAME                     N
a-long-name-of-a-client  1
\\u{1b}[31m\\u{202e}\\n     20
";
        assert_eq!(table(&rows, None), expected);
    }

    #[test]
    fn the_widest_columns_give_way_to_the_terminal() {
        let rows = rows(&[&["NAME", "N"], &["a-long-name-of-a-client", "1"]]);
        let expected = "\
NAME            N
a-long-name-o…  1
";
        assert_eq!(table(&rows, Some(17)), expected);
        let narrowest = table(&rows, Some(3));
        assert!(narrowest.contains("a-long-…  1"), "{narrowest}");
    }

    #[test]
    fn numbers_are_read_easily() {
        let cases = [
            (json!(17), "17 B"),
            (json!(2_048), "2.0 KiB"),
            (json!(5_u64 << 40), "5.0 TiB"),
        ];
        for (value, expected) in cases {
            assert_eq!(bytes(&value), expected);
        }
        assert_eq!(bytes(&Value::Null), "-");
    }
}
