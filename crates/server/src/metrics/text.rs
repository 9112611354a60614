//! The text format of Prometheus, version 0.0.4.

use std::fmt::Write as _;

use super::Histogram;

/// A page that is being written: families of metrics, one after the other.
#[derive(Debug, Default)]
pub(super) struct Page {
    out: String,
    name: &'static str,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Kind {
    Counter,
    Gauge,
    Histogram,
}

impl Page {
    /// Begins a family. What follows until the next one belongs to it.
    pub(super) fn family(&mut self, kind: Kind, name: &'static str, help: &str) -> &mut Self {
        let kind = match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        };
        self.name = name;
        let _ = writeln!(
            self.out,
            "# HELP {name} {}\n# TYPE {name} {kind}",
            escape(help, false)
        );
        self
    }

    /// One figure of the family.
    pub(super) fn sample(&mut self, labels: &[(&str, &str)], value: u64) -> &mut Self {
        self.line("", labels, &value.to_string());
        self
    }

    /// One figure that is not whole.
    pub(super) fn sample_f64(&mut self, labels: &[(&str, &str)], value: f64) -> &mut Self {
        self.line("", labels, &value.to_string());
        self
    }

    /// One histogram of the family, in seconds.
    ///
    /// A bucket holds what is below its border; measurements are cut to whole microseconds, so that is what `le` means but for
    /// a measurement of exactly the border.
    pub(super) fn histogram(&mut self, labels: &[(&str, &str)], histogram: &Histogram) -> &mut Self {
        for (border, below) in histogram.below_powers_of_two() {
            let border = seconds(border).to_string();
            self.line("_bucket", &with(labels, ("le", &border)), &below.to_string());
        }
        self.line(
            "_bucket",
            &with(labels, ("le", "+Inf")),
            &histogram.count().to_string(),
        );
        self.line("_sum", labels, &seconds(histogram.sum()).to_string());
        self.line("_count", labels, &histogram.count().to_string());
        self
    }

    pub(super) fn finish(self) -> String {
        self.out
    }

    fn line(&mut self, suffix: &str, labels: &[(&str, &str)], value: &str) {
        let _ = write!(self.out, "{}{suffix}", self.name);
        for (index, (label, text)) in labels.iter().enumerate() {
            let opening = if index == 0 { '{' } else { ',' };
            let _ = write!(self.out, "{opening}{label}=\"{}\"", escape(text, true));
        }
        let closing = if labels.is_empty() { "" } else { "}" };
        let _ = writeln!(self.out, "{closing} {value}");
    }
}

fn with<'a>(labels: &[(&'a str, &'a str)], more: (&'a str, &'a str)) -> Vec<(&'a str, &'a str)> {
    labels.iter().copied().chain([more]).collect()
}

fn seconds(micros: u64) -> f64 {
    micros as f64 / 1_000_000.0
}

fn escape(text: &str, quotes: bool) -> String {
    let escaped = text.replace('\\', "\\\\").replace('\n', "\\n");
    if quotes {
        escaped.replace('"', "\\\"")
    } else {
        escaped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_stand_under_their_family() {
        let mut page = Page::default();
        page.family(Kind::Counter, "a_total", "Things.\nMore \\ things.")
            .sample(&[], 5);
        page.family(Kind::Gauge, "b", "Others.")
            .sample(&[("x", "a\"b\\c\nd"), ("y", "2")], 7)
            .sample_f64(&[], 0.5);
        assert_eq!(
            page.finish(),
            "# HELP a_total Things.\\nMore \\\\ things.\n# TYPE a_total counter\na_total 5\n\
             # HELP b Others.\n# TYPE b gauge\nb{x=\"a\\\"b\\\\c\\nd\",y=\"2\"} 7\nb 0.5\n"
        );
    }

    #[test]
    fn a_histogram_is_cumulative_and_in_seconds() {
        let mut histogram = Histogram::default();
        [10, 20, 1_000_000]
            .into_iter()
            .for_each(|micros| histogram.record(micros));
        let mut page = Page::default();
        page.family(Kind::Histogram, "h_seconds", "Time.")
            .histogram(&[("verb", "get")], &histogram);
        let text = page.finish();
        for line in [
            "h_seconds_bucket{verb=\"get\",le=\"0.000016\"} 1",
            "h_seconds_bucket{verb=\"get\",le=\"0.000032\"} 2",
            "h_seconds_bucket{verb=\"get\",le=\"1.048576\"} 3",
            "h_seconds_bucket{verb=\"get\",le=\"+Inf\"} 3",
            "h_seconds_sum{verb=\"get\"} 1.00003",
            "h_seconds_count{verb=\"get\"} 3",
        ] {
            assert!(
                text.lines().any(|found| found == line),
                "{line} is not in\n{text}"
            );
        }
    }
}
