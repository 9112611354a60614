//! A group of one. What needs three is in `three`; what needs disks, too, in the tests of `storage`.

mod three;

use std::time::Instant;

use bytes::Bytes;

use super::record::{self, HardState, LogPoint};
use super::{Action, Event, Members, ReadId, Recovered, Refusal, Replica, ReplicaConfig, Request, Ticket};
use crate::{GroupId, Index, NodeId, Term};

const GROUP: GroupId = GroupId(7);
const NODE: NodeId = NodeId(0xA);

/// A replica with its clock and the actions of the last call.
struct Alone {
    now: Instant,
    replica: Replica,
    actions: Vec<Action>,
}

impl Alone {
    fn start(recovered: Recovered) -> Alone {
        Self::start_with(recovered, |_| {})
    }

    fn start_with(recovered: Recovered, change: impl FnOnce(&mut ReplicaConfig)) -> Alone {
        let mut config = ReplicaConfig::new(GROUP, NODE, vec![NODE], 1);
        change(&mut config);
        let mut actions = Vec::new();
        let now = origin();
        let replica = Replica::new(now, config, recovered, &mut actions).unwrap();
        Alone {
            now,
            replica,
            actions,
        }
    }

    /// A replica that leads and has nothing on the way.
    fn leading() -> Alone {
        let mut alone = Self::start(Recovered::nothing());
        alone.persisted(1);
        assert!(alone.replica.is_leader());
        alone
    }

    fn step(&mut self, event: Event) -> &[Action] {
        self.actions.clear();
        self.replica.step(self.now, event, &mut self.actions);
        &self.actions
    }

    fn propose(&mut self, data: &'static str) -> &[Action] {
        self.step(Event::Propose {
            data: Bytes::from_static(data.as_bytes()),
        })
    }

    fn persisted(&mut self, ticket: u64) -> &[Action] {
        self.step(Event::Persisted {
            ticket: Ticket(ticket),
        })
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "a test needs some instant as its origin"
)]
pub(super) fn origin() -> Instant {
    Instant::now()
}

fn apply(index: u64, term: u64, data: &'static str) -> Action {
    Action::Apply {
        index: Index(index),
        term: Term(term),
        data: Bytes::from_static(data.as_bytes()),
    }
}

#[test]
fn the_only_voter_leads_when_its_election_is_durable() {
    let mut alone = Alone::start(Recovered::nothing());
    let [
        Action::Persist {
            ticket: Ticket(1),
            writes,
        },
    ] = &alone.actions[..]
    else {
        panic!("expected one persist: {:?}", alone.actions);
    };
    assert_eq!(
        writes.len(),
        3,
        "voters, hard state and the entry that opens the term: {writes:?}"
    );
    assert!(!alone.replica.is_leader());

    let leads = Action::Leadership {
        leader: Some(NODE),
        term: Term(1),
    };
    assert_eq!(alone.persisted(1), [leads]);
    assert_eq!(
        alone.replica.applied(),
        LogPoint {
            index: Index(1),
            term: Term(1)
        }
    );
}

#[test]
fn it_needs_no_timer() {
    assert_eq!(Alone::leading().replica.deadline(), None);
}

#[test]
fn an_entry_is_applied_only_when_it_is_durable() {
    let mut alone = Alone::leading();
    let [
        Action::Persist {
            ticket: Ticket(2),
            writes,
        },
    ] = alone.propose("a")
    else {
        panic!()
    };
    assert_eq!(
        writes.len(),
        1,
        "neither hard state nor commit index is written again"
    );
    assert_eq!(alone.persisted(2), [apply(2, 1, "a")]);
}

#[test]
fn proposals_do_not_wait_for_the_disk() {
    let mut alone = Alone::leading();
    alone.propose("a");
    alone.propose("b");
    assert!(matches!(
        alone.propose("c"),
        [Action::Persist {
            ticket: Ticket(4),
            ..
        }]
    ));
    assert_eq!(alone.persisted(3), [apply(2, 1, "a"), apply(3, 1, "b")]);
    assert_eq!(alone.persisted(4), [apply(4, 1, "c")]);
}

#[test]
fn a_read_is_ready_at_once() {
    let mut alone = Alone::leading();
    alone.propose("a");
    let read = ReadId(5);
    assert_eq!(
        alone.step(Event::Read { read }),
        [Action::ReadReady {
            read,
            index: Index(1)
        }]
    );
}

#[test]
fn requests_before_leadership_are_refused() {
    let mut alone = Alone::start(Recovered::nothing());
    let refusal = Refusal::NotLeader { leader: None };
    let request = Request::Propose {
        data: Bytes::from_static(b"a"),
    };
    assert_eq!(alone.propose("a"), [Action::Refused { request, refusal }]);
    let read = ReadId(1);
    assert_eq!(
        alone.step(Event::Read { read }),
        [Action::Refused {
            request: Request::Read { read },
            refusal
        }]
    );
}

#[test]
fn proposals_beyond_the_limit_are_handed_back() {
    let mut alone = Alone::start_with(Recovered::nothing(), |config| config.uncommitted_bytes_max = 4);
    alone.persisted(1);
    assert!(
        matches!(alone.propose("larger than the limit"), [Action::Persist { .. }]),
        "one is always taken"
    );
    let request = Request::Propose {
        data: Bytes::from_static(b"b"),
    };
    assert_eq!(
        alone.propose("b"),
        [Action::Refused {
            request,
            refusal: Refusal::UncommittedBytesMax
        }]
    );
    alone.persisted(2);
    assert!(matches!(alone.propose("b"), [Action::Persist { .. }]));
    assert!(matches!(alone.propose("ccc"), [Action::Persist { .. }]));
    assert!(matches!(alone.propose("d"), [Action::Refused { .. }]));
}

#[test]
fn recovered_entries_are_applied_in_a_new_term() {
    let entry = |index, term, data: &'static str| record::Entry {
        index: Index(index),
        term: Term(term),
        kind: record::EntryKind::Data,
        data: Bytes::from_static(data.as_bytes()),
    };
    let recovered = Recovered {
        hard_state: HardState {
            term: Term(3),
            vote: Some(NODE),
        },
        members: Some(Members::founders([NODE])),
        log_start: LogPoint {
            index: Index(10),
            term: Term(1),
        },
        log_start_moved: false,
        snapshot: LogPoint {
            index: Index(11),
            term: Term(2),
        },
        entries: vec![
            entry(11, 2, "in the snapshot"),
            entry(12, 3, "b"),
            entry(13, 3, "c"),
        ],
        removable_from: Index(11),
        stale_through: None,
        is_stateless: false,
        missing_through: None,
        acknowledged_by: std::collections::BTreeMap::new(),
    };
    let mut alone = Alone::start(recovered);
    assert!(matches!(&alone.actions[..], [Action::Persist { writes, .. }] if writes.len() == 2));
    assert_eq!(
        alone.persisted(1),
        [
            apply(12, 3, "b"),
            apply(13, 3, "c"),
            Action::Leadership {
                leader: Some(NODE),
                term: Term(4)
            }
        ]
    );
}
