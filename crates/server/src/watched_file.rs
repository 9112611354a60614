//! What has been read from a file, and is read anew when the file has changed.

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::audit;
use crate::stamp::{Stamp, stamp};

/// What was in a file when it could be used last.
#[derive(Debug)]
pub(crate) struct WatchedFile<T, E> {
    /// As settings call it, as in `authentication.scram`.
    setting: Cow<'static, str>,
    file: PathBuf,
    read: fn(&Path) -> Result<T, E>,
    current: RefCell<Arc<T>>,
    /// Of what `current` was made from.
    digest: RefCell<String>,
    /// What the file looked like when `current` was made, or tried.
    used: Cell<Stamp>,
    /// At the last look.
    seen: Cell<Stamp>,
}

impl<T, E: Display> WatchedFile<T, E> {
    pub(crate) fn load(
        setting: impl Into<Cow<'static, str>>,
        file: &Path,
        read: fn(&Path) -> Result<T, E>,
    ) -> Result<Self, E> {
        let used = stamp(file);
        let current = read(file)?;
        Ok(Self {
            setting: setting.into(),
            file: file.to_owned(),
            read,
            current: RefCell::new(Arc::new(current)),
            digest: RefCell::new(audit::digest([file])),
            used: Cell::new(used),
            seen: Cell::new(used),
        })
    }

    /// What is used at the moment.
    pub(crate) fn current(&self) -> Arc<T> {
        Arc::clone(&self.current.borrow())
    }

    /// Reads the file again if it has changed and no longer does. True if something else is used from now on.
    pub(crate) fn look(&self) -> bool {
        let now = stamp(&self.file);
        let before = self.seen.replace(now);
        now != self.used.get() && now == before && self.reload()
    }

    /// Reads the file again. True if something else is used from now on.
    pub(crate) fn reload(&self) -> bool {
        self.used.set(stamp(&self.file));
        match (self.read)(&self.file) {
            Ok(current) => {
                self.current.replace(Arc::new(current));
                let now = audit::digest([&*self.file]);
                audit::reloaded(&self.setting, &self.digest.borrow(), Ok(&now));
                self.digest.replace(now);
                tracing::info!("took the file of {} anew", self.setting);
                true
            }
            Err(error) => {
                audit::reloaded(&self.setting, &self.digest.borrow(), Err(&error));
                tracing::error!(%error, "cannot take the file of {} anew: what was in it holds", self.setting);
                false
            }
        }
    }
}
