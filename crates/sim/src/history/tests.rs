use proptest::prelude::*;

use super::*;

const TOLERANCE: Tolerance = Tolerance {
    early: 5 * MILLISECOND,
    late: 5 * MILLISECOND,
};

fn set(value: &str) -> Call {
    Call::Set {
        value: value.to_owned(),
        condition: Condition::Always,
        lives: None,
        token: None,
    }
}

fn set_if(value: &str, condition: Condition) -> Call {
    Call::Set {
        value: value.to_owned(),
        condition,
        lives: None,
        token: None,
    }
}

fn set_for(value: &str, lives: u64) -> Call {
    Call::Set {
        value: value.to_owned(),
        condition: Condition::Missing,
        lives: Some(lives),
        token: None,
    }
}

fn set_fenced(value: &str, token: u64) -> Call {
    Call::Set {
        value: value.to_owned(),
        condition: Condition::Always,
        lives: None,
        token: Some((token, 0)),
    }
}

fn delete() -> Call {
    Call::Delete {
        only: None,
        token: None,
    }
}

/// From one millisecond to another.
fn done(call: Call, from: u64, to: u64, outcome: Outcome) -> Operation {
    Operation::answered(call, from * MILLISECOND, to * MILLISECOND, outcome)
}

fn unknown(call: Call, from: u64) -> Operation {
    Operation::unknown(call, from * MILLISECOND)
}

fn found(value: &str, version: u64) -> Outcome {
    Outcome::Found(value.to_owned(), (version, 1))
}

fn stored(version: u64) -> Outcome {
    Outcome::Stored((version, 1))
}

fn fits(history: &[Operation]) -> bool {
    check(history, TOLERANCE).is_ok()
}

#[test]
fn what_one_client_sees_of_one_copy_fits() {
    assert!(fits(&[
        done(Call::Get, 0, 1, Outcome::Missing),
        done(set("a"), 2, 3, stored(10)),
        done(Call::Get, 4, 5, found("a", 10)),
        done(set_if("b", Condition::Missing), 6, 7, Outcome::NotMet((10, 1))),
        done(set_if("b", Condition::MissingOr("a".into())), 8, 9, stored(11)),
        done(delete(), 10, 11, Outcome::Deleted((11, 1))),
        done(delete(), 12, 13, Outcome::Missing),
        done(Call::Get, 14, 15, Outcome::Missing),
    ]));
}

#[test]
fn a_read_beside_a_write_sees_either() {
    for outcome in [Outcome::Missing, found("a", 10)] {
        assert!(fits(&[
            done(set("a"), 0, 10, stored(10)),
            done(Call::Get, 5, 6, outcome),
        ]));
    }
}

#[test]
fn a_stale_read_does_not_fit() {
    let violation = check(
        &[
            done(set("a"), 0, 1, stored(10)),
            done(set("b"), 2, 3, stored(11)),
            done(Call::Get, 4, 5, found("a", 10)),
        ],
        TOLERANCE,
    )
    .unwrap_err();
    assert_eq!(violation.order, [0, 1]);
    assert_eq!(violation.stuck, [2]);
}

#[test]
fn a_page_has_what_was_there_at_some_moment_of_it() {
    let (listed, missing) = (
        |from, to| done(Call::List, from, to, Outcome::Listed),
        |from, to| done(Call::List, from, to, Outcome::Missing),
    );
    let written = done(set("a"), 10, 20, stored(10));
    let deleted = done(delete(), 30, 40, Outcome::Deleted((10, 1)));
    let history = |page| [written.clone(), deleted.clone(), page];
    for page in [
        listed(21, 29),
        listed(0, 11),
        listed(39, 50),
        missing(0, 19),
        missing(31, 50),
        missing(0, 50),
        listed(0, 50),
    ] {
        assert!(fits(&history(page.clone())), "{page}");
    }
    for page in [listed(0, 9), listed(41, 50), missing(21, 29)] {
        assert!(!fits(&history(page.clone())), "{page}");
    }
    // Pages that follow each other do not go back.
    assert!(!fits(&[
        done(set("a"), 0, 50, stored(10)),
        listed(5, 10),
        missing(11, 15)
    ]));
}

#[test]
fn a_page_has_nothing_that_has_expired_and_misses_nothing_that_has_not() {
    let lease = done(set_for("a", 100), 1_000, 1_001, stored(1_000));
    let page = |at, outcome| [lease.clone(), done(Call::List, at, at + 1, outcome)];
    assert!(fits(&page(1_090, Outcome::Listed)));
    assert!(fits(&page(1_110, Outcome::Missing)));
    assert!(!fits(&page(1_090, Outcome::Missing)));
    assert!(!fits(&page(1_110, Outcome::Listed)));
}

#[test]
fn a_lost_write_does_not_fit() {
    assert!(!fits(&[
        done(set("a"), 0, 1, stored(10)),
        done(Call::Get, 2, 3, Outcome::Missing),
    ]));
}

#[test]
fn two_reads_do_not_go_back() {
    assert!(!fits(&[
        done(set("a"), 0, 1, stored(10)),
        done(set("b"), 2, 20, stored(11)),
        done(Call::Get, 3, 4, found("b", 11)),
        done(Call::Get, 5, 6, found("a", 10)),
    ]));
}

#[test]
fn two_locks_do_not_fit() {
    assert!(!fits(&[
        done(set_if("a", Condition::Missing), 0, 10, stored(10)),
        done(set_if("b", Condition::Missing), 0, 10, stored(11)),
    ]));
}

#[test]
fn versions_that_do_not_rise_do_not_fit() {
    assert!(!fits(&[
        done(set("a"), 0, 1, stored(11)),
        done(set("b"), 2, 3, stored(10)),
    ]));
    // Not even over a deletion.
    assert!(!fits(&[
        done(set("a"), 0, 1, stored(11)),
        done(delete(), 2, 3, Outcome::Deleted((11, 1))),
        done(set("b"), 4, 5, stored(11)),
    ]));
}

#[test]
fn one_version_has_one_value() {
    assert!(!fits(&[
        unknown(set("a"), 0),
        unknown(set("b"), 0),
        done(Call::Get, 1, 2, found("a", 10)),
        done(Call::Get, 3, 4, found("b", 10)),
    ]));
}

#[test]
fn a_write_that_nobody_knows_about_happens_late_or_never_but_once() {
    let lost = unknown(set("a"), 0);
    let missing = done(Call::Get, 1, 2, Outcome::Missing);
    let read = done(Call::Get, 3, 4, found("a", 10));
    assert!(fits(std::slice::from_ref(&lost)));
    assert!(fits(&[lost.clone(), missing.clone()]));
    assert!(fits(&[lost.clone(), missing, read.clone()]));
    let overwritten = done(set("b"), 5, 6, stored(11));
    assert!(!fits(&[
        lost,
        read,
        overwritten,
        done(Call::Get, 7, 8, found("a", 10)),
    ]));
}

#[test]
fn nobody_reads_what_was_not_yet_asked_for() {
    assert!(!fits(&[
        done(Call::Get, 0, 1, found("a", 10)),
        done(set("a"), 2, 3, stored(10)),
    ]));
}

#[test]
fn an_older_token_is_not_accepted() {
    let newer = done(set_fenced("a", 5), 0, 1, stored(10));
    assert!(fits(&[
        newer.clone(),
        done(set_fenced("b", 4), 2, 3, Outcome::Fenced)
    ]));
    assert!(fits(&[newer.clone(), done(set_fenced("b", 5), 2, 3, stored(11))]));
    assert!(fits(&[newer.clone(), done(set("b"), 2, 3, Outcome::Fenced)]));
    assert!(!fits(&[
        newer.clone(),
        done(set_fenced("b", 4), 2, 3, stored(11))
    ]));
    assert!(!fits(&[
        newer.clone(),
        done(delete(), 2, 3, Outcome::Deleted((10, 1)))
    ]));
    // Nobody is refused without reason.
    assert!(!fits(&[newer, done(set_fenced("b", 6), 2, 3, Outcome::Fenced)]));
}

#[test]
fn what_lives_for_a_time_is_there_for_it_and_gone_after_it() {
    let lease = done(set_for("a", 100), 1_000, 1_001, stored(1_000));
    assert!(fits(&[
        lease.clone(),
        done(Call::Get, 1_090, 1_091, found("a", 1_000))
    ]));
    assert!(fits(&[
        lease.clone(),
        done(Call::Get, 1_110, 1_111, Outcome::Missing)
    ]));
    // Within the tolerance either is right.
    for outcome in [found("a", 1_000), Outcome::Missing] {
        assert!(fits(&[lease.clone(), done(Call::Get, 1_098, 1_102, outcome)]));
    }
    assert!(!fits(&[
        lease.clone(),
        done(Call::Get, 1_090, 1_091, Outcome::Missing)
    ]));
    assert!(!fits(&[
        lease.clone(),
        done(Call::Get, 1_110, 1_111, found("a", 1_000))
    ]));
    // The next holder waits for the first one's end.
    assert!(fits(&[
        lease.clone(),
        done(set_for("b", 100), 1_110, 1_111, stored(1_110))
    ]));
    assert!(!fits(&[
        lease,
        done(set_for("b", 100), 1_050, 1_051, stored(1_050))
    ]));
}

#[test]
fn what_is_gone_does_not_come_back() {
    assert!(!fits(&[
        done(set_for("a", 100), 1_000, 1_001, stored(1_000)),
        done(Call::Get, 1_099, 1_100, Outcome::Missing),
        done(Call::Get, 1_101, 1_102, found("a", 1_000)),
    ]));
    assert!(!fits(&[
        done(set("a"), 0, 1, stored(10)),
        done(delete(), 2, 3, Outcome::Deleted((10, 1))),
        done(Call::Get, 4, 5, found("a", 10)),
    ]));
}

#[test]
fn many_writes_that_nobody_knows_about_do_not_take_for_ever() {
    let mut history: Vec<_> = (0..40)
        .map(|number| unknown(set(&format!("lost-{number}")), 0))
        .collect();
    for number in 0..200 {
        history.push(done(
            set(&format!("{number}")),
            10 * number,
            10 * number + 9,
            stored(10 * number + 1),
        ));
    }
    assert!(fits(&history));
}

/// What one copy answers to operations whose times overlap.
fn histories() -> impl Strategy<Value = Vec<Operation>> {
    let call = prop_oneof![
        3 => Just(Call::Get),
        1 => Just(Call::List),
        3 => (0..100_u32).prop_map(|value| set(&value.to_string())),
        1 => (0..100_u32).prop_map(|value| set_if(&value.to_string(), Condition::Missing)),
        1 => (0..3_u64).prop_map(|token| set_fenced("fenced", token)),
        1 => Just(delete()),
    ];
    let operation = (call, 0..30_u64, 0..30_u64, any::<bool>());
    proptest::collection::vec(operation, 1..8).prop_map(|calls| {
        let mut copy = Copy::default();
        let in_order = calls
            .into_iter()
            .zip(1..)
            .map(|((call, before, after, is_known), number)| {
                // Executed at 10 * number, and in flight around it.
                let (at, outcome) = (10 * number, copy.execute(&call));
                let (invoked, returned) = (u64::saturating_sub(at, before), at + after);
                if is_known {
                    done(call, invoked, returned, outcome)
                } else {
                    unknown(call, invoked)
                }
            });
        in_order.collect()
    })
}

/// A copy written without a look at the model.
#[derive(Default)]
struct Copy {
    stored: Option<(String, u64, Option<Version>)>,
    version: u64,
}

impl Copy {
    fn execute(&mut self, call: &Call) -> Outcome {
        let held = self.stored.as_ref().and_then(|stored| stored.2);
        let fenced = |token: Option<Version>| held.is_some() && token < held;
        match call {
            Call::Get => match &self.stored {
                None => Outcome::Missing,
                Some((value, version, _)) => found(value, *version),
            },
            Call::List if self.stored.is_some() => Outcome::Listed,
            Call::List => Outcome::Missing,
            Call::Set { token, .. } | Call::Delete { token, .. } if fenced(*token) => Outcome::Fenced,
            Call::Set {
                condition: Condition::Missing,
                ..
            } if self.stored.is_some() => Outcome::NotMet((self.stored.as_ref().unwrap().1, 1)),
            Call::Set { value, token, .. } => {
                self.version += 1;
                self.stored = Some((value.clone(), self.version, held.max(*token)));
                stored(self.version)
            }
            Call::Delete { .. } => match self.stored.take() {
                None => Outcome::Missing,
                Some((_, version, _)) => Outcome::Deleted((version, 1)),
            },
        }
    }
}

/// Every order of every choice of what was executed, tried one after the other.
fn fits_some_order(history: &[Operation], model: &Model, left: &[usize]) -> bool {
    if left.iter().all(|place| history[*place].answered.is_none()) {
        return true;
    }
    left.iter().any(|place| {
        let is_first = left
            .iter()
            .all(|other| history[*other].ended() >= history[*place].invoked);
        let rest: Vec<usize> = left.iter().copied().filter(|other| other != place).collect();
        is_first
            && model
                .after(&history[*place], TOLERANCE)
                .iter()
                .any(|model| fits_some_order(history, model, &rest))
    })
}

proptest! {
    #[test]
    fn one_copy_always_fits(history in histories()) {
        let checked = check(&history, TOLERANCE);
        prop_assert!(checked.is_ok(), "{}", checked.unwrap_err().explain(&history));
    }

    #[test]
    fn the_search_misses_no_order(history in histories(), swapped in any::<(prop::sample::Index, prop::sample::Index)>()) {
        let mut history = history;
        let (one, other) = (swapped.0.index(history.len()), swapped.1.index(history.len()));
        let answer = history[one].answered.clone().map(|(_, outcome)| outcome);
        if let (Some(answer), Some((returned, _))) = (answer, history[other].answered.clone()) {
            history[other].answered = Some((returned, answer));
        }
        let all: Vec<usize> = (0..history.len()).collect();
        let expected = fits_some_order(&history, &Model::default(), &all);
        prop_assert_eq!(check(&history, TOLERANCE).is_ok(), expected);
    }
}
