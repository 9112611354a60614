//! The deterministic simulator: production state machines on virtual disks, clocks and connections.
//!
//! A [`Machine`] is one server: a [`broker::Node`] over a [`storage::SimulatedDisk`]. Everything that happens to it is a
//! call, so a run is decided by its seed alone. `transcript` plays conversations that people can read; `workload`
//! makes random ones, of one node and of several, with faults; `promises` are what they are checked for; `inputs` makes something of
//! any bytes, for the fuzz targets; `scale` counts what larger clusters say to each other; `history` finds out whether what clients of the state store were told can be explained;
//! `rest` bounds what waits for rest.

pub mod few_slots;
pub mod history;
pub mod inputs;
pub mod machine;
pub mod promises;
pub mod rest;
pub mod scale;
pub mod transcript;
pub mod workload;

pub use machine::Machine;
