//! `statehold bench`: load that is cheap to make.
//!
//! It does not use the client library: packets are encoded once and patched, everything that a connection has to
//! say leaves in one write, and one thread serves many connections. What it costs itself is part of its report.

mod clock;
mod connections;
mod history;
mod hostile;
mod kv;
mod load;
mod process;
mod pubsub;
mod random;
mod report;
mod template;
mod wire;

use clap::{Args, Subcommand};

use crate::exit::Exit;

/// Measure a server.
///
/// Reports the rate, the latency at the median, 99 %, 99.9 % and maximum, errors, and what the load itself cost. A
/// load on the same machine takes its share of the processor: compare rates of one machine only.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Bench {
    #[command(subcommand)]
    load: Load,
}

#[derive(Debug, Subcommand)]
enum Load {
    /// Requests to the state store
    Kv(kv::Kv),
    /// Messages from publishers to subscribers
    Pubsub(pubsub::Pubsub),
    /// Connections that do nothing
    Connections(connections::Connections),
    /// Requests to the state store, all of them written down
    History(history::History),
    /// Clients that mean harm, and what others notice of them
    Hostile(hostile::Hostile),
}

impl Bench {
    pub(crate) fn run(self) -> anyhow::Result<Exit> {
        match self.load {
            Load::Kv(kv) => kv.run(),
            Load::Pubsub(pubsub) => pubsub.run(),
            Load::Connections(connections) => connections.run(),
            Load::History(history) => history.run(),
            Load::Hostile(hostile) => hostile.run(),
        }
    }
}

const EXAMPLES: &str = "\
Examples:
  statehold bench kv --connections 50 --operation set --value-size 100 --duration 10s
  statehold bench kv --connections 50 --operation get --requests 1000000 --json
  statehold bench pubsub --publishers 10 --subscribers 10 --qos 1
  statehold bench pubsub --publishers 1 --subscribers 100 --topics fan-out --rate 1000
  statehold bench pubsub --host 10.0.0.1 --subscriber-url 10.0.0.2:1883 --qos 1
  statehold bench connections --count 10000 --rate 1000 --pid $(pgrep -x statehold)
  statehold bench kv --node 10.0.0.1:1883 --node 10.0.0.2:1883 --node 10.0.0.3:1883
  statehold bench history --node 10.0.0.1:1883 --node 10.0.0.2:1883 --output history.jsonl
  statehold bench hostile --only subscribe --gap-max 5ms";
