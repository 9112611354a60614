//! Reads the segments at a start, and tells a tail that a crash has torn from damage.
//!
//! Records stand one after the other, and the header of a segment says with which sequence it goes on. Where the chain ends,
//! a crash may have cut it, or something has destroyed what was there. Records that a sync did not cover may reach the
//! disk in any order, so a readable record behind the end proves nothing by itself. But each record and each header says up to
//! where everything was durable when it was written. If one behind the end says that the missing record was, that is
//! damage, and an error; otherwise the tail was never synced as a whole, nobody was told that it is there, and it is cut.
//!
//! A segment ends where its tail was cut, and the next records go to a new one, under a number that was never used. So
//! nothing of a cut tail is ever behind something new.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use super::Site;
use super::last::{self, Found, Last};
use super::live::LiveLog;
use super::record::{self, Content, Unreadable};
use super::segment::{self, Header, Listing};
use crate::data_dir;
use crate::directory_id::DirectoryId;
use crate::encryption::{Encryption, EncryptionError, FileCipher, KeyId};
use crate::fault::{Doing, Fault};

/// Why the write-ahead log cannot be used. Nothing was changed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum WalError {
    /// What was synced cannot be read.
    #[error(
        "the write-ahead log is damaged: {} at byte {offset}: record {sequence} cannot be read, nor is it in {}, and records that \
         were written after it was synced are there",
        file.display(),
        next.display()
    )]
    Damaged {
        file: PathBuf,
        /// The segment after it.
        next: PathBuf,
        offset: u64,
        sequence: u64,
    },
    /// The beginning is not there any more.
    #[error(
        "the write-ahead log is incomplete: {} begins with record {found}, and those from {needed} on are needed",
        file.display()
    )]
    Incomplete { file: PathBuf, needed: u64, found: u64 },
    /// There is an engine but no segment at all.
    #[error("the write-ahead log is missing: no segment is in {}", dir.display())]
    Missing { dir: PathBuf },
    /// A segment that was begun is not there any more, or not as a whole.
    #[error("the write-ahead log is damaged: {} {what}, and LAST beside it says that records in it were synced", file.display())]
    SegmentLost { file: PathBuf, what: &'static str },
    /// It is not known how far the log has to go.
    #[error("the write-ahead log is damaged: {} {what}", file.display())]
    LastLost { file: PathBuf, what: &'static str },
    /// A record is whole, but says what this program does not know.
    #[error(
        "the write-ahead log cannot be used: {} at byte {offset}: this program does not know the content of record \
         {sequence}",
        file.display()
    )]
    Unknown {
        file: PathBuf,
        offset: u64,
        sequence: u64,
    },
    /// It is encrypted, and cannot be read with the keys that there are.
    #[error(transparent)]
    Encryption(#[from] EncryptionError),
    /// The disk failed.
    #[error(transparent)]
    Fault(#[from] Fault),
}

/// A segment that holds records and is not written any more.
#[derive(Debug)]
pub(super) struct Segment {
    pub(super) number: u64,
    /// The sequence of its last record.
    pub(super) last: u64,
    /// Of its file.
    pub(super) bytes: u64,
    /// Id that it carries; none: an older version of the program wrote it.
    pub(super) directory: Option<DirectoryId>,
    /// With which it is encrypted.
    pub(super) key: Option<KeyId>,
}

/// What the segments hold.
#[derive(Debug)]
pub(super) struct Recovered {
    /// The oldest first.
    pub(super) segments: Vec<Segment>,
    pub(super) live: LiveLog,
    /// Files to write into.
    pub(super) spares: Vec<u64>,
    /// The highest number that any file has or had.
    pub(super) number_max: u64,
    pub(super) next_sequence: u64,
    /// Everything through this record lies in tables.
    pub(super) checkpoint: u64,
    /// What is said of the newest segment now.
    pub(super) last: Last,
}

/// Is shown each record, in order.
pub(super) type Visit<'a> = dyn FnMut(u64, Content) -> Result<(), Fault> + 'a;

/// Where the chain of records ends.
struct End {
    /// Position in the listing.
    segment: usize,
    /// Where its records begin.
    begin: usize,
    offset: usize,
    sequence: u64,
}

/// Reads all segments, cuts the tail, and makes what was not begun into spare files.
pub(super) fn recover(
    site: Site<'_>,
    encryption: &Encryption,
    visit: &mut Visit<'_>,
) -> Result<Recovered, WalError> {
    let dir = site.dir;
    let missing = || WalError::Missing { dir: dir.to_owned() };
    let Listing {
        segments,
        spares,
        unfinished,
    } = match segment::list(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(missing()),
        listing => listing.map_err(opening)?,
    };
    if segments.is_empty() {
        return Err(missing());
    }
    let number_max = segments.iter().chain(&spares).max().copied().unwrap_or(0);
    let mut recovered = Recovered {
        segments: Vec::new(),
        live: LiveLog::default(),
        spares,
        number_max,
        next_sequence: 1,
        checkpoint: 0,
        last: Last::default(),
    };
    let mut reader = Reader {
        dir,
        encryption,
        visit,
        recovered: &mut recovered,
        first: None,
    };
    let end = reader.read_chain(&segments)?;
    reader.check_begin()?;
    let used = check_end(dir, &segments, &end)?;
    check_last(site, &segments, &end)?;
    note_last(site, &mut recovered, &segments, &end).map_err(opening)?;
    seal(dir, &segments, &end, &used, &mut recovered.spares).map_err(opening)?;
    for file in unfinished {
        fs::remove_file(file).map_err(opening)?;
    }
    Ok(recovered)
}

/// Shows the records of one segment's bytes from the first on, while they follow each other. Returns where that ends, and
/// the sequence with which it would go on.
pub(super) fn walk<E>(
    bytes: &[u8],
    header: Header,
    cipher: Option<&FileCipher>,
    visit: &mut dyn FnMut(usize, u64, Result<Content, Unreadable>) -> Result<(), E>,
) -> Result<(usize, u64), E> {
    let (mut offset, mut sequence) = (header.len(), header.first);
    while let Some(found) = bytes
        .get(offset..)
        .and_then(|rest| record::find(rest, header.segment))
        && found.place.sequence == sequence
    {
        visit(offset, sequence, found.content(cipher))?;
        offset += found.len;
        sequence += 1;
    }
    Ok((offset, sequence))
}

struct Reader<'a, 'b> {
    dir: &'a Path,
    encryption: &'a Encryption,
    visit: &'a mut Visit<'b>,
    recovered: &'a mut Recovered,
    /// The oldest segment and the sequence with which it begins.
    first: Option<(u64, u64)>,
}

impl Reader<'_, '_> {
    fn read_chain(&mut self, segments: &[u64]) -> Result<End, WalError> {
        let mut end = End {
            segment: 0,
            begin: 0,
            offset: 0,
            sequence: 1,
        };
        for (position, number) in segments.iter().enumerate() {
            let bytes = fs::read(segment::path(self.dir, *number)).map_err(opening)?;
            let Some(header) = Header::decode(&bytes, *number) else {
                break;
            };
            if self.first.is_none() {
                self.first = Some((*number, header.first));
            } else if header.first != end.sequence {
                break;
            }
            let (offset, sequence) = self.read_segment(&bytes, header)?;
            end = End {
                segment: position,
                begin: header.len(),
                offset,
                sequence,
            };
        }
        self.recovered.next_sequence = end.sequence;
        Ok(end)
    }

    fn read_segment(&mut self, bytes: &[u8], header: Header) -> Result<(usize, u64), WalError> {
        let number = header.segment;
        let file = segment::path(self.dir, number);
        let cipher = header.cipher(&file, bytes, self.encryption)?;
        let end = walk(
            bytes,
            header,
            cipher.as_ref(),
            &mut |offset, sequence, content| {
                let unknown = || WalError::Unknown {
                    file: file.clone(),
                    offset: offset as u64,
                    sequence,
                };
                let content = content.map_err(|unreadable| match (unreadable, header.key()) {
                    (Unreadable::Unknown, _) => unknown(),
                    (Unreadable::NotAuthentic, Some(key)) => WalError::from(EncryptionError::NotAuthentic {
                        file: file.clone(),
                        offset: offset as u64,
                        key,
                    }),
                    // An encrypted record in a plain segment: no key is known for it.
                    (Unreadable::NotAuthentic, None) => unknown(),
                })?;
                match &content {
                    Content::Batch(writes) => {
                        self.recovered.live.note(number, writes).ok_or_else(unknown)?;
                    }
                    Content::Checkpoint { through } => self.recovered.checkpoint = *through,
                }
                Ok::<(), WalError>((self.visit)(sequence, content)?)
            },
        )?;
        if end.1 > header.first {
            self.recovered.segments.push(Segment {
                number,
                last: end.1 - 1,
                bytes: bytes.len() as u64,
                directory: header.directory,
                key: header.key(),
            });
        }
        Ok(end)
    }

    /// Nothing that tables do not hold may be missing before the oldest segment.
    fn check_begin(&self) -> Result<(), WalError> {
        let needed = self.recovered.checkpoint + 1;
        match self.first {
            Some((number, found)) if found > needed => Err(WalError::Incomplete {
                file: segment::path(self.dir, number),
                needed,
                found,
            }),
            _ => Ok(()),
        }
    }
}

/// Refuses an end behind which something shows that more was durable. Returns which segments behind the end hold records
/// of their own.
fn check_end(dir: &Path, segments: &[u64], end: &End) -> Result<Vec<bool>, WalError> {
    let mut used = vec![false; segments.len()];
    for (position, number) in segments.iter().enumerate().skip(end.segment) {
        let bytes = fs::read(segment::path(dir, *number)).map_err(opening)?;
        let from = if position == end.segment { end.offset } else { 0 };
        if let Some(durable) = durable_behind(&bytes, *number, from) {
            used[position] = true;
            if durable >= end.sequence {
                return Err(WalError::Damaged {
                    file: segment::path(dir, segments[end.segment]),
                    next: segment::path(dir, segments[end.segment] + 1),
                    offset: end.offset as u64,
                    sequence: end.sequence,
                });
            }
        }
    }
    Ok(used)
}

/// Refuses a log that does not go as far as it is known to have gone.
fn check_last(site: Site<'_>, segments: &[u64], end: &End) -> Result<(), WalError> {
    let dir = site.dir;
    let lost = |what| {
        let file = last::path(dir);
        Err(WalError::LastLost { file, what })
    };
    let last = match Last::read(dir).map_err(opening)? {
        Found::Last(last) => last,
        Found::Damaged => return lost("is damaged"),
        Found::Nothing if site.says_last => return lost("is missing"),
        Found::Nothing => return Ok(()),
    };
    let segment_lost = |what| {
        let file = segment::path(dir, last.segment);
        Err(WalError::SegmentLost { file, what })
    };
    if last.segment > 0 {
        if !segments.contains(&last.segment) {
            return segment_lost("is missing");
        }
        if segment::read_header(dir, last.segment)
            .map_err(opening)?
            .is_none()
        {
            return segment_lost("has no header any more");
        }
        let file = segment::path(dir, last.segment);
        if fs::metadata(file).map_err(opening)?.len() < last.bytes {
            return segment_lost("is shorter than it was");
        }
    }
    if end.sequence <= last.sequence {
        return Err(WalError::Damaged {
            file: segment::path(dir, segments[end.segment]),
            next: segment::path(dir, segments[end.segment] + 1),
            offset: end.offset as u64,
            sequence: end.sequence,
        });
    }
    Ok(())
}

/// Says how far the log goes, before what is behind its end is cut.
fn note_last(site: Site<'_>, recovered: &mut Recovered, segments: &[u64], end: &End) -> io::Result<()> {
    let dir = site.dir;
    if let Some(newest) = recovered.segments.last_mut()
        && segments.get(end.segment) == Some(&newest.number)
    {
        // So much is left of it.
        newest.bytes = newest.bytes.min(end.offset as u64);
    }
    // What a process has left with the operating system may not be on the disk yet.
    for segment in &recovered.segments {
        File::open(segment::path(dir, segment.number))?.sync_all()?;
    }
    let newest = recovered.segments.last();
    recovered.last = Last {
        segment: newest.map_or(0, |newest| newest.number),
        bytes: newest.map_or(0, |newest| newest.bytes),
        sequence: end.sequence - 1,
        directory: Some(site.mark.id),
    };
    recovered.last.write(dir)
}

/// The highest record that the segment's header or its records from `offset` on say was durable.
fn durable_behind(bytes: &[u8], number: u64, offset: usize) -> Option<u64> {
    let header = match offset {
        0 => Header::decode(bytes, number).map(|header| header.durable),
        _ => None,
    };
    let places = (offset..bytes.len())
        .step_by(record::ALIGNMENT)
        .filter(|position| bytes[*position..].starts_with(&record::MAGIC));
    let records = places.filter_map(|position| Some(record::find(&bytes[position..], number)?.place.durable));
    records.max().max(header)
}

/// Cuts the segment in which the chain ends, removes used ones behind it, and keeps unused ones as spare files.
fn seal(dir: &Path, segments: &[u64], end: &End, used: &[bool], spares: &mut Vec<u64>) -> io::Result<()> {
    let mut changed = false;
    for (position, number) in segments.iter().enumerate().skip(end.segment).rev() {
        let path = segment::path(dir, *number);
        if position == end.segment && end.offset > end.begin {
            let file = File::options().write(true).open(path)?;
            if file.metadata()?.len() > end.offset as u64 {
                file.set_len(end.offset as u64)?;
                file.sync_all()?;
            }
            continue;
        }
        changed = true;
        if used[position] || (position == end.segment && end.offset > 0) {
            fs::remove_file(path)?;
        } else {
            let spare = segment::free_spare(spares);
            fs::rename(path, segment::spare_path(dir, spare))?;
            spares.push(spare);
        }
    }
    if changed { data_dir::sync_dir(dir) } else { Ok(()) }
}

fn opening(error: io::Error) -> WalError {
    Fault::from_io(Doing::Opening, error).into()
}
