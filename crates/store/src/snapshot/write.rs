//! From an image to bytes.

use std::ops::Bound;

use bytes::{BufMut, Bytes, BytesMut};

use crate::codec;
use crate::command::Watcher;
use crate::key::Key;
use crate::key_record;
use crate::snapshot::{END, Image, VERSION};
use crate::store::Stored;

/// The chunks of an image, made while they are asked for.
#[derive(Debug)]
pub struct Chunks {
    image: Image,
    section: Section,
    /// What is encoded and not handed out yet.
    buffer: BytesMut,
    bytes_max: usize,
}

/// What comes next. Positions are those of the last record that was written.
#[derive(Debug)]
enum Section {
    Header,
    Keys { after: Option<Key> },
    Tombstones { after: Option<Key> },
    Replies { from: usize },
    Watches { after: Option<(Key, Watcher)> },
    Done,
}

impl Chunks {
    pub(super) fn new(image: Image, bytes_max: usize) -> Self {
        Self {
            image,
            section: Section::Header,
            buffer: BytesMut::with_capacity(2 * bytes_max),
            bytes_max,
        }
    }

    /// Encodes of the current section what a chunk has room for, and goes to the next section at its end.
    fn fill(&mut self) {
        let section = std::mem::replace(&mut self.section, Section::Done);
        self.section = match section {
            Section::Header => self.header(),
            Section::Keys { after } => self.keys(after.as_ref()),
            Section::Tombstones { after } => self.tombstones(after.as_ref()),
            Section::Replies { from } => self.replies(from),
            Section::Watches { after } => self.watches(after.as_ref()),
            Section::Done => Section::Done,
        };
    }

    fn is_full(&self) -> bool {
        self.buffer.len() >= self.bytes_max
    }

    fn header(&mut self) -> Section {
        let (out, image) = (&mut self.buffer, &self.image);
        out.put_u8(VERSION);
        codec::put_number(out, image.stamp.clock);
        codec::put_number(out, image.stamp.time);
        codec::put_quota(out, image.quota);
        codec::put_number(out, image.replies_dropped);
        out.put_u8(u8::from(image.floor.is_some()));
        if let Some(floor) = image.floor {
            codec::put_version(out, floor);
        }
        let counts = [image.keys.len(), image.tombstones.len(), image.replies.len()];
        for count in counts {
            codec::put_number(out, count as u64);
        }
        codec::put_number(out, image.watches_count);
        Section::Keys { after: None }
    }

    fn keys(&mut self, after: Option<&Key>) -> Section {
        for (key, stored) in self.image.keys.range::<_, Key>((start(after), Bound::Unbounded)) {
            put_stored(&mut self.buffer, key, stored);
            if self.buffer.len() >= self.bytes_max {
                return Section::Keys {
                    after: Some(key.clone()),
                };
            }
        }
        Section::Tombstones { after: None }
    }

    fn tombstones(&mut self, after: Option<&Key>) -> Section {
        for (key, version) in self
            .image
            .tombstones
            .range::<_, Key>((start(after), Bound::Unbounded))
        {
            codec::put_bytes(&mut self.buffer, key.as_slice());
            codec::put_version(&mut self.buffer, *version);
            if self.buffer.len() >= self.bytes_max {
                return Section::Tombstones {
                    after: Some(key.clone()),
                };
            }
        }
        Section::Replies { from: 0 }
    }

    fn replies(&mut self, from: usize) -> Section {
        let rest = self.image.replies.focus().narrow(from..);
        for (number, remembered) in (from..).zip(rest) {
            self.buffer.put_slice(&remembered.hash);
            codec::put_number(&mut self.buffer, remembered.until);
            codec::put_outcome(&mut self.buffer, remembered.outcome);
            if self.is_full() {
                return Section::Replies { from: number + 1 };
            }
        }
        Section::Watches { after: None }
    }

    fn watches(&mut self, after: Option<&(Key, Watcher)>) -> Section {
        let first = after
            .as_ref()
            .map_or(Bound::Unbounded, |(key, _)| Bound::Included(key));
        for (key, watchers) in self.image.watches.range::<_, Key>((first, Bound::Unbounded)) {
            let written = after
                .as_ref()
                .filter(|(last, _)| last == key)
                .map(|(_, watcher)| watcher);
            let next = written.map_or(Bound::Unbounded, Bound::Excluded);
            for (watcher, dialect) in watchers.range::<_, Watcher>((next, Bound::Unbounded)) {
                codec::put_bytes(&mut self.buffer, key.as_slice());
                codec::put_watcher(&mut self.buffer, *watcher);
                codec::put_dialect(&mut self.buffer, *dialect);
                if self.buffer.len() >= self.bytes_max {
                    return Section::Watches {
                        after: Some((key.clone(), *watcher)),
                    };
                }
            }
        }
        self.buffer.put_u8(END);
        Section::Done
    }
}

impl Iterator for Chunks {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        while !self.is_full() && !matches!(self.section, Section::Done) {
            self.fill();
        }
        if self.buffer.is_empty() {
            return None;
        }
        let length = self.buffer.len().min(self.bytes_max);
        Some(self.buffer.split_to(length).freeze())
    }
}

fn start(after: Option<&Key>) -> Bound<&Key> {
    after.map_or(Bound::Unbounded, Bound::Excluded)
}

fn put_stored(out: &mut BytesMut, key: &Key, stored: &Stored) {
    key_record::put_fields(
        out,
        key.as_slice(),
        &stored.value,
        stored.version,
        (stored.deadline, stored.fencing.as_deref()),
    );
}
