//! What commands write to stdout: bytes as they are, or one JSON object a line.

use std::io::{self, Write};

use client::Hlc;
use serde_json::{Map, Value};

/// Writes bytes to stdout as they are.
pub(crate) fn raw(bytes: &[u8]) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(bytes)?;
    stdout.flush()
}

/// Writes a line to stdout.
pub(crate) fn line(text: impl AsRef<[u8]>) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_ref())?;
    stdout.write_all(b"\n")?;
    stdout.flush()
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
