//! `statehold cluster`: how a cluster stands, and what changes it, over the admin pages of any of its nodes.

mod change;
mod progress;
pub(crate) mod show;
mod wait;

use clap::{Args, Subcommand};

use self::change::{Add, Remove, Replace, Transfer};
use self::show::Cluster;
use crate::admin::{AdminArgs, hint};
use crate::exit::Exit;
use crate::output;
use crate::runtime;

/// Show how a cluster stands; let nodes come and go.
///
/// The command asks the admin pages of one node, whichever: each knows all of them, and gives a change to who decides it. A change goes
/// on by itself once it is decided, also without this command; `statehold cluster status` shows how far it is.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ClusterCommand {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Show the nodes, who leads which group, and how far replicas are behind
    Status(Status),
    /// Show the nodes
    Nodes(Part),
    /// Show who leads which group of the state store, and how far replicas are behind
    Groups(Part),
    /// Show which part of all sessions each node has by the ring
    Rings(Part),
    /// Let a node take part that was started with --join and waits
    ///
    /// It receives a copy of everything while the others go on, and gets a vote where one is missing as soon as it has caught up. The command
    /// ends when the node has confirmed that it has caught up, and says itself that it runs.
    Add(Add),
    /// Take a node out of the cluster, for ever
    ///
    /// Its votes go to others first, and its clients are sent away. It is refused if the others could decide nothing without it. The
    /// command shows how far the node is, and ends when the others have all votes and have merged all slots. A node that does not answer
    /// is not waited for. A node that was removed never comes back: empty its data directory, and it is a new node.
    Remove(Remove),
    /// Let a new node take the place of another one
    ///
    /// The new node is added, as by `add`; then the old one is removed, as by `remove`. If the new node has the address of the old one,
    /// the old one is removed first. The command shows how far each step is, and ends when the new node says itself that it runs.
    Replace(Replace),
    /// Let another node lead a group
    ///
    /// The command ends when the new leader has said itself how long the log of the group is.
    Transfer(Transfer),
}

#[derive(Debug, Args)]
struct Status {
    /// Print what the admin page says, as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    admin: AdminArgs,
}

/// A part of what there is to see.
#[derive(Debug, Args)]
struct Part {
    /// Print a JSON object for each
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    admin: AdminArgs,
}

impl ClusterCommand {
    pub(crate) fn run(self) -> anyhow::Result<Exit> {
        let admin = self.what.admin().admin.clone();
        let ran = runtime::block_on(async {
            match self.what {
                What::Status(status) => status.run().await,
                What::Nodes(part) => part.run("nodes", |cluster| cluster.nodes_table()).await,
                What::Groups(part) => part.run("groups", |cluster| cluster.groups_table()).await,
                What::Rings(part) => part.rings().await,
                What::Add(add) => add.run().await,
                What::Remove(remove) => remove.run().await,
                What::Replace(replace) => replace.run().await,
                What::Transfer(transfer) => transfer.run().await,
            }
        });
        ran.map_err(|error| hint::completed(error, &admin))
    }
}

impl What {
    fn admin(&self) -> &AdminArgs {
        match self {
            Self::Status(status) => &status.admin,
            Self::Nodes(part) | Self::Groups(part) | Self::Rings(part) => &part.admin,
            Self::Add(add) => &add.admin,
            Self::Remove(remove) => &remove.admin,
            Self::Replace(replace) => &replace.admin,
            Self::Transfer(transfer) => &transfer.admin,
        }
    }
}

impl Status {
    async fn run(self) -> anyhow::Result<Exit> {
        let said = self.admin.client()?.get("/cluster").await?;
        if self.json {
            output::line(serde_json::to_string_pretty(&said)?)?;
        } else {
            output::line(Cluster(&said).table(&hint::options(&self.admin.admin)))?;
        }
        Ok(Exit::Done)
    }
}

impl Part {
    /// One of the lists that `status` has.
    async fn run(self, list: &str, table: impl Fn(Cluster<'_>) -> String) -> anyhow::Result<Exit> {
        let said = self.admin.client()?.get("/cluster").await?;
        if self.json {
            let all = said[list].as_array().into_iter().flatten();
            all.into_iter()
                .try_for_each(|one| output::line(one.to_string()))?;
        } else {
            output::raw(table(Cluster(&said)).as_bytes())?;
        }
        Ok(Exit::Done)
    }

    async fn rings(self) -> anyhow::Result<Exit> {
        let said = self.admin.client()?.get("/api/rings").await?;
        if self.json {
            let mut nodes = said["nodes"].as_array().into_iter().flatten();
            nodes.try_for_each(|node| output::line(node.to_string()))?;
        } else {
            output::raw(show::rings(&said).as_bytes())?;
        }
        Ok(Exit::Done)
    }
}

const EXAMPLES: &str = "\
Examples:
  statehold cluster status
  statehold cluster rings
  statehold cluster status --json --admin https://10.0.0.2:8080 --admin-cafile ca.pem --token-file token
  statehold cluster add 10.0.0.4:7000
  statehold cluster remove 10.0.0.2:7000
  statehold cluster remove 3f0c --force           a machine that is gone for good
  statehold cluster replace 10.0.0.2:7000 10.0.0.5:7000
  statehold cluster transfer 0 10.0.0.3:7000

The variables STATEHOLD_ADMIN and STATEHOLD_ADMIN_TOKEN stand for the options.";
