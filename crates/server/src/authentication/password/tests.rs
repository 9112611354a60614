use std::path::PathBuf;

use tempfile::TempDir;

use super::super::asking::{anonymous, run, with_password};
use super::super::verdict::Cause;
use super::*;
use crate::config::AuthenticationMethod;

/// A method with one name, `pump`, whose password is `pencil`.
struct Pump {
    method: PasswordMethod,
    attempts: Attempts,
    directory: TempDir,
}

impl Pump {
    fn new(failures_max: u32) -> Self {
        let directory = TempDir::new().expect("a directory");
        write(&directory, "pencil");
        let settings = config::Password {
            file: file(&directory),
            ..config::Password::default()
        };
        Self {
            method: PasswordMethod::load(&settings).expect("right"),
            attempts: Attempts::new(&config::Authentication {
                failures_max,
                ..config::Authentication::default()
            }),
            directory,
        }
    }

    fn ask(&self, asked: &Asked) -> Verdict {
        run(self.method.answer(asked, &self.attempts))
    }

    /// What is said of a password, and how many hashes that took.
    fn says(&self, name: &str, password: &str) -> (Result<String, Refusal>, usize) {
        let before = self.method.threads.computed();
        let asked = with_password(&[AuthenticationMethod::Password], name, password.as_bytes());
        let said = match self.ask(&asked) {
            Verdict::Answer(Answer::Accept { principal, .. }) => {
                Ok(principal.expect("a principal").name.to_string())
            }
            Verdict::Refused(refusal) | Verdict::Unknown(refusal) => {
                if refusal.cause == Cause::Credentials {
                    self.attempts.count(asked.peer);
                }
                Err(refusal)
            }
            other => panic!("{other:?}"),
        };
        (said, self.method.threads.computed() - before)
    }
}

fn file(directory: &TempDir) -> PathBuf {
    directory.path().join("clients.passwd")
}

fn write(directory: &TempDir, password: &str) {
    let entry = Entry {
        hash: PasswordHash::of_password(password.as_bytes()),
        attributes: [(Text::from_static("site"), Text::from_static("north"))]
            .into_iter()
            .collect(),
    };
    let line = entry.line("pump").expect("a line");
    std::fs::write(file(directory), line).expect("written");
}

fn wrong() -> Refusal {
    Refusal::wrong(ReasonCode::BadUserNameOrPassword, WRONG)
}

#[test]
fn the_right_password_is_computed_once_and_found_again() {
    let pump = Pump::new(60);
    assert_eq!(pump.says("pump", "pencil"), (Ok("pump".to_owned()), 1));
    assert_eq!(pump.says("pump", "pencil"), (Ok("pump".to_owned()), 0));
    assert_eq!(pump.says("pump", "brush"), (Err(wrong()), 1));
}

/// Not by what is computed, and not by what is said: the clock would be a poor witness.
#[test]
fn an_unknown_name_and_a_wrong_password_are_the_same() {
    let pump = Pump::new(0);
    for _ in 0..2 {
        let known = pump.says("pump", "brush");
        assert_eq!(known, (Err(wrong()), 1));
        assert_eq!(pump.says("nobody", "brush"), known);
        assert_eq!(pump.says("", ""), known);
    }
}

#[test]
fn who_failed_too_often_is_refused_unless_the_password_was_verified_before() {
    let pump = Pump::new(2);
    assert_eq!(pump.says("pump", "pencil").1, 1);
    assert_eq!(pump.says("pump", "brush").1, 1);
    assert_eq!(pump.says("nobody", "brush").1, 1);
    for name in ["pump", "nobody"] {
        assert_eq!(pump.says(name, "brush"), (Err(Refusal::too_many()), 0));
    }
    assert_eq!(pump.says("pump", "pencil"), (Ok("pump".to_owned()), 0));
}

#[test]
fn a_changed_line_ends_what_was_verified_with_it() {
    let pump = Pump::new(60);
    assert!(pump.says("pump", "pencil").0.is_ok());
    write(&pump.directory, "brush");
    pump.method.reload();
    assert_eq!(pump.says("pump", "pencil"), (Err(wrong()), 1));
    assert_eq!(pump.says("pump", "brush"), (Ok("pump".to_owned()), 1));
}

#[test]
fn attributes_are_those_of_the_line() {
    let pump = Pump::new(60);
    let asked = with_password(&[AuthenticationMethod::Password], "pump", b"pencil");
    let Verdict::Answer(Answer::Accept { principal, .. }) = pump.ask(&asked) else {
        panic!("not let in");
    };
    let attributes = principal.expect("a principal").attributes;
    assert_eq!(attributes.get("site"), Some(&Text::from_static("north")));
}

#[test]
fn other_credentials_are_not_of_this_kind() {
    let pump = Pump::new(60);
    let methods = [AuthenticationMethod::Password];
    assert_eq!(pump.ask(&anonymous(&methods)), Verdict::NotMine);
    let mut enhanced = with_password(&methods, "pump", b"pencil");
    enhanced.question.method = Some(Text::from_static("SCRAM-SHA-256"));
    assert_eq!(pump.ask(&enhanced), Verdict::NotMine);
}

/// The address fails while others of it wait for a thread: none of them is computed any more.
#[test]
fn those_that_wait_are_not_computed_once_their_address_has_failed() {
    let pump = Pump::new(5);
    let asked = with_password(&[AuthenticationMethod::Password], "pump", b"brush");
    let under_way = async {
        let ask = || async {
            let verdict = pump.method.answer(&asked, &pump.attempts).await;
            pump.attempts.count(asked.peer);
            verdict
        };
        futures_util::future::join_all((0..200).map(|_| ask())).await
    };
    let verdicts = run(under_way);
    let refused = verdicts
        .iter()
        .filter(|verdict| **verdict == Verdict::Refused(Refusal::too_many()));
    let (refused, computed) = (refused.count(), pump.method.threads.computed());
    assert_eq!(refused + computed, 200);
    assert!(computed <= 5 + 4, "{computed}: as many as threads more");
}
