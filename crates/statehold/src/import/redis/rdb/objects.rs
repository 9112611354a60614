//! Objects that are no strings: where they end.

use std::io::Read;

use super::Rdb;
use crate::import::file::FileError;

/// What an object is that is no string.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::import::redis) enum Kind {
    List,
    Set,
    SortedSet,
    Hash,
    Stream,
    /// Of a module of Redis.
    Module,
}

impl Kind {
    /// In words, as in "a hash".
    pub(in crate::import::redis) fn name(self) -> &'static str {
        match self {
            Self::List => "a list",
            Self::Set => "a set",
            Self::SortedSet => "a sorted set",
            Self::Hash => "a hash",
            Self::Stream => "a stream",
            Self::Module => "of a module",
        }
    }
}

impl<R: Read> Rdb<R> {
    /// Reads an object of this type to its end.
    pub(super) fn skip_object(&mut self, kind: u8) -> Result<Kind, FileError> {
        Ok(match kind {
            // Those that are one string, in which the rest is packed.
            9 | 13 | 16 => self.packed(Kind::Hash)?,
            10 => self.packed(Kind::List)?,
            11 | 20 => self.packed(Kind::Set)?,
            12 | 17 => self.packed(Kind::SortedSet)?,
            1 | 14 => self.counted(Kind::List, |rdb| rdb.skip_strings(1))?,
            2 => self.counted(Kind::Set, |rdb| rdb.skip_strings(1))?,
            4 => self.counted(Kind::Hash, |rdb| rdb.skip_strings(2))?,
            3 => self.counted(Kind::SortedSet, |rdb| {
                rdb.skip_strings(1)?;
                rdb.skip_score()
            })?,
            5 => self.counted(Kind::SortedSet, |rdb| {
                rdb.skip_strings(1)?;
                rdb.input.skip(SCORE_BYTES)
            })?,
            18 => self.counted(Kind::List, |rdb| {
                rdb.skip_lengths(1)?;
                rdb.skip_strings(1)
            })?,
            // Hashes whose fields expire: the moment of the first, and for each field how much later.
            24 => {
                self.input.skip(TIME_BYTES)?;
                self.counted(Kind::Hash, |rdb| {
                    rdb.skip_lengths(1)?;
                    rdb.skip_strings(2)
                })?
            }
            25 => {
                self.input.skip(TIME_BYTES)?;
                self.packed(Kind::Hash)?
            }
            15 => self.skip_stream(1)?,
            19 => self.skip_stream(2)?,
            21 => self.skip_stream(3)?,
            7 => {
                self.skip_lengths(1)?;
                self.skip_module()?;
                Kind::Module
            }
            _ => return self.input.damaged("an object of an unknown type"),
        })
    }

    fn packed(&mut self, kind: Kind) -> Result<Kind, FileError> {
        self.skip_strings(1).map(|()| kind)
    }

    fn counted(
        &mut self,
        kind: Kind,
        mut skip: impl FnMut(&mut Self) -> Result<(), FileError>,
    ) -> Result<Kind, FileError> {
        for _ in 0..self.length()? {
            skip(self)?;
        }
        Ok(kind)
    }

    /// A score in digits, or one of three that have none.
    fn skip_score(&mut self) -> Result<(), FileError> {
        let length = self.input.byte()?;
        if length < NO_DIGITS_FROM {
            self.input.skip(length.into())?;
        }
        Ok(())
    }

    /// `form`: how often it has been extended.
    fn skip_stream(&mut self, form: u8) -> Result<Kind, FileError> {
        // Entries, packed; how many there are, and the last one.
        self.counted(Kind::Stream, |rdb| rdb.skip_strings(2))?;
        self.skip_lengths(3)?;
        if form >= 2 {
            self.skip_lengths(5)?;
        }
        self.counted(Kind::Stream, |rdb| rdb.skip_consumer_group(form))
    }

    fn skip_consumer_group(&mut self, form: u8) -> Result<(), FileError> {
        self.skip_strings(1)?;
        self.skip_lengths(if form >= 2 { 3 } else { 2 })?;
        self.counted(Kind::Stream, |rdb| {
            rdb.input.skip(ENTRY_ID_BYTES + TIME_BYTES)?;
            rdb.skip_lengths(1)
        })?;
        self.counted(Kind::Stream, |rdb| {
            rdb.skip_strings(1)?;
            rdb.input
                .skip(if form >= 3 { 2 * TIME_BYTES } else { TIME_BYTES })?;
            rdb.counted(Kind::Stream, |rdb| rdb.input.skip(ENTRY_ID_BYTES))?;
            Ok(())
        })?;
        Ok(())
    }

    /// What a module has written; each part says what it is.
    pub(super) fn skip_module(&mut self) -> Result<(), FileError> {
        loop {
            match self.length()? {
                0 => return Ok(()),
                1 | 2 => self.skip_lengths(1)?,
                3 => self.input.skip(4)?,
                4 => self.input.skip(SCORE_BYTES)?,
                5 => self.skip_strings(1)?,
                _ => {
                    return self
                        .input
                        .damaged("something of a module that is of an unknown kind");
                }
            }
        }
    }
}

const SCORE_BYTES: u64 = 8;
const TIME_BYTES: u64 = 8;
const ENTRY_ID_BYTES: u64 = 16;

/// Lengths that stand for a score: not a number, and the two infinities.
const NO_DIGITS_FROM: u8 = 253;
