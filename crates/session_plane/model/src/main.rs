//! Command line of the explorer.

use std::hash::{BuildHasher, RandomState};
use std::io::Write;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use session_plane_model::explorer::{self, Findings};
use session_plane_model::rules::{RULES, Rules};
use session_plane_model::world::{Feature, Outcome};

/// Plays random histories of the session plane and checks what it promises.
#[derive(Parser, Debug)]
#[command(version, about)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Plays many histories; fails if one breaks a promise
    Explore {
        /// First seed; random if it is left out
        #[arg(long)]
        first: Option<u64>,
        /// Histories to play
        #[arg(long, default_value_t = 10_000)]
        histories: usize,
        /// Plays only histories that have all of these
        #[arg(long, value_parser = feature, value_delimiter = ',')]
        only: Vec<Feature>,
        /// Broken histories after which to end; 0 for never
        #[arg(long, default_value_t = 5)]
        stop: u64,
        #[command(flatten)]
        rules: Without,
    },
    /// Plays one history and prints what happens
    Replay {
        seed: u64,
        /// Actions to leave out, as `minimise` gives them
        #[arg(long, value_delimiter = ',')]
        skip: Vec<u32>,
        #[command(flatten)]
        rules: Without,
    },
    /// Leaves out what a broken history does not need
    Minimise {
        seed: u64,
        #[command(flatten)]
        rules: Without,
    },
    /// Plays histories without each rule in turn, and says how many break a promise
    Mutate {
        /// First seed
        #[arg(long, default_value_t = 1)]
        first: u64,
        /// Histories to play without each rule
        #[arg(long, default_value_t = 2_000)]
        histories: u64,
    },
    /// Lists the rules
    Rules,
}

#[derive(clap::Args, Debug)]
struct Without {
    /// Rules to take away, by name
    #[arg(long, value_delimiter = ',', value_name = "RULE")]
    without: Vec<String>,
}

impl Without {
    fn rules(&self) -> Result<Rules, String> {
        let mut rules = Rules::default();
        for name in &self.without {
            rules.take_away(name)?;
        }
        Ok(rules)
    }
}

fn main() -> ExitCode {
    match run(&Arguments::parse().command) {
        Ok(code) => code,
        Err(text) => {
            report(&format!("error: {text}"));
            ExitCode::from(2)
        }
    }
}

fn run(command: &Command) -> Result<ExitCode, String> {
    match command {
        Command::Explore {
            first,
            histories,
            only,
            stop,
            rules,
        } => {
            let first = first.unwrap_or_else(|| RandomState::new().hash_one(()) >> 16);
            report(&format!("seeds from {first}"));
            let is_wanted = |seed: &u64| only.iter().all(|feature| explorer::has(*seed, *feature));
            let seeds = (first..).filter(is_wanted).take(*histories);
            Ok(explore(seeds, *stop, &rules.rules()?))
        }
        Command::Replay { seed, skip, rules } => Ok(replay(*seed, skip, &rules.rules()?)),
        Command::Minimise { seed, rules } => Ok(minimise(*seed, &rules.rules()?)),
        Command::Mutate { first, histories } => mutate(*first, *histories),
        Command::Rules => {
            for rule in RULES {
                report(&format!("{:24} {}", rule.name, rule.text));
            }
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// Feature of this name.
fn feature(name: &str) -> Result<Feature, String> {
    let features = [
        Feature::Group,
        Feature::Publishers,
        Feature::Subscribers,
        Feature::Wills,
        Feature::Replacing,
        Feature::Copies,
        Feature::Interruptions,
    ];
    let name_of = |feature: &Feature| format!("{feature:?}").to_lowercase();
    let named = features.into_iter().find(|feature| name_of(feature) == name);
    named.ok_or_else(|| {
        format!(
            "it is one of {}",
            features.map(|feature| name_of(&feature)).join(", ")
        )
    })
}

fn explore(seeds: impl Iterator<Item = u64>, stop: u64, rules: &Rules) -> ExitCode {
    let mut findings = Findings::default();
    for seed in seeds {
        if let Some(text) = findings.add(seed, &explorer::play(seed, rules, &[], false)) {
            report(&format!("seed {seed}: {text}"));
            if stop > 0 && findings.broken_histories() >= stop {
                break;
            }
        }
    }
    report(&findings.to_string());
    success_if(findings.broken.is_empty())
}

fn replay(seed: u64, skip: &[u32], rules: &Rules) -> ExitCode {
    let played = explorer::play(seed, rules, skip, true);
    report_all(&played.trace);
    report(&format!("{:?} after {} ticks", played.outcome, played.ticks));
    success_if(!matches!(played.outcome, Outcome::Broken(_)))
}

fn minimise(seed: u64, rules: &Rules) -> ExitCode {
    let Some(skipped) = explorer::minimise(seed, rules) else {
        report(&format!("seed {seed} breaks no promise"));
        return ExitCode::SUCCESS;
    };
    report_all(&explorer::play(seed, rules, &skipped, true).trace);
    let skipped: Vec<String> = skipped.iter().map(u32::to_string).collect();
    report(&format!("--skip {}", skipped.join(",")));
    ExitCode::FAILURE
}

fn mutate(first: u64, histories: u64) -> Result<ExitCode, String> {
    for rule in RULES {
        let mut rules = Rules::default();
        rules.take_away(rule.name)?;
        let mut findings = Findings::default();
        for seed in first..first.saturating_add(histories) {
            findings.add(seed, &explorer::play(seed, &rules, &[], false));
        }
        let first_seed = findings.broken.values().map(|broken| broken.first_seed).min();
        let first_seed = first_seed.map_or("none".to_owned(), |seed| seed.to_string());
        report(&format!(
            "{:24} {:6} first seed {first_seed}",
            rule.name,
            findings.broken_histories()
        ));
    }
    Ok(ExitCode::SUCCESS)
}

fn success_if(is_success: bool) -> ExitCode {
    if is_success {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Prints a line; ends quietly when nobody reads any more.
fn report(text: &str) {
    if writeln!(std::io::stdout(), "{text}").is_err() {
        std::process::exit(1);
    }
}

fn report_all(lines: &[String]) {
    for line in lines {
        report(line);
    }
}
