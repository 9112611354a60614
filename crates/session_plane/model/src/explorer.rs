//! Explorer: many histories, and the fewest actions with which one still breaks a promise.

use std::collections::BTreeMap;
use std::fmt;

use crate::node::Counters;
use crate::rules::Rules;
use crate::world::{Feature, Outcome, Report, World};

/// Broken histories of one promise.
#[derive(Clone, Copy, Debug)]
pub struct Broken {
    pub histories: u64,
    pub first_seed: u64,
}

/// What a range of seeds showed.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    pub histories: u64,
    pub left_out: u64,
    pub ticks: u64,
    pub messages: u64,
    pub counters: Counters,
    /// By the promise that was broken.
    pub broken: BTreeMap<String, Broken>,
}

impl Findings {
    pub fn broken_histories(&self) -> u64 {
        self.broken.values().map(|broken| broken.histories).sum()
    }

    /// Adds a history; gives the text of a broken promise.
    pub fn add(&mut self, seed: u64, report: &Report) -> Option<String> {
        self.histories += 1;
        self.ticks += u64::from(report.ticks);
        self.messages += report.messages;
        self.counters.add(&report.counters);
        match &report.outcome {
            Outcome::Kept => None,
            Outcome::LeftOut => {
                self.left_out += 1;
                None
            }
            Outcome::Broken(text) => {
                let new = Broken {
                    histories: 0,
                    first_seed: seed,
                };
                self.broken.entry(promise_of(text)).or_insert(new).histories += 1;
                Some(text.clone())
            }
        }
    }
}

impl fmt::Display for Findings {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Findings {
            histories,
            left_out,
            ticks,
            messages,
            ..
        } = self;
        writeln!(
            to,
            "{histories} histories, {ticks} ticks, {messages} messages, {left_out} left out"
        )?;
        for (promise, broken) in &self.broken {
            writeln!(
                to,
                "{promise}: {} histories, first seed {}",
                broken.histories, broken.first_seed
            )?;
        }
        write!(to, "{} broken; {:?}", self.broken_histories(), self.counters)
    }
}

fn promise_of(text: &str) -> String {
    text.split(':').next().unwrap_or(text).to_owned()
}

/// Plays one history.
pub fn play(seed: u64, rules: &Rules, skipped: &[u32], tracing: bool) -> Report {
    World::new(seed, rules.clone(), skipped.to_vec(), tracing).play()
}

/// The history of `seed` has `feature`.
pub fn has(seed: u64, feature: Feature) -> bool {
    World::new(seed, Rules::default(), Vec::new(), false).has(feature)
}

/// Leaves actions of a broken history out, one at a time, while the same promise stays broken; gives those left out.
///
/// None: the history breaks no promise.
pub fn minimise(seed: u64, rules: &Rules) -> Option<Vec<u32>> {
    let broken = |skipped: &[u32]| match play(seed, rules, skipped, false).outcome {
        Outcome::Broken(text) => Some(promise_of(&text)),
        Outcome::Kept | Outcome::LeftOut => None,
    };
    let promise = broken(&[])?;
    let actions = play(seed, rules, &[], false).actions;
    let mut skipped: Vec<u32> = Vec::new();
    loop {
        let before = skipped.len();
        for action in 0..actions {
            if skipped.contains(&action) {
                continue;
            }
            skipped.push(action);
            if broken(&skipped).as_ref() != Some(&promise) {
                skipped.pop();
            }
        }
        if skipped.len() == before {
            return Some(skipped);
        }
    }
}
