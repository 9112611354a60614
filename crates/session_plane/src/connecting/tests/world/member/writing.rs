//! Events of a node: changes that its connections write.

use super::*;

impl Member {
    /// Makes an event; gives its number.
    pub(super) fn emit(
        &mut self,
        connection: ConnectionId,
        removes: BTreeSet<Dot>,
        after: Hlc,
        sent: &mut Sent,
        adds: impl FnOnce(Dot) -> Option<(Fact, Birth)>,
    ) -> u64 {
        self.number += 1;
        self.clock = self.clock.max(after.wall()) + 1;
        let (run, number, clock) = (self.run, self.number, Hlc::at(self.clock));
        let dot = Dot { run, number };
        let change = Change {
            dot,
            client: crate::copy::tests::history::client(self.links[&connection].client),
            removes: removes.into_iter().collect(),
            adds: adds(dot).map(|(fact, birth)| entry_of(fact, birth, clock, dot)),
        };
        self.take(change.clone());
        let letter = Letter::Event(change, self.clock);
        sent.letters
            .extend(self.peers().map(|peer| (peer, letter.clone())));
        self.wait(number, connection, Awaited::Nothing);
        self.answer_questions(sent);
        number
    }

    /// Makes the event of a connection.
    fn open_connection(&mut self, connection: ConnectionId, sent: &mut Sent) {
        let open = |dot| Some((Fact::Connection, birth_of(dot)));
        let number = self.emit(connection, BTreeSet::new(), Hlc::ZERO, sent, open);
        let run = self.run;
        let written = Event::Written {
            connection,
            dot: Dot { run, number },
            clock: Hlc::at(self.clock),
        };
        self.step(written, sent);
    }

    pub(super) fn write(&mut self, connection: ConnectionId, write: Write, sent: &mut Sent) {
        let client = self.links[&connection].client;
        match write {
            Write::Connection => self.open_connection(connection, sent),
            Write::OlderEnded(ended) => {
                let removes = BTreeSet::from([ended.connection]);
                self.emit(connection, removes, Hlc::ZERO, sent, |_| None);
            }
            Write::SessionEnd(end) => {
                sent.reports.push(Report::SessionEnded { client });
                let left = |_| end.left.map(|left| (left.fact, left.birth));
                self.emit(connection, end.removes, Hlc::ZERO, sent, left);
            }
            Write::SessionStart(start) => {
                sent.reports.push(Report::SessionBegun { client });
                let birth = start.birth;
                let connected = Some(start.connected);
                let session = |dot| Some((Fact::Session { connected }, birth.at(dot)));
                let number = self.emit(connection, start.removes, start.after, sent, session);
                let dot = Dot {
                    run: self.run,
                    number,
                };
                self.links.get_mut(&connection).expect("a link").birth = Some(birth.at(dot));
                self.step(Event::SessionWritten { connection, dot }, sent);
            }
            Write::Closed { dot } => {
                self.emit(connection, BTreeSet::from([dot]), Hlc::ZERO, sent, |_| None);
                self.links.remove(&connection);
            }
        }
    }
}
