//! The `statehold` binary.
fn main() {}
