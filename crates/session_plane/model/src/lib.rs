//! Executable model of the session plane: the rules of `docs/internals/session-plane.md`, and nothing else.
//!
//! A history is played from one seed: three to five nodes, two slots, two clients; splits, one-way and slow links, crashes,
//! lost disks. Each rule is a switch ([`rules`]), so that a history without it shows what the rule is for. The model shares
//! no code with the product: sets are plain, time is counted in ticks, and a node's state is cloned freely.

pub mod copy;
pub mod event;
pub mod explorer;
pub mod groups;
pub mod ids;
pub mod message;
pub mod node;
pub mod random;
pub mod rules;
pub mod view;
pub mod wills;
pub mod world;
