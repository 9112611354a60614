use super::node::{node, vector};
use super::*;

/// Copy of an owner, which is merged or not.
struct Owner {
    copy: Sample,
    is_merged: bool,
}

impl OwnedSessions<Value> for Owner {
    fn read(&self, client: &ClientId, known: &VersionVector) -> Option<KnownSession<Value>> {
        let is_ready = self.is_merged && self.copy.has_all(known);
        is_ready.then(|| KnownSession::of_copy(&self.copy, client))
    }
}

impl Owner {
    fn new() -> Owner {
        Owner {
            copy: Sample::new(VersionVector::default()),
            is_merged: true,
        }
    }

    fn take(&mut self, dot: Dot, fact: Fact) {
        let taken = self.copy.apply(Change {
            dot,
            client: client(0),
            removes: Vec::new(),
            adds: Some(entry_of(fact, birth_of(dot), Hlc::at(dot.number), dot)),
        });
        taken.expect("room");
    }
}

const WAIT_MAX: Duration = Duration::from_secs(5);

fn questions(waiting_per_peer_max: usize) -> Questions {
    Questions::new(QuestionLimits {
        waiting_per_peer_max,
        wait_max: WAIT_MAX,
    })
}

fn ask(connection: Dot, round: u64, known: &[Dot]) -> AskSession {
    AskSession {
        client: client(0),
        connection,
        round,
        known: Arc::new(vector(known)),
    }
}

struct Asked {
    now: Instant,
    questions: Questions,
    owner: Owner,
}

impl Asked {
    fn new(waiting_per_peer_max: usize) -> Asked {
        Asked {
            now: *ORIGIN,
            questions: questions(waiting_per_peer_max),
            owner: Owner::new(),
        }
    }

    fn ask(&mut self, ask: AskSession) -> Vec<Outgoing<Value>> {
        let mut outgoing = Vec::new();
        let from = ask.connection.run.node;
        let asked = self
            .questions
            .ask(self.now, from, ask, &self.owner, &mut outgoing);
        asked.expect("the question is good");
        outgoing
    }

    fn copy_ready(&mut self) -> Vec<Outgoing<Value>> {
        let mut outgoing = Vec::new();
        self.questions.copy_ready(slot(), &self.owner, &mut outgoing);
        outgoing
    }

    fn tick(&mut self, after: Duration) -> Vec<Outgoing<Value>> {
        let mut outgoing = Vec::new();
        self.questions.tick(self.now + after, &mut outgoing);
        outgoing
    }
}

fn answer(outgoing: &[Outgoing<Value>]) -> &SessionAnswer<Value> {
    match outgoing {
        [
            Outgoing {
                message: ConnectingMessage::Session(answer),
                to,
            },
        ] => {
            assert_eq!(*to, answer.connection.run.node);
            answer
        }
        other => panic!("{other:?} is no answer"),
    }
}

fn refused(connection: Dot, round: u64, reason: AskRefusal) -> Outgoing<Value> {
    let message = ConnectingMessage::Refused(QuestionRefused {
        connection,
        round,
        reason,
    });
    let to = connection.run.node;
    Outgoing { to, message }
}

#[test]
fn an_owner_answers_with_the_client_s_entries() {
    let mut asked = Asked::new(1);
    let (connection, old) = (dot(1, 1), dot(2, 5));
    asked.owner.take(connection, Fact::Connection);
    asked.owner.take(old, Fact::Connection);
    asked.owner.take(dot(2, 6), Fact::Subscription);
    asked.owner.take(dot(2, 7), Fact::Message);
    let outgoing = asked.ask(ask(connection, 3, &[connection]));
    let answer = answer(&outgoing);
    assert_eq!((answer.connection, answer.round), (connection, 3));
    let dots: BTreeSet<Dot> = answer.session.entries().iter().map(|(id, _)| id.dot).collect();
    let expected = BTreeSet::from([connection, old, dot(2, 6)]);
    assert_eq!(dots, expected, "the queue comes with the feed");
    assert_eq!(asked.questions.waiting(), 0);
}

/// Rule `serve-merged`.
#[test]
fn a_question_waits_until_the_copy_is_merged() {
    let mut asked = Asked::new(1);
    let connection = dot(1, 1);
    asked.owner.take(connection, Fact::Connection);
    asked.owner.is_merged = false;
    assert_eq!(asked.ask(ask(connection, 1, &[])), []);
    assert_eq!(asked.copy_ready(), []);
    asked.owner.is_merged = true;
    assert_eq!(answer(&asked.copy_ready()).round, 1);
    assert_eq!(asked.copy_ready(), [], "it is answered once");
    assert_eq!(asked.questions.deadline(), None);
}

/// Rule `ask-with-known`.
#[test]
fn a_question_waits_until_the_copy_has_what_the_asker_knows() {
    let mut asked = Asked::new(1);
    let (connection, known) = (dot(1, 1), dot(2, 1));
    asked.owner.take(connection, Fact::Connection);
    assert_eq!(asked.ask(ask(connection, 1, &[known])), []);
    asked.owner.take(known, Fact::Connection);
    let outgoing = asked.copy_ready();
    let entries = answer(&outgoing).session.entries();
    let kind = EntryKind::Connection;
    assert!(entries.get(crate::EntryId { kind, dot: known }).is_some());
}

/// So one of two claims sees the other at this owner, whatever their nodes know.
#[test]
fn a_question_waits_for_the_entry_of_its_connection() {
    let mut asked = Asked::new(1);
    let connection = dot(1, 1);
    assert_eq!(asked.ask(ask(connection, 1, &[])), []);
    asked.owner.take(connection, Fact::Connection);
    assert_eq!(answer(&asked.copy_ready()).connection, connection);
}

#[test]
fn a_later_question_replaces_the_earlier_one() {
    let mut asked = Asked::new(1);
    let connection = dot(1, 1);
    assert_eq!(asked.ask(ask(connection, 1, &[])), []);
    assert_eq!(asked.ask(ask(connection, 2, &[])), [], "its place is free");
    asked.owner.take(connection, Fact::Connection);
    assert_eq!(answer(&asked.copy_ready()).round, 2);
}

#[test]
fn questions_of_a_peer_are_bounded() {
    let mut asked = Asked::new(2);
    for number in 1..=2 {
        assert_eq!(asked.ask(ask(dot(1, number), 1, &[])), []);
    }
    let further = asked.ask(ask(dot(1, 3), 1, &[]));
    assert_eq!(further, [refused(dot(1, 3), 1, AskRefusal::Full)]);
    assert_eq!(asked.ask(ask(dot(2, 1), 1, &[])), [], "another peer has room");
    assert_eq!(asked.questions.waiting(), 3);
}

#[test]
fn a_question_waits_no_longer_than_it_may() {
    let mut asked = Asked::new(2);
    let connection = dot(1, 1);
    asked.ask(ask(connection, 4, &[]));
    assert_eq!(asked.questions.deadline(), Some(asked.now + WAIT_MAX));
    assert_eq!(asked.tick(WAIT_MAX - Duration::from_millis(1)), []);
    assert_eq!(
        asked.tick(WAIT_MAX),
        [refused(connection, 4, AskRefusal::NotReady)]
    );
    assert_eq!(asked.questions.waiting(), 0);
    assert_eq!(asked.tick(WAIT_MAX), []);
}

#[test]
fn questions_of_a_node_that_was_given_up_are_forgotten() {
    let mut asked = Asked::new(2);
    for of in [1, 2] {
        asked.ask(ask(dot(of, 1), 1, &[]));
    }
    asked.questions.lose_peer(node(1));
    assert_eq!(asked.questions.waiting(), 1);
    assert_eq!(
        asked.tick(WAIT_MAX),
        [refused(dot(2, 1), 1, AskRefusal::NotReady)]
    );
}

#[test]
fn a_question_is_of_a_connection_of_its_sender() {
    let mut asked = Asked::new(2);
    let mut outgoing: Vec<Outgoing<Value>> = Vec::new();
    let mut bad = |from, dot| {
        let ask = ask(dot, 1, &[]);
        asked
            .questions
            .ask(asked.now, from, ask, &asked.owner, &mut outgoing)
    };
    let (peer, of_other) = (node(1), dot(2, 1));
    let error = ConnectingError::OfAnotherNode { peer, dot: of_other };
    assert_eq!(bad(peer, of_other), Err(error));
    assert_eq!(bad(peer, dot(1, 0)), Err(ConnectingError::NoEvent { peer }));
    assert_eq!(asked.questions.waiting(), 0);
}
