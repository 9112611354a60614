//! S3: nothing that was taken away comes back, and nothing that was retained and acknowledged is lost.
//!
//! Each topic is retained once in a run, and perhaps taken away for good. When everything is at rest, whatever happened before, no node has what was
//! taken away and acknowledged: also none that was away meanwhile, and had it still. (A node that is lost for ever takes along what it acknowledged while it was
//! alone.) What was acknowledged and never asked to be taken away is there, as long as
//! no node was lost for ever, with what only it and others that are lost had.

use std::collections::{BTreeMap, BTreeSet};

/// What clients were told.
#[derive(Debug, Default)]
pub(crate) struct Retained {
    kept: BTreeSet<String>,
    asked: BTreeSet<String>,
    /// With the node that acknowledged it.
    gone: BTreeMap<String, usize>,
}

impl Retained {
    /// A message was acknowledged.
    pub(crate) fn kept(&mut self, topic: String) {
        self.kept.insert(topic);
    }

    /// Somebody wants a topic to be cleared.
    pub(crate) fn asked(&mut self, topic: String) {
        self.asked.insert(topic);
    }

    /// A node has acknowledged that.
    pub(crate) fn gone(&mut self, topic: String, node: usize) {
        self.gone.insert(topic, node);
    }

    /// A node is lost for ever, or was removed: what it has acknowledged while it was alone is lost with it.
    pub(crate) fn lost(&mut self, node: usize) {
        self.gone.retain(|_, by| *by != node);
    }

    /// Whether a topic's message was acknowledged, and nobody has wanted to take it away.
    pub(crate) fn is_kept(&self, topic: &str) -> bool {
        self.kept.contains(topic) && !self.asked.contains(topic)
    }

    /// How many were taken away.
    pub(crate) fn gone_len(&self) -> usize {
        self.gone.len()
    }

    /// At rest: what a node has. `is_complete`: no node was lost.
    pub(crate) fn check(&self, node: u64, found: &BTreeSet<&str>, is_complete: bool) -> Result<(), String> {
        let back = self.gone.iter().find(|(topic, _)| found.contains(topic.as_str()));
        if let Some((topic, by)) = back {
            let by = by + 1;
            return Err(format!(
                "S3: {topic} was taken away at node {by}, and node {node} has it again"
            ));
        }
        let kept = self
            .kept
            .iter()
            .filter(|topic| is_complete && self.is_kept(topic));
        match kept.into_iter().find(|topic| !found.contains(topic.as_str())) {
            Some(topic) => Err(format!(
                "S3: {topic} is retained, and node {node} does not have it"
            )),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_back_and_what_is_lost_breaks_the_promise() {
        let mut retained = Retained::default();
        for topic in ["kept", "asked", "gone"] {
            retained.kept(topic.to_owned());
        }
        retained.asked("asked".to_owned());
        retained.asked("gone".to_owned());
        retained.gone("gone".to_owned(), 1);
        let check = |found: &[&str], is_complete| {
            let found = found.iter().copied().collect();
            retained.check(1, &found, is_complete).is_ok()
        };
        assert!(check(&["kept"], true) && check(&["kept", "asked"], true));
        assert!(!check(&["kept", "gone"], true), "it came back");
        assert!(!check(&["asked"], true), "it is lost");
        assert!(check(&["asked"], false), "with its node");
    }
}
