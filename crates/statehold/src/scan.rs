//! `statehold scan`

use clap::Args;

use crate::exit::Exit;
use crate::output::{self, Json};
use crate::runtime::block_on;
use crate::server::ServerArgs;

/// List the keys that match a pattern.
///
/// One key a line. Keys that are not UTF-8 are never listed. Exit code 1: none matched.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Scan {
    /// A glob over the whole key: `*` any sequence, `?` one character, `[ab]`, `[a-z]`, `[!a]`
    #[arg(default_value = "*")]
    pattern: String,
    /// End each key with a zero byte instead of a line break
    #[arg(long, short = '0', conflicts_with = "json")]
    null: bool,
    /// Print a JSON object for each key
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    server: ServerArgs,
}

impl Scan {
    pub(crate) fn run(self) -> anyhow::Result<Exit> {
        block_on(async {
            let store = self.server.state_store().await?;
            let mut scan = store.scan(self.pattern.clone());
            let mut exit = Exit::NotFound;
            while let Some(keys) = scan.next_page().await? {
                for key in keys {
                    exit = Exit::Done;
                    self.show(&key)?;
                }
            }
            store.client().disconnect().await;
            Ok(exit)
        })
    }

    fn show(&self, key: &[u8]) -> std::io::Result<()> {
        if self.json {
            Json::new().with_bytes("key", key).print()
        } else if self.null {
            output::raw(&[key, b"\0"].concat())
        } else {
            output::record(key)
        }
    }
}

const EXAMPLES: &str = "\
Examples:
  statehold scan
  statehold scan 'pump/*'
  statehold scan --null 'tmp/*' | xargs -0 -n 1 statehold del";
