//! Text of a peer, as people may read it.
//!
//! Client ids, topics, filters, keys, user names and HTTP paths are chosen by whoever connects. [`Escaped`] is the one form in which they
//! reach a log, the audit log, a terminal or an error page: no character of it moves a cursor, hides, reorders or forges what stands
//! beside it, and it is as long as somebody reads. The form is unambiguous: a backslash is escaped as well.
//!
//! | in the text | shown as |
//! |---|---|
//! | backslash | `\\` |
//! | line feed, carriage return, tab | `\n`, `\r`, `\t` |
//! | other controls, separators, bidirectional marks, characters without a width | `\u{1b}` |
//! | bytes that are no UTF-8 | `\xff` |
//! | what is beyond the limit | `…(65535 bytes)`: the length of the whole |

use std::fmt;

/// Text of a peer, as people may read it: see the module.
#[derive(Debug, Clone, Copy)]
pub struct Escaped<'a> {
    bytes: &'a [u8],
    bytes_max: usize,
    lines: Lines,
}

/// What becomes of line feeds and tabs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lines {
    Escaped,
    Kept,
}

impl<'a> Escaped<'a> {
    /// Bytes of a name that are shown.
    pub const NAME_BYTES_MAX: usize = 256;

    /// Bytes of a sentence that are shown: one of the server's own, with a few names in it.
    pub const SENTENCE_BYTES_MAX: usize = 1_024;

    /// A name: a client id, topic, filter, key, path. Cut after [`Escaped::NAME_BYTES_MAX`].
    pub fn new(name: &'a (impl AsRef<[u8]> + ?Sized)) -> Self {
        Self::cut(name.as_ref(), Self::NAME_BYTES_MAX)
    }

    /// A sentence that may have names in it, such as an error. Cut after [`Escaped::SENTENCE_BYTES_MAX`].
    pub fn sentence(text: &'a (impl AsRef<[u8]> + ?Sized)) -> Self {
        Self::cut(text.as_ref(), Self::SENTENCE_BYTES_MAX)
    }

    /// All of a text, for who asked for this one.
    pub fn whole(text: &'a (impl AsRef<[u8]> + ?Sized)) -> Self {
        Self::cut(text.as_ref(), usize::MAX)
    }

    /// All of a text, its line feeds and tabs as they are: a value on a terminal of its own.
    pub fn lines(text: &'a (impl AsRef<[u8]> + ?Sized)) -> Self {
        Self {
            lines: Lines::Kept,
            ..Self::whole(text)
        }
    }

    fn cut(bytes: &'a [u8], bytes_max: usize) -> Self {
        Self {
            bytes,
            bytes_max,
            lines: Lines::Escaped,
        }
    }

    fn write(&self, character: char, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        use std::fmt::Write as _;
        match character {
            '\n' | '\t' if self.lines == Lines::Kept => to.write_char(character),
            '\\' if self.lines == Lines::Kept => to.write_char(character),
            '\\' => to.write_str("\\\\"),
            '\n' => to.write_str("\\n"),
            '\r' => to.write_str("\\r"),
            '\t' => to.write_str("\\t"),
            ' '..='~' => to.write_char(character),
            hidden if is_hidden(hidden) => write!(to, "\\u{{{:x}}}", u32::from(hidden)),
            seen => to.write_char(seen),
        }
    }
}

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kept = beginning(self.bytes, self.bytes_max);
        for chunk in kept.utf8_chunks() {
            for character in chunk.valid().chars() {
                self.write(character, to)?;
            }
            for byte in chunk.invalid() {
                write!(to, "\\x{byte:02x}")?;
            }
        }
        if kept.len() < self.bytes.len() {
            write!(to, "…({} bytes)", self.bytes.len())?;
        }
        Ok(())
    }
}

/// As many bytes as are shown, and no half of a character.
fn beginning(bytes: &[u8], bytes_max: usize) -> &[u8] {
    if bytes.len() <= bytes_max {
        return bytes;
    }
    let is_inside = |at: &usize| {
        bytes
            .get(*at)
            .is_some_and(|byte| byte & 0b1100_0000 == 0b1000_0000)
    };
    // A character has four bytes at most. What has more that continue is no UTF-8.
    let end = (bytes_max.saturating_sub(3)..=bytes_max)
        .rev()
        .find(|at| !is_inside(at));
    bytes.get(..end.unwrap_or(bytes_max)).unwrap_or(bytes)
}

/// Whether a reader or a terminal sees something else than one character of its own in its place.
fn is_hidden(character: char) -> bool {
    // Controls, and all white space but a space: also U+2028 and U+2029.
    character.is_control()
        || character != ' ' && character.is_whitespace()
        || HIDDEN
            .iter()
            .any(|(first, last)| (*first..=*last).contains(&character))
        // The last two of each plane are no characters.
        || u32::from(character) & 0xFFFE == 0xFFFE
}

/// Unicode's Default_Ignorable_Code_Point, bidirectional marks among them, and what else has no form.
const HIDDEN: [(char, char); 21] = [
    ('\u{AD}', '\u{AD}'),
    ('\u{34F}', '\u{34F}'),
    ('\u{61C}', '\u{61C}'),
    ('\u{115F}', '\u{1160}'),
    ('\u{17B4}', '\u{17B5}'),
    ('\u{180B}', '\u{180F}'),
    ('\u{200B}', '\u{200F}'),
    ('\u{202A}', '\u{202E}'),
    ('\u{2060}', '\u{206F}'),
    ('\u{2800}', '\u{2800}'),
    ('\u{3164}', '\u{3164}'),
    ('\u{FDD0}', '\u{FDEF}'),
    ('\u{FE00}', '\u{FE0F}'),
    ('\u{FEFF}', '\u{FEFF}'),
    ('\u{FFA0}', '\u{FFA0}'),
    ('\u{FFF0}', '\u{FFFB}'),
    ('\u{13430}', '\u{1343F}'),
    ('\u{1BCA0}', '\u{1BCA3}'),
    ('\u{1D173}', '\u{1D17A}'),
    ('\u{E0000}', '\u{E0FFF}'),
    ('\u{F0000}', '\u{10FFFD}'),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        Escaped::new(text).to_string()
    }

    #[test]
    fn what_is_read_stays_as_it_is() {
        for text in [
            "",
            "pump-7",
            "hall/7/light",
            "größe",
            "室温",
            "e\u{301}",
            "a b",
            "\"'<>&",
            "🙂",
        ] {
            assert_eq!(shown(text), text);
        }
    }

    #[test]
    fn nothing_moves_hides_reorders_or_ends_a_line() {
        let cases = [
            ("\u{1b}[2J\u{7}", "\\u{1b}[2J\\u{7}"),
            (
                "a\nINFO server: connected\r\t",
                "a\\nINFO server: connected\\r\\t",
            ),
            ("\u{0}\u{7f}\u{85}\u{9b}", "\\u{0}\\u{7f}\\u{85}\\u{9b}"),
            ("\u{2028}\u{2029}", "\\u{2028}\\u{2029}"),
            (
                "\u{202e}\u{2066}\u{200e}\u{61c}",
                "\\u{202e}\\u{2066}\\u{200e}\\u{61c}",
            ),
            (
                "\u{200b}\u{200d}\u{feff}\u{ad}\u{2060}",
                "\\u{200b}\\u{200d}\\u{feff}\\u{ad}\\u{2060}",
            ),
            (
                "\u{a0}\u{3000}\u{3164}\u{2800}",
                "\\u{a0}\\u{3000}\\u{3164}\\u{2800}",
            ),
            (
                "\u{e0041}\u{fe0f}\u{ffff}\u{10ffff}",
                "\\u{e0041}\\u{fe0f}\\u{ffff}\\u{10ffff}",
            ),
            ("\\u{1b}", "\\\\u{1b}"),
        ];
        for (text, expected) in cases {
            assert_eq!(shown(text), expected, "{text:?}");
        }
    }

    #[test]
    fn no_control_and_no_white_space_of_any_plane_is_written_as_it_is() {
        let mut text = String::new();
        for character in '\0'..=char::MAX {
            text.clear();
            text.push(character);
            let shown = Escaped::whole(&text).to_string();
            let is_raw = shown == text;
            assert!(!is_raw || !character.is_control(), "{character:?}");
            assert!(
                !is_raw || character == ' ' || !character.is_whitespace(),
                "{character:?}"
            );
            assert!(is_raw || shown.is_ascii(), "{character:?} is {shown}");
        }
    }

    #[test]
    fn bytes_that_are_no_text_are_shown_in_base_16() {
        assert_eq!(Escaped::new(b"a\xff\xc3(").to_string(), "a\\xff\\xc3(");
        assert_eq!(Escaped::new(b"\xed\xa0\x80").to_string(), "\\xed\\xa0\\x80");
    }

    #[test]
    fn a_long_name_is_cut_and_says_how_long_it_is() {
        let most = "x".repeat(256);
        assert_eq!(shown(&most), most);
        assert_eq!(shown(&"x".repeat(65_535)), format!("{most}…(65535 bytes)"));
        // No half of a character, whatever comes before it.
        for before in 0..4 {
            let text = format!("{}{}", "x".repeat(before), "🙂".repeat(1_000));
            let kept = shown(&text);
            let whole = 256 - (256 - before) % 4;
            assert_eq!(kept, format!("{}…({} bytes)", &text[..whole], text.len()));
        }
        // Nothing but bytes that continue a character.
        let shown = Escaped::new(&[0x80; 1_000]).to_string();
        assert_eq!(shown, format!("{}…(1000 bytes)", "\\x80".repeat(256)));
        let sentence = "x".repeat(1_024);
        assert_eq!(Escaped::sentence(&sentence).to_string(), sentence);
        assert_eq!(Escaped::whole(&"x".repeat(100_000)).to_string().len(), 100_000);
    }

    #[test]
    fn a_value_on_a_terminal_keeps_its_lines() {
        let value = "{\n\t\"path\": \"a\\\\b\"\n}\u{1b}]0;title\u{7}\r";
        let expected = "{\n\t\"path\": \"a\\\\b\"\n}\\u{1b}]0;title\\u{7}\\r";
        assert_eq!(Escaped::lines(value).to_string(), expected);
    }
}
