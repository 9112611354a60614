//! The account of memory says what is held: for each family of state it is compared with what was allocated.
//!
//! A test program of its own, because it counts what the whole program allocates. Clients choose how long and how many
//! everything is; so each family is made of what is small, and of what is large, and a flat estimate fits one at most.
#![allow(clippy::unwrap_used, reason = "what a test needs is there, or the test fails")]

#[path = "../alone/mod.rs"]
mod alone;
mod broker_of_test;
mod families;

use std::alloc::System;

use cap::Cap;

#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);

/// How far the account may be from what was allocated.
const TOLERANCE: f64 = 0.15;

/// One test, since what another one allocates at the same time would count as well.
#[test]
fn the_account_is_what_was_allocated_and_forgets_what_is_gone() {
    let mut wrong = Vec::new();
    for (name, family) in families::ALL {
        let mut broker = broker_of_test::BrokerOfTest::new();
        let (allocated_before, account_before) = (ALLOCATOR.allocated(), broker.account());
        family(&mut broker);
        let allocated = ALLOCATOR.allocated() - allocated_before;
        let account = usize::try_from(broker.account() - account_before).unwrap();
        assert!(
            allocated > 1 << 20,
            "{name}: {allocated} bytes are too few to compare"
        );
        let ratio = to_float(account) / to_float(allocated);
        println!("{name}: {allocated} bytes allocated, {account} accounted for, {ratio:.2}");
        if (ratio - 1.0).abs() > TOLERANCE {
            wrong.push(format!("{name}: {ratio:.2} ({account} of {allocated} bytes)"));
        }
    }
    assert!(wrong.is_empty(), "the account is wrong:\n{}", wrong.join("\n"));
    what_is_gone_does_not_count();
}

fn what_is_gone_does_not_count() {
    let mut broker = broker_of_test::BrokerOfTest::new();
    families::come_and_go(&mut broker);
    let before = broker.account();
    for _ in 0..3 {
        families::come_and_go(&mut broker);
    }
    let after = broker.account();
    assert!(after <= before + before / 10, "{before} bytes became {after}");
}

fn to_float(bytes: usize) -> f64 {
    f64::from(u32::try_from(bytes).unwrap())
}
