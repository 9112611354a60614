//! W1: a will is published once when its connection was lost, or its node has died with the connection, and never after
//! DISCONNECT 0. It is published, too, each time its node is given up while the connection is open.
//!
//! Who says DISCONNECT 0 in the very moment in which its node dies may not have been heard: whoever checks keeps these moments apart.

use std::collections::BTreeMap;

/// What became of the connections with wills. Each will has a number of its own.
#[derive(Debug, Default)]
pub struct Wills(BTreeMap<u64, Will>);

#[derive(Debug)]
struct Will {
    fate: Fate,
    /// How often its node may have been given up.
    given_up: usize,
}

/// What became of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It is there.
    Connected,
    /// Its client has said DISCONNECT 0.
    SaidGoodbye,
    /// It was lost, and its node was there.
    Lost,
    /// Its node has died.
    Died,
}

impl Wills {
    /// This has become of the connection with a will.
    pub fn note(&mut self, will: u64, fate: Fate) {
        let new = Will { fate, given_up: 0 };
        self.0.entry(will).or_insert(new).fate = fate;
    }

    /// The node of the connection may have been given up.
    pub fn note_given_up(&mut self, will: u64) {
        if let Some(will) = self.0.get_mut(&will) {
            will.given_up += 1;
        }
    }

    /// When everything is at rest: what a subscriber has heard that was there all the time.
    pub fn check(&self, heard: &[u64]) -> Result<(), String> {
        for (number, will) in &self.0 {
            let times = heard.iter().filter(|heard| *heard == number).count();
            let of_end = match will.fate {
                Fate::Connected | Fate::SaidGoodbye => 0,
                Fate::Lost | Fate::Died => 1,
            };
            if !(of_end..=of_end + will.given_up).contains(&times) {
                return Err(format!("W1: will {number} was published {times} times: {will:?}"));
            }
        }
        match heard.iter().find(|heard| !self.0.contains_key(heard)) {
            Some(will) => Err(format!("W1: nobody has will {will}")),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_will_too_many_or_too_few_breaks_the_promise() {
        let kept = |fate, given_up, heard: &[u64]| {
            let mut wills = Wills::default();
            wills.note(1, Fate::Connected);
            (0..given_up).for_each(|_| wills.note_given_up(1));
            wills.note(1, fate);
            wills.check(heard).is_ok()
        };
        for fate in [Fate::Connected, Fate::SaidGoodbye] {
            assert!(kept(fate, 0, &[]) && !kept(fate, 0, &[1]), "{fate:?}");
            assert!(kept(fate, 1, &[1]) && !kept(fate, 1, &[1, 1]), "{fate:?}");
        }
        for fate in [Fate::Lost, Fate::Died] {
            assert!(!kept(fate, 0, &[]) && kept(fate, 0, &[1]), "{fate:?}");
            assert!(!kept(fate, 0, &[1, 1]) && kept(fate, 1, &[1, 1]), "{fate:?}");
            assert!(!kept(fate, 1, &[]), "{fate:?}");
        }
        assert!(!kept(Fate::Lost, 0, &[1, 2]), "nobody has it");
    }
}
