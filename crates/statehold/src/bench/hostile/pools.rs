//! Adversaries that occupy places which clients and nodes need.

use super::Adversary;

pub(super) const ADVERSARIES: &[Adversary] = &[];
