//! The thread that has segment files ready before they are needed, and takes them back.
//!
//! Neither zeroing a file nor syncing the directory may happen while a commit waits, so both happen here. A name is durable
//! before the file is handed out: what is synced into it is found again.
//!
//! Filling files with zeros takes the disk from commits. So it is done once, soon after the first file was asked for, for
//! as much log as there usually is, and what was used is used again. A server that nobody writes to makes nothing.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread::JoinHandle;

use super::segment;
use crate::data_dir;

/// Spare files that are kept; more are deleted. With segments of 16 MiB that is as much as a log has that is as long as
/// the default of the state store's snapshots lets it become.
const SPARES_MAX: usize = 6;

/// Spare files that are made while there is nothing else to do.
const SPARES_AHEAD: usize = 4;

/// Files are made ahead where the disk has room for so many.
const ROOM_FOR_SPARES: u64 = 10;

/// A file in which nothing was written under its number.
#[derive(Debug)]
pub(super) struct Prepared {
    pub(super) number: u64,
    pub(super) file: File,
    /// Bytes that can be written without allocating.
    pub(super) size: u64,
}

#[derive(Debug)]
enum Job {
    Prepare { number: u64, size: u64 },
    Retire { number: u64, is_reusable: bool },
    Settle { done: Sender<()> },
}

/// The thread's end that the log holds. Jobs are done in their order.
#[derive(Debug)]
pub(super) struct Keeper {
    jobs: Option<Sender<Job>>,
    prepared: Receiver<io::Result<Prepared>>,
    /// Files asked for and not yet received.
    asked: bool,
    thread: Option<JoinHandle<()>>,
}

impl Keeper {
    /// Starts the thread. `spares` were found in the directory; `size` is that of a whole segment.
    pub(super) fn start(dir: &Path, size: u64, spares: Vec<u64>) -> io::Result<Keeper> {
        // At most one file is asked for at a time, and no more than all segments are given back.
        let (jobs, received) = channel();
        let (sender, prepared) = channel();
        let shelf = Shelf {
            dir: dir.to_owned(),
            size,
            spares,
            is_in_use: false,
        };
        let thread = std::thread::Builder::new()
            .name("statehold-wal".to_owned())
            .spawn(move || run(shelf, &received, &sender))?;
        Ok(Keeper {
            jobs: Some(jobs),
            prepared,
            asked: false,
            thread: Some(thread),
        })
    }

    /// Asks for a file, if none was asked for. A spare one may be larger than `size`.
    pub(super) fn prepare(&mut self, number: u64, size: u64) {
        if !self.asked {
            self.asked = true;
            self.send(Job::Prepare { number, size });
        }
    }

    /// Waits for the file that was asked for, or asks for it now. After an error the next call tries again.
    pub(super) fn take(&mut self, number: u64, size: u64) -> io::Result<Prepared> {
        self.prepare(number, size);
        self.asked = false;
        match self.receive() {
            // It was asked for long ago, and there may be room by now.
            Err(_) => {
                self.prepare(number, size);
                self.asked = false;
                self.receive()
            }
            prepared => prepared,
        }
    }

    /// Gives back a segment that is not needed any more. One that is not reusable is removed.
    pub(super) fn retire(&self, number: u64, is_reusable: bool) {
        self.send(Job::Retire { number, is_reusable });
    }

    /// Waits until everything that was asked for so far is done.
    pub(super) fn settle(&self) {
        let (done, is_done) = channel();
        self.send(Job::Settle { done });
        // If the thread has ended, nothing more is done.
        let _ = is_done.recv();
    }

    fn receive(&self) -> io::Result<Prepared> {
        self.prepared
            .recv()
            .unwrap_or_else(|_| Err(io::Error::other("the thread of the write-ahead log has ended")))
    }

    fn send(&self, job: Job) {
        if let Some(jobs) = &self.jobs {
            // If the thread has ended, the next file that is needed does not come, and that is an error.
            let _ = jobs.send(job);
        }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            // A panic there has been reported by its thread; nothing on disk depends on its end.
            let _ = thread.join();
        }
    }
}

struct Shelf {
    dir: PathBuf,
    size: u64,
    spares: Vec<u64>,
    /// A file was asked for after the one that every start asks for.
    is_in_use: bool,
}

fn run(mut shelf: Shelf, jobs: &Receiver<Job>, prepared: &Sender<io::Result<Prepared>>) {
    let mut makes_spares = false;
    loop {
        let job = match jobs.try_recv() {
            Ok(job) => job,
            Err(TryRecvError::Disconnected) => return,
            Err(TryRecvError::Empty) if makes_spares => {
                // Where there is no room for one, nothing is wrong yet: the next file that is needed says so.
                makes_spares = shelf.spares.len() < SPARES_AHEAD && shelf.make_spare().is_ok();
                continue;
            }
            Err(TryRecvError::Empty) => match jobs.recv() {
                Ok(job) => job,
                Err(_) => return,
            },
        };
        match job {
            Job::Prepare { number, size } => {
                if prepared.send(shelf.prepare(number, size)).is_err() {
                    return;
                }
                makes_spares = shelf.is_in_use;
                shelf.is_in_use = true;
            }
            // What cannot be removed stays, and is read and given back again after the next start.
            Job::Retire { number, is_reusable } => {
                let _ = shelf.retire(number, is_reusable);
            }
            Job::Settle { done } => {
                let _ = done.send(());
            }
        }
    }
}

impl Shelf {
    fn prepare(&mut self, number: u64, size: u64) -> io::Result<Prepared> {
        let path = segment::path(&self.dir, number);
        let file = match self.spares.pop() {
            Some(spare) => {
                fs::rename(segment::spare_path(&self.dir, spare), &path)?;
                File::options().read(true).write(true).open(&path)?
            }
            None => segment::make(size, &path)?,
        };
        data_dir::sync_dir(&self.dir)?;
        let size = file.metadata()?.len();
        Ok(Prepared { number, file, size })
    }

    /// The directory is synced after each, so that segments disappear from the oldest on.
    fn retire(&mut self, number: u64, is_reusable: bool) -> io::Result<()> {
        let path = segment::path(&self.dir, number);
        if is_reusable && self.spares.len() < SPARES_MAX && fs::metadata(&path)?.len() == self.size {
            let spare = segment::free_spare(&self.spares);
            fs::rename(&path, segment::spare_path(&self.dir, spare))?;
            self.spares.push(spare);
        } else {
            fs::remove_file(&path)?;
        }
        data_dir::sync_dir(&self.dir)
    }

    /// Makes one more, if the disk has much more room than that.
    fn make_spare(&mut self) -> io::Result<()> {
        let is_roomy =
            data_dir::free_bytes(&self.dir).is_some_and(|free| free / ROOM_FOR_SPARES >= self.size);
        if !is_roomy {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let spare = segment::free_spare(&self.spares);
        segment::make(self.size, &segment::spare_path(&self.dir, spare))?;
        self.spares.push(spare);
        Ok(())
    }
}
