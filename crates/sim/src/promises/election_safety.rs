//! Election safety: a term of a group has one leader at most. (Ongaro, "Consensus: bridging theory and practice", 2014, section 3.4)

use std::collections::BTreeMap;

use cluster::{GroupId, Term};

/// Who led in which term.
#[derive(Debug, Default)]
pub(crate) struct Leaders(BTreeMap<(GroupId, Term), u64>);

impl Leaders {
    /// A node says that it leads.
    pub(crate) fn leads(&mut self, group: GroupId, term: Term, node: u64) -> Result<(), String> {
        let leader = *self.0.entry((group, term)).or_insert(node);
        if leader == node {
            Ok(())
        } else {
            Err(format!(
                "election safety: {leader} and {node} lead group {group} in term {term}"
            ))
        }
    }

    /// In how many terms somebody led.
    pub(crate) fn terms(&self) -> u64 {
        self.0.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_leaders_of_a_term_are_found() {
        let mut leaders = Leaders::default();
        let group = GroupId(0);
        assert!(leaders.leads(group, Term(1), 1).is_ok());
        assert!(leaders.leads(group, Term(1), 1).is_ok());
        assert!(leaders.leads(group, Term(2), 2).is_ok());
        assert!(leaders.leads(GroupId(1), Term(1), 2).is_ok());
        assert!(leaders.leads(group, Term(1), 2).is_err());
    }
}
