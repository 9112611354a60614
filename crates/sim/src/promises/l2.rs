//! L2: once a newer fencing token was accepted on a key, no older one is.
//!
//! The token goes with the key: a deletion frees it. So a write that was accepted after another one with a newer token had been, while
//! nothing may have deleted the key, breaks the promise. That no write is fenced without reason is part of L1 (`history/model.rs`), as is
//! this promise; here it is found without a search, in a few lines.

use super::l1::Histories;
use crate::history::{Call, Operation, Outcome, Version};

/// No write with an older token was accepted after one with a newer token.
pub(crate) fn check(histories: &Histories) -> Result<(), String> {
    for (key, history) in histories.keys() {
        let history: Vec<&Operation> = history.collect();
        for newer in history.iter().filter(|operation| protects(operation)) {
            let end = newer.ended();
            let later = history.iter().filter(|operation| operation.invoked > end);
            for older in later.filter(|operation| is_accepted(operation) && token(operation) < token(newer)) {
                if !may_be_deleted(&history, newer.invoked, older.ended()) {
                    return Err(format!(
                        "L2: {key} took an older fencing token after a newer one:\n  {newer}\n  {older}"
                    ));
                }
            }
        }
    }
    Ok(())
}

fn token(operation: &Operation) -> Option<Version> {
    match operation.call {
        Call::Set { token, .. } | Call::Delete { token, .. } => token,
        Call::Get | Call::List => None,
    }
}

fn is_accepted(operation: &Operation) -> bool {
    let outcome = operation.answered.as_ref().map(|(_, outcome)| outcome);
    matches!(outcome, Some(Outcome::Stored(_) | Outcome::Deleted(_)))
}

/// It was stored with a token.
fn protects(operation: &Operation) -> bool {
    let outcome = operation.answered.as_ref().map(|(_, outcome)| outcome);
    matches!(outcome, Some(Outcome::Stored(_))) && token(operation).is_some()
}

/// Whether something may have taken the token away between these moments: a deletion, or the end of a lease.
fn may_be_deleted(history: &[&Operation], from: u64, to: u64) -> bool {
    history.iter().any(|operation| match operation.call {
        Call::Set { lives, .. } => lives.is_some(),
        Call::Get | Call::List => false,
        Call::Delete { .. } => {
            let outcome = operation.answered.as_ref().map(|(_, outcome)| outcome);
            let is_possible = matches!(outcome, None | Some(Outcome::Deleted(_)));
            // The older one may itself be a deletion, which takes nothing away before it is accepted.
            is_possible && operation.invoked <= to && operation.ended() >= from && operation.ended() != to
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::Condition;

    fn set(token: u64) -> Call {
        Call::Set {
            value: token.to_string(),
            condition: Condition::Always,
            lives: None,
            token: (token > 0).then_some((token, 0)),
        }
    }

    fn delete(token: u64) -> Call {
        Call::Delete {
            only: None,
            token: Some((token, 0)),
        }
    }

    fn stored(version: u64) -> Option<Outcome> {
        Some(Outcome::Stored((version, 1)))
    }

    /// Calls, each from one moment to the next.
    fn holds(calls: &[(Call, u64, u64, Option<Outcome>)]) -> bool {
        let mut histories = Histories::default();
        let mut events: Vec<(u64, usize, bool)> = Vec::new();
        for (number, (_, from, to, _)) in calls.iter().enumerate() {
            events.extend([(*from, number, true), (*to, number, false)]);
        }
        events.sort_unstable();
        let mut places = vec![0; calls.len()];
        for (at, number, is_asked) in events {
            let (call, _, _, outcome) = &calls[number];
            if is_asked {
                places[number] = histories.asked(at, "key", call.clone());
            } else if let Some(outcome) = outcome {
                histories.answered(at, "key", places[number], outcome.clone());
            }
        }
        check(&histories).is_ok()
    }

    #[test]
    fn an_older_token_after_a_newer_one_is_found() {
        let newer = (set(5), 10, 20, stored(1));
        assert!(holds(&[newer.clone(), (set(5), 30, 40, stored(2))]));
        assert!(holds(&[newer.clone(), (set(6), 30, 40, stored(2))]));
        assert!(holds(&[newer.clone(), (set(4), 30, 40, Some(Outcome::Fenced))]));
        assert!(!holds(&[newer.clone(), (set(4), 30, 40, stored(2))]));
        assert!(!holds(&[newer.clone(), (set(0), 30, 40, stored(2))]));
        let deleted = Some(Outcome::Deleted((1, 1)));
        assert!(!holds(&[newer, (delete(4), 30, 40, deleted)]));
    }

    #[test]
    fn two_at_the_same_time_may_come_in_any_order() {
        assert!(holds(&[(set(5), 10, 35, stored(1)), (set(4), 30, 40, stored(2))]));
    }

    #[test]
    fn a_deletion_frees_the_key() {
        let (newer, older) = ((set(5), 10, 20, stored(1)), (set(4), 60, 70, stored(2)));
        let deleted = Some(Outcome::Deleted((1, 1)));
        for outcome in [deleted, None] {
            let deletion = (delete(5), 30, 40, outcome);
            assert!(holds(&[newer.clone(), deletion, older.clone()]));
        }
        // One that was refused, or came before, does not.
        let refused = (delete(5), 30, 40, Some(Outcome::Fenced));
        assert!(!holds(&[newer.clone(), refused, older.clone()]));
        let before = (delete(5), 1, 2, Some(Outcome::Deleted((1, 1))));
        assert!(!holds(&[before, newer, older]));
    }
}
