//! The write-ahead log: every batch goes here first, and is durable with one sync of one file that is not growing.
//!
//! Batches collect in a buffer; [`Wal::sync`] writes the buffer with one call and syncs the file. Segment files were filled
//! before, so the file system has no blocks to allocate and nothing to put into its own journal: a sync takes as long as
//! the disk takes. Log entries lie here only; a segment is given back when all its entries were removed and tables hold
//! the rest.
//!
//! A record is whole or not there. Records become durable in their order: after a crash there are all that were synced,
//! and after them some of the others without a gap.

mod heads;
mod keeper;
mod last;
mod live;
mod moving;
mod record;
pub(crate) mod recovery;
mod segment;

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io;
use std::mem;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use cluster::Write;

pub(crate) use self::heads::read_heads;
use self::keeper::{Keeper, Prepared};
use self::last::Last;
use self::live::LiveLog;
pub(crate) use self::record::Content;
use self::record::Place;
pub use self::recovery::WalError;
use self::recovery::{Segment, Visit};
use self::segment::Header;
use crate::data_dir;
use crate::directory_id::{DirectoryId, DirectoryMark};
use crate::encryption::{Encryption, FileCipher, Stamp};
use crate::fault::{Doing, Fault};

/// Bytes that wait for a sync are handed to the operating system when there are that many.
const BUFFER_BYTES_MAX: usize = 1 << 20;

/// The next segment is asked for when the current one is filled to one part in so many.
const ASK_AT: u64 = 8;

/// While segments are smaller than they will be, each is so many times larger than the one before it. Filling a file with
/// zeros takes about as long as writing half as much in commits, so the next one is there in time.
const GROWTH: u64 = 2;

/// How large segments are, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SegmentSizes {
    /// A whole one.
    pub(crate) whole: u64,
    /// The first one of a start that finds no spare file: it is zeroed while the start waits.
    pub(crate) first: u64,
}

/// Where a log lies, and what is known of the directory around it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Site<'a> {
    pub(crate) dir: &'a Path,
    /// A log of this format says which segment was begun last.
    pub(crate) says_last: bool,
    pub(crate) mark: DirectoryMark,
}

/// The log, open for writing.
#[derive(Debug)]
pub(crate) struct Wal {
    dir: PathBuf,
    /// Id that new segments carry.
    directory: DirectoryId,
    sizes: SegmentSizes,
    encryption: Encryption,
    current: Current,
    /// Full ones, the oldest first.
    full: VecDeque<Segment>,
    /// Files of full segments in which something is not synced.
    unsynced: Vec<File>,
    /// What follows in the current segment and was not handed to the operating system.
    buffer: Vec<u8>,
    /// Log entries, and where they lie.
    live: LiveLog,
    next_sequence: u64,
    /// Every record up to this one is durable.
    durable: u64,
    checkpoint: Checkpoint,
    keeper: Keeper,
    /// What the file beside the segments says.
    last: Last,
}

/// The segment that is being written.
#[derive(Debug)]
struct Current {
    number: u64,
    file: File,
    size: u64,
    /// None: its records are plain.
    cipher: Option<(Stamp, FileCipher)>,
    /// Bytes of it that the operating system has.
    handed_over: u64,
    is_dirty: bool,
}

#[derive(Debug, Default)]
struct Checkpoint {
    /// Tables hold everything through this record, and that is durably noted.
    through: u64,
    /// The sequence of a note that is on its way, and what it says.
    noted: Option<(u64, u64)>,
    /// The sequence of the last note.
    last_note: u64,
}

impl Wal {
    /// Makes the directory and its first segment, for an engine that is about to be made. False if something is in it.
    pub(crate) fn make(dir: &Path, directory: DirectoryId, sizes: SegmentSizes) -> io::Result<bool> {
        data_dir::make_private(dir)?;
        let segments = segment::list(dir)?.segments;
        for number in &segments {
            if segment::read_header(dir, *number)?.is_some() {
                return Ok(false);
            }
        }
        if segments.is_empty() {
            segment::make(sizes.first, &segment::path(dir, 1))?;
        }
        let last = Last {
            directory: Some(directory),
            ..Last::default()
        };
        last.write(dir)?;
        Ok(true)
    }

    /// Reads the log, shows each record to `visit` in order, and gets ready to go on after the last one.
    pub(crate) fn open(
        site: Site<'_>,
        sizes: SegmentSizes,
        encryption: &Encryption,
        visit: &mut Visit<'_>,
    ) -> Result<Wal, WalError> {
        let opening = |error| Fault::from_io(Doing::Opening, error);
        let mut last_note = 0;
        let recovered = recovery::recover(site, encryption, &mut |sequence, content| {
            if let Content::Checkpoint { .. } = &content {
                last_note = sequence;
            }
            visit(sequence, content)
        })?;
        let (own, others) = if encryption.is_changing() {
            // What they held before may be plain, or of a key that nobody has.
            (Vec::new(), recovered.spares)
        } else {
            segment::sort_spares(site.dir, recovered.spares, site.mark.id).map_err(opening)?
        };
        segment::remove_spares(site.dir, &others).map_err(opening)?;
        let mut keeper = Keeper::start(site.dir, sizes.whole, own).map_err(opening)?;
        let prepared = keeper
            .take(recovered.number_max + 1, sizes.first)
            .map_err(opening)?;
        Ok(Wal {
            dir: site.dir.to_owned(),
            directory: site.mark.id,
            sizes,
            encryption: encryption.clone(),
            current: Current::new(prepared, encryption),
            full: recovered.segments.into(),
            unsynced: Vec::new(),
            buffer: Vec::new(),
            live: recovered.live,
            next_sequence: recovered.next_sequence,
            durable: recovered.next_sequence - 1,
            checkpoint: Checkpoint {
                through: recovered.checkpoint,
                noted: None,
                last_note,
            },
            keeper,
            last: recovered.last,
        })
    }

    /// Appends a batch. It is durable after the next [`Wal::sync`].
    pub(crate) fn append(&mut self, writes: &[Write]) -> Result<(), Fault> {
        let place = self.place(record::batch_len(writes, self.is_encrypted()))?;
        record::encode_batch(&mut self.buffer, place, self.current.cipher(), writes);
        self.live
            .note(self.current.number, writes)
            .expect("a key of the log is a group and an index");
        if self.buffer.len() >= BUFFER_BYTES_MAX {
            self.hand_over()?;
        }
        Ok(())
    }

    /// Appends the note that tables hold everything through this record. It counts when it is durable.
    pub(crate) fn note_checkpoint(&mut self, through: u64) -> Result<(), Fault> {
        assert!(through <= self.durable, "tables hold only what is durable");
        let place = self.place(record::checkpoint_len(self.is_encrypted()))?;
        record::encode_checkpoint(&mut self.buffer, place, self.current.cipher(), through);
        self.checkpoint.noted = Some((place.sequence, through));
        self.checkpoint.last_note = place.sequence;
        Ok(())
    }

    /// Hands everything to the operating system: it survives the end of this process.
    pub(crate) fn hand_over(&mut self) -> Result<(), Fault> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let current = &mut self.current;
        current
            .file
            .write_all_at(&self.buffer, current.handed_over)
            .map_err(|error| Fault::from_io(Doing::Writing, error))?;
        current.handed_over += self.buffer.len() as u64;
        current.is_dirty = true;
        self.buffer.clear();
        self.buffer.shrink_to(BUFFER_BYTES_MAX);
        Ok(())
    }

    /// Makes everything durable, and gives back segments that are not needed any more.
    pub(crate) fn sync(&mut self) -> Result<(), Fault> {
        self.hand_over()?;
        let syncing = |error| Fault::from_io(Doing::Syncing, error);
        for file in self.unsynced.drain(..) {
            file.sync_data().map_err(syncing)?;
        }
        if mem::take(&mut self.current.is_dirty) {
            self.current.file.sync_data().map_err(syncing)?;
        }
        self.durable = self.last();
        if self.current.handed_over > 0 && self.last.segment != self.current.number {
            self.note_last()?;
        }
        if let Some((_, through)) = self.checkpoint.noted.take_if(|(note, _)| *note <= self.durable) {
            self.checkpoint.through = through;
        }
        self.release();
        Ok(())
    }

    /// Writes down how far the log goes at least: whatever is missing then is noticed at the next start.
    pub(crate) fn note_last(&mut self) -> Result<(), Fault> {
        let newest = if self.current.handed_over > 0 {
            Some((self.current.number, self.current.size))
        } else {
            self.full.back().map(|segment| (segment.number, segment.bytes))
        };
        let (segment, bytes) = newest.unwrap_or_default();
        let last = Last {
            segment,
            bytes,
            sequence: self.durable,
            directory: Some(self.directory),
        };
        if last != self.last {
            last.write(&self.dir)
                .map_err(|error| Fault::from_io(Doing::Syncing, error))?;
            self.last = last;
        }
        Ok(())
    }

    /// The sequence of the last record.
    pub(crate) fn last(&self) -> u64 {
        self.next_sequence - 1
    }

    /// Whether everything is durable.
    pub(crate) fn is_synced(&self) -> bool {
        self.durable == self.last()
    }

    /// Whether a full segment waits for a sync.
    pub(crate) fn has_unsynced_segment(&self) -> bool {
        !self.unsynced.is_empty()
    }

    /// The last record of full segments that a checkpoint would let go, as far as it is theirs to decide.
    pub(crate) fn last_of_full(&self) -> Option<u64> {
        self.full.back().map(|segment| segment.last)
    }

    /// Tables hold everything through this record, by a note that is durable or on its way.
    pub(crate) fn checkpoint(&self) -> u64 {
        self.checkpoint
            .noted
            .map_or(self.checkpoint.through, |(_, through)| through)
    }

    /// Whether nothing was written after a checkpoint was noted.
    pub(crate) fn ends_with_checkpoint(&self) -> bool {
        self.checkpoint.last_note == self.last()
    }

    /// Bytes of the log's files.
    pub(crate) fn disk_bytes(&self) -> io::Result<u64> {
        let mut bytes = 0;
        for entry in fs::read_dir(&self.dir)? {
            match entry?.metadata() {
                Ok(metadata) => bytes += metadata.len(),
                // It was renamed or removed meanwhile.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(bytes)
    }

    /// Reads every record that there is, those that were not handed over as well.
    pub(crate) fn read(&self, visit: &mut Visit<'_>) -> Result<(), Fault> {
        for segment in &self.full {
            let bytes = self.read_file(segment.number)?;
            self.show(&bytes, segment.number, visit)?;
        }
        let mut bytes = self.read_file(self.current.number)?;
        bytes.truncate(self.current.handed_over as usize);
        bytes.extend_from_slice(&self.buffer);
        self.show(&bytes, self.current.number, visit)
    }

    fn read_file(&self, number: u64) -> Result<Vec<u8>, Fault> {
        fs::read(segment::path(&self.dir, number)).map_err(|error| Fault::from_io(Doing::Reading, error))
    }

    fn show(&self, bytes: &[u8], number: u64, visit: &mut Visit<'_>) -> Result<(), Fault> {
        let Some(header) = Header::decode(bytes, number) else {
            return Ok(());
        };
        let last = self.full.iter().find(|segment| segment.number == number);
        let end = last.map_or(self.next_sequence, |segment| segment.last + 1);
        let path = segment::path(&self.dir, number);
        let cipher = header
            .cipher(&path, bytes, &self.encryption)
            .map_err(|error| changed(error.to_string()))?;
        let has_changed = |offset| changed(format!("{} has changed at byte {offset}", path.display()));
        let (offset, found) = recovery::walk(
            bytes,
            header,
            cipher.as_ref(),
            &mut |offset, sequence, content| visit(sequence, content.map_err(|_| has_changed(offset))?),
        )?;
        if found == end {
            Ok(())
        } else {
            Err(has_changed(offset))
        }
    }

    /// The place of a record of `len` bytes. Goes on to the next segment if it does not fit into this one; if it fits
    /// into none, it makes its segment longer.
    fn place(&mut self, len: usize) -> Result<Place, Fault> {
        let size = self.current.size;
        let filled = self.filled();
        if filled > 0 && filled + len as u64 > size {
            self.begin_next_segment()?;
        } else if filled + len as u64 > size / ASK_AT {
            self.keeper.prepare(self.current.number + 1, self.next_size());
        }
        if self.filled() == 0 {
            let header = Header {
                segment: self.current.number,
                first: self.next_sequence,
                durable: self.durable,
                directory: Some(self.directory),
                stamp: self.current.cipher.as_ref().map(|(stamp, _)| *stamp),
            };
            header.encode(&mut self.buffer, self.current.cipher());
        }
        let sequence = self.next_sequence;
        self.next_sequence += 1;
        Ok(Place {
            segment: self.current.number,
            sequence,
            durable: self.durable,
        })
    }

    fn begin_next_segment(&mut self) -> Result<(), Fault> {
        self.hand_over()?;
        let prepared = self
            .keeper
            .take(self.current.number + 1, self.next_size())
            .map_err(|error| Fault::from_io(Doing::Writing, error))?;
        let full = mem::replace(&mut self.current, Current::new(prepared, &self.encryption));
        if full.is_dirty {
            self.unsynced.push(full.file);
        }
        self.full.push_back(Segment {
            number: full.number,
            last: self.last(),
            bytes: full.size,
            directory: Some(self.directory),
            key: full.cipher.map(|(stamp, _)| stamp.key),
        });
        Ok(())
    }

    /// Gives back the oldest segments, while everything in them is in tables or removed. All of that is durable: this
    /// follows a sync. Never one that is not the oldest: it may hold the removal of what is in an older one.
    fn release(&mut self) {
        while let Some(oldest) = self.full.front()
            && oldest.last <= self.checkpoint.through
            && !self.live.is_in(oldest.number)
        {
            let is_reusable = self.is_as_new(oldest);
            self.keeper.retire(oldest.number, is_reusable);
            self.full.pop_front();
        }
    }

    /// Whether a segment is written as new ones are.
    fn is_as_new(&self, segment: &Segment) -> bool {
        segment.key == self.encryption.key() && segment.directory == Some(self.directory)
    }

    /// Bytes of the current segment that are taken.
    fn filled(&self) -> u64 {
        self.current.handed_over + self.buffer.len() as u64
    }

    fn is_encrypted(&self) -> bool {
        self.current.cipher.is_some()
    }

    fn next_size(&self) -> u64 {
        self.current.size.saturating_mul(GROWTH).min(self.sizes.whole)
    }
}

impl Current {
    fn new(prepared: Prepared, encryption: &Encryption) -> Current {
        let keys = encryption.new_file();
        let cipher = keys.map(|(stamp, keys)| (stamp, segment::cipher(&keys, prepared.number)));
        Current {
            cipher,
            number: prepared.number,
            file: prepared.file,
            size: prepared.size,
            handed_over: 0,
            is_dirty: false,
        }
    }

    fn cipher(&self) -> Option<&FileCipher> {
        self.cipher.as_ref().map(|(_, cipher)| cipher)
    }
}

fn changed(detail: String) -> Fault {
    Fault::Engine {
        doing: Doing::Reading,
        detail,
    }
}

#[cfg(test)]
mod tests;
