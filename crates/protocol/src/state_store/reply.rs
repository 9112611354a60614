//! Replies: the payload that answers a request.

use bytes::{Bytes, BytesMut};

use crate::state_store::resp::{self, Malformed, Reader};
use crate::state_store::{Dialect, ErrorText, RequestKind};

/// What answers a request. The version that belongs to it travels in the user property `__ts`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// SET stored its value; KEYNOTIFY registered; KEYNOTIFY STOP ended a registration.
    Ok,
    /// SET: the condition is not met.
    NotApplied,
    /// GET: the value.
    Value(Bytes),
    /// GET: there is no such key.
    Missing,
    /// DEL, VDEL: how many keys were deleted; 0 if there is no such key.
    Deleted(u64),
    /// VDEL: the key has another value.
    OtherValue,
    /// KEYNOTIFY STOP: there was no registration.
    NotWatched,
    /// SCAN: one page.
    Keys {
        /// The keys of this page.
        keys: Vec<Bytes>,
        /// What to ask the next page with; `None` on the last one.
        token: Option<Bytes>,
    },
    /// The request was refused.
    Error(ErrorText),
}

/// Why a payload is no reply that this version knows.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReplyError {
    /// The payload is not what answers such a request.
    #[error("the reply of the state store is malformed")]
    Malformed,
    /// The request was refused for a reason that this version has no name for.
    #[error("the state store refused the request: {text}")]
    Refused {
        /// The server's text, without `-ERR ` and CR LF.
        text: String,
    },
}

impl Reply {
    /// The payload that means this reply.
    pub fn encode(&self, dialect: Dialect) -> Bytes {
        match self {
            Self::Value(value) => {
                let mut out = BytesMut::with_capacity(resp::bulk_length_max(value.len()));
                resp::put_bulk(&mut out, value);
                out.freeze()
            }
            Self::Keys { keys, token } => encode_keys(keys, token.as_ref()),
            Self::Deleted(count @ 2..) => Bytes::from(format!(":{count}\r\n")),
            Self::Deleted(1) => Bytes::from_static(b":1\r\n"),
            Self::Deleted(0) | Self::NotWatched => Bytes::from_static(b":0\r\n"),
            Self::Ok => Bytes::from_static(b"+OK\r\n"),
            Self::Missing => Bytes::from_static(b"$-1\r\n"),
            Self::NotApplied | Self::OtherValue => match dialect {
                Dialect::Sdk => Bytes::from_static(b":-1\r\n"),
                Dialect::Published => Bytes::from_static(b"-1\r\n"),
            },
            Self::Error(error) => Bytes::from_static(error.line(dialect).as_bytes()),
        }
    }

    /// Parses what answers a request of this kind, in either dialect.
    pub fn parse(payload: &Bytes, of: RequestKind) -> Result<Self, ReplyError> {
        if let Some(line) = payload.strip_prefix(b"-ERR") {
            return parse_error(line);
        }
        let is_negative = matches!(payload.as_ref(), b":-1\r\n" | b"-1\r\n");
        match (of, payload.as_ref()) {
            (RequestKind::Set | RequestKind::KeyNotify, b"+OK\r\n") => Ok(Self::Ok),
            (RequestKind::Set, _) if is_negative => Ok(Self::NotApplied),
            (RequestKind::VDel, _) if is_negative => Ok(Self::OtherValue),
            (RequestKind::KeyNotify, b":0\r\n") => Ok(Self::NotWatched),
            (RequestKind::Get, b"$-1\r\n") => Ok(Self::Missing),
            (RequestKind::Get, _) => Ok(parse_value(payload)?),
            (RequestKind::Del | RequestKind::VDel, _) => parse_count(payload),
            (RequestKind::Scan, _) => Ok(parse_keys(payload)?),
            (RequestKind::Set | RequestKind::KeyNotify, _) => Err(ReplyError::Malformed),
        }
    }
}

impl From<Malformed> for ReplyError {
    fn from(Malformed: Malformed) -> Self {
        Self::Malformed
    }
}

fn encode_keys(keys: &[Bytes], token: Option<&Bytes>) -> Bytes {
    let lengths: usize = keys
        .iter()
        .chain(token)
        .map(|bytes| resp::bulk_length_max(bytes.len()))
        .sum();
    let mut out = BytesMut::with_capacity(2 * resp::HEADER_LENGTH_MAX + lengths);
    resp::put_array(&mut out, if token.is_some() { 2 } else { 1 });
    resp::put_array(&mut out, keys.len());
    for key in keys {
        resp::put_bulk(&mut out, key);
    }
    if let Some(token) = token {
        resp::put_bulk(&mut out, token);
    }
    out.freeze()
}

/// What follows `-ERR`: the text draws a colon there in one place, and no CR LF in another.
fn parse_error(line: &[u8]) -> Result<Reply, ReplyError> {
    let line = line.strip_suffix(resp::CRLF).unwrap_or(line);
    let line = line.strip_prefix(b":").unwrap_or(line);
    let line = line.strip_prefix(b" ").ok_or(ReplyError::Malformed)?;
    let text = String::from_utf8_lossy(line).into_owned();
    match ErrorText::from_text(&text) {
        Some(error) => Ok(Reply::Error(error)),
        None => Err(ReplyError::Refused { text }),
    }
}

fn parse_value(payload: &Bytes) -> Result<Reply, Malformed> {
    let mut reader = Reader::new(payload);
    let value = reader.bulk_bytes()?;
    reader.finish()?;
    Ok(Reply::Value(value))
}

fn parse_count(payload: &[u8]) -> Result<Reply, ReplyError> {
    let digits = payload
        .strip_prefix(b":")
        .and_then(|rest| rest.strip_suffix(resp::CRLF));
    let digits = digits.ok_or(ReplyError::Malformed)?;
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return Err(ReplyError::Malformed);
    }
    let count = std::str::from_utf8(digits)
        .ok()
        .and_then(|digits| digits.parse().ok());
    Ok(Reply::Deleted(count.ok_or(ReplyError::Malformed)?))
}

fn parse_keys(payload: &Bytes) -> Result<Reply, Malformed> {
    let mut reader = Reader::new(payload);
    let elements = reader.array()?;
    if !matches!(elements, 1 | 2) {
        return Err(Malformed);
    }
    let count = reader.array()?;
    let mut keys = Vec::new();
    for _ in 0..count {
        keys.push(reader.bulk_bytes()?);
    }
    let token = if elements == 2 {
        Some(reader.bulk_bytes()?)
    } else {
        None
    };
    reader.finish()?;
    Ok(Reply::Keys { keys, token })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(reply: &Reply, of: RequestKind, sdk: &[u8], published: &[u8]) {
        for (dialect, expected) in [(Dialect::Sdk, sdk), (Dialect::Published, published)] {
            let encoded = reply.encode(dialect);
            assert_eq!(encoded, expected, "{reply:?}");
            assert_eq!(Reply::parse(&encoded, of).as_ref(), Ok(reply));
        }
    }

    fn same(reply: &Reply, of: RequestKind, bytes: &[u8]) {
        check(reply, of, bytes, bytes);
    }

    #[test]
    fn every_reply_has_the_bytes_of_the_contract() {
        same(&Reply::Ok, RequestKind::Set, b"+OK\r\n");
        check(&Reply::NotApplied, RequestKind::Set, b":-1\r\n", b"-1\r\n");
        same(
            &Reply::Value(Bytes::from_static(b"1234")),
            RequestKind::Get,
            b"$4\r\n1234\r\n",
        );
        same(&Reply::Value(Bytes::new()), RequestKind::Get, b"$0\r\n\r\n");
        same(
            &Reply::Value(Bytes::from_static(b"\r\n\0")),
            RequestKind::Get,
            b"$3\r\n\r\n\0\r\n",
        );
        same(&Reply::Missing, RequestKind::Get, b"$-1\r\n");
        same(&Reply::Deleted(1), RequestKind::Del, b":1\r\n");
        same(&Reply::Deleted(0), RequestKind::VDel, b":0\r\n");
        same(&Reply::Deleted(17), RequestKind::Del, b":17\r\n");
        check(&Reply::OtherValue, RequestKind::VDel, b":-1\r\n", b"-1\r\n");
        same(&Reply::Ok, RequestKind::KeyNotify, b"+OK\r\n");
        same(&Reply::NotWatched, RequestKind::KeyNotify, b":0\r\n");
        same(
            &Reply::Error(ErrorText::Syntax),
            RequestKind::Get,
            b"-ERR syntax error\r\n",
        );
    }

    #[test]
    fn a_page_of_a_scan_has_a_token_unless_it_is_the_last() {
        let keys = vec![Bytes::from_static(b"a"), Bytes::from_static(b"bc")];
        let last = Reply::Keys {
            keys: keys.clone(),
            token: None,
        };
        same(&last, RequestKind::Scan, b"*1\r\n*2\r\n$1\r\na\r\n$2\r\nbc\r\n");
        let more = Reply::Keys {
            keys,
            token: Some(Bytes::from_static(b"t")),
        };
        same(
            &more,
            RequestKind::Scan,
            b"*2\r\n*2\r\n$1\r\na\r\n$2\r\nbc\r\n$1\r\nt\r\n",
        );
        same(
            &Reply::Keys {
                keys: vec![],
                token: None,
            },
            RequestKind::Scan,
            b"*1\r\n*0\r\n",
        );
    }

    #[test]
    fn every_error_is_read_back_in_both_dialects() {
        for error in ErrorText::ALL {
            for dialect in [Dialect::Sdk, Dialect::Published] {
                let encoded = Reply::Error(error).encode(dialect);
                assert_eq!(Reply::parse(&encoded, RequestKind::Set), Ok(Reply::Error(error)));
            }
        }
    }

    #[test]
    fn an_error_is_read_in_the_forms_that_the_text_draws() {
        for payload in [
            "-ERR syntax error",
            "-ERR: syntax error\r\n",
            "-ERR syntax error\r\n",
        ] {
            let reply = Reply::parse(&Bytes::from_static(payload.as_bytes()), RequestKind::Set);
            assert_eq!(reply, Ok(Reply::Error(ErrorText::Syntax)));
        }
        let unknown = Reply::parse(&Bytes::from_static(b"-ERR of tomorrow\r\n"), RequestKind::Get);
        assert_eq!(
            unknown,
            Err(ReplyError::Refused {
                text: "of tomorrow".to_owned()
            })
        );
    }

    #[test]
    fn what_answers_another_request_is_malformed() {
        let wrong: [(RequestKind, &'static [u8]); 10] = [
            (RequestKind::Set, b":1\r\n"),
            (RequestKind::Set, b"+OK"),
            (RequestKind::Get, b"+OK\r\n"),
            (RequestKind::Get, b"$4\r\n123\r\n"),
            (RequestKind::Get, b"$1\r\nx\r\nmore"),
            (RequestKind::Del, b":-1\r\n"),
            (RequestKind::Del, b":+1\r\n"),
            (RequestKind::Del, b":99999999999999999999\r\n"),
            (RequestKind::Scan, b"*3\r\n*0\r\n"),
            (RequestKind::Scan, b"*1\r\n*9\r\n$1\r\na\r\n"),
        ];
        for (of, payload) in wrong {
            assert_eq!(
                Reply::parse(&Bytes::from_static(payload), of),
                Err(ReplyError::Malformed)
            );
        }
    }
}
