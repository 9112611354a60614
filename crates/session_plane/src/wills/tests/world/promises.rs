//! Promise W1: what the world has seen of each will, and what must hold of it.

use super::{NODES, World};
use crate::wills::tests::*;

/// Will of a connection, as its client knows it.
#[derive(Debug)]
pub(super) struct Record {
    client: usize,
    pub(super) connection: Dot,
    birth: Birth,
    pub(super) is_delayed: bool,
    end: Option<End>,
    /// Session's entry of a CONNECT that has resumed the session on a side that has the will.
    resumed: Option<Dot>,
    /// The session has ended, or another one has begun.
    has_no_session: bool,
    /// The client has connected again.
    has_returned: bool,
    /// Entry of the will, by each number that it was given.
    numbered: BTreeMap<Dot, Dot>,
    publications: Vec<Publication>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Dropped,
    Left {
        at: u64,
        /// All that was published before was known at the connection's side.
        is_settled: bool,
    },
}

#[derive(Debug)]
struct Publication {
    number: Dot,
    by: Run,
    at: u64,
    is_complete: bool,
}

impl Record {
    pub(super) fn new(client: usize, connection: Dot, birth: Birth, is_delayed: bool) -> Record {
        Record {
            client,
            connection,
            birth,
            is_delayed,
            end: None,
            resumed: None,
            has_no_session: false,
            has_returned: false,
            numbered: BTreeMap::new(),
            publications: Vec::new(),
        }
    }

    /// It was published for the end of the connection.
    fn is_published(&self) -> bool {
        let counts = |publication: &Publication| match self.end {
            Some(End::Left { at, is_settled }) => publication.at >= at || !is_settled,
            Some(End::Dropped) | None => false,
        };
        self.publications
            .iter()
            .any(|publication| publication.is_complete && counts(publication))
    }

    /// It has to be published.
    fn is_promised(&self) -> bool {
        matches!(self.end, Some(End::Left { .. })) && !(self.is_delayed && self.has_returned)
    }
}

impl World {
    pub(super) fn note_end(&mut self, content: ContentId, is_dropped: bool) {
        let is_settled = self.is_settled();
        let at = self.moment;
        let record = self.records.get_mut(&content).expect("it has connected");
        record.end.get_or_insert(if is_dropped {
            End::Dropped
        } else {
            End::Left { at, is_settled }
        });
        self.moment += 1;
    }

    /// A CONNECT resumes the session of its client, or begins another one.
    pub(super) fn note_resumed(&mut self, node: usize, id: &ClientId, birth: Birth, resumes: bool, by: Dot) {
        let wills = self.machines[node].state.entries(id, EntryKind::Will);
        let here: BTreeSet<Option<Dot>> = wills.iter().map(|(_, will)| will.fact.named()).collect();
        let of_client = self.records.values_mut();
        for record in of_client.filter(|record| client_id(record.client) == *id) {
            record.has_returned = true;
            if !resumes {
                record.has_no_session = true;
                record.resumed = record.resumed.filter(|_| record.end.is_some());
            } else if here.contains(&Some(record.connection))
                && !record.has_no_session
                && record.birth == birth
            {
                record.resumed = Some(by);
            }
        }
    }

    /// A node gives a will a number, or goes on with one.
    pub(super) fn note_number(&mut self, node: usize, id: &ClientId, will: Dot, number: WillNumber) {
        let state = &self.machines[node].state;
        let entry = state
            .entry(id, EntryKind::Will, will)
            .expect("the will that is due");
        let Value::Text { content, .. } = entry.value else {
            panic!("a will has a text");
        };
        let record = &self.records[&content];
        if number.message_clock.is_none() {
            let home = World::index_of(record.connection.run);
            let has_home = self.has_present(node, home) && self.has_present(home, node);
            let has_home = has_home && self.machines[home].run == record.connection.run;
            let is_dropped = record.end == Some(End::Dropped);
            assert!(!(is_dropped && has_home), "W1 disconnected: {record:?}");
            assert!(record.end.is_some() || !has_home, "W1 open: {record:?}");
            let knows = |dot: Dot| state.copy.has_written(id, dot);
            let is_resumed = record.is_delayed && record.resumed.is_some_and(knows);
            assert!(!is_resumed, "W1 resumed: {record:?}");
        }
        let record = self.records.get_mut(&content).expect("looked at above");
        let before = record.numbered.insert(number.number, will);
        assert!(
            before.is_none_or(|before| before == will),
            "a number is of one will"
        );
    }

    /// A node begins to route a will, or sends it again.
    pub(super) fn note_route(&mut self, node: usize, number: Dot, content: ContentId) {
        let record = &self.records[&content];
        let mut publications = record.publications.iter();
        if publications.any(|publication| publication.number == number) {
            return;
        }
        let of = record.numbered[&number];
        for before in &record.publications {
            let is_same = record.numbered[&before.number] == of;
            assert!(
                !(is_same && self.is_known_here(node, number, before)),
                "W1 twice: node {node} publishes {record:?} as {number:?} after {before:?}"
            );
        }
        let (by, at) = (self.machines[node].run, self.moment);
        let record = self.records.get_mut(&content).expect("looked at above");
        record.publications.push(Publication {
            number,
            by,
            at,
            is_complete: false,
        });
    }

    /// A node of the side knew a publication before the node has waited for that side, or routes it.
    fn is_known_here(&self, node: usize, number: Dot, before: &Publication) -> bool {
        let Some(side) = self.living_side(node) else {
            return false;
        };
        let since = self.machines[node]
            .waited
            .get(&number)
            .copied()
            .unwrap_or(self.moment);
        let has_heard = |peer: usize| {
            let heard = self.machines[peer].heard.get(&before.number);
            heard.is_some_and(|heard| *heard < since)
        };
        let is_here = |peer: usize| self.machines[peer].run == before.by;
        side.iter().any(|peer| has_heard(*peer) || is_here(*peer))
    }

    /// All nodes of the publisher's view have a will.
    pub(super) fn note_published(&mut self, node: usize, number: Dot) {
        for peer in self.machines[node].state.view.keys() {
            let is_there = self.machines[*peer].is_up && self.has_present(node, *peer);
            let has_it = self.machines[*peer].state.copy.covered.covers(number);
            assert!(has_it || !is_there, "node {peer} lacks {number:?}");
        }
        let publications = self
            .records
            .values_mut()
            .flat_map(|record| &mut record.publications);
        let mut of_number = publications.filter(|publication| publication.number == number);
        let publication = of_number.next().expect("it was routed");
        publication.is_complete = true;
    }

    #[track_caller]
    pub(in crate::wills::tests) fn assert_at_rest(&self) {
        assert!(self.is_settled());
        for record in self.records.values().filter(|record| record.is_promised()) {
            assert!(record.is_published(), "W1 lost: {record:?}");
        }
        for node in 0..NODES {
            let machine = &self.machines[node];
            assert_eq!((machine.wills.firing(), machine.wills.waiting()), (0, 0));
            assert_eq!(machine.wills.leaving(), 0);
            assert_eq!(machine.publishing.reserved(), VersionVector::default());
            for client in (0..super::CLIENTS).map(client_id) {
                for will in machine.state.wills(&client) {
                    assert!(will.numbers.is_empty(), "{will:?} was published");
                    assert!(!will.is_ended, "{will:?} was not published");
                }
            }
        }
    }
}
