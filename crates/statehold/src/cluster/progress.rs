//! Progress of changes, as the admin page of a cluster shows it.

use serde_json::Value;

use super::show::{Cluster, has, list, name, short, text};

impl<'a> Cluster<'a> {
    /// Whether a node has caught up everywhere, and says itself that it runs.
    pub(crate) fn has_joined(self, node: &str) -> bool {
        self.stage(node) == Some("member") && self.sessions(node) == Some("RUNNING")
    }

    /// How far a node is with sessions, as it says itself.
    fn sessions(self, node: &str) -> Option<&'a str> {
        self.node(node)?["sessions"]["state"].as_str()
    }

    /// Whether a node leads a group, and has said so itself: nobody else knows the end of its log.
    pub(crate) fn leads(self, node: &str, group: &Value) -> bool {
        let mut groups = list(&self.0["groups"]);
        let found = groups.find(|found| found["group"] == *group);
        found.is_some_and(|found| found["leader"] == node && found["last"].is_u64())
    }

    /// Says that a node was let in, if it was. It waits until then.
    pub(crate) fn joins(self, who: &str) -> Option<String> {
        let node = self.find(who).ok().filter(|_| !self.waits(who))?;
        Some(format!("node {node} joins"))
    }

    /// Says that the removal of a node was decided, if it was.
    pub(crate) fn leaves(self, node: &str) -> Option<String> {
        let leaves = self.stage(node).is_none_or(|stage| stage == "leaving");
        leaves.then(|| format!("node {node} leaves"))
    }

    /// How far a node is that joins.
    pub(crate) fn joining(self, node: &str) -> String {
        let groups: Vec<_> = list(&self.0["groups"]).collect();
        let is_in = |group: &&Value| ["voters", "learners"].iter().any(|role| has(&group[*role], node));
        let count = groups.iter().copied().filter(|group| is_in(group)).count();
        let lacks = groups.iter().flat_map(|group| list(&group["replicas"]));
        let lacks: u64 = lacks
            .filter(|replica| replica["node"] == node)
            .filter_map(|replica| replica["lacks"].as_u64())
            .sum();
        let all = groups.len();
        let state = self.sessions(node).unwrap_or("?");
        format!(
            "node {}: takes part in {count} of {all} groups, lacks {lacks} entries, is {state}",
            short(node)
        )
    }

    /// How far a node is that leaves.
    pub(crate) fn leaving(self, node: &str) -> String {
        let count = |role: &str| {
            list(&self.0["groups"])
                .filter(|group| has(&group[role], node))
                .count()
        };
        let (votes, learns) = (count("voters"), count("learners"));
        let state = match self.sessions(node) {
            Some("DEAD") => "does not answer: other owners serve its sessions".to_owned(),
            state => format!("is {}", state.unwrap_or("?")),
        };
        format!(
            "node {}: votes in {votes} groups, learns in {learns}, {state}",
            short(node)
        )
    }

    /// Whether the page is that of a node that was removed, and knows it: the others refuse it.
    pub(crate) fn says_itself_removed(self, node: &str) -> bool {
        let mut conditions = list(&self.0["conditions"]);
        self.0["node"] == node
            && self.stage(node) == Some("leaving")
            && conditions.any(|condition| condition["cause"] == "not_a_member")
    }

    /// Votes or copies that the others lack after a removal; `None`: all are there.
    pub(crate) fn shortfall(self) -> Option<String> {
        let groups = list(&self.0["groups"]).find_map(|group| self.shortfall_of_group(group));
        groups.or_else(|| {
            list(&self.0["nodes"]).find_map(|node| {
                let count = node["unmerged_slots"].as_u64().filter(|count| *count > 0)?;
                let node = short(text(&node["node"]));
                Some(format!("node {node} has {count} slots to get from other nodes"))
            })
        })
    }

    fn shortfall_of_group(self, group: &Value) -> Option<String> {
        let number = name(&group["group"]);
        if list(&group["outgoing"]).next().is_some() {
            return Some(format!("group {number} changes its voters"));
        }
        if !group["leader"].is_string() || !group["last"].is_u64() {
            return Some(format!("nobody has said yet that it leads group {number}"));
        }
        let can_vote = |node: &&Value| {
            let is_voter = has(&group["voters"], text(&node["node"]));
            node["stage"] != "leaving" && (node["reachable"] == true || is_voter)
        };
        let there = list(&self.0["nodes"]).filter(can_vote).count();
        // An older server does not say how many there are to be.
        let wanted = usize::try_from(self.0["voters"].as_u64().unwrap_or(0)).ok()?;
        let (voters, wanted) = (list(&group["voters"]).count(), wanted.min(there));
        (voters < wanted).then(|| format!("group {number} has {voters} of {wanted} voters"))
    }

    /// Whether a node was heard in the last seconds.
    pub(crate) fn is_reachable(self, node: &str) -> bool {
        self.node(node).is_some_and(|node| node["reachable"] == true)
    }

    /// Whether a node that waits, by its id or its address, has the address of a node of the cluster.
    pub(crate) fn is_at_address_of(self, who: &str, node: &str) -> bool {
        let address = self.waiting(who).map_or(who, |caller| text(&caller["address"]));
        self.is_address_of(address, node)
    }

    /// Whether this is the address of a node of the cluster.
    pub(crate) fn is_address_of(self, address: &str, node: &str) -> bool {
        self.node(node).is_some_and(|node| node["address"] == address)
    }

    /// Whether a node waits to be added.
    pub(crate) fn waits(self, who: &str) -> bool {
        self.waiting(who).is_some()
    }

    fn waiting(self, who: &str) -> Option<&'a Value> {
        let mut waiting = list(&self.0["waiting"]);
        waiting.find(|caller| caller["node"] == who || caller["address"] == who)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::show::tests::cluster;
    use super::*;

    #[test]
    fn a_change_says_how_far_it_is() {
        let cluster = cluster();
        let node = "00000000000000b2";
        assert_eq!(
            Cluster(&cluster).joining(node),
            "node 00000000: takes part in 1 of 2 groups, lacks 7 entries, is DEAD"
        );
        assert_eq!(
            Cluster(&cluster).leaving(node),
            "node 00000000: votes in 0 groups, learns in 1, does not answer: other owners serve its sessions"
        );
    }

    #[test]
    fn a_change_whose_answer_was_lost_is_seen() {
        let mut cluster = cluster();
        let node = "00000000000000b2";
        assert_eq!(Cluster(&cluster).leaves(node), None);
        cluster["nodes"][1]["stage"] = json!("leaving");
        let leaves = Some("node 00000000000000b2 leaves".to_owned());
        assert_eq!(Cluster(&cluster).leaves(node), leaves);
        assert!(
            Cluster(&cluster).leaves("00000000000000c3").is_some(),
            "it is gone"
        );

        let joins = Some("node 00000000000000b2 joins".to_owned());
        assert_eq!(Cluster(&cluster).joins("10.0.0.2:7000"), joins);
        assert_eq!(Cluster(&cluster).joins("10.0.0.9:7000"), None);
        cluster["waiting"][0]["address"] = json!("10.0.0.2:7000");
        assert_eq!(
            Cluster(&cluster).joins("10.0.0.2:7000"),
            None,
            "another one had the address"
        );
    }

    #[test]
    fn a_node_has_joined_when_it_says_that_it_runs() {
        let mut cluster = cluster();
        let has_joined = |cluster: &Value| Cluster(cluster).has_joined("00000000000000b2");
        cluster["nodes"][1]["stage"] = json!("member");
        assert!(!has_joined(&cluster), "it is dead");
        cluster["nodes"][1]["sessions"]["state"] = json!("RUNNING");
        assert!(has_joined(&cluster));
        cluster["nodes"][1]["stage"] = json!("joining");
        assert!(!has_joined(&cluster), "it lacks something");
    }

    #[test]
    fn a_node_leads_when_it_has_reported_of_its_group() {
        let mut cluster = cluster();
        let leads = |cluster: &Value| Cluster(cluster).leads("00000000000000a1", &json!(0));
        assert!(leads(&cluster));
        assert!(!Cluster(&cluster).leads("00000000000000b2", &json!(0)));
        cluster["groups"][0]["last"] = Value::Null;
        assert!(!leads(&cluster), "it has not said so");
    }

    #[test]
    fn what_is_missing_after_a_removal_is_named() {
        let mut cluster = cluster();
        cluster["voters"] = json!(3);
        cluster["groups"][1]["leader"] = json!("00000000000000a1");
        let shortfall = |cluster: &Value| Cluster(cluster).shortfall();
        let nobody = "nobody has said yet that it leads group control";
        assert_eq!(shortfall(&cluster).as_deref(), Some(nobody));
        cluster["groups"][1]["last"] = json!(7);
        assert_eq!(shortfall(&cluster), None, "the other node is not reached");
        cluster["nodes"][1]["reachable"] = json!(true);
        assert_eq!(shortfall(&cluster).as_deref(), Some("group 0 has 1 of 2 voters"));
        for group in 0..2 {
            cluster["groups"][group]["voters"] = json!(["00000000000000a1", "00000000000000b2"]);
        }
        assert_eq!(shortfall(&cluster), None);
        cluster["nodes"][0]["unmerged_slots"] = json!(4);
        let slots = "node 00000000 has 4 slots to get from other nodes";
        assert_eq!(shortfall(&cluster).as_deref(), Some(slots));
    }

    #[test]
    fn a_removed_node_that_is_asked_says_so_itself() {
        let mut cluster = cluster();
        cluster["nodes"][0]["stage"] = json!("leaving");
        let says = |cluster: &Value| Cluster(cluster).says_itself_removed("00000000000000a1");
        assert!(!says(&cluster), "nobody refuses it yet");
        cluster["conditions"] = json!([{"cause": "not_a_member", "text": "removed"}]);
        assert!(says(&cluster));
    }

    #[test]
    fn a_new_node_may_have_the_address_of_the_old_one() {
        let mut cluster = cluster();
        let old = "00000000000000b2";
        let is_same = |cluster: &Value, who: &str| Cluster(cluster).is_at_address_of(who, old);
        assert!(!is_same(&cluster, "10.0.0.3:7000"));
        assert!(is_same(&cluster, "10.0.0.2:7000"));
        assert!(!Cluster(&cluster).waits("10.0.0.2:7000"));
        cluster["waiting"][0]["address"] = json!("10.0.0.2:7000");
        assert!(is_same(&cluster, "00000000000000c3"));
        assert!(Cluster(&cluster).waits("10.0.0.2:7000"));
    }
}
