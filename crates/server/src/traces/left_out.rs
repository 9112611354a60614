//! In place of traces where the server is built without them.

use cluster::NodeId;
use mqtt::traces::{Span, TracesConfig};
use thiserror::Error;

use crate::config::Otlp;
use crate::metrics::Counts;

/// There are none.
#[derive(Debug)]
pub(crate) enum Traces {}

/// Nothing is tried that could fail.
#[derive(Debug, Error)]
pub enum TracesError {}

/// The settings were refused if they ask for any.
pub(crate) fn config(_: &Otlp, _: u64) -> Option<TracesConfig> {
    None
}

/// No files are read.
#[derive(Debug)]
pub(crate) enum TracesFiles {}

impl TracesFiles {
    #[expect(clippy::unnecessary_wraps, reason = "as where there are traces")]
    pub(crate) fn load(_: &Otlp) -> Result<Option<Self>, TracesError> {
        Ok(None)
    }
}

impl Traces {
    pub(crate) fn start(files: TracesFiles, _: NodeId) -> Result<Self, TracesError> {
        match files {}
    }

    pub(crate) fn take(&self, _: Vec<Span>) {
        match *self {}
    }

    pub(crate) fn counts(&self) -> Counts {
        match *self {}
    }
}
