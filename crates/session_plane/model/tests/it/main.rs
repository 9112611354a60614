//! The model keeps what the session plane promises, and breaks it without the rules.

use std::collections::BTreeSet;
use std::hash::{BuildHasher, RandomState};
use std::path::Path;

use session_plane_model::explorer::{self, Findings};
use session_plane_model::rules::{RULES, Rule, Rules};
use session_plane_model::world::Outcome;

/// Plays histories from a seed on and fails with each one that breaks a promise.
#[track_caller]
fn explore(first: u64, histories: u64) -> Findings {
    let mut findings = Findings::default();
    let mut broken = Vec::new();
    for seed in first..first + histories {
        let report = explorer::play(seed, &Rules::default(), &[], false);
        broken.extend(
            findings
                .add(seed, &report)
                .map(|text| format!("seed {seed}: {text}")),
        );
    }
    assert!(
        broken.is_empty(),
        "seeds from {first}: {findings}\n{}",
        broken.join("\n")
    );
    findings
}

#[test]
fn fresh_histories_keep_what_is_promised_and_do_something() {
    let findings = explore(RandomState::new().hash_one(()) >> 16, 100);
    let counters = findings.counters;
    let happened = [
        counters.expected,
        counters.delivered,
        counters.crashed,
        counters.disks_lost,
        counters.splits,
        counters.pended,
        counters.resent,
        counters.flushed,
        counters.closed,
        counters.deleted,
        counters.filled,
        counters.completed,
        counters.dropped,
        counters.wills,
        counters.retired,
        counters.shared,
    ];
    assert!(happened.iter().all(|count| *count > 0), "{counters:?}");
    assert!(
        findings.left_out * 3 < findings.histories,
        "too many are left out"
    );
}

#[test]
fn a_history_is_a_function_of_its_seed() {
    for seed in [1, 500_003] {
        let play = || explorer::play(seed, &Rules::default(), &[], false);
        let (one, other) = (play(), play());
        assert_eq!(
            (one.ticks, one.messages, &one.outcome),
            (other.ticks, other.messages, &other.outcome)
        );
    }
}

/// Seeds whose histories broke a promise before a rule was found or mended.
const MENDED: &[u64] = &[
    893,
    1_796_000_000_525,
    1_797_000_002_375,
    1_797_000_003_465,
    1_797_100_002_799,
    1_797_300_001_775,
    1_797_300_002_062,
    1_800_000_001_885,
    1_800_000_002_967,
    1_801_000_000_279,
    1_810_000_002_081,
    1_812_000_004_407,
    1_812_000_006_601,
    1_813_000_008_326,
    1_814_000_011_791,
    1_816_000_003_611,
    1_816_000_010_982,
    1_816_000_023_276,
    1_816_000_028_614,
    49_530_914_184_507,
];

#[test]
fn histories_that_broke_a_promise_once_keep_it() {
    for seed in MENDED {
        let outcome = explorer::play(*seed, &Rules::default(), &[], false).outcome;
        assert!(!matches!(outcome, Outcome::Broken(_)), "seed {seed}: {outcome:?}");
    }
}

/// A rule, and a seed whose history breaks a promise without it and breaks none with it.
struct Mutation {
    rule: Rule,
    seed: u64,
}

const MUTATIONS: &[Mutation] = &[
    Mutation {
        rule: Rule::Holes,
        seed: 1,
    },
    Mutation {
        rule: Rule::ClaimByRing,
        seed: 16,
    },
    Mutation {
        rule: Rule::SingleDots,
        seed: 29,
    },
    Mutation {
        rule: Rule::Rematch,
        seed: 1,
    },
    Mutation {
        rule: Rule::Births,
        seed: 66,
    },
    Mutation {
        rule: Rule::Since,
        seed: 2586,
    },
    Mutation {
        rule: Rule::HolesStay,
        seed: 1,
    },
    Mutation {
        rule: Rule::ResendToNewOwners,
        seed: 245,
    },
    Mutation {
        rule: Rule::CloseNumbers,
        seed: 31,
    },
    Mutation {
        rule: Rule::FlushBySlot,
        seed: 41,
    },
    Mutation {
        rule: Rule::TransferPending,
        seed: 1,
    },
    Mutation {
        rule: Rule::AsOfBegin,
        seed: 3_408,
    },
    Mutation {
        rule: Rule::ServeMerged,
        seed: 385,
    },
    Mutation {
        rule: Rule::Incarnations,
        seed: 12,
    },
    Mutation {
        rule: Rule::HearsayWaits,
        seed: 57,
    },
    Mutation {
        rule: Rule::ClaimAnew,
        seed: 941,
    },
    Mutation {
        rule: Rule::ConnectionToNewOwners,
        seed: 1964,
    },
    Mutation {
        rule: Rule::KeepOpenConnections,
        seed: 22,
    },
    Mutation {
        rule: Rule::SessionAnew,
        seed: 1283,
    },
    Mutation {
        rule: Rule::RoutesMerged,
        seed: 482,
    },
    Mutation {
        rule: Rule::CopiesMin,
        seed: 1_820_000_000_305,
    },
    Mutation {
        rule: Rule::ToldAmongAll,
        seed: 1_820_000_000_164,
    },
    Mutation {
        rule: Rule::ExactNumbers,
        seed: 1_820_000_000_261,
    },
    Mutation {
        rule: Rule::ReadAfterRelease,
        seed: 1_820_000_000_622,
    },
    Mutation {
        rule: Rule::SameContent,
        seed: 1_820_000_000_031,
    },
    Mutation {
        rule: Rule::ReceivedFirst,
        seed: 1_830_000_000_673,
    },
    Mutation {
        rule: Rule::FillFromReceived,
        seed: 1_880_000_010_571,
    },
    Mutation {
        rule: Rule::GiveMerged,
        seed: 1_840_000_000_496,
    },
    Mutation {
        rule: Rule::GiveFirst,
        seed: 1_860_000_018_855,
    },
    Mutation {
        rule: Rule::Causal,
        seed: 1851,
    },
    Mutation {
        rule: Rule::RouteAgain,
        seed: 3,
    },
    Mutation {
        rule: Rule::EndBeats,
        seed: 94,
    },
    Mutation {
        rule: Rule::RoutesTell,
        seed: 1_795_800_707_162_614,
    },
    Mutation {
        rule: Rule::KnownToAll,
        seed: 1294,
    },
    Mutation {
        rule: Rule::CleanStartWins,
        seed: 94,
    },
    Mutation {
        rule: Rule::StageFirst,
        seed: 279,
    },
    Mutation {
        rule: Rule::WillLeft,
        seed: 15,
    },
    Mutation {
        rule: Rule::WillArmed,
        seed: 1_270,
    },
    Mutation {
        rule: Rule::WillCancelled,
        seed: 6,
    },
    Mutation {
        rule: Rule::FireMerged,
        seed: 959,
    },
    Mutation {
        rule: Rule::WillNumberFirst,
        seed: 45,
    },
    Mutation {
        rule: Rule::OneNumber,
        seed: 23,
    },
    Mutation {
        rule: Rule::ReleaseGone,
        seed: 1_796_000_000_525,
    },
    Mutation {
        rule: Rule::EndCovers,
        seed: 1_797_300_001_775,
    },
    Mutation {
        rule: Rule::RetireAgreed,
        seed: 1,
    },
    Mutation {
        rule: Rule::TakeBack,
        seed: 2,
    },
];

#[test]
fn a_history_without_a_rule_breaks_a_promise() {
    for Mutation { rule, seed } in MUTATIONS {
        let name = RULES[*rule as usize].name;
        let mut rules = Rules::default();
        rules.take_away(name).expect("the rule exists");
        let without = explorer::play(*seed, &rules, &[], false).outcome;
        assert!(
            matches!(without, Outcome::Broken(_)),
            "seed {seed} without {name}: {without:?}"
        );
        let with = explorer::play(*seed, &Rules::default(), &[], false).outcome;
        assert!(
            !matches!(with, Outcome::Broken(_)),
            "seed {seed} with all rules: {with:?}"
        );
    }
}

/// Garbage that is dropped in the middle of an answer: an end went without the session that it beats.
#[test]
fn garbage_waits_for_answers_that_have_begun() {
    explore(36_806, 1);
}

#[test]
fn the_table_of_rules_is_in_the_order_of_the_rules() {
    for (index, text) in RULES.iter().enumerate() {
        assert_eq!(text.rule as usize, index, "{}", text.name);
    }
}

/// Rules are numbered and explained in the specification under the names of their switches.
#[test]
fn the_specification_lists_every_rule_once_with_its_text() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/internals/session-plane.md");
    let page = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let numbered = page.lines().filter_map(|line| line.split_once(". `"));
    let is_number = |text: &str| text.parse::<usize>().is_ok();
    let listed: Vec<&str> = numbered
        .filter(|(number, _)| is_number(number))
        .map(|(_, rule)| rule)
        .collect();
    let expected: BTreeSet<String> = RULES
        .iter()
        .map(|rule| format!("{}`: {}", rule.name, rule.text))
        .collect();
    let found: BTreeSet<String> = listed.iter().map(|rule| (*rule).to_owned()).collect();
    assert_eq!(found, expected);
    assert_eq!(listed.len(), RULES.len(), "a rule is listed twice");
}

#[test]
fn a_minimised_history_breaks_the_same_promise_with_fewer_actions() {
    let mut rules = Rules::default();
    rules.take_away("holes").expect("the rule exists");
    let Mutation { seed, .. } = MUTATIONS[0];
    let skipped = explorer::minimise(seed, &rules).expect("the history breaks a promise");
    assert!(!skipped.is_empty());
    assert!(matches!(
        explorer::play(seed, &rules, &skipped, false).outcome,
        Outcome::Broken(_)
    ));
    let kept = explorer::minimise(seed, &Rules::default());
    assert_eq!(kept, None, "with all rules there is nothing to minimise");
}
