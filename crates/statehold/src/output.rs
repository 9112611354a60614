//! What commands write to stdout and stderr: the one door to both.
//!
//! On a pipe, bytes are written as they are: they are data. On a terminal they are escaped ([`Escaped`]), so that no value, key or message
//! moves the cursor, sets a title or hides something; line feeds and tabs stay, but for [`record`], where each line is one.

use std::borrow::Cow;
use std::io::{self, IsTerminal, Write};

use client::Hlc;
use client::protocol::Escaped;
use serde_json::{Map, Value};

/// Writes bytes to stdout.
pub(crate) fn raw(bytes: &[u8]) -> io::Result<()> {
    write(&[bytes])
}

/// Writes a line to stdout.
pub(crate) fn line(text: impl AsRef<[u8]>) -> io::Result<()> {
    write(&[text.as_ref(), b"\n"])
}

/// Writes a line to stdout that stands for one thing among others. On a terminal it is one line, whatever is in it.
pub(crate) fn record(text: impl AsRef<[u8]>) -> io::Result<()> {
    if io::stdout().is_terminal() {
        return line(Escaped::whole(&text).to_string());
    }
    line(text)
}

/// Writes what moves the cursor of a terminal, and what is between: its cells are those of a table.
pub(crate) fn screen(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()
}

/// Writes a line to stderr, if it takes any.
pub(crate) fn said(text: &str) {
    let _ = writeln!(io::stderr().lock(), "statehold: {}", Escaped::lines(text));
}

fn write(parts: &[&[u8]]) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    let is_terminal = stdout.is_terminal();
    for part in parts {
        stdout.write_all(&shown(part, is_terminal))?;
    }
    stdout.flush()
}

/// Bytes as a pipe or a terminal gets them.
fn shown(bytes: &[u8], is_terminal: bool) -> Cow<'_, [u8]> {
    if is_terminal {
        Cow::Owned(Escaped::lines(bytes).to_string().into_bytes())
    } else {
        Cow::Borrowed(bytes)
    }
}

/// A JSON object that is built member by member.
#[derive(Debug, Default)]
pub(crate) struct Json(Map<String, Value>);

impl Json {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    pub(crate) fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.0.insert(name.to_owned(), value.into());
        self
    }

    /// Any bytes: as a string if they are UTF-8, else in base 16 under `name_hex`.
    pub(crate) fn with_bytes(self, name: &str, bytes: &[u8]) -> Self {
        match std::str::from_utf8(bytes) {
            Ok(text) => self.with(name, text),
            Err(_) => {
                let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
                self.with(&format!("{name}_hex"), hex)
            }
        }
    }

    pub(crate) fn with_version(self, version: Option<&Hlc>) -> Self {
        self.with("version", version.map(ToString::to_string))
    }

    /// Writes it to stdout, on one line.
    pub(crate) fn print(self) -> io::Result<()> {
        line(Value::Object(self.0).to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pipe_gets_bytes_as_they_are_and_a_terminal_nothing_that_moves_it() {
        let value = b"a\tb\n\x1b]0;title\x07\xff\xe2\x80\xae";
        assert_eq!(&*shown(value, false), value);
        let expected = "a\tb\n\\u{1b}]0;title\\u{7}\\xff\\u{202e}";
        assert_eq!(&*shown(value, true), expected.as_bytes());
    }

    #[test]
    fn bytes_that_are_no_text_are_written_in_base_16() {
        let json = Json::new()
            .with_bytes("key", b"a\"b")
            .with_bytes("value", b"\xff\x00");
        assert_eq!(
            Value::Object(json.0).to_string(),
            r#"{"key":"a\"b","value_hex":"ff00"}"#
        );
    }
}
