//! What travels on a connection between two nodes after the hello.
//!
//! Numbers big endian; `length` is that of what follows it.
//!
//! ```text
//! length u32 | kind u8 | ...
//!   1 message   | what a node gave its edge to send
//!   2 ping      | number u64                     are you there?
//!   3 pong      | number u64 | wall clock u64    I am
//!   4 refused   | code u8 | text                 I do not go on with you
//!   5 statement | forming/statement.rs           what I know of the cluster that is to be formed
//!   6 welcome   |                                I go on with you
//! ```

use bytes::{Buf, BufMut, Bytes, BytesMut};

use super::refusal::Refusal;
use crate::forming::Statement;

/// What travels on a connection between two nodes after the hello.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Frame {
    /// What a node gave its edge to send.
    Message(Bytes),
    /// Are you there?
    Ping {
        /// For the answer.
        number: u64,
    },
    /// The answer.
    Pong {
        /// As asked.
        number: u64,
        /// The wall clock of who answers, in milliseconds since the Unix epoch.
        wall: u64,
    },
    /// The other side does not go on.
    Refused(Refusal),
    /// What the other side knows of the cluster that is to be formed.
    Statement(Statement),
    /// The other side goes on.
    Welcome,
}

/// Which frame it is; for who writes it in two pieces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// [`Frame::Message`]
    Message = 1,
    /// [`Frame::Ping`]
    Ping = 2,
    /// [`Frame::Pong`]
    Pong = 3,
    /// [`Frame::Refused`]
    Refused = 4,
    /// [`Frame::Statement`]
    Statement = 5,
    /// [`Frame::Welcome`]
    Welcome = 6,
}

/// A longer frame ends the connection. The longest packet of MQTT has 256 MiB, and some such may come to a log entry's mebibyte.
pub const FRAME_BYTES_MAX: usize = 320 << 20;

/// Bytes that are no frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// It is longer than any.
    #[error("a frame of {0} bytes is longer than {FRAME_BYTES_MAX}")]
    Length(usize),
    /// This version has no such kind.
    #[error("a frame of the unknown kind {0}")]
    Kind(u8),
    /// It does not follow its own form.
    #[error("a frame is damaged")]
    Damaged,
}

const LENGTH_BYTES: usize = 4;

impl Frame {
    /// What comes before the body of a frame with so many bytes in it.
    pub fn header(kind: Kind, body: usize) -> [u8; LENGTH_BYTES + 1] {
        let length = u32::try_from(body + 1).expect("a frame is shorter than FRAME_BYTES_MAX");
        let [a, b, c, d] = length.to_be_bytes();
        [a, b, c, d, kind as u8]
    }

    /// Appends it.
    pub fn encode(&self, to: &mut BytesMut) {
        let begin = to.len();
        to.put_slice(&Self::header(self.kind(), 0));
        match self {
            Self::Message(message) => to.put_slice(message),
            Self::Ping { number } => to.put_u64(*number),
            Self::Pong { number, wall } => {
                to.put_u64(*number);
                to.put_u64(*wall);
            }
            Self::Refused(refusal) => refusal.encode(to),
            Self::Statement(statement) => statement.encode(to),
            Self::Welcome => {}
        }
        let body = to.len() - begin - LENGTH_BYTES - 1;
        to[begin..][..=LENGTH_BYTES].copy_from_slice(&Self::header(self.kind(), body));
    }

    fn kind(&self) -> Kind {
        match self {
            Self::Message(_) => Kind::Message,
            Self::Ping { .. } => Kind::Ping,
            Self::Pong { .. } => Kind::Pong,
            Self::Refused(_) => Kind::Refused,
            Self::Statement(_) => Kind::Statement,
            Self::Welcome => Kind::Welcome,
        }
    }

    fn decode(kind: u8, body: Bytes) -> Result<Self, FrameError> {
        let mut numbers = &body[..];
        let mut number = || numbers.try_get_u64().map_err(|_| FrameError::Damaged);
        let frame = match kind {
            1 => return Ok(Self::Message(body)),
            2 => Self::Ping { number: number()? },
            3 => Self::Pong {
                number: number()?,
                wall: number()?,
            },
            4 => {
                return Refusal::decode(&body)
                    .map(Self::Refused)
                    .ok_or(FrameError::Damaged);
            }
            5 => {
                let statement = Statement::decode(&body).ok_or(FrameError::Damaged)?;
                return Ok(Self::Statement(statement));
            }
            6 => Self::Welcome,
            _ => return Err(FrameError::Kind(kind)),
        };
        if numbers.is_empty() {
            Ok(frame)
        } else {
            Err(FrameError::Damaged)
        }
    }
}

/// Takes frames from bytes as they come.
#[derive(Debug, Default)]
pub struct FrameDecoder {
    bytes: BytesMut,
}

impl FrameDecoder {
    /// Where to put what comes.
    pub fn bytes(&mut self) -> &mut BytesMut {
        &mut self.bytes
    }

    /// How many bytes are missing from the frame that has begun; 0 if none has, or more can be taken.
    pub fn missing(&self) -> usize {
        self.length().ok().flatten().map_or(0, |length| {
            (LENGTH_BYTES + length).saturating_sub(self.bytes.len())
        })
    }

    /// The next frame; `None`: there is more to come. Messages share the memory that they came in.
    #[expect(
        clippy::should_implement_trait,
        reason = "it goes on when more has come, as no iterator does"
    )]
    pub fn next(&mut self) -> Result<Option<Frame>, FrameError> {
        let Some(length) = self.length()? else {
            return Ok(None);
        };
        if self.bytes.len() < LENGTH_BYTES + length {
            return Ok(None);
        }
        self.bytes.advance(LENGTH_BYTES);
        let mut body = self.bytes.split_to(length).freeze();
        let kind = body.get_u8();
        Frame::decode(kind, body).map(Some)
    }

    fn length(&self) -> Result<Option<usize>, FrameError> {
        let Some(first) = self.bytes.first_chunk::<LENGTH_BYTES>() else {
            return Ok(None);
        };
        match usize::try_from(u32::from_be_bytes(*first)).unwrap_or(usize::MAX) {
            0 => Err(FrameError::Damaged),
            length if length > FRAME_BYTES_MAX => Err(FrameError::Length(length)),
            length => Ok(Some(length)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::RefusalCode;
    use super::*;
    use crate::random::Random;

    fn all() -> Vec<(Frame, &'static [u8])> {
        vec![
            (
                Frame::Message(Bytes::from_static(b"message")),
                b"\0\0\0\x08\x01message",
            ),
            (Frame::Ping { number: 7 }, b"\0\0\0\x09\x02\0\0\0\0\0\0\0\x07"),
            (
                Frame::Pong { number: 7, wall: 8 },
                b"\0\0\0\x11\x03\0\0\0\0\0\0\0\x07\0\0\0\0\0\0\0\x08",
            ),
            (
                Frame::Refused(Refusal::new(RefusalCode::NotAMember, "no")),
                b"\0\0\0\x04\x04\x03no",
            ),
            (Frame::Welcome, b"\0\0\0\x01\x06"),
        ]
    }

    fn decode(bytes: &[u8]) -> Result<Option<Frame>, FrameError> {
        let mut decoder = FrameDecoder::default();
        decoder.bytes().put_slice(bytes);
        decoder.next()
    }

    /// Bytes that version 1 sends. Another form needs another version.
    #[test]
    fn frames_of_version_1_are_written_as_ever_and_read() {
        for (frame, golden) in all() {
            let mut bytes = BytesMut::new();
            frame.encode(&mut bytes);
            assert_eq!(bytes, golden, "{frame:?}");
            assert_eq!(decode(golden), Ok(Some(frame)));
        }
    }

    #[test]
    fn frames_come_in_pieces_and_together() {
        let mut bytes = BytesMut::new();
        all().iter().for_each(|(frame, _)| frame.encode(&mut bytes));
        for step in [1, 5, 1_000] {
            let (mut decoder, mut found) = (FrameDecoder::default(), Vec::new());
            for piece in bytes.chunks(step) {
                decoder.bytes().put_slice(piece);
                while let Some(frame) = decoder.next().expect("frames") {
                    found.push(frame);
                }
            }
            let expected: Vec<_> = all().into_iter().map(|(frame, _)| frame).collect();
            assert_eq!(found, expected);
            assert_eq!(decoder.missing(), 0);
        }
    }

    #[test]
    fn what_is_no_frame_is_refused() {
        assert_eq!(decode(b"\0\0\0\0"), Err(FrameError::Damaged));
        assert_eq!(decode(b"\0\0\0\x01\x09"), Err(FrameError::Kind(9)));
        assert_eq!(decode(b"\0\0\0\x02\x06x"), Err(FrameError::Damaged));
        assert_eq!(decode(b"\0\0\0\x02\x02x"), Err(FrameError::Damaged));
        assert_eq!(decode(b"\xff\xff\xff\xff"), Err(FrameError::Length(0xffff_ffff)));
    }

    #[test]
    fn text_of_a_peer_comes_as_it_was_sent() {
        let Ok(Some(Frame::Refused(refusal))) = decode(b"\0\0\0\x08\x04\x03a\nb\x1b\xffc") else {
            panic!("a refusal");
        };
        // It is escaped where operators read it.
        assert_eq!(refusal.text, "a\nb\u{1b}\u{fffd}c");
        // As long as it is sent, however much of it is no text.
        let long = Frame::decode(Kind::Refused as u8, Bytes::from(vec![0xff; 600]));
        let Ok(Frame::Refused(refusal)) = long else {
            panic!("a refusal");
        };
        assert_eq!(refusal.text.len(), 498);
    }

    #[test]
    fn any_bytes_are_frames_or_are_refused() {
        let mut random = Random::new(1);
        for _ in 0..20_000 {
            let mut decoder = FrameDecoder::default();
            for (_, golden) in all() {
                decoder.bytes().put_slice(golden);
            }
            for _ in 0..random.between(1, 4) {
                let place = random.between(0, decoder.bytes().len());
                decoder.bytes()[place] = random.next() as u8;
            }
            while let Ok(Some(_)) = decoder.next() {}
        }
    }
}
