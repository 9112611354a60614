//! `statehold keys`: the commands of the state store by one name.

use clap::{Args, Subcommand};

use crate::del::Del;
use crate::exit::Exit;
use crate::get::Get;
use crate::scan::Scan;
use crate::set::Set;
use crate::vdel::Vdel;
use crate::watch::Watch;

/// List, get, set, delete and watch keys of the state store.
///
/// The same as `statehold scan`, `get`, `set`, `del`, `vdel` and `watch`: over MQTT, with the rights of the client that asks.
#[derive(Debug, Args)]
pub(crate) struct KeysCommand {
    #[command(subcommand)]
    what: What,
}

// The help of each is at its arguments.
#[derive(Debug, Subcommand)]
enum What {
    List(Scan),
    Get(Get),
    Set(Set),
    Del(Del),
    Vdel(Vdel),
    Watch(Watch),
}

impl KeysCommand {
    pub(crate) fn run(self) -> anyhow::Result<Exit> {
        match self.what {
            What::List(scan) => scan.run(),
            What::Get(get) => get.run(),
            What::Set(set) => set.run(),
            What::Del(del) => del.run(),
            What::Vdel(vdel) => vdel.run(),
            What::Watch(watch) => watch.run(),
        }
    }
}
