//! Which rules say something about one topic, key or connection, and the search for one that holds for a client.

use smallvec::SmallVec;

use super::Decision;
use super::pattern::Pattern;
use super::rules::RuleIndex;
use super::subject::Subject;

/// The rules that allow the same to different clients, in the order of the policy.
#[derive(Debug, Default)]
pub(super) struct Entries(Vec<Entry>);

/// A rule that allows something to those clients whose ids are in a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Entry {
    pub(super) rule: RuleIndex,
    /// Which list, or all clients of the rule.
    pub(super) client_ids: Option<u32>,
}

/// The lists of client ids in a policy.
#[derive(Debug, Default)]
pub(super) struct ClientIdLists(Vec<Vec<Pattern>>);

/// Looks for the first rule of a policy that allows something to a client.
#[derive(Debug)]
pub(super) struct Search<'a> {
    pub(super) subject: &'a Subject,
    /// The rules of the client, as lists that are ordered.
    pub(super) rules: SmallVec<[&'a [RuleIndex]; 4]>,
    pub(super) client_ids: &'a ClientIdLists,
    pub(super) found: Option<RuleIndex>,
}

impl Entries {
    /// Rules come in the order of the policy.
    pub(super) fn push(&mut self, entry: Entry) {
        if self.0.last() == Some(&entry) {
            return;
        }
        assert!(
            self.0.last().is_none_or(|last| last.rule <= entry.rule),
            "rules are compiled in their order"
        );
        self.0.push(entry);
    }

    fn of_rule(&self, rule: RuleIndex) -> impl Iterator<Item = &Entry> {
        let from = self.0.partition_point(|entry| entry.rule < rule);
        self.0[from..].iter().take_while(move |entry| entry.rule == rule)
    }
}

impl ClientIdLists {
    pub(super) fn push(&mut self, patterns: Vec<Pattern>) -> u32 {
        self.0.push(patterns);
        u32::try_from(self.0.len() - 1).expect("a policy has at most TEXTS_MAX texts")
    }

    fn has(&self, list: u32, subject: &Subject) -> bool {
        let patterns = &self.0[list as usize];
        patterns
            .iter()
            .any(|pattern| pattern.matches(subject.client_id.as_bytes(), subject))
    }
}

impl Search<'_> {
    /// What was found.
    pub(super) fn decision(&self) -> Decision {
        self.found.map_or(Decision::Denied, Decision::Allowed)
    }

    /// Takes the first of the entries that is about the client, if none before it has been found elsewhere.
    pub(super) fn look_at(&mut self, entries: &Entries) {
        self.found = self.first_of(entries).or(self.found);
    }

    /// Whether [`Search::look_at`] would take one of them.
    pub(super) fn would_take(&self, entries: &Entries) -> bool {
        self.first_of(entries).is_some()
    }

    /// The shorter list is walked and the longer one searched: often a client has few rules of many, and a topic as well.
    fn first_of(&self, entries: &Entries) -> Option<RuleIndex> {
        let mut first = None;
        let is_before = |rule: RuleIndex, first: Option<RuleIndex>| {
            let known = first.or(self.found);
            known.is_none_or(|known| rule < known)
        };
        for rules in &self.rules {
            let found = if rules.len() < entries.0.len() {
                let mut rules = rules.iter().take_while(|rule| is_before(**rule, first));
                let found = rules.find(|rule| entries.of_rule(**rule).any(|entry| self.is_met(entry)));
                found.copied()
            } else {
                let mut entries = entries.0.iter().take_while(|entry| is_before(entry.rule, first));
                let found =
                    entries.find(|entry| rules.binary_search(&entry.rule).is_ok() && self.is_met(entry));
                found.map(|entry| entry.rule)
            };
            first = found.or(first);
        }
        first
    }

    fn is_met(&self, entry: &Entry) -> bool {
        entry
            .client_ids
            .is_none_or(|list| self.client_ids.has(list, self.subject))
    }
}
