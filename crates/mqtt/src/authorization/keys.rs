//! Keys of rules: by themselves, or by patterns that are found by what they begin with.

use std::collections::{BTreeMap, BTreeSet};

use super::entries::{Entries, Entry, Search};
use super::pattern::Pattern;

/// The keys of all rules, and who may do one thing with them.
#[derive(Debug, Default)]
pub(super) struct KeyIndex {
    exact: BTreeMap<Box<[u8]>, Entries>,
    /// By the literal that they begin with.
    patterns: BTreeMap<Box<[u8]>, Vec<(Pattern, Entries)>>,
    prefix_lengths: BTreeSet<usize>,
}

impl KeyIndex {
    pub(super) fn insert(&mut self, key: &[u8], entry: Entry) {
        self.exact.entry(key.into()).or_default().push(entry);
    }

    pub(super) fn insert_pattern(&mut self, pattern: &Pattern, entry: Entry) {
        if let Some(key) = pattern.literal() {
            return self.insert(key, entry);
        }
        let prefix = pattern.prefix();
        self.prefix_lengths.insert(prefix.len());
        let patterns = self.patterns.entry(prefix.into()).or_default();
        let known = patterns.iter().position(|(known, _)| known == pattern);
        let at = known.unwrap_or_else(|| {
            patterns.push((pattern.clone(), Entries::default()));
            patterns.len() - 1
        });
        patterns[at].1.push(entry);
    }

    /// Shows the search all rules with this key.
    pub(super) fn find(&self, key: &[u8], search: &mut Search<'_>) {
        if let Some(entries) = self.exact.get(key) {
            search.look_at(entries);
        }
        for length in self.prefix_lengths.range(..=key.len()) {
            let patterns = self.patterns.get(&key[..*length]);
            for (pattern, entries) in patterns.into_iter().flatten() {
                if search.would_take(entries) && pattern.matches(key, search.subject) {
                    search.look_at(entries);
                }
            }
        }
    }
}
