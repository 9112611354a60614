//! Getting, keeping and losing a lock: a key that is set to the holder's name with a lease, and renewed.
//!
//! The rule: a contender believes that it holds the lock for less time than the store does. It counts the lease
//! from before the request was sent and stops believing a twentieth of it early, so that clocks that do not run
//! alike do not make two holders. What must not happen even so, when a process sleeps, is for the fencing token
//! to prevent.
//!
//! A contender that is released deletes the key, because a SET without an answer may have been executed or may
//! still be. It goes on with that for one lease: from then on the store has ended the lock by itself.

use std::time::{Duration, Instant};

use protocol::hlc::Hlc;

/// What happens to a contender.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// Begin.
    Start,
    /// The answer to [`Action::Set`].
    Answered(Answer),
    /// The key is watched, as [`Action::Watch`] asked.
    Watching,
    /// The key was deleted, or it could have been without notice.
    Freed,
    /// The caller does not want the lock any more.
    Release,
    /// The answer to [`Action::Delete`], unless it is [`Event::NotDeleted`].
    Deleted,
    /// [`Action::Delete`] failed, and may succeed in a moment.
    NotDeleted,
    /// The deadline has come.
    Timeout,
}

/// How a SET of the lock's key ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// It is ours; the version is the fencing token.
    Stored(Hlc),
    /// Somebody else has it.
    Refused,
    /// No answer, or the store cannot answer at the moment; it may have been stored.
    Unknown,
}

/// What the driver of a contender has to do. A new request may begin before the last one has ended, whose
/// answer is then not to be reported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Set the key to the holder's name if it is missing or ours, with the lease.
    Set {
        /// After this long the answer is [`Answer::Unknown`].
        timeout: Duration,
    },
    /// Watch the key, and report [`Event::Freed`].
    Watch,
    /// Watch it no longer.
    Unwatch,
    /// Delete the key if it is ours.
    Delete {
        /// After this long nothing is left to delete: the lease is over.
        timeout: Duration,
    },
    /// The lock is held, or was renewed.
    Held {
        /// The newest fencing token.
        token: Hlc,
        /// Until then, unless it is renewed.
        until: Instant,
    },
    /// The lock was held, and is no more.
    Lost(Loss),
    /// Nothing will happen any more.
    Ended,
}

/// How a lock was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Loss {
    /// The lease could not be renewed in time.
    #[error("the lease could not be renewed in time")]
    Expired,
    /// Somebody else holds it: the key was deleted or it expired, and was set by another.
    #[error("somebody else holds the lock")]
    TakenOver,
}

/// One who wants, holds or has held a lock.
#[derive(Debug)]
pub struct Contender {
    lease: Duration,
    state: State,
    is_watching: bool,
}

/// ```text
/// Idle -> Asking -> Held <-> Renewing -> Ended
///         |    ^
///         v    |
///      Watching -> Asking ... Waiting -> Asking
/// any -> Releasing <-> Pausing
///            \_____________\___-> Ended
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Idle,
    /// SET is under way; `freed`: what it may be refused for has ended meanwhile.
    Asking {
        sent_at: Instant,
        freed: bool,
    },
    /// KEYNOTIFY is under way.
    Registering,
    /// Somebody else has it.
    Waiting {
        until: Instant,
    },
    /// Ours until `until`, renewed at `renew_at`.
    Held {
        until: Instant,
        renew_at: Instant,
    },
    /// Ours until `until`; SET is under way.
    Renewing {
        until: Instant,
        sent_at: Instant,
    },
    /// VDEL is under way; `until`: the store ends the lease by itself.
    Releasing {
        until: Instant,
    },
    /// Before another VDEL.
    Pausing {
        until: Instant,
        retry_at: Instant,
    },
    Ended,
}

impl Contender {
    /// A contender for a lock that is held for `lease` at a time.
    pub fn new(lease: Duration) -> Self {
        Self {
            lease,
            state: State::Idle,
            is_watching: false,
        }
    }

    /// Takes an event in; what has to be done comes out in `actions`.
    pub fn step(&mut self, now: Instant, event: Event, actions: &mut Vec<Action>) {
        match (self.state, event) {
            (State::Idle, Event::Start) => self.ask(now, actions),
            (State::Asking { sent_at, freed }, Event::Answered(answer)) => {
                self.asked(now, sent_at, freed, answer, actions);
            }
            (State::Asking { sent_at, .. }, Event::Freed) => {
                self.state = State::Asking { sent_at, freed: true }
            }
            // What was deleted before the watch began was not reported.
            (State::Registering, Event::Watching) => self.ask(now, actions),
            (State::Waiting { .. }, Event::Freed) => self.ask(now, actions),
            (State::Waiting { until }, Event::Timeout) if until <= now => self.ask(now, actions),
            (State::Held { until, .. } | State::Renewing { until, .. }, Event::Timeout) if until <= now => {
                self.lose(now, Loss::Expired, actions);
            }
            (State::Held { until, renew_at }, Event::Timeout) if renew_at <= now => {
                self.state = State::Renewing { until, sent_at: now };
                actions.push(Action::Set { timeout: until - now });
            }
            (State::Renewing { until, sent_at }, Event::Answered(answer)) => match answer {
                Answer::Stored(token) => self.hold(sent_at, token, actions),
                Answer::Refused => self.lose(now, Loss::TakenOver, actions),
                Answer::Unknown => {
                    self.state = State::Held {
                        until,
                        renew_at: now + self.pause(),
                    }
                }
            },
            (State::Releasing { .. }, Event::Deleted) => self.end(actions),
            (State::Releasing { until }, Event::NotDeleted) => self.pause_release(now, until, actions),
            (State::Pausing { until, retry_at }, Event::Timeout) if retry_at <= now => {
                self.delete(now, until, actions);
            }
            (State::Idle, Event::Release) => self.end(actions),
            (State::Releasing { .. } | State::Pausing { .. } | State::Ended, Event::Release) => {}
            (_, Event::Release) => {
                self.unwatch(actions);
                self.delete(now, now + self.lease, actions);
            }
            // Late answers, repeated notifications, timeouts that moved.
            _ => {}
        }
    }

    /// When the driver must next call `step` with [`Event::Timeout`].
    pub fn deadline(&self) -> Option<Instant> {
        match self.state {
            State::Waiting { until } | State::Renewing { until, .. } => Some(until),
            State::Held { until, renew_at } => Some(until.min(renew_at)),
            State::Pausing { retry_at, .. } => Some(retry_at),
            State::Idle
            | State::Asking { .. }
            | State::Registering
            | State::Releasing { .. }
            | State::Ended => None,
        }
    }

    fn ask(&mut self, now: Instant, actions: &mut Vec<Action>) {
        self.state = State::Asking {
            sent_at: now,
            freed: false,
        };
        actions.push(Action::Set { timeout: self.lease });
    }

    fn asked(
        &mut self,
        now: Instant,
        sent_at: Instant,
        freed: bool,
        answer: Answer,
        actions: &mut Vec<Action>,
    ) {
        match answer {
            // An answer so late that the lease is over by now is worth nothing.
            Answer::Stored(_) if self.believed_until(sent_at) <= now => self.ask(now, actions),
            Answer::Stored(token) => {
                self.unwatch(actions);
                self.hold(sent_at, token, actions);
            }
            Answer::Refused if !self.is_watching => {
                self.is_watching = true;
                self.state = State::Registering;
                actions.push(Action::Watch);
            }
            Answer::Refused if freed => self.ask(now, actions),
            // A notification could be lost with a server: look again after what the holder may have left.
            Answer::Refused => {
                self.state = State::Waiting {
                    until: now + self.lease,
                }
            }
            Answer::Unknown => {
                self.state = State::Waiting {
                    until: now + self.pause(),
                }
            }
        }
    }

    fn hold(&mut self, sent_at: Instant, token: Hlc, actions: &mut Vec<Action>) {
        let until = self.believed_until(sent_at);
        self.state = State::Held {
            until,
            renew_at: sent_at + self.lease / 3,
        };
        actions.push(Action::Held { token, until });
    }

    fn lose(&mut self, now: Instant, loss: Loss, actions: &mut Vec<Action>) {
        actions.push(Action::Lost(loss));
        match loss {
            // A renewal may still arrive: it must not hold the lock for nobody.
            Loss::Expired => self.delete(now, now + self.lease, actions),
            Loss::TakenOver => self.end(actions),
        }
    }

    fn delete(&mut self, now: Instant, until: Instant, actions: &mut Vec<Action>) {
        self.state = State::Releasing { until };
        actions.push(Action::Delete { timeout: until - now });
    }

    fn pause_release(&mut self, now: Instant, until: Instant, actions: &mut Vec<Action>) {
        let retry_at = now + self.pause();
        if until <= retry_at {
            return self.end(actions);
        }
        self.state = State::Pausing { until, retry_at };
    }

    fn unwatch(&mut self, actions: &mut Vec<Action>) {
        if std::mem::take(&mut self.is_watching) {
            actions.push(Action::Unwatch);
        }
    }

    fn end(&mut self, actions: &mut Vec<Action>) {
        self.state = State::Ended;
        actions.push(Action::Ended);
    }

    fn believed_until(&self, sent_at: Instant) -> Instant {
        sent_at + self.lease - self.lease / 20
    }

    /// Before another attempt at a store that gave no answer.
    fn pause(&self) -> Duration {
        (self.lease / 10).min(Duration::from_secs(1))
    }
}

#[cfg(test)]
mod tests;
