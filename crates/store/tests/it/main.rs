//! The store as others see it: against a naive model, and against bytes that released versions wrote.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod garbage;
mod golden;
mod history;
mod model;
