//! W1: a will is published at most once, and never after DISCONNECT 0. It is published once when its connection was lost and the node has seen that; and when
//! the node has died with the connection.
//!
//! Who says DISCONNECT 0 in the very moment in which its node dies may not have been heard: whoever checks keeps these moments apart.

use std::collections::BTreeMap;

/// What became of the connections with wills. Each will has a number of its own.
#[derive(Debug, Default)]
pub struct Wills(BTreeMap<u64, Fate>);

/// What became of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It is there.
    Connected,
    /// It is there, and its node was taken for dead once: others may have published the will.
    TakenForDead,
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
        self.0.insert(will, fate);
    }

    /// What has become of it.
    pub fn fate(&self, will: u64) -> Option<Fate> {
        self.0.get(&will).copied()
    }

    /// When everything is at rest: what a subscriber has heard that was there all the time.
    pub fn check(&self, heard: &[u64]) -> Result<(), String> {
        for (will, fate) in &self.0 {
            let times = heard.iter().filter(|heard| *heard == will).count();
            let (least, most) = match fate {
                Fate::Connected | Fate::SaidGoodbye => (0, 0),
                Fate::TakenForDead => (0, 1),
                Fate::Lost | Fate::Died => (1, 1),
            };
            if !(least..=most).contains(&times) {
                return Err(format!(
                    "W1: will {will} was published {times} times, and is {fate:?}"
                ));
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
        let kept = |fate, heard: &[u64]| {
            let mut wills = Wills::default();
            wills.note(1, fate);
            wills.check(heard).is_ok()
        };
        for fate in [Fate::Connected, Fate::SaidGoodbye] {
            assert!(kept(fate, &[]) && !kept(fate, &[1]), "{fate:?}");
        }
        {
            let fate = Fate::TakenForDead;
            assert!(
                kept(fate, &[]) && kept(fate, &[1]) && !kept(fate, &[1, 1]),
                "{fate:?}"
            );
        }
        for fate in [Fate::Lost, Fate::Died] {
            assert!(
                !kept(fate, &[]) && kept(fate, &[1]) && !kept(fate, &[1, 1]),
                "{fate:?}"
            );
        }
        assert!(!kept(Fate::Lost, &[1, 2]), "nobody has it");
    }
}
