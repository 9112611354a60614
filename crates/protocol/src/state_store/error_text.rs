//! The error texts of the protocol.

use bytes::Bytes;

use crate::state_store::{Dialect, RequestError};

/// Why the state store refused a request: what follows `-ERR `.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorText {
    /// The request's `__ts` is more than a minute ahead of the server's clock.
    TimestampAhead,
    /// The key is fenced, and a SET, DEL or VDEL came without `__ft`.
    FencingTokenRequired,
    /// The request's `__ft` is more than a minute ahead of the server's clock.
    FencingTokenAhead,
    /// The request's `__ft` is older than the key's fencing token.
    FencingTokenLower,
    /// The store has reached its limit of keys or bytes, or a connection its limit of watched keys.
    QuotaExceeded,
    /// The payload is no RESP array of bulk strings, or an option or a pattern is not valid.
    Syntax,
    /// The first argument is no command.
    UnknownCommand,
    /// Too few or too many arguments.
    WrongArguments,
    /// The client may not do this to this key.
    NotAuthorized,
    /// A SET without `__ts`.
    MissingTimestamp,
    /// `__ts` or `__ft` is no HLC.
    MalformedTimestamp,
    /// The key is empty.
    KeyLengthZero,
    /// The group of the key has no leader with a majority.
    Unavailable,
    /// The topic of the key's notifications would be longer than a topic may be.
    KeyTooLongToWatch,
    /// The continuation token of a SCAN was not made for this client and pattern by this run of this node.
    ScanToken,
    /// The replies that wait for the client are too large together.
    RepliesWait,
}

impl ErrorText {
    /// All of them.
    pub const ALL: [Self; 16] = [
        Self::TimestampAhead,
        Self::FencingTokenRequired,
        Self::FencingTokenAhead,
        Self::FencingTokenLower,
        Self::QuotaExceeded,
        Self::Syntax,
        Self::UnknownCommand,
        Self::WrongArguments,
        Self::NotAuthorized,
        Self::MissingTimestamp,
        Self::MalformedTimestamp,
        Self::KeyLengthZero,
        Self::Unavailable,
        Self::KeyTooLongToWatch,
        Self::ScanToken,
        Self::RepliesWait,
    ];

    /// The text, without `-ERR ` and CR LF.
    pub fn text(self, dialect: Dialect) -> &'static str {
        let line = self.line(dialect);
        line.strip_prefix(PREFIX)
            .and_then(|line| line.strip_suffix("\r\n"))
            .unwrap_or(line)
    }

    /// The error with this text, in either dialect.
    pub fn from_text(text: &str) -> Option<Self> {
        let is_text =
            |error: &Self| text == error.text(Dialect::Sdk) || text == error.text(Dialect::Published);
        Self::ALL.into_iter().find(is_text)
    }

    /// The whole reply.
    pub(super) fn line(self, dialect: Dialect) -> &'static str {
        match (self, dialect) {
            (Self::TimestampAhead, _) => {
                "-ERR the request timestamp is too far in the future; ensure that the client and broker system clocks are synchronized\r\n"
            }
            (Self::FencingTokenRequired, _) => "-ERR a fencing token is required for this request\r\n",
            (Self::FencingTokenAhead, _) => {
                "-ERR the request fencing token timestamp is too far in the future; ensure that the client and broker system clocks are synchronized\r\n"
            }
            (Self::FencingTokenLower, Dialect::Sdk) => {
                "-ERR the request fencing token is a lower version than the fencing token protecting the resource\r\n"
            }
            (Self::FencingTokenLower, Dialect::Published) => {
                "-ERR the request fencing token is a lower version that the fencing token protecting the resource\r\n"
            }
            (Self::QuotaExceeded, _) => "-ERR the quota has been exceeded\r\n",
            (Self::Syntax, _) => "-ERR syntax error\r\n",
            (Self::UnknownCommand, _) => "-ERR unknown command\r\n",
            (Self::WrongArguments, _) => "-ERR wrong number of arguments\r\n",
            (Self::NotAuthorized, _) => "-ERR not authorized\r\n",
            (Self::MissingTimestamp, _) => "-ERR missing timestamp\r\n",
            (Self::MalformedTimestamp, _) => "-ERR malformed timestamp\r\n",
            (Self::KeyLengthZero, _) => "-ERR the key length is zero\r\n",
            (Self::Unavailable, _) => "-ERR the state store is unavailable\r\n",
            (Self::KeyTooLongToWatch, _) => "-ERR the key is too long to be watched\r\n",
            (Self::ScanToken, _) => {
                "-ERR the continuation token does not hold here; start the scan again\r\n"
            }
            (Self::RepliesWait, _) => "-ERR the client does not take the replies that wait for it\r\n",
        }
    }
}

impl From<RequestError> for ErrorText {
    fn from(error: RequestError) -> Self {
        match error {
            RequestError::Syntax => Self::Syntax,
            RequestError::UnknownCommand => Self::UnknownCommand,
            RequestError::WrongArguments => Self::WrongArguments,
            RequestError::KeyLengthZero => Self::KeyLengthZero,
        }
    }
}

/// Reply instead of one whose packet is larger than its client's Maximum Packet Size, both in bytes. Its text is no
/// [`ErrorText`], since it names the sizes.
pub fn reply_too_large(packet_size: usize, packet_size_max: u32) -> Bytes {
    Bytes::from(format!(
        "{PREFIX}the reply is a packet of {packet_size} bytes, and the client takes {packet_size_max}\r\n"
    ))
}

/// Bytes of [`reply_too_large`] at most: the largest packet of MQTT has nine digits, and a Maximum Packet Size ten.
pub const REPLY_TOO_LARGE_BYTES_MAX: usize = 80;

const PREFIX: &str = "-ERR ";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_text_is_framed_and_known_in_both_dialects() {
        for error in ErrorText::ALL {
            for dialect in [Dialect::Sdk, Dialect::Published] {
                let text = error.text(dialect);
                assert_eq!(error.line(dialect), format!("-ERR {text}\r\n"));
                assert_eq!(ErrorText::from_text(text), Some(error));
            }
        }
        assert_eq!(ErrorText::from_text("something of tomorrow"), None);
    }

    #[test]
    fn a_reply_that_is_too_large_is_told_with_its_size() {
        let text = "-ERR the reply is a packet of 20115 bytes, and the client takes 10000\r\n";
        assert_eq!(reply_too_large(20_115, 10_000), text);
        let longest = reply_too_large(268_435_460, u32::MAX);
        assert!(longest.len() <= REPLY_TOO_LARGE_BYTES_MAX, "{}", longest.len());
    }

    #[test]
    fn the_text_of_an_older_fencing_token_depends_on_the_dialect() {
        assert!(
            ErrorText::FencingTokenLower
                .text(Dialect::Sdk)
                .contains("lower version than the")
        );
        assert!(
            ErrorText::FencingTokenLower
                .text(Dialect::Published)
                .contains("lower version that the")
        );
    }
}
