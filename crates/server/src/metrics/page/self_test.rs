//! Metrics of the client inside the server.

use super::super::text::Kind::{Counter, Gauge, Histogram};
use super::super::text::Page;
use crate::self_test::{Results, Verdict};

pub(super) fn write(results: &Results, page: &mut Page) {
    page.family(
        Gauge,
        "statehold_self_test_ok",
        "1 if the last round of the self-test went as it should, else 0; absent before the first one, and without the setting self_test.interval.",
    );
    if let Some(last) = &results.last {
        page.sample(&[], u64::from(last.is_ok()));
    }
    page.family(
        Counter,
        "statehold_self_test_steps_total",
        "Steps of the self-test, by step (connect, subscribe, publish, receive, set, get, delete) and result: ok, failed (refused, or the connection ended), timed_out, wrong (something else came than what has to).",
    );
    if results.last.is_some() {
        for (step, figures) in results.steps() {
            for verdict in Verdict::ALL {
                let labels = [("step", step.name()), ("result", verdict.name())];
                page.sample(&labels, figures.counts[verdict as usize]);
            }
        }
    }
    page.family(
        Histogram,
        "statehold_self_test_step_seconds",
        "How long steps of the self-test took that went as they should, by step.",
    );
    if results.last.is_some() {
        for (step, figures) in results.steps() {
            page.histogram(&[("step", step.name())], &figures.took);
        }
    }
}
