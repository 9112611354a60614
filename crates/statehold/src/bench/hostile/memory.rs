//! Adversaries that cost memory.

use super::Adversary;

pub(super) const ADVERSARIES: &[Adversary] = &[];
