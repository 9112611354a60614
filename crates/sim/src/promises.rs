//! What is promised, one file per promise: what it says, and how a run is found to break it.
//!
//! Ids are those of `ARCHITECTURE.md`. A promise sees what everybody can see: what clients asked and were told, what is on disks, and what
//! nodes say of themselves. None of them decides anything in a run; each is tested with what it must reject.
//!
//! That everything comes to rest when all faults are over (liveness) is in `workload/several_nodes/calm.rs`.

pub(crate) mod bounded_memory;
pub(crate) mod c1;
pub(crate) mod c2;
pub(crate) mod election_safety;
pub(crate) mod f1;
pub(crate) mod l1;
pub(crate) mod l2;
pub(crate) mod l3;
pub(crate) mod log_matching;
pub mod q1;
pub mod q2;
pub mod q3;
pub mod s1;
pub(crate) mod s3;
pub(crate) mod state_equality;
pub mod w1;
