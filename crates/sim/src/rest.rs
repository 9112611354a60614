//! Bound of a wait for rest, so that a livelock of the product is a failure with its seed and not a run without an end.
//!
//! The bound counts rounds and messages, never time on a clock: in one simulated moment nodes may answer each other for ever.

/// Counts what happens until there is nothing left to do.
#[derive(Debug)]
pub struct Bound {
    what: &'static str,
    rounds: usize,
    messages: usize,
}

/// Rounds in which everybody does in no time what there is to do. Waits of storms take up to about 150.
pub const ROUNDS_MAX: usize = 2_000;

/// Messages and writes during these rounds. Waits of storms take up to about 2,000.
pub const MESSAGES_MAX: usize = 500_000;

impl Bound {
    /// Bound of a wait, which is named in the error.
    #[must_use]
    pub fn new(what: &'static str) -> Self {
        Self {
            what,
            rounds: 0,
            messages: 0,
        }
    }

    /// Counts a round.
    ///
    /// # Errors
    /// Says what does not come to rest after [`ROUNDS_MAX`] of them.
    pub fn round(&mut self) -> Result<(), String> {
        self.rounds += 1;
        self.check()
    }

    /// Counts a message or a write.
    ///
    /// # Errors
    /// Says what does not come to rest after [`MESSAGES_MAX`] of them.
    pub fn message(&mut self) -> Result<(), String> {
        self.messages += 1;
        self.check()
    }

    /// How many rounds and messages it took so far.
    #[must_use]
    pub fn taken(&self) -> Taken {
        Taken {
            rounds: self.rounds,
            messages: self.messages,
        }
    }

    fn check(&self) -> Result<(), String> {
        if self.rounds <= ROUNDS_MAX && self.messages <= MESSAGES_MAX {
            return Ok(());
        }
        Err(format!(
            "liveness: {} after {} rounds and {} messages in one moment",
            self.what, self.rounds, self.messages
        ))
    }
}

/// The most that waits for rest took.
#[derive(Debug, Clone, Copy, Default)]
pub struct Taken {
    /// Rounds of one wait.
    pub rounds: usize,
    /// Messages of one wait.
    pub messages: usize,
}

impl Taken {
    /// The larger of each.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            rounds: self.rounds.max(other.rounds),
            messages: self.messages.max(other.messages),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Bound, MESSAGES_MAX, ROUNDS_MAX};

    #[test]
    fn a_wait_ends_by_its_rounds_and_by_its_messages() {
        let mut rounds = Bound::new("it goes on");
        let passed = (0..=ROUNDS_MAX).take_while(|_| rounds.round().is_ok()).count();
        assert_eq!(passed, ROUNDS_MAX);
        let mut messages = Bound::new("it goes on");
        let passed = (0..=MESSAGES_MAX)
            .take_while(|_| messages.message().is_ok())
            .count();
        assert_eq!(passed, MESSAGES_MAX);
        assert_eq!(
            messages.round(),
            Err(format!(
                "liveness: it goes on after 1 rounds and {} messages in one moment",
                MESSAGES_MAX + 1
            ))
        );
    }
}
