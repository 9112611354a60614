//! What the file FORMAT of a data directory says.
//!
//! ```text
//! 1, 2   the log does not say which segment was begun last
//! 3, 4   it does; no file carries the id of its directory
//! 5, 6   all files carry it; the engine has no keyspace of the session plane
//! 7, 8   it has one
//! ```
//!
//! "ids are added" behind 5 to 8: a start has begun to write those files anew that do not carry the id.
//!
//! Odd numbers are those of plain directories, even ones of those where something is encrypted. A number that an older
//! version does not know keeps it from taking new files for files that were never begun, and from changing retained messages
//! without the records of the session plane about them.

use crate::encryption::Encryption;

/// How the files of a directory are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Format {
    pub(crate) protection: Protection,
    pub(crate) age: Age,
}

/// What of a data directory is encrypted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protection {
    /// Nothing.
    Plain,
    /// Some of it: a start has begun to change that and has not ended.
    Changing,
    /// Everything.
    Encrypted,
}

/// What versions of the program have added, the oldest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Age {
    /// The log does not say which segment was begun last.
    WithoutLast,
    /// No file carries the id of its directory.
    WithoutIds,
    /// Some do: a start has begun to write all others anew, and has not ended.
    GainingIds,
    /// All do. The engine has no keyspace of the session plane.
    WithoutPlane,
    /// The engine has all keyspaces. Files without the id are still written anew.
    CurrentGainingIds,
    Current,
}

impl Age {
    /// Whether files may be there that do not carry the id of the directory.
    pub(crate) fn has_unmarked(self) -> bool {
        match self {
            Age::WithoutLast | Age::WithoutIds | Age::GainingIds | Age::CurrentGainingIds => true,
            Age::WithoutPlane | Age::Current => false,
        }
    }

    /// Text behind the number.
    fn suffix(self) -> &'static str {
        match self {
            Age::GainingIds | Age::CurrentGainingIds => ", ids are added",
            Age::WithoutLast | Age::WithoutIds | Age::WithoutPlane | Age::Current => "",
        }
    }
}

const NAME: &str = "statehold data format ";

const PROTECTIONS: [Protection; 3] = [Protection::Plain, Protection::Changing, Protection::Encrypted];
const AGES: [Age; 6] = [
    Age::WithoutLast,
    Age::WithoutIds,
    Age::GainingIds,
    Age::WithoutPlane,
    Age::CurrentGainingIds,
    Age::Current,
];

impl Format {
    /// The newest format that is known.
    pub(crate) const NEWEST: Format = Format {
        protection: Protection::Encrypted,
        age: Age::Current,
    };

    pub(crate) fn parse(text: &str) -> Option<Format> {
        let formats = AGES.into_iter().flat_map(|age| {
            PROTECTIONS
                .into_iter()
                .map(move |protection| Format { protection, age })
        });
        formats.into_iter().find(|format| format.text() == text)
    }

    pub(crate) fn text(self) -> String {
        let plain = match self.age {
            Age::WithoutLast => 1,
            Age::WithoutIds => 3,
            Age::GainingIds | Age::WithoutPlane => 5,
            Age::CurrentGainingIds | Age::Current => 7,
        };
        let adding = self.age.suffix();
        match self.protection {
            Protection::Plain => format!("{NAME}{plain}{adding}"),
            Protection::Changing => format!("{NAME}{}, encryption changes{adding}", plain + 1),
            Protection::Encrypted => format!("{NAME}{}, encrypted{adding}", plain + 1),
        }
    }
}

impl Protection {
    /// What a directory is to be in the end.
    pub(crate) fn of(encryption: &Encryption) -> Protection {
        match encryption.key() {
            Some(_) => Protection::Encrypted,
            None => Protection::Plain,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_format_has_a_text_of_its_own() {
        for age in AGES {
            for protection in PROTECTIONS {
                let format = Format { protection, age };
                assert_eq!(Format::parse(&format.text()), Some(format));
            }
        }
        assert_eq!(Format::parse("statehold data format 9"), None);
    }

    /// A text that was written once means the same for ever.
    #[test]
    fn the_texts_are_those_that_were_written() {
        let texts = [
            ("statehold data format 1", Protection::Plain, Age::WithoutLast),
            (
                "statehold data format 2, encryption changes",
                Protection::Changing,
                Age::WithoutLast,
            ),
            (
                "statehold data format 4, encrypted",
                Protection::Encrypted,
                Age::WithoutIds,
            ),
            (
                "statehold data format 5, ids are added",
                Protection::Plain,
                Age::GainingIds,
            ),
            ("statehold data format 5", Protection::Plain, Age::WithoutPlane),
            (
                "statehold data format 6, encryption changes",
                Protection::Changing,
                Age::WithoutPlane,
            ),
            (
                "statehold data format 6, encrypted",
                Protection::Encrypted,
                Age::WithoutPlane,
            ),
            (
                "statehold data format 7, ids are added",
                Protection::Plain,
                Age::CurrentGainingIds,
            ),
            ("statehold data format 7", Protection::Plain, Age::Current),
            (
                "statehold data format 8, encryption changes, ids are added",
                Protection::Changing,
                Age::CurrentGainingIds,
            ),
            (
                "statehold data format 8, encryption changes",
                Protection::Changing,
                Age::Current,
            ),
            (
                "statehold data format 8, encrypted",
                Protection::Encrypted,
                Age::Current,
            ),
        ];
        for (text, protection, age) in texts {
            assert_eq!(Format::parse(text), Some(Format { protection, age }));
        }
    }
}
