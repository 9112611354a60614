//! Changes of a cluster: a node comes, goes, takes the place of another one, or leads a group.

use std::cell::Cell;

use clap::Args;
use serde_json::json;
use server::AdminClientError;

use super::show::{Cluster, short};
use super::wait::{GOES_ON, Look, Wait, WaitArgs};
use crate::admin::AdminArgs;
use crate::exit::{self, Exit, UsageError};

#[derive(Debug, Args)]
pub(super) struct Add {
    /// Its id, or the address that it listens on for other nodes
    node: String,
    #[command(flatten)]
    wait: WaitArgs,
    #[command(flatten)]
    pub(super) admin: AdminArgs,
}

#[derive(Debug, Args)]
pub(super) struct Remove {
    /// Its id, the beginning of its id, or its address
    node: String,
    /// It cannot be reached, and never will be
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    wait: WaitArgs,
    #[command(flatten)]
    pub(super) admin: AdminArgs,
}

#[derive(Debug, Args)]
pub(super) struct Replace {
    /// The node that goes: its id, the beginning of its id, or its address
    old: String,
    /// The node that comes, and waits: its id, or the address that it listens on for other nodes
    new: String,
    /// The node that goes cannot be reached, and never will be
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    wait: WaitArgs,
    #[command(flatten)]
    pub(super) admin: AdminArgs,
}

#[derive(Debug, Args)]
pub(super) struct Transfer {
    /// Number of the group, or `control`
    group: String,
    /// Who is to lead it: its id, the beginning of its id, or its address
    node: String,
    #[command(flatten)]
    wait: WaitArgs,
    #[command(flatten)]
    pub(super) admin: AdminArgs,
}

impl Add {
    pub(super) async fn run(self) -> anyhow::Result<Exit> {
        let client = self.admin.client()?;
        let mut wait = self.wait.begin(&client);
        add(&mut wait, &self.node).await?;
        self.wait
            .finish(wait, |cluster| joining(cluster, &self.node))
            .await
    }
}

impl Remove {
    pub(super) async fn run(self) -> anyhow::Result<Exit> {
        let client = self.admin.client()?;
        let before = client.get("/cluster").await?;
        let node = Cluster(&before).find(&self.node).map_err(UsageError)?;
        let mut wait = self.wait.begin(&client);
        remove(&mut wait, &node, self.force).await?;
        let removal = Removal::of(&node, Cluster(&before));
        self.wait.finish(wait, |cluster| removal.look(cluster)).await
    }
}

impl Replace {
    pub(super) async fn run(self) -> anyhow::Result<Exit> {
        let client = self.admin.client()?;
        let before = client.get("/cluster").await?;
        let old = self.check(Cluster(&before))?;
        if self.wait.is_none() {
            let why = "a replacement has two steps, and does not go on by itself: give it a time with --wait";
            return Err(UsageError(why.to_owned()).into());
        }
        let mut wait = self.wait.begin(&client);
        let is_done = if Cluster(&before).is_at_address_of(&self.new, &old) {
            self.remove_first(&mut wait, Removal::of(&old, Cluster(&before)))
                .await?
        } else {
            self.add_first(&mut wait, Removal::of(&old, Cluster(&before)))
                .await?
        };
        if is_done {
            exit::note(&format!(
                "{} has taken the place of node {}",
                self.new,
                short(&old)
            ));
            return Ok(Exit::Done);
        }
        Ok(Exit::NoAnswer)
    }

    /// The id of the node that goes, if nothing speaks against the replacement yet.
    fn check(&self, cluster: Cluster<'_>) -> anyhow::Result<String> {
        let old = cluster.find(&self.old).map_err(|error| {
            let add = format!("`statehold cluster add {}`", self.new);
            UsageError(format!("{error}; if it is removed already: {add}"))
        })?;
        if cluster.is_address_of(&self.new, &old) && !cluster.waits(&self.new) {
            let why = format!(
                "no node waits at {}: start the new node there with an empty data directory and --join, then run this again",
                self.new
            );
            return Err(UsageError(why).into());
        }
        if !self.force && !cluster.is_reachable(&old) {
            let again = format!("`statehold cluster replace {} {} --force`", self.old, self.new);
            let why = format!("node {old} cannot be reached; if it is gone for good: {again}");
            return Err(AdminClientError::Refused { status: 409, why }.into());
        }
        Ok(old)
    }

    async fn add_first(&self, wait: &mut Wait<'_>, removal: Removal<'_>) -> anyhow::Result<bool> {
        let old = removal.node;
        exit::note("step 1 of 2: the new node joins");
        add(wait, &self.new).await?;
        if !wait.until(|cluster| joining(cluster, &self.new)).await? {
            exit::note(&format!(
                "the new node has not joined yet, and node {} is not removed: run the same command again",
                short(old)
            ));
            return Ok(false);
        }
        exit::note("step 2 of 2: the old node is removed");
        remove(wait, old, self.force).await?;
        let both = |cluster: Cluster<'_>| match (removal.look(cluster), joining(cluster, &self.new)) {
            (Look::Done(_), waits @ Look::Waits(_)) => waits,
            (gone, _) => gone,
        };
        let is_done = wait.until(both).await?;
        if !is_done {
            exit::note(GOES_ON);
        }
        Ok(is_done)
    }

    async fn remove_first(&self, wait: &mut Wait<'_>, removal: Removal<'_>) -> anyhow::Result<bool> {
        exit::note("step 1 of 2: the old node is removed, since the new one has its address");
        remove(wait, removal.node, self.force).await?;
        if !wait.until(|cluster| removal.look(cluster)).await? {
            exit::note(&format!(
                "the old node is not gone yet, and nothing is added: `statehold cluster add {}` when it is",
                self.new
            ));
            return Ok(false);
        }
        exit::note("step 2 of 2: the new node joins");
        add(wait, &self.new).await?;
        let is_done = wait.until(|cluster| joining(cluster, &self.new)).await?;
        if !is_done {
            exit::note(GOES_ON);
        }
        Ok(is_done)
    }
}

impl Transfer {
    pub(super) async fn run(self) -> anyhow::Result<Exit> {
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
        let mut wait = self.wait.begin(&client);
        wait.ask("/cluster/transfer", &asked, |_| None).await?;
        self.wait
            .finish(wait, |cluster| {
                if cluster.leads(&node, &group) {
                    Look::Done(format!("node {} leads group {}", short(&node), self.group))
                } else {
                    Look::Waits(format!("group {} is being handed over", self.group))
                }
            })
            .await
    }
}

/// Asks for a node to be added. From then on it is among the nodes, under its id.
async fn add(wait: &mut Wait<'_>, node: &str) -> anyhow::Result<()> {
    let joins = |cluster: Cluster<'_>| cluster.joins(node);
    wait.ask("/cluster/add", &json!({ "node": node }), joins).await
}

/// Asks for a node to be removed.
async fn remove(wait: &mut Wait<'_>, node: &str, force: bool) -> anyhow::Result<()> {
    let asked = json!({ "node": node, "force": force });
    let leaves = |cluster: Cluster<'_>| cluster.leaves(node);
    wait.ask("/cluster/remove", &asked, leaves).await
}

/// Looks how far a node is that joins.
fn joining(cluster: Cluster<'_>, who: &str) -> Look {
    match cluster.find(who) {
        Ok(node) if cluster.has_joined(&node) => {
            Look::Done(format!("node {} is a member, and serves", short(&node)))
        }
        Ok(node) => Look::Waits(cluster.joining(&node)),
        Err(_) => Look::Waits(format!("node {who} is to join")),
    }
}

/// Removal of a node, as looks at the cluster see it.
struct Removal<'a> {
    node: &'a str,
    /// Whether the node was reached in the last look that had it.
    is_reached: Cell<bool>,
}

impl<'a> Removal<'a> {
    fn of(node: &'a str, before: Cluster<'_>) -> Self {
        Self {
            node,
            is_reached: Cell::new(before.is_reachable(node)),
        }
    }

    /// Looks how far the node is, and then how far the others are with what it had.
    fn look(&self, cluster: Cluster<'_>) -> Look {
        let node = short(self.node);
        if cluster.says_itself_removed(self.node) {
            return Look::Done(format!("node {node} says itself that it is removed"));
        }
        if cluster.stage(self.node).is_some() {
            self.is_reached.set(cluster.is_reachable(self.node));
            return Look::Waits(cluster.leaving(self.node));
        }
        match cluster.shortfall() {
            Some(text) => Look::Waits(format!("node {node} is removed; {text}")),
            None => Look::Done(self.farewell()),
        }
    }

    fn farewell(&self) -> String {
        let node = short(self.node);
        if self.is_reached.get() {
            format!("node {node} is removed, and the others have what it held: stop it")
        } else {
            format!(
                "node {node} is removed; it did not answer, and other owners serve its sessions: never start it again \
                 with its data directory"
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_removed_node_has_a_last_line() {
        let member = |reachable: bool| json!({ "nodes": [{"node": "c3", "stage": "leaving", "reachable": reachable}] });
        for (reachable, expected) in [(true, "have what it held"), (false, "did not answer")] {
            let before = member(true);
            let removal = Removal::of("c3", Cluster(&before));
            assert!(matches!(
                removal.look(Cluster(&member(reachable))),
                Look::Waits(_)
            ));
            let gone = removal.look(Cluster(&json!({})));
            assert!(
                matches!(&gone, Look::Done(text) if text.contains(expected)),
                "{gone:?}"
            );
        }
    }
}
