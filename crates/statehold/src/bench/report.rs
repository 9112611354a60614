//! What a benchmark found out.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde_json::Value;

use crate::output::{self, Json};

/// Counts and latencies of one thread, and their sum.
#[derive(Debug, Clone)]
pub(super) struct Tally {
    /// In nanoseconds.
    pub(super) latencies: Histogram<u64>,
    /// Operations that ended, well or not.
    pub(super) operations: u64,
    /// Of these, those that failed.
    pub(super) errors: u64,
    /// GETs of keys that do not exist.
    pub(super) missing: u64,
    /// Connections that were lost, and messages of the first.
    pub(super) lost: Vec<String>,
}

/// What is reported.
#[derive(Debug)]
pub(super) struct Report {
    pub(super) name: &'static str,
    pub(super) tally: Tally,
    pub(super) elapsed: Duration,
    /// Of this process.
    pub(super) cpu: Duration,
    /// Further lines: name and number.
    pub(super) extra: Vec<(&'static str, f64)>,
}

impl Tally {
    pub(super) fn new() -> anyhow::Result<Self> {
        Ok(Self {
            latencies: Histogram::new_with_bounds(1, LATENCY_MAX_NS, 3)?,
            operations: 0,
            errors: 0,
            missing: 0,
            lost: Vec::new(),
        })
    }

    pub(super) fn record(&mut self, latency: Duration) {
        self.operations += 1;
        let nanoseconds = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
        self.latencies.saturating_record(nanoseconds);
    }

    pub(super) fn add(&mut self, other: Self) -> anyhow::Result<()> {
        self.latencies.add(other.latencies)?;
        self.operations += other.operations;
        self.errors += other.errors;
        self.missing += other.missing;
        self.lost.extend(other.lost);
        Ok(())
    }
}

impl Report {
    pub(super) fn rate(&self) -> f64 {
        self.tally.operations as f64 / self.elapsed.as_secs_f64().max(1e-9)
    }

    fn cpu_per_operation_us(&self) -> f64 {
        self.cpu.as_secs_f64() * 1e6 / (self.tally.operations.max(1) as f64)
    }

    fn milliseconds(&self, quantile: f64) -> f64 {
        self.tally.latencies.value_at_quantile(quantile) as f64 / 1e6
    }

    /// Nothing went wrong.
    pub(super) fn is_clean(&self) -> bool {
        self.tally.errors == 0 && self.tally.lost.is_empty()
    }

    pub(super) fn print(&self, json: bool) -> std::io::Result<()> {
        if json {
            self.print_json()
        } else {
            self.print_text()
        }
    }

    fn print_json(&self) -> std::io::Result<()> {
        let mut json = Json::new()
            .with("benchmark", self.name)
            .with("operations", self.tally.operations)
            .with("seconds", number(self.elapsed.as_secs_f64()))
            .with("rate_per_second", number(self.rate()));
        for (name, quantile) in QUANTILES {
            json = json.with(&format!("{name}_ms"), number(self.milliseconds(quantile)));
        }
        json = json
            .with("errors", self.tally.errors)
            .with("missing", self.tally.missing)
            .with("connections_lost", self.tally.lost.len())
            .with("load_cpu_us_per_operation", number(self.cpu_per_operation_us()))
            .with(
                "load_cpu_share",
                round(self.cpu.as_secs_f64() / self.elapsed.as_secs_f64().max(1e-9)),
            );
        for (name, value) in &self.extra {
            json = json.with(name, number(*value));
        }
        json.print()
    }

    fn print_text(&self) -> std::io::Result<()> {
        let latencies: Vec<_> = QUANTILES
            .iter()
            .map(|(name, quantile)| format!("{name} {:.3} ms", self.milliseconds(*quantile)))
            .collect();
        output::line(format!("{}: {:.0}/s", self.name, self.rate()))?;
        output::line(format!("  latency  {}", latencies.join("  ")))?;
        let elapsed = self.elapsed.as_secs_f64();
        output::line(format!(
            "  {} operations in {elapsed:.2} s",
            self.tally.operations
        ))?;
        let (errors, missing, lost) = (self.tally.errors, self.tally.missing, self.tally.lost.len());
        output::line(format!(
            "  {errors} errors, {missing} missing, {lost} connections lost"
        ))?;
        if let Some(first) = self.tally.lost.first() {
            output::line(format!("  the first: {first}"))?;
        }
        let share = 100.0 * self.cpu.as_secs_f64() / elapsed.max(1e-9);
        output::line(format!(
            "  the load itself: {:.2} us each, {share:.0} % of a core",
            self.cpu_per_operation_us()
        ))?;
        for (name, number) in &self.extra {
            output::line(format!("  {}: {}", name.replace('_', " "), round(*number)))?;
        }
        Ok(())
    }
}

/// A JSON number, without a fraction where there is none.
fn number(number: f64) -> Value {
    let rounded = round(number);
    if rounded.fract() == 0.0 && rounded.abs() < 1e15 {
        Value::from(rounded as i64)
    } else {
        Value::from(rounded)
    }
}

/// Three decimals are more than a measurement is good for.
fn round(number: f64) -> f64 {
    (number * 1000.0).round() / 1000.0
}

const QUANTILES: [(&str, f64); 4] = [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999), ("max", 1.0)];
/// Longer latencies count as this: 10 minutes.
const LATENCY_MAX_NS: u64 = 600_000_000_000;
