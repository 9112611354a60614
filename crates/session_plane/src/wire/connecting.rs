//! Connecting: questions for a session, answers of owners, and releases.
//!
//! ```text
//! question | client, connection that asks, round, known
//! answer   | connection that asks, round, form; of form 0: session
//! session  | covered, single dots, entries
//! release  | old connection, claimant
//! claimant | clock, dot
//! released | old connection, connection that claims, is_agreed
//! ```
//!
//! A refusal is a form of the answer. The entries of a session are in ascending order of their
//! kinds, then of their dots, each once.

use std::collections::BTreeSet;
use std::sync::Arc;

use cluster::session_plane::Hlc;

use super::entry::put_listed;
use super::field::{Field, Positive};
use super::reader::Reader;
use super::with_kind::WithKind;
use super::writer::Writer;
use super::{Fault, Kind, WireError, WireValue};
use crate::connecting::{
    AskRefusal, AskSession, Claimant, ConnectingMessage, KnownSession, QuestionRefused, Release, Released,
    SessionAnswer,
};
use crate::queue_limits::QueueValue;
use crate::transfer::ListedEntry;
use crate::{ClientId, Dot, VersionVector};

impl<V: WireValue + QueueValue + Ord> WithKind for ConnectingMessage<V> {
    fn kind(&self) -> Kind {
        match self {
            ConnectingMessage::Ask(_) => Kind::AskSession,
            ConnectingMessage::Session(_) | ConnectingMessage::Refused(_) => Kind::Session,
            ConnectingMessage::Release(_) => Kind::Release,
            ConnectingMessage::Released(_) => Kind::Released,
        }
    }

    fn put_fields(&self, writer: &mut Writer) {
        match self {
            ConnectingMessage::Ask(ask) => writer.put(ask),
            ConnectingMessage::Session(answer) => {
                writer.put(&answer.connection);
                writer.put(&Positive(answer.round));
                writer.put(&AnswerForm::Session);
                writer.put(&answer.session);
            }
            ConnectingMessage::Refused(refused) => {
                writer.put(&refused.connection);
                writer.put(&Positive(refused.round));
                writer.put(&AnswerForm::Refused(refused.reason));
            }
            ConnectingMessage::Release(release) => writer.put(release),
            ConnectingMessage::Released(released) => writer.put(released),
        }
    }

    fn take_fields(reader: &mut Reader, kind: Kind) -> Result<ConnectingMessage<V>, WireError> {
        Ok(match kind {
            Kind::AskSession => ConnectingMessage::Ask(reader.take("question")?),
            Kind::Session => return take_answer(reader),
            Kind::Release => ConnectingMessage::Release(reader.take("release")?),
            Kind::Released => ConnectingMessage::Released(reader.take("answer")?),
            _ => return Err(WireError::MisplacedKind { kind }),
        })
    }
}

/// Reads the answer of an owner: the session, or a refusal.
fn take_answer<V: WireValue + QueueValue + Ord>(
    reader: &mut Reader,
) -> Result<ConnectingMessage<V>, WireError> {
    let connection = reader.take("connection that asks")?;
    let Positive(round) = reader.take("round")?;
    Ok(match reader.take("form of an answer")? {
        AnswerForm::Session => ConnectingMessage::Session(SessionAnswer {
            connection,
            round,
            session: reader.take("session")?,
        }),
        AnswerForm::Refused(reason) => ConnectingMessage::Refused(QuestionRefused {
            connection,
            round,
            reason,
        }),
    })
}

/// Form of an owner's answer.
#[derive(Debug)]
enum AnswerForm {
    Session,
    Refused(AskRefusal),
}

impl Field for AnswerForm {
    const BYTES_MIN: usize = 1;

    fn put(&self, writer: &mut Writer) {
        writer.put_byte(match self {
            AnswerForm::Session => 0,
            AnswerForm::Refused(AskRefusal::Full) => 1,
            AnswerForm::Refused(AskRefusal::NotReady) => 2,
        });
    }

    fn take(reader: &mut Reader) -> Result<AnswerForm, WireError> {
        Ok(match reader.byte()? {
            0 => AnswerForm::Session,
            1 => AnswerForm::Refused(AskRefusal::Full),
            2 => AnswerForm::Refused(AskRefusal::NotReady),
            found => return Err(reader.error(Fault::UnknownForm { found })),
        })
    }
}

impl Field for AskSession {
    const BYTES_MIN: usize =
        ClientId::BYTES_MIN + Dot::BYTES_MIN + Positive::BYTES_MIN + VersionVector::BYTES_MIN;

    fn put(&self, writer: &mut Writer) {
        writer.put(&self.client);
        writer.put(&self.connection);
        writer.put(&Positive(self.round));
        writer.put(self.known.as_ref());
    }

    fn take(reader: &mut Reader) -> Result<AskSession, WireError> {
        let client = reader.take("client")?;
        let connection = reader.take("connection that asks")?;
        let Positive(round) = reader.take("round")?;
        Ok(AskSession {
            client,
            connection,
            round,
            known: Arc::new(reader.take("knowledge")?),
        })
    }
}

impl<V: WireValue + QueueValue + Ord> Field for KnownSession<V> {
    const BYTES_MIN: usize = VersionVector::BYTES_MIN + 2;

    fn put(&self, writer: &mut Writer) {
        writer.put(self.covered());
        writer.put(&self.single().collect::<BTreeSet<Dot>>());
        writer.put_number(self.entries().len() as u64);
        for (id, entry) in self.entries().iter() {
            put_listed(writer, id.dot, entry);
        }
    }

    fn take(reader: &mut Reader) -> Result<KnownSession<V>, WireError> {
        let covered = reader.take("events that an owner has decided upon")?;
        let single = reader.take("single dots")?;
        let listed: Vec<ListedEntry<V>> = reader.take("entries of a session")?;
        let id = |listed: &ListedEntry<V>| listed.entry.id(listed.dot);
        if !listed.is_sorted_by(|one, other| id(one) < id(other)) {
            return Err(reader.error(Fault::NotAscending));
        }
        let listed = listed.into_iter().map(|listed| (listed.dot, listed.entry));
        let session = KnownSession::from_parts(covered, single, listed.collect());
        session.map_err(|error| reader.error(error))
    }
}

impl Field for Claimant {
    const BYTES_MIN: usize = Hlc::BYTES_MIN + Dot::BYTES_MIN;

    fn put(&self, writer: &mut Writer) {
        writer.put(&self.clock);
        writer.put(&self.dot);
    }

    fn take(reader: &mut Reader) -> Result<Claimant, WireError> {
        Ok(Claimant {
            clock: reader.take("clock of a claimant")?,
            dot: reader.take("dot of a claimant")?,
        })
    }
}

impl Field for Release {
    const BYTES_MIN: usize = Dot::BYTES_MIN + 1;

    fn put(&self, writer: &mut Writer) {
        writer.put(&self.old);
        writer.put(&self.by);
    }

    fn take(reader: &mut Reader) -> Result<Release, WireError> {
        Ok(Release {
            old: reader.take("connection that is to end")?,
            by: reader.take("claimant")?,
        })
    }
}

impl Field for Released {
    const BYTES_MIN: usize = 2 * Dot::BYTES_MIN + bool::BYTES_MIN;

    fn put(&self, writer: &mut Writer) {
        writer.put(&self.old);
        writer.put(&self.by);
        writer.put(&self.is_agreed);
    }

    fn take(reader: &mut Reader) -> Result<Released, WireError> {
        Ok(Released {
            old: reader.take("connection that was to end")?,
            by: reader.take("connection that claims")?,
            is_agreed: reader.take("agreement")?,
        })
    }
}
