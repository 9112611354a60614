//! The nodes that a backup is of, or is put back to.

use std::collections::BTreeSet;

use anyhow::bail;
use clap::Args;
use serde_json::Value;
use server::{AdminClient, AdminClientError};

use super::retry::Passing;
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
        let mut views = Vec::new();
        for url in std::iter::once(&self.admin.admin).chain(&self.also) {
            let client = self.admin.client_of(url)?;
            let has = client.get("/api/backup").await?;
            let id = has["node"].as_str().unwrap_or_default().to_owned();
            if all.iter().any(|node: &Node| node.id == id) {
                return Err(UsageError(format!("{url} is node {id}, which is named already")).into());
            }
            views.push(match client.get("/cluster").await {
                Ok(view) => view,
                Err(error) if admin::is_not_found(&error) => Value::Null,
                Err(error) => return Err(error.into()),
            });
            all.push(Node { id, client, has });
        }
        let cluster = views[0]["cluster"].as_str().unwrap_or_default().to_owned();
        let nodes = Nodes { all, cluster };
        nodes.check(&views, may_miss)?;
        Ok(nodes.sorted())
    }
}

impl Nodes {
    fn sorted(mut self) -> Self {
        self.all.sort_by(|a, b| a.id.cmp(&b.id));
        self
    }

    /// Compares the nodes with the members that any of them knows: one that has just started may not know the last ones yet.
    fn check(&self, views: &[Value], may_miss: bool) -> anyhow::Result<()> {
        let foreign = self
            .all
            .iter()
            .zip(views)
            .find(|(_, view)| view["cluster"] != views[0]["cluster"]);
        if let Some((node, _)) = foreign {
            bail!("node {} is not of the same cluster as the first one", node.id);
        }
        let members: BTreeSet<&str> = views
            .iter()
            .flat_map(|view| view["nodes"].as_array().map(Vec::as_slice).unwrap_or_default())
            .filter_map(|node| node["node"].as_str())
            .collect();
        if let Some(node) = self.all.iter().find(|node| !members.contains(&*node.id))
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

    /// States of all nodes, as counters that change when sessions go from one node to another, and with each start of a node.
    ///
    /// # Errors
    /// If a node is joining, merging or leaving: that passes.
    pub(super) async fn states(&self) -> anyhow::Result<Vec<Value>> {
        let mut states = Vec::new();
        for node in &self.all {
            let said = node.client.get("/api/node").await?;
            let state = said["state"].as_str().unwrap_or_default();
            if state != "RUNNING" {
                let id = &node.id;
                let why =
                    format!("node {id} is {state}: sessions go from one node to another until it is RUNNING");
                return Err(Passing(why).into());
            }
            states.push(said["state_number"].clone());
        }
        Ok(states)
    }

    /// Nodes that have a copy of a group, the one with the longest log first.
    pub(super) fn by_log_end(&self, group: u32) -> Vec<&Node> {
        let end = |node: &Node| {
            let end = &node.has["log_ends"][group as usize];
            Some((end["term"].as_u64()?, end["index"].as_u64()?))
        };
        let mut nodes: Vec<_> = self.all.iter().filter(|node| end(node).is_some()).collect();
        nodes.sort_by_key(|node| std::cmp::Reverse(end(node)));
        nodes
    }
}

/// Whether a refusal is for this node and this moment: another node may do it.
pub(super) fn is_elsewhere(error: &AdminClientError) -> bool {
    matches!(error, AdminClientError::Refused { status: 409, .. })
}
