//! What travels between Redis and its clients (RESP, version 2): as much of it as an import needs.

use std::io;

use thiserror::Error;
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt};

/// What a server answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Reply {
    /// A word, as in `+OK`.
    Word(String),
    /// In the words of the server.
    Error(String),
    Number(i64),
    /// `None`: there is none.
    Text(Option<Vec<u8>>),
    List(Vec<Reply>),
}

/// Why there is no answer.
#[derive(Debug, Error)]
pub(super) enum RespError {
    /// The connection fails.
    #[error("the connection to Redis has failed: {0}")]
    Io(#[from] io::Error),
    /// What comes is no answer of Redis.
    #[error("what answers there is no Redis: {0}")]
    Malformed(&'static str),
}

/// Bytes of a line, without those of a text. Errors are the longest ones.
const LINE_BYTES_MAX: usize = 16 << 10;

/// Answers in an answer. SCAN gives a few more keys than it is asked for.
const LIST_MAX: i64 = 1 << 20;

/// Lists in lists: SCAN answers with a list of a cursor and a list.
const DEPTH_MAX: u8 = 2;

/// Writes a command.
pub(super) fn command(out: &mut Vec<u8>, arguments: &[&[u8]]) {
    out.extend_from_slice(format!("*{}\r\n", arguments.len()).as_bytes());
    for argument in arguments {
        out.extend_from_slice(format!("${}\r\n", argument.len()).as_bytes());
        out.extend_from_slice(argument);
        out.extend_from_slice(b"\r\n");
    }
}

/// Reads an answer whose texts have `text_bytes_max` bytes at most.
pub(super) async fn reply(
    input: &mut (impl AsyncBufRead + Unpin),
    text_bytes_max: u64,
) -> Result<Reply, RespError> {
    // Lists that are not full, and how many answers are missing in each.
    let mut open: Vec<(Vec<Reply>, i64)> = Vec::new();
    loop {
        let line = line(input).await?;
        let (kind, rest) = line
            .split_at_checked(1)
            .ok_or(RespError::Malformed("an empty line"))?;
        let mut reply = match kind {
            "+" => Reply::Word(rest.to_owned()),
            "-" => Reply::Error(rest.to_owned()),
            ":" => Reply::Number(number(rest)?),
            "$" => Reply::Text(text(input, number(rest)?, text_bytes_max).await?),
            "*" => match number(rest)? {
                -1 => Reply::Text(None),
                0 => Reply::List(Vec::new()),
                count @ 1..=LIST_MAX if open.len() < DEPTH_MAX.into() => {
                    open.push((Vec::new(), count));
                    continue;
                }
                _ => return Err(RespError::Malformed("a list that is too long")),
            },
            _ => return Err(RespError::Malformed("a line of an unknown kind")),
        };
        // It may be the last one of a list, which may be the last one of another.
        loop {
            let Some((list, missing)) = open.last_mut() else {
                return Ok(reply);
            };
            list.push(reply);
            *missing -= 1;
            if *missing > 0 {
                break;
            }
            reply = Reply::List(open.pop().map(|(list, _)| list).unwrap_or_default());
        }
    }
}

async fn line(input: &mut (impl AsyncBufRead + Unpin)) -> Result<String, RespError> {
    let mut line = Vec::new();
    let count = input
        .take(LINE_BYTES_MAX as u64)
        .read_until(b'\n', &mut line)
        .await?;
    if count == 0 {
        return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
    }
    let line = line
        .strip_suffix(b"\r\n")
        .ok_or(RespError::Malformed("a line without its end"))?;
    Ok(String::from_utf8_lossy(line).into_owned())
}

fn number(text: &str) -> Result<i64, RespError> {
    text.parse()
        .map_err(|_| RespError::Malformed("no number where one should be"))
}

async fn text(
    input: &mut (impl AsyncBufRead + Unpin),
    length: i64,
    bytes_max: u64,
) -> Result<Option<Vec<u8>>, RespError> {
    if length == -1 {
        return Ok(None);
    }
    let length = u64::try_from(length).ok().filter(|length| *length <= bytes_max);
    let length = length.ok_or(RespError::Malformed("a text that is too long"))?;
    let mut text = Vec::new();
    let read = input.take(length).read_to_end(&mut text).await?;
    let mut end = [0; 2];
    input.read_exact(&mut end).await?;
    if read as u64 != length || &end != b"\r\n" {
        return Err(RespError::Malformed("a text without its end"));
    }
    Ok(Some(text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::block_on;

    fn read(bytes: &[u8]) -> Result<Reply, RespError> {
        let read = block_on(async { Ok(reply(&mut &*bytes, 10).await) });
        read.expect("a runtime")
    }

    #[test]
    fn answers_of_every_kind_are_read() {
        let text = |text: &str| Reply::Text(Some(text.into()));
        for (bytes, expected) in [
            ("+OK\r\n", Reply::Word("OK".to_owned())),
            ("-ERR no\r\n", Reply::Error("ERR no".to_owned())),
            (":-2\r\n", Reply::Number(-2)),
            ("$-1\r\n", Reply::Text(None)),
            ("$0\r\n\r\n", text("")),
            ("$4\r\na\r\nb\r\n", text("a\r\nb")),
            ("*0\r\n", Reply::List(Vec::new())),
            (
                "*2\r\n$1\r\n0\r\n*2\r\n$1\r\na\r\n$1\r\nb\r\n",
                Reply::List(vec![text("0"), Reply::List(vec![text("a"), text("b")])]),
            ),
            (
                "*2\r\n*1\r\n:1\r\n:2\r\n",
                Reply::List(vec![Reply::List(vec![Reply::Number(1)]), Reply::Number(2)]),
            ),
        ] {
            assert_eq!(read(bytes.as_bytes()).expect(bytes), expected);
        }
    }

    #[test]
    fn what_is_no_answer_is_an_error() {
        for bytes in [
            "",
            "+OK",
            "\r\n",
            "?\r\n",
            ":x\r\n",
            "$11\r\n01234567890\r\n",
            "$1\r\nab\r\n",
            "$3\r\nab",
            "$-2\r\n",
            "*-2\r\n",
            "*9999999999\r\n",
            "*1\r\n*1\r\n*1\r\n:1\r\n",
            "HTTP/1.1 400 Bad Request\r\n",
        ] {
            assert!(read(bytes.as_bytes()).is_err(), "{bytes:?}");
        }
        let endless = [b'+'; LINE_BYTES_MAX + 10];
        assert!(read(&endless).is_err());
    }

    #[test]
    fn a_command_is_a_list_of_texts() {
        let mut out = Vec::new();
        command(&mut out, &[b"GET", b"k\r"]);
        assert_eq!(out, b"*2\r\n$3\r\nGET\r\n$2\r\nk\r\r\n");
    }
}
