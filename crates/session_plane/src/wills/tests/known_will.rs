//! Wills as the entries of a client say them.

use super::node::{dot, number_of};
use super::*;
use crate::SessionEntries;

const CONNECTION: u64 = 1;
const SESSION: u64 = 2;

/// Entries of a client of node 2, made at the clocks of their numbers.
#[derive(Default)]
struct Entries(SessionEntries<Value>);

impl Entries {
    fn with(mut self, number: u64, fact: Fact, value: Value) -> Entries {
        let birth = Birth {
            dot: dot(2, SESSION),
            clock: Hlc::at(SESSION),
            is_clean: false,
        };
        let clock = Hlc::at(number);
        self.0.insert(
            dot(2, number),
            Entry {
                birth,
                clock,
                fact,
                value,
            },
        );
        self
    }

    fn connection(self) -> Entries {
        self.with(CONNECTION, Fact::Connection, Value::Nothing)
    }

    fn session(self) -> Entries {
        self.with(SESSION, Fact::Session { connected: None }, Value::Nothing)
    }

    fn will(self, number: u64) -> Entries {
        let terms = WillTerms {
            connection: dot(2, CONNECTION),
            delayed_since: None,
        };
        let content = ContentId(u128::from(number));
        let value = Value::Text {
            content,
            delay: DELAY,
        };
        self.with(number, Fact::Will(Box::new(terms)), value)
    }

    fn end(self, number: u64, delay: Option<Duration>) -> Entries {
        let connection = dot(2, CONNECTION);
        self.with(number, Fact::ConnectionEnd { connection }, Value::End { delay })
    }

    fn number(self, number: u64, of: u64, named: Dot) -> Entries {
        let value = Value::Number(WillNumber {
            number: named,
            message_clock: None,
        });
        self.with(number, Fact::WillNumber { will: dot(2, of) }, value)
    }

    #[track_caller]
    fn only_will(&self) -> KnownWill {
        let mut known = known_wills(&self.0, |_| true);
        assert_eq!(known.len(), 1);
        known.remove(0)
    }
}

#[test]
fn a_will_is_known_with_what_stands_beside_it() {
    let open = Entries::default().connection().session().will(3);
    let will = open.only_will();
    assert_eq!((will.will, will.connection), (dot(2, 3), dot(2, 1)));
    assert_eq!((will.content, will.delay), (ContentId(3), DELAY));
    assert_eq!((will.is_ended, will.has_connection), (false, true));
    let ended = Entries::default().session().will(3).end(4, None);
    let ended = ended.number(5, 3, number_of(2, 1)).number(6, 9, number_of(2, 2));
    let will = ended.only_will();
    assert_eq!((will.is_ended, will.has_connection), (true, false));
    let numbers: Vec<Dot> = will.numbers.iter().map(|entry| entry.number.number).collect();
    assert_eq!(numbers, [number_of(2, 1)], "of this will");
    assert_eq!(will.entries, [3, 4, 5].map(|number| dot(2, number)).into());
    assert_eq!(
        known_wills(&Entries::default().will(3).0, |_| true),
        [],
        "nothing has left it"
    );
}

#[test]
fn the_delay_is_that_of_the_end_and_none_without_a_session() {
    let short = Duration::from_secs(1);
    let will = |entries: Entries| entries.will(3).only_will().delay;
    let entries = || Entries::default().session();
    assert_eq!(will(entries().end(4, None)), DELAY);
    assert_eq!(will(entries().end(4, Some(short))), short);
    assert_eq!(will(Entries::default().end(4, Some(short))), Duration::ZERO);
    let to_come = Entries::default().will(3).end(4, None).0;
    let known = known_wills(&to_come, |event| event != dot(2, SESSION));
    assert_eq!(known[0].delay, DELAY, "the session may still come");
}

#[test]
fn of_two_wills_of_a_connection_the_later_one_counts_and_all_are_removed() {
    let armed = Entries::default().connection().session().will(3).will(7);
    let armed = armed.number(4, 3, number_of(2, 1));
    let will = armed.only_will();
    assert_eq!((will.will, will.content), (dot(2, 7), ContentId(7)));
    assert_eq!(will.numbers, []);
    assert_eq!(will.entries, [3, 4, 7].map(|number| dot(2, number)).into());
}

#[test]
fn values_of_another_kind_are_no_will() {
    let terms = WillTerms {
        connection: dot(2, CONNECTION),
        delayed_since: None,
    };
    let wrong = Entries::default()
        .connection()
        .with(3, Fact::Will(Box::new(terms)), Value::Nothing);
    assert_eq!(known_wills(&wrong.0, |_| true), []);
    let number = Fact::WillNumber { will: dot(2, 3) };
    let wrong = Entries::default()
        .connection()
        .will(3)
        .with(4, number, Value::Nothing);
    assert_eq!(wrong.only_will().numbers, []);
}
