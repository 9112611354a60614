//! What the admin page says of a cluster, for people.

use std::fmt::Write as _;

use serde_json::Value;

use crate::table;

/// What `/cluster` says. What is missing is taken for nothing: the server may be of another version.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cluster<'a>(pub(crate) &'a Value);

impl<'a> Cluster<'a> {
    /// How far a node is; `None`: it is not in the cluster.
    pub(crate) fn stage(self, node: &str) -> Option<&'a str> {
        self.node(node)?["stage"].as_str()
    }

    /// The id of a node in the cluster, by its id, the beginning of it, or its address.
    pub(crate) fn find(self, who: &str) -> Result<String, String> {
        let is_meant = |node: &&Value| text(&node["node"]).starts_with(who) || node["address"] == who;
        let found: Vec<_> = list(&self.0["nodes"]).filter(is_meant).collect();
        match found.as_slice() {
            [node] => Ok(text(&node["node"]).to_owned()),
            [] => Err(format!(
                "no node `{who}` is in the cluster; `statehold cluster status` shows them"
            )),
            _ => Err(format!("`{who}` is the beginning of several ids")),
        }
    }

    /// All of it. `options`: what further commands need.
    pub(crate) fn table(self, options: &str) -> String {
        let mut table = format!(
            "cluster {}, as node {} sees it\n\n",
            text(&self.0["cluster"]),
            text(&self.0["node"])
        );
        table += &self.nodes_table();
        table += "\n";
        table += &self.groups_table();
        for node in list(&self.0["waiting"]) {
            let (node, address) = (text(&node["node"]), text(&node["address"]));
            let _ = write!(
                table,
                "\nnode {node} at {address} waits: statehold cluster add {address}{options}"
            );
        }
        for condition in list(&self.0["conditions"]) {
            let _ = write!(table, "\n! {}", text(&condition["text"]));
        }
        table.trim_end().to_owned()
    }

    /// The nodes.
    pub(crate) fn nodes_table(self) -> String {
        let mut rows = vec![
            [
                "NODE",
                "ADDRESS",
                "STATE",
                "REACHABLE",
                "SESSIONS",
                "CLOCK",
                "LEADS",
            ]
            .map(str::to_owned)
            .to_vec(),
        ];
        for node in list(&self.0["nodes"]) {
            let leads: Vec<_> = list(&node["leads"]).map(name).collect();
            rows.push(vec![
                text(&node["node"]).to_owned(),
                text(&node["address"]).to_owned(),
                text(&node["stage"]).to_owned(),
                if node["reachable"] == true { "yes" } else { "no" }.to_owned(),
                node["sessions"]["state"].as_str().unwrap_or("-").to_owned(),
                clock(node, self.0),
                if leads.is_empty() {
                    "-".to_owned()
                } else {
                    leads.join(",")
                },
            ]);
        }
        table::table(&rows, table::terminal_width())
    }

    /// Who leads what.
    pub(crate) fn groups_table(self) -> String {
        let mut rows = vec![
            ["GROUP", "LEADER", "TERM", "LAST", "VOTERS", "LEARNERS", "BEHIND"]
                .map(str::to_owned)
                .to_vec(),
        ];
        for group in list(&self.0["groups"]) {
            let mut voters = short_list(&group["voters"]);
            if list(&group["outgoing"]).next().is_some() {
                let _ = write!(voters, " (before: {})", short_list(&group["outgoing"]));
            }
            rows.push(vec![
                name(&group["group"]),
                group["leader"].as_str().map_or("none".to_owned(), short),
                group["term"].to_string(),
                group["last"]
                    .as_u64()
                    .map_or("?".to_owned(), |last| last.to_string()),
                voters,
                short_list(&group["learners"]),
                behind(group),
            ]);
        }
        table::table(&rows, table::terminal_width())
    }

    pub(super) fn node(self, node: &str) -> Option<&'a Value> {
        list(&self.0["nodes"]).find(|found| found["node"] == node)
    }
}

/// The beginning of an id: enough to tell a few nodes apart.
pub(crate) fn short(node: &str) -> String {
    node.chars().take(SHORT).collect()
}

const SHORT: usize = 8;

/// How far a node's clock is ahead of the one that tells.
fn clock(node: &Value, cluster: &Value) -> String {
    if node["node"] == cluster["node"] {
        return "-".to_owned();
    }
    let ahead = node["clock_ahead_ms"].as_i64();
    ahead.map_or("?".to_owned(), |ahead| format!("{ahead:+} ms"))
}

/// Replicas that lack something, and how much.
fn behind(group: &Value) -> String {
    let lacking = list(&group["replicas"]).filter_map(|replica| {
        let lacks = replica["lacks"].as_u64()?;
        let node = short(text(&replica["node"]));
        if replica["rolled_back"] == true {
            return Some(format!("{node} (rolled back)"));
        }
        match (lacks, replica["active"] == true) {
            (0, true) => None,
            (lacks, true) => Some(format!("{node}:{lacks}")),
            (lacks, false) => Some(format!("{node}:{lacks} (silent)")),
        }
    });
    let lacking: Vec<_> = lacking.collect();
    if lacking.is_empty() {
        "-".to_owned()
    } else {
        lacking.join(", ")
    }
}

pub(super) fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

pub(super) fn has(nodes: &Value, node: &str) -> bool {
    list(nodes).any(|found| found == node)
}

fn short_list(nodes: &Value) -> String {
    let nodes: Vec<_> = list(nodes).map(|node| short(text(node))).collect();
    if nodes.is_empty() {
        "-".to_owned()
    } else {
        nodes.join(",")
    }
}

pub(super) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or("?")
}

/// A group's number, or its name.
pub(super) fn name(group: &Value) -> String {
    group.as_str().map_or_else(|| group.to_string(), str::to_owned)
}

/// Part of all sessions that each node has by the ring.
pub(crate) fn rings(said: &Value) -> String {
    let mut rows = vec![
        ["NODE", "STATE", "SHARE", "PRIMARY SLOTS", "OWNED SLOTS"]
            .map(str::to_owned)
            .to_vec(),
    ];
    for node in list(&said["nodes"]) {
        let share = node["share"].as_f64().unwrap_or(0.0) * 100.0;
        rows.push(vec![
            text(&node["node"]).to_owned(),
            text(&node["state"]).to_owned(),
            format!("{share:.1} %"),
            node["primary_slots"].to_string(),
            node["owned_slots"].to_string(),
        ]);
    }
    table::table(&rows, table::terminal_width())
}

#[cfg(test)]
pub(super) mod tests {
    use serde_json::json;

    use super::*;

    pub(in crate::cluster) fn cluster() -> Value {
        json!({
            "cluster": "be64b157d668dc2f",
            "node": "00000000000000a1",
            "nodes": [
                {"node": "00000000000000a1", "address": "10.0.0.1:7000", "stage": "member", "reachable": true, "sessions": {"state": "RUNNING"}, "clock_ahead_ms": null, "leads": [0, "control"]},
                {"node": "00000000000000b2", "address": "10.0.0.2:7000", "stage": "joining", "reachable": false, "sessions": {"state": "DEAD"}, "clock_ahead_ms": -12, "leads": []},
            ],
            "groups": [
                {
                    "group": 0, "leader": "00000000000000a1", "term": 3, "last": 100,
                    "voters": ["00000000000000a1"], "outgoing": [], "learners": ["00000000000000b2"],
                    "replicas": [{"node": "00000000000000b2", "lacks": 7, "active": true}],
                },
                {
                    "group": "control", "leader": null, "term": 1, "last": null,
                    "voters": ["00000000000000a1"], "outgoing": [], "learners": [], "replicas": [],
                },
            ],
            "waiting": [{"node": "00000000000000c3", "address": "10.0.0.3:7000"}],
            "conditions": [{"cause": "no_connection", "text": "node a1 cannot send to node b2: start it"}],
        })
    }

    #[test]
    fn everything_is_in_the_table() {
        let cluster = cluster();
        let expected = "\
cluster be64b157d668dc2f, as node 00000000000000a1 sees it

NODE              ADDRESS        STATE    REACHABLE  SESSIONS  CLOCK   LEADS
00000000000000a1  10.0.0.1:7000  member   yes        RUNNING   -       0,control
00000000000000b2  10.0.0.2:7000  joining  no         DEAD      -12 ms  -

GROUP    LEADER    TERM  LAST  VOTERS    LEARNERS  BEHIND
0        00000000  3     100   00000000  00000000  00000000:7
control  none      1     ?     00000000  -         -

node 00000000000000c3 at 10.0.0.3:7000 waits: statehold cluster add 10.0.0.3:7000 --admin URL
! node a1 cannot send to node b2: start it";
        assert_eq!(Cluster(&cluster).table(" --admin URL"), expected);
    }

    #[test]
    fn a_node_is_found_by_its_address_and_the_beginning_of_its_id() {
        let cluster = cluster();
        let find = |who| Cluster(&cluster).find(who);
        assert_eq!(find("10.0.0.2:7000"), Ok("00000000000000b2".to_owned()));
        assert_eq!(find("00000000000000b"), Ok("00000000000000b2".to_owned()));
        assert!(find("0000").is_err_and(|error| error.contains("several")));
        assert!(find("c3").is_err_and(|error| error.contains("no node `c3`")));
        assert!(find("10.0.0.3:7000").is_err(), "it waits");
    }

    /// A page of another version has other fields.
    #[test]
    fn what_is_missing_is_no_failure() {
        let empty = json!({});
        assert!(Cluster(&empty).table("").contains("cluster ?"));
        assert_eq!(Cluster(&empty).stage("a"), None);
    }
}
