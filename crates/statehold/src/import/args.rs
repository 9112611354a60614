//! What all imports have in common.

use std::path::PathBuf;

use clap::Args;

use super::names::Prefix;
use crate::server::ServerArgs;

/// What is wanted, how it is written, and how it is told.
#[derive(Debug, Args)]
pub(super) struct ImportArgs {
    /// Give what begins with FROM a name that begins with TO instead; may be repeated: the longest FROM counts
    #[arg(long, value_name = "FROM=TO", value_parser = Prefix::parse)]
    pub(super) prefix: Vec<Prefix>,
    /// Only what begins with this, before --prefix; may be repeated
    #[arg(long, value_name = "PREFIX")]
    pub(super) only: Vec<String>,
    /// Read everything and report, but write nothing and connect to no Statehold
    #[arg(long)]
    pub(super) dry_run: bool,
    /// Leave alone what is there already: keys, retained messages, sessions [default: keys and messages are replaced]
    #[arg(long)]
    pub(super) if_absent: bool,
    /// Leave out values of more bytes; the server's limit is that of a packet (limits.packet_size_max)
    #[arg(long, value_name = "BYTES", default_value_t = 1 << 20, value_parser = clap::value_parser!(u64).range(..=1 << 28))]
    pub(super) value_bytes_max: u64,
    /// Requests under way at once, and of their bytes no more than 8 MiB
    #[arg(long, value_name = "COUNT", default_value_t = 512, value_parser = clap::value_parser!(u16).range(1..=4_000))]
    pub(super) inflight: u16,
    /// Write a line of JSON for each that is left out to this file, and the whole report as the last one
    #[arg(long, value_name = "FILE")]
    pub(super) report: Option<PathBuf>,
    /// Print the report as JSON
    #[arg(long)]
    pub(super) json: bool,
    /// No progress on stderr
    #[arg(long)]
    pub(super) quiet: bool,
    #[command(flatten)]
    pub(super) server: ServerArgs,
}
