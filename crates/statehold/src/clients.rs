//! `statehold clients`: clients of a cluster, over the admin pages of one node.

use clap::{Args, Subcommand};
use serde_json::{Value, json};
use server::{AdminClient, AdminClientError};

use crate::admin::{AdminArgs, ListArgs, is_not_found, path};
use crate::exit::{self, Exit};
use crate::output;
use crate::table::{bytes, cell, table, terminal_width};

/// List the clients of a cluster, look at one, end its connection.
///
/// The command asks the admin pages of one node, which knows all clients of its cluster. Only the node that a client is connected to knows its address,
/// and can end its connection; only the owners of its session know its queue. `--admin` says which node is asked.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ClientsCommand {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// List clients, connected or not; exit code 1: there is none
    List(List),
    /// Show one with its subscriptions and its will; exit code 1: the node does not know it
    Show(Show),
    /// End the connection of a client, which is told so
    ///
    /// Its session stays, and its will is published. A client that is not stopped connects again at once. Exit code 1: it is not connected
    /// to this node.
    Disconnect(Disconnect),
}

#[derive(Debug, Args)]
struct List {
    /// Only those with this text in their client id, in capitals or not
    #[arg(long, value_name = "TEXT")]
    search: Option<String>,
    /// Only those that are connected
    #[arg(long)]
    connected: bool,
    /// Only those that are not connected
    #[arg(long, conflicts_with = "connected")]
    disconnected: bool,
    #[command(flatten)]
    list: ListArgs,
    #[command(flatten)]
    admin: AdminArgs,
}

#[derive(Debug, Args)]
struct Show {
    /// Its client id
    client_id: String,
    /// Print what the admin page says, as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    admin: AdminArgs,
}

#[derive(Debug, Args)]
struct Disconnect {
    /// Its client id
    client_id: String,
    /// What it is told
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// Print what the admin page says, as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    admin: AdminArgs,
}

impl ClientsCommand {
    pub(crate) fn run(self) -> anyhow::Result<Exit> {
        match self.what {
            What::List(list) => list.admin.run(async |client| list.run(client).await),
            What::Show(show) => show.admin.run(async |client| show.run(client).await),
            What::Disconnect(disconnect) => disconnect.admin.run(async |client| disconnect.run(client).await),
        }
    }
}

impl List {
    async fn run(&self, client: &AdminClient) -> anyhow::Result<Exit> {
        let mut filters = Vec::new();
        filters.extend(self.search.as_deref().map(|search| ("search", search)));
        filters.extend(self.connected.then_some(("connected", "true")));
        filters.extend(self.disconnected.then_some(("connected", "false")));
        let list = ("/api/clients", "clients", filters.as_slice());
        let is_any = self.list.show(client, list, listed).await?;
        Ok(if is_any { Exit::Done } else { Exit::NotFound })
    }
}

impl Show {
    async fn run(&self, client: &AdminClient) -> anyhow::Result<Exit> {
        let found = client.get(&path(&["clients", &self.client_id])).await;
        let Some(found) = known(found)? else {
            return Ok(Exit::NotFound);
        };
        if self.json {
            output::line(serde_json::to_string_pretty(&found)?)?;
        } else {
            output::raw(shown(&found).as_bytes())?;
        }
        Ok(Exit::Done)
    }
}

impl Disconnect {
    async fn run(&self, client: &AdminClient) -> anyhow::Result<Exit> {
        let asked = match &self.reason {
            Some(reason) => json!({ "reason": reason }),
            None => json!({}),
        };
        let done = client
            .post(&path(&["clients", &self.client_id, "disconnect"]), &asked)
            .await;
        let Some(done) = known(done)? else {
            return Ok(Exit::NotFound);
        };
        if self.json {
            output::line(done.to_string())?;
        } else {
            exit::note(&format!("{} is disconnected", self.client_id));
        }
        Ok(Exit::Done)
    }
}

/// `None`, and a note, if there is no such thing.
pub(crate) fn known(answer: Result<Value, AdminClientError>) -> Result<Option<Value>, AdminClientError> {
    match answer {
        Err(error) if is_not_found(&error) => {
            exit::note(&error.to_string());
            Ok(None)
        }
        other => other.map(Some),
    }
}

fn listed(clients: &[Value]) -> String {
    let head = [
        "CLIENT",
        "CONNECTED",
        "ADDRESS",
        "PRINCIPAL",
        "SUBSCRIPTIONS",
        "QUEUED",
        "BYTES",
        "IN FLIGHT",
    ];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for client in clients {
        rows.push(vec![
            cell(&client["client_id"]),
            connected(client),
            address(client),
            cell(&client["principal"]),
            cell(&client["subscriptions"]),
            cell(&client["queued_messages"]),
            bytes(&client["queued_bytes"]),
            cell(&client["in_flight"]),
        ]);
    }
    table(&rows, terminal_width())
}

/// Time since which a client is connected, without fractions of a second.
fn connected(client: &Value) -> String {
    let since = client["connected_since"].as_str().unwrap_or("yes");
    match client["connected"].as_bool() {
        Some(true) => since.split('.').next().unwrap_or(since).to_owned(),
        _ => "no".to_owned(),
    }
}

fn address(client: &Value) -> String {
    match (client["address"].as_str(), client["connected_to"].as_str()) {
        (None, Some(node)) => format!("at node {node}"),
        _ => cell(&client["address"]),
    }
}

fn shown(client: &Value) -> String {
    let expiry = match client["session_expiry_s"].as_u64() {
        Some(seconds) if seconds == u64::from(u32::MAX) => "never".to_owned(),
        Some(seconds) => format!("{seconds} s after its connection"),
        None => "-".to_owned(),
    };
    let will = match &client["will"] {
        Value::Object(will) => format!(
            "{} ({} bytes, QoS {}, after {} s)",
            cell(&will["topic"]),
            will["bytes"],
            will["qos"],
            will["delay_s"]
        ),
        _ => "-".to_owned(),
    };
    let lines = [
        ("client", cell(&client["client_id"])),
        ("principal", cell(&client["principal"])),
        ("connected", connected(client)),
        ("address", address(client)),
        ("listener", cell(&client["listener"])),
        ("MQTT", cell(&client["protocol"])),
        (
            "keep alive",
            client["keep_alive_s"]
                .as_u64()
                .map_or("-".to_owned(), |s| format!("{s} s")),
        ),
        ("session ends", expiry),
        (
            "queued",
            format!(
                "{} messages, {}",
                cell(&client["queued_messages"]),
                bytes(&client["queued_bytes"])
            ),
        ),
        ("in flight", cell(&client["in_flight"])),
        ("will", will),
        ("owners", places(&client["owners"])),
    ];
    let rows: Vec<_> = lines.map(|(name, value)| vec![name.to_owned(), value]).to_vec();
    let mut shown = table(&rows, None);
    let subscriptions = client["subscriptions_list"]
        .as_array()
        .map_or(&[][..], Vec::as_slice);
    if !subscriptions.is_empty() {
        shown += "\n";
        shown += &subscribed(subscriptions);
    }
    let more = client["subscriptions"]
        .as_u64()
        .unwrap_or(0)
        .saturating_sub(subscriptions.len() as u64);
    if more > 0 && !subscriptions.is_empty() {
        shown += &format!("and {more} more\n");
    }
    shown
}

fn places(nodes: &Value) -> String {
    let nodes: Vec<_> = nodes.as_array().into_iter().flatten().map(cell).collect();
    if nodes.is_empty() {
        "-".to_owned()
    } else {
        nodes.join(", ")
    }
}

fn subscribed(subscriptions: &[Value]) -> String {
    let mut rows = vec![
        ["FILTER", "SHARE", "QOS", "IDENTIFIER", "OPTIONS"]
            .map(str::to_owned)
            .to_vec(),
    ];
    for subscription in subscriptions {
        let mut options = Vec::new();
        for option in ["no_local", "retain_as_published"] {
            options.extend((subscription[option] == true).then(|| option.replace('_', " ")));
        }
        if let Some(handling @ 1..) = subscription["retain_handling"].as_u64() {
            options.push(format!("retain handling {handling}"));
        }
        rows.push(vec![
            cell(&subscription["filter"]),
            cell(&subscription["share"]),
            cell(&subscription["qos"]),
            cell(&subscription["identifier"]),
            if options.is_empty() {
                "-".to_owned()
            } else {
                options.join(", ")
            },
        ]);
    }
    table(&rows, terminal_width())
}

const EXAMPLES: &str = "\
Examples:
  statehold clients list
  statehold clients list --search pump --connected --json
  statehold clients show pump-7
  statehold clients disconnect pump-7 --reason 'replaced by pump-8' --token-file token

Changes need a token of the scope `write` (`statehold admin-token`). The variables STATEHOLD_ADMIN and STATEHOLD_ADMIN_TOKEN stand
for the options.";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_is_shown_with_everything() {
        let client = json!({
            "client_id": "pump", "principal": "alice", "connected": true, "connected_to": "00000000000000a1", "address": "10.0.0.9:51000",
            "listener": "0.0.0.0:1883", "protocol": "5", "connected_since": "2026-11-22T10:00:00.123Z", "keep_alive_s": 30,
            "session_expiry_s": 4_294_967_295_u32, "subscriptions": 2, "queued_messages": 3, "queued_bytes": 2_048, "in_flight": 1,
            "will": {"topic": "gone", "qos": 1, "retain": false, "delay_s": 5, "bytes": 4},
            "owners": ["00000000000000a1", "00000000000000b2"],
            "subscriptions_list": [{"filter": "a/+", "share": null, "qos": 1, "no_local": true, "retain_as_published": false, "retain_handling": 2, "identifier": null}],
        });
        let expected = "\
client        pump
principal     alice
connected     2026-11-22T10:00:00
address       10.0.0.9:51000
listener      0.0.0.0:1883
MQTT          5
keep alive    30 s
session ends  never
queued        3 messages, 2.0 KiB
in flight     1
will          gone (4 bytes, QoS 1, after 5 s)
owners        00000000000000a1, 00000000000000b2

FILTER  SHARE  QOS  IDENTIFIER  OPTIONS
a/+     -      1    -           no local, retain handling 2
and 1 more
";
        assert_eq!(shown(&client), expected);
    }

    /// A page of another version has other fields.
    #[test]
    fn what_is_missing_is_no_failure() {
        let empty = json!({});
        assert!(shown(&empty).contains("client        -"));
        assert!(listed(&[empty]).contains('-'));
    }
}
