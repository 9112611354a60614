//! One look at a node.

use std::collections::BTreeMap;
use std::time::Instant;

use serde_json::Value;

/// What was seen at one moment.
#[derive(Debug)]
pub(super) struct Sample {
    pub(super) at: Instant,
    /// By name, with labels as they stand in the page.
    figures: BTreeMap<String, f64>,
    /// What the pages of JSON said.
    pub(super) said: Value,
}

impl Sample {
    /// `metrics`: the page in the text format of Prometheus.
    pub(super) fn new(at: Instant, metrics: &str, said: Value) -> Self {
        let lines = metrics.lines().filter(|line| !line.starts_with('#'));
        let figures = lines.filter_map(|line| {
            let (name, number) = line.rsplit_once(' ')?;
            Some((name.to_owned(), number.parse().ok()?))
        });
        Self {
            at,
            figures: figures.collect(),
            said,
        }
    }

    /// The sum of all with this name, and with this label if one is named.
    pub(super) fn sum(&self, name: &str, label: &str) -> f64 {
        let from = self.figures.range(name.to_owned()..);
        let same = from.take_while(|(found, _)| found.starts_with(name));
        let is_meant = |found: &str| {
            let labels = &found[name.len()..];
            (labels.is_empty() || labels.starts_with('{')) && (label.is_empty() || labels.contains(label))
        };
        same.filter(|(found, _)| is_meant(found))
            .map(|(_, number)| number)
            .sum()
    }

    /// The greatest of all with this name.
    pub(super) fn max(&self, name: &str) -> f64 {
        let from = self.figures.range(name.to_owned()..);
        let same = from.take_while(|(found, _)| found.starts_with(name));
        same.map(|(_, number)| *number).fold(0.0, f64::max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_found_by_name_and_label() {
        let page = "# HELP a what\na{x=\"1\"} 2\na{x=\"2\"} 3\nab 7\nb 1.5\nc NaN\nnonsense\n";
        let sample = Sample::new(server::clock::instant(), page, Value::Null);
        assert_eq!(sample.sum("a", ""), 5.0);
        assert_eq!(sample.sum("a", "x=\"2\""), 3.0);
        assert_eq!(sample.sum("ab", ""), 7.0);
        assert_eq!(sample.sum("nothing", ""), 0.0);
        assert_eq!(sample.max("a"), 7.0);
    }
}
