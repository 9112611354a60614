//! `statehold import`: what other programs hold, carried over.
//!
//! A source reads what there is and gives it to the carrier, which writes it and says in a report what became of each. Readers of
//! files believe nothing that stands in them (`import/file.rs`). A file is read twice: whole and checked before anything is written.

mod args;
mod carrier;
mod etcd;
mod file;
mod mosquitto;
mod names;
mod progress;
mod redis;
mod report;
mod tls;

use clap::{Args, Subcommand};

use self::etcd::Etcd;
use self::mosquitto::Mosquitto;
use self::redis::Redis;
use crate::exit::Exit;

/// Carry over what another program holds: keys of Redis or etcd, messages and settings of Mosquitto.
///
/// What cannot be carried over is in the report at the end, and the exit code is 1 then. An import can be run again: it sets the same
/// keys to the same values.
#[derive(Debug, Args)]
pub(crate) struct ImportCommand {
    #[command(subcommand)]
    source: Source,
}

#[derive(Debug, Subcommand)]
enum Source {
    Redis(Box<Redis>),
    Etcd(Box<Etcd>),
    Mosquitto(Box<Mosquitto>),
}

impl ImportCommand {
    pub(crate) fn run(self) -> anyhow::Result<Exit> {
        match self.source {
            Source::Redis(redis) => redis.run(),
            Source::Etcd(etcd) => etcd.run(),
            Source::Mosquitto(mosquitto) => mosquitto.run(),
        }
    }
}
