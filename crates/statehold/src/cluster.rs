//! `statehold cluster`: how a cluster stands, and what changes it, over the admin pages of any of its nodes.

pub(crate) mod show;

use std::time::Duration;

use clap::{Args, Subcommand};
use serde_json::{Value, json};
use server::{AdminClient, AdminClientError, clock};

use self::show::{Cluster, short};
use crate::admin::{AdminArgs, hint};
use crate::duration;
use crate::exit::{self, Exit, UsageError};
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
    /// Show which part of all sessions each node has by the rings: now, and when joins and merges have ended
    Rings(Part),
    /// Let a node take part that was started with --join and waits
    ///
    /// It receives a copy of everything while the others go on, and gets a vote where one is missing as soon as it has caught up. The command
    /// ends when the node has confirmed that it has caught up, and says itself that it runs.
    Add(Add),
    /// Take a node out of the cluster, for ever
    ///
    /// Its votes go to others first, then its copies end. It is refused if the others could decide nothing without it. A node that
    /// was removed never comes back: empty its data directory, and it is a new node.
    Remove(Remove),
    /// Let another node lead a group
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

#[derive(Debug, Args)]
struct Add {
    /// Its id, or the address that it listens on for other nodes
    node: String,
    #[command(flatten)]
    wait: WaitArgs,
    #[command(flatten)]
    admin: AdminArgs,
}

#[derive(Debug, Args)]
struct Remove {
    /// Its id, the beginning of its id, or its address
    node: String,
    /// It cannot be reached, and never will be
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    wait: WaitArgs,
    #[command(flatten)]
    admin: AdminArgs,
}

#[derive(Debug, Args)]
struct Transfer {
    /// Number of the group, or `control`
    group: String,
    /// Who is to lead it: its id, the beginning of its id, or its address
    node: String,
    #[command(flatten)]
    wait: WaitArgs,
    #[command(flatten)]
    admin: AdminArgs,
}

/// How long a command stays.
#[derive(Debug, Args)]
struct WaitArgs {
    /// Wait at most so long until it is done; after it, it goes on without this command (0s: do not wait)
    #[arg(long, default_value = "10m", value_name = "TIME", value_parser = duration::parse)]
    wait: Duration,
}

/// How often a command that waits looks again.
const LOOK_EVERY: Duration = Duration::from_millis(300);

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
        let rings = said["rings"].as_array().into_iter().flatten();
        if self.json {
            rings
                .into_iter()
                .try_for_each(|ring| output::line(ring.to_string()))?;
        } else {
            output::raw(show::rings(rings).as_bytes())?;
        }
        Ok(Exit::Done)
    }
}

impl Add {
    async fn run(self) -> anyhow::Result<Exit> {
        let client = self.admin.client()?;
        say(&client.post("/cluster/add", &json!({ "node": self.node })).await?);
        // From here on it is among the nodes, under its id.
        self.wait
            .until(&client, |cluster| match cluster.find(&self.node) {
                Ok(node) if cluster.has_joined(&node) => {
                    Look::Done(format!("node {} is a member, and serves", short(&node)))
                }
                Ok(node) => Look::Waits(cluster.joining(&node)),
                Err(_) => Look::Waits(format!("node {} is to join", self.node)),
            })
            .await
    }
}

impl Remove {
    async fn run(self) -> anyhow::Result<Exit> {
        let client = self.admin.client()?;
        let before = client.get("/cluster").await?;
        let node = Cluster(&before).find(&self.node).map_err(UsageError)?;
        let asked = json!({ "node": node, "force": self.force });
        say(&client.post("/cluster/remove", &asked).await?);
        self.wait
            .until(&client, |cluster| match cluster.stage(&node) {
                None => Look::Done(format!("node {} is removed", short(&node))),
                Some(_) => Look::Waits(cluster.leaving(&node)),
            })
            .await
    }
}

impl Transfer {
    async fn run(self) -> anyhow::Result<Exit> {
        let group = match self.group.as_str() {
            "control" => json!("control"),
            number => json!(number.parse::<u32>().map_err(|_| {
                UsageError(
                    "a group is a number, or `control`; `statehold cluster status` shows them".to_owned(),
                )
            })?),
        };
        let client = self.admin.client()?;
        let before = client.get("/cluster").await?;
        let node = Cluster(&before).find(&self.node).map_err(UsageError)?;
        let asked = json!({ "group": group, "to": node });
        say(&client.post("/cluster/transfer", &asked).await?);
        self.wait
            .until(&client, |cluster| {
                if cluster.leads(&node, &group) {
                    Look::Done(format!("node {} leads group {}", short(&node), self.group))
                } else {
                    Look::Waits(format!("group {} is being handed over", self.group))
                }
            })
            .await
    }
}

/// What a look at a cluster showed.
enum Look {
    Done(String),
    Waits(String),
}

impl WaitArgs {
    /// Looks until it is done, and says what has changed meanwhile.
    async fn until(&self, client: &AdminClient, look: impl Fn(Cluster<'_>) -> Look) -> anyhow::Result<Exit> {
        if self.wait.is_zero() {
            return Ok(Exit::Done);
        }
        let until = clock::instant() + self.wait;
        let mut said = String::new();
        loop {
            match client.get("/cluster").await {
                Ok(cluster) => match look(Cluster(&cluster)) {
                    Look::Done(text) => {
                        exit::note(&text);
                        return Ok(Exit::Done);
                    }
                    Look::Waits(text) if text != said => {
                        exit::note(&text);
                        said = text;
                    }
                    Look::Waits(_) => {}
                },
                // A node may be busy for a moment.
                Err(AdminClientError::NoAnswer { .. } | AdminClientError::Refused { status: 503, .. }) => {}
                Err(error) => return Err(error.into()),
            }
            if clock::instant() >= until {
                exit::note("it is not done yet, and goes on without this command");
                return Ok(Exit::NoAnswer);
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
}

/// What the server has decided.
fn say(answer: &Value) {
    if let Some(text) = answer["taken"].as_str() {
        exit::note(text);
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
  statehold cluster transfer 0 10.0.0.3:7000

The variables STATEHOLD_ADMIN and STATEHOLD_ADMIN_TOKEN stand for the options.";
