//! Text files that people write: UTF-8, with or without the byte order mark that some editors put in front.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// The byte order mark, which is no part of the text.
const MARK: char = '\u{feff}';

/// What text in UTF-16 begins with, as editors of Windows write it.
const UTF_16: [[u8; 2]; 2] = [[0xFF, 0xFE], [0xFE, 0xFF]];

/// Reads a file.
pub(crate) fn read(file: &Path) -> io::Result<String> {
    text_of(std::fs::read(file)?)
}

/// Reads a file of so many bytes at most; `None`: it is longer.
pub(crate) fn read_at_most(file: &Path, bytes_max: u64) -> io::Result<Option<String>> {
    let mut bytes = Vec::new();
    File::open(file)?.take(bytes_max + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > bytes_max {
        return Ok(None);
    }
    text_of(bytes).map(Some)
}

fn text_of(bytes: Vec<u8>) -> io::Result<String> {
    if UTF_16.iter().any(|mark| bytes.starts_with(mark)) {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "the text is UTF-16: save the file as UTF-8",
        ));
    }
    let text = String::from_utf8(bytes).map_err(|error| {
        let position = error.utf8_error().valid_up_to();
        let why = format!("byte {position} is not UTF-8: save the file as UTF-8");
        io::Error::new(io::ErrorKind::InvalidData, why)
    })?;
    Ok(match text.strip_prefix(MARK) {
        Some(rest) => rest.to_owned(),
        None => text,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_order_mark_is_no_part_of_the_text() {
        assert_eq!(
            text_of(b"\xEF\xBB\xBFname:value\n".to_vec()).unwrap(),
            "name:value\n"
        );
        assert_eq!(text_of(b"\xEF\xBB\xBF".to_vec()).unwrap(), "");
        // Only the first one is a mark.
        assert_eq!(text_of("\u{feff}\u{feff}a".into()).unwrap(), "\u{feff}a");
        assert_eq!(text_of(b"a".to_vec()).unwrap(), "a");
    }

    #[test]
    fn other_encodings_say_what_to_do() {
        let error = |bytes: &[u8]| text_of(bytes.to_vec()).unwrap_err().to_string();
        assert_eq!(
            error(b"\xFF\xFEa\0"),
            "the text is UTF-16: save the file as UTF-8"
        );
        assert_eq!(
            error(b"\xFE\xFF\0a"),
            "the text is UTF-16: save the file as UTF-8"
        );
        assert_eq!(error(b"ab\xE9"), "byte 2 is not UTF-8: save the file as UTF-8");
    }

    #[test]
    fn a_long_file_is_not_read_to_its_end() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "\u{feff}abc").unwrap();
        assert_eq!(read_at_most(file.path(), 6).unwrap().as_deref(), Some("abc"));
        assert_eq!(read_at_most(file.path(), 5).unwrap(), None);
    }
}
