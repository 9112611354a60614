//! What rounds of the self-test have found.

use std::time::Duration;

use crate::metrics::Histogram;

/// What a round does, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// CONNECT to CONNACK.
    Connect,
    /// SUBSCRIBE to SUBACK.
    Subscribe,
    /// PUBLISH to PUBACK.
    Publish,
    /// PUBLISH to having the message as a subscriber.
    Receive,
    /// SET to its reply.
    Set,
    /// GET to its reply.
    Get,
    /// DEL to its reply.
    Delete,
}

/// How a step went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// As it should.
    Ok,
    /// It was refused, or the connection ended.
    Failed,
    /// Nothing came in time.
    TimedOut,
    /// Something else came than what has to.
    Wrong,
}

/// One step of a round.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepResult {
    /// Which.
    pub step: Step,
    /// How it went.
    pub verdict: Verdict,
    /// How long it took, or was waited for.
    pub took: Duration,
    /// What was not as it should.
    pub why: Option<String>,
}

/// One round. Steps that come to nothing without another one that failed are not in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Round {
    /// When it began, in milliseconds since the Unix epoch.
    pub began: u64,
    /// In the order of [`Step::ALL`].
    pub steps: Vec<StepResult>,
}

/// Of all rounds since the start.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Results {
    /// The last one; `None`: there was none yet.
    pub last: Option<Round>,
    /// By [`Step`].
    steps: [StepFigures; Step::COUNT],
}

/// Of one step.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StepFigures {
    /// By [`Verdict`].
    pub counts: [u64; Verdict::COUNT],
    /// Of those that went well.
    pub took: Histogram,
}

impl Step {
    /// How many there are.
    pub const COUNT: usize = 7;

    /// All, in their order.
    pub const ALL: [Self; Self::COUNT] = [
        Self::Connect,
        Self::Subscribe,
        Self::Publish,
        Self::Receive,
        Self::Set,
        Self::Get,
        Self::Delete,
    ];

    /// As in metrics, the log and the pages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Connect => "connect",
            Self::Subscribe => "subscribe",
            Self::Publish => "publish",
            Self::Receive => "receive",
            Self::Set => "set",
            Self::Get => "get",
            Self::Delete => "delete",
        }
    }
}

impl Verdict {
    /// How many there are.
    pub const COUNT: usize = 4;

    /// All.
    pub const ALL: [Self; Self::COUNT] = [Self::Ok, Self::Failed, Self::TimedOut, Self::Wrong];

    /// As in metrics, the log and the pages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Failed => "failed",
            Self::TimedOut => "timed_out",
            Self::Wrong => "wrong",
        }
    }
}

impl Round {
    /// Whether every step went as it should.
    pub fn is_ok(&self) -> bool {
        self.steps.len() == Step::COUNT && self.first_trouble().is_none()
    }

    /// The first step that did not.
    pub fn first_trouble(&self) -> Option<&StepResult> {
        self.steps.iter().find(|step| step.verdict != Verdict::Ok)
    }
}

impl Results {
    /// Counts a round.
    pub(crate) fn record(&mut self, round: Round) {
        for result in &round.steps {
            let figures = &mut self.steps[result.step as usize];
            figures.counts[result.verdict as usize] += 1;
            if result.verdict == Verdict::Ok {
                figures.took.record_duration(result.took);
            }
        }
        self.last = Some(round);
    }

    /// Each step with what was counted of it.
    pub fn steps(&self) -> impl Iterator<Item = (Step, &StepFigures)> {
        Step::ALL.into_iter().zip(&self.steps)
    }
}
