//! The nodes that a backup is of, or is put back to.

use anyhow::bail;
use clap::Args;
use serde_json::Value;
use server::{AdminClient, AdminClientError};

use crate::admin::{self, AdminArgs};
use crate::exit::UsageError;

/// Which nodes.
#[derive(Debug, Args)]
pub(super) struct NodesArgs {
    /// The admin pages of another node of the cluster; once for each
    #[arg(long, value_name = "URL", help_heading = "Admin pages")]
    also: Vec<String>,
    #[command(flatten)]
    pub(super) admin: AdminArgs,
}

/// A node that was reached.
pub(super) struct Node {
    pub(super) id: String,
    pub(super) client: AdminClient,
    /// What `/api/backup` says.
    pub(super) has: Value,
}

/// All of them, in the order of their ids.
pub(super) struct Nodes {
    pub(super) all: Vec<Node>,
    /// The cluster's id; empty: a server on its own.
    pub(super) cluster: String,
}

impl NodesArgs {
    /// Asks all nodes who they are.
    ///
    /// # Errors
    /// If one of them does not answer, or a node of the cluster is not among them.
    pub(super) async fn reach(&self, may_miss: bool) -> anyhow::Result<Nodes> {
        let mut all = Vec::new();
        for url in std::iter::once(&self.admin.admin).chain(&self.also) {
            let client = self.admin.client_of(url)?;
            let has = client.get("/api/backup").await?;
            let id = has["node"].as_str().unwrap_or_default().to_owned();
            if all.iter().any(|node: &Node| node.id == id) {
                return Err(UsageError(format!("{url} is node {id}, which is named already")).into());
            }
            all.push(Node { id, client, has });
        }
        let cluster = match all[0].client.get("/cluster").await {
            Ok(cluster) => cluster,
            Err(error) if admin::is_not_found(&error) => Value::Null,
            Err(error) => return Err(error.into()),
        };
        all.sort_by(|a, b| a.id.cmp(&b.id));
        let nodes = Nodes {
            all,
            cluster: cluster["cluster"].as_str().unwrap_or_default().to_owned(),
        };
        nodes.check(&cluster, may_miss)?;
        Ok(nodes)
    }
}

impl Nodes {
    fn check(&self, cluster: &Value, may_miss: bool) -> anyhow::Result<()> {
        let members = cluster["nodes"].as_array().map(Vec::as_slice).unwrap_or_default();
        let members: Vec<_> = members.iter().filter_map(|node| node["node"].as_str()).collect();
        if let Some(node) = self.all.iter().find(|node| !members.contains(&&*node.id))
            && (self.all.len() > 1 || !members.is_empty())
        {
            bail!("node {} is not of the same cluster as the first one", node.id);
        }
        let is_named = |id: &&str| self.all.iter().any(|node| node.id == **id);
        let missing: Vec<_> = members.into_iter().filter(|id| !is_named(id)).collect();
        if !may_miss && !missing.is_empty() {
            return Err(UsageError(format!(
                "node {} is of the cluster, too, and has sessions that no other one has: name its admin pages with --also, or go \
                 without it with --allow-missing",
                missing.join(" and node ")
            ))
            .into());
        }
        Ok(())
    }

    /// What changes when sessions go from one node to another: how far each is, and since when.
    ///
    /// # Errors
    /// If a node is on its way.
    pub(super) async fn states(&self) -> anyhow::Result<Vec<String>> {
        let mut states = Vec::new();
        for node in &self.all {
            let said = node.client.get("/api/node").await?;
            let state = said["state"].as_str().unwrap_or_default();
            if state != "RUNNING" {
                bail!(
                    "node {} is {state}: sessions go from one node to another now; try again when it is RUNNING",
                    node.id
                );
            }
            states.push(format!("{state} {}", said["state_since"]));
        }
        Ok(states)
    }
}

/// Whether it may go better at another node, or later.
pub(super) fn is_elsewhere(error: &AdminClientError) -> bool {
    matches!(error, AdminClientError::Refused { status: 409, .. })
}
