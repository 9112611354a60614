//! Requests: the payload of a PUBLISH to the invoke topic.

use std::ops::Range;

use bytes::{Bytes, BytesMut};

use crate::state_store::resp::{self, Malformed, Reader};

/// A request, its options checked. Keys, values and patterns share the payload's memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// `SET key value [NX | NEX [value]] [PX milliseconds]`
    Set {
        /// The key; not empty.
        key: Bytes,
        /// Its value; may be empty.
        value: Bytes,
        /// When to store it.
        condition: Condition,
        /// After how many milliseconds it expires: 1 to [`Request::EXPIRES_IN_MAX_MS`].
        expires_in: Option<u64>,
    },
    /// `GET key`
    Get {
        /// The key; not empty.
        key: Bytes,
    },
    /// `DEL key`
    Del {
        /// The key; not empty.
        key: Bytes,
    },
    /// `VDEL key value`: delete if it has this value.
    VDel {
        /// The key; not empty.
        key: Bytes,
        /// The value that it must have.
        value: Bytes,
    },
    /// `KEYNOTIFY key [GET | STOP]`; GET, which the published text names, changes nothing: notifications of a SET
    /// always have the value.
    KeyNotify {
        /// The key; not empty.
        key: Bytes,
        /// End the registration instead of making one.
        stop: bool,
    },
    /// `SCAN pattern [token]`
    Scan {
        /// A [`Glob`](crate::state_store::Glob), not compiled yet.
        pattern: Bytes,
        /// Where the page before ended.
        token: Option<Bytes>,
    },
}

/// When a SET stores its value.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Condition {
    /// Always.
    #[default]
    None,
    /// `NX`: if the key does not exist.
    NotExists,
    /// `NEX`: if the key does not exist, or has the value being set.
    NotExistsOrEqual,
    /// `NEX value`: if the key does not exist, or has the given value.
    NotExistsOrEqualTo(Bytes),
}

/// Which command a request is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RequestKind {
    /// SET
    Set,
    /// GET
    Get,
    /// DEL
    Del,
    /// VDEL
    VDel,
    /// KEYNOTIFY, with STOP or without
    KeyNotify,
    /// SCAN
    Scan,
}

/// Why a payload is no request. The variants are in the order in which they are looked for, except that
/// options are checked last and give [`RequestError::Syntax`] too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// Not a RESP array of bulk strings, or the options are not valid.
    #[error("syntax error")]
    Syntax,
    /// The first argument is no command.
    #[error("unknown command")]
    UnknownCommand,
    /// Too few or too many arguments.
    #[error("wrong number of arguments")]
    WrongArguments,
    /// The key is empty.
    #[error("the key length is zero")]
    KeyLengthZero,
}

impl Request {
    /// The longest time after which a key may expire, in milliseconds: 2^53, which a double holds exactly.
    pub const EXPIRES_IN_MAX_MS: u64 = 1 << 53;

    /// Parses a payload. Verbs and options are taken in any case.
    ///
    /// Checked in this order: RESP, verb, number of arguments, length of the key, options.
    pub fn parse(payload: &Bytes) -> Result<Self, RequestError> {
        let arguments = Arguments::read(payload).map_err(|Malformed| RequestError::Syntax)?;
        let kind = arguments.verb()?;
        let (least, most) = kind.argument_counts();
        if arguments.count < least || arguments.count > most {
            return Err(RequestError::WrongArguments);
        }
        let key = arguments.slice(1);
        if key.is_empty() && kind != RequestKind::Scan {
            return Err(RequestError::KeyLengthZero);
        }
        match kind {
            RequestKind::Set => {
                let options = SetOptions::parse(&arguments)?;
                let value = arguments.slice(2);
                Ok(Self::Set {
                    key,
                    value,
                    condition: options.condition,
                    expires_in: options.expires_in,
                })
            }
            RequestKind::Get => Ok(Self::Get { key }),
            RequestKind::Del => Ok(Self::Del { key }),
            RequestKind::VDel => Ok(Self::VDel {
                key,
                value: arguments.slice(2),
            }),
            RequestKind::KeyNotify if arguments.count == 2 => Ok(Self::KeyNotify { key, stop: false }),
            RequestKind::KeyNotify if arguments.is(2, b"GET") => Ok(Self::KeyNotify { key, stop: false }),
            RequestKind::KeyNotify if arguments.is(2, b"STOP") => Ok(Self::KeyNotify { key, stop: true }),
            RequestKind::KeyNotify => Err(RequestError::Syntax),
            RequestKind::Scan => {
                let token = (arguments.count == 3).then(|| arguments.slice(2));
                Ok(Self::Scan { pattern: key, token })
            }
        }
    }

    /// The payload that means this request.
    pub fn encode(&self) -> Bytes {
        let mut arguments: [&[u8]; ARGUMENTS_MAX] = [b""; ARGUMENTS_MAX];
        let mut count = 0;
        let mut push = |argument| {
            if let Some(free) = arguments.get_mut(count) {
                *free = argument;
                count += 1;
            }
        };
        let milliseconds;
        push(self.kind().verb());
        match self {
            Self::Set {
                key,
                value,
                condition,
                expires_in,
            } => {
                push(key);
                push(value);
                match condition {
                    Condition::None => {}
                    Condition::NotExists => push(b"NX"),
                    Condition::NotExistsOrEqual => push(b"NEX"),
                    Condition::NotExistsOrEqualTo(expected) => {
                        push(b"NEX");
                        push(expected);
                    }
                }
                if let Some(expires_in) = expires_in {
                    milliseconds = expires_in.to_string();
                    push(b"PX");
                    push(milliseconds.as_bytes());
                }
            }
            Self::Get { key } | Self::Del { key } | Self::KeyNotify { key, stop: false } => push(key),
            Self::VDel { key, value } => {
                push(key);
                push(value);
            }
            Self::KeyNotify { key, stop: true } => {
                push(key);
                push(b"STOP");
            }
            Self::Scan { pattern, token } => {
                push(pattern);
                if let Some(token) = token {
                    push(token);
                }
            }
        }
        encode_arguments(arguments.get(..count).unwrap_or_default())
    }

    /// The key that the request is about; `None` for a SCAN.
    pub fn key(&self) -> Option<&Bytes> {
        match self {
            Self::Set { key, .. }
            | Self::Get { key }
            | Self::Del { key }
            | Self::VDel { key, .. }
            | Self::KeyNotify { key, .. } => Some(key),
            Self::Scan { .. } => None,
        }
    }

    /// Which command it is.
    pub fn kind(&self) -> RequestKind {
        match self {
            Self::Set { .. } => RequestKind::Set,
            Self::Get { .. } => RequestKind::Get,
            Self::Del { .. } => RequestKind::Del,
            Self::VDel { .. } => RequestKind::VDel,
            Self::KeyNotify { .. } => RequestKind::KeyNotify,
            Self::Scan { .. } => RequestKind::Scan,
        }
    }
}

impl RequestKind {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Set,
        Self::Get,
        Self::Del,
        Self::VDel,
        Self::KeyNotify,
        Self::Scan,
    ];

    fn verb(self) -> &'static [u8] {
        match self {
            Self::Set => b"SET",
            Self::Get => b"GET",
            Self::Del => b"DEL",
            Self::VDel => b"VDEL",
            Self::KeyNotify => b"KEYNOTIFY",
            Self::Scan => b"SCAN",
        }
    }

    /// The least and the greatest number of arguments, the verb included.
    fn argument_counts(self) -> (usize, usize) {
        match self {
            Self::Set => (3, ARGUMENTS_MAX),
            Self::Get | Self::Del => (2, 2),
            Self::VDel => (3, 3),
            Self::KeyNotify | Self::Scan => (2, 3),
        }
    }
}

/// The arguments of a request, as ranges of its payload. Those beyond the most that a command takes are
/// checked and counted, but not kept.
struct Arguments<'a> {
    payload: &'a Bytes,
    ranges: [Range<usize>; ARGUMENTS_MAX],
    count: usize,
}

impl<'a> Arguments<'a> {
    fn read(payload: &'a Bytes) -> Result<Self, Malformed> {
        let mut reader = Reader::new(payload);
        let count = reader.array()?;
        if count == 0 {
            return Err(Malformed);
        }
        let mut ranges = [const { 0..0 }; ARGUMENTS_MAX];
        for index in 0..count {
            let range = reader.bulk()?;
            if let Some(free) = ranges.get_mut(index) {
                *free = range;
            }
        }
        reader.finish()?;
        Ok(Self {
            payload,
            ranges,
            count,
        })
    }

    fn verb(&self) -> Result<RequestKind, RequestError> {
        let is_verb = |kind: &RequestKind| self.is(0, kind.verb());
        RequestKind::ALL
            .into_iter()
            .find(is_verb)
            .ok_or(RequestError::UnknownCommand)
    }

    /// The argument's bytes; empty if there is no such argument.
    fn bytes(&self, index: usize) -> &'a [u8] {
        let range = self.ranges.get(index).cloned().unwrap_or_default();
        self.payload.get(range).unwrap_or_default()
    }

    /// The argument, sharing the payload's memory.
    fn slice(&self, index: usize) -> Bytes {
        self.payload
            .slice(self.ranges.get(index).cloned().unwrap_or_default())
    }

    fn is(&self, index: usize, word: &[u8]) -> bool {
        index < self.count && self.bytes(index).eq_ignore_ascii_case(word)
    }
}

/// What follows key and value of a SET.
#[derive(Default)]
struct SetOptions {
    condition: Condition,
    expires_in: Option<u64>,
}

impl SetOptions {
    /// `NX`, `NEX [value]` and `PX milliseconds` in any order, each once, NX not with NEX.
    ///
    /// NEX has a value unless nothing follows it, or exactly PX and one more argument.
    fn parse(arguments: &Arguments<'_>) -> Result<Self, RequestError> {
        let mut options = Self::default();
        let mut index = 3;
        while index < arguments.count {
            let after = arguments.count - index - 1;
            if arguments.is(index, b"NX") {
                options.set_condition(Condition::NotExists)?;
                index += 1;
            } else if arguments.is(index, b"NEX") {
                let is_bare = after == 0 || (after == 2 && arguments.is(index + 1, b"PX"));
                if is_bare {
                    options.set_condition(Condition::NotExistsOrEqual)?;
                    index += 1;
                } else {
                    options.set_condition(Condition::NotExistsOrEqualTo(arguments.slice(index + 1)))?;
                    index += 2;
                }
            } else if arguments.is(index, b"PX") && after > 0 && options.expires_in.is_none() {
                options.expires_in = Some(milliseconds(arguments.bytes(index + 1))?);
                index += 2;
            } else {
                return Err(RequestError::Syntax);
            }
        }
        Ok(options)
    }

    fn set_condition(&mut self, condition: Condition) -> Result<(), RequestError> {
        if self.condition != Condition::None {
            return Err(RequestError::Syntax);
        }
        self.condition = condition;
        Ok(())
    }
}

/// Decimal milliseconds, 1 to [`Request::EXPIRES_IN_MAX_MS`]. A fraction, which one client sends, is rounded up.
fn milliseconds(text: &[u8]) -> Result<u64, RequestError> {
    let mut parts = text.splitn(2, |byte| *byte == b'.');
    let whole = parts.next().unwrap_or_default();
    let fraction = parts.next();
    let is_number = |digits: &[u8]| !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    if !is_number(whole) || !fraction.is_none_or(is_number) {
        return Err(RequestError::Syntax);
    }
    let mut value: u64 = 0;
    for digit in whole {
        value = value.checked_mul(10).ok_or(RequestError::Syntax)?;
        value = value
            .checked_add(u64::from(digit - b'0'))
            .ok_or(RequestError::Syntax)?;
    }
    let has_fraction = fraction.is_some_and(|digits| digits.iter().any(|digit| *digit != b'0'));
    value = value
        .checked_add(u64::from(has_fraction))
        .ok_or(RequestError::Syntax)?;
    if (1..=Request::EXPIRES_IN_MAX_MS).contains(&value) {
        Ok(value)
    } else {
        Err(RequestError::Syntax)
    }
}

fn encode_arguments(arguments: &[&[u8]]) -> Bytes {
    let lengths: usize = arguments
        .iter()
        .map(|argument| resp::bulk_length_max(argument.len()))
        .sum();
    let mut out = BytesMut::with_capacity(resp::HEADER_LENGTH_MAX + lengths);
    resp::put_array(&mut out, arguments.len());
    for argument in arguments {
        resp::put_bulk(&mut out, argument);
    }
    out.freeze()
}

/// The most arguments that a command takes: `SET key value NEX value PX milliseconds`.
const ARGUMENTS_MAX: usize = 7;

#[cfg(test)]
mod tests;
