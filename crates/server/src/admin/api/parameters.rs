//! What stands behind the `?` of a request.

use axum::http::StatusCode;

use super::{Failure, failure};

/// The names and values of a query, each name once.
#[derive(Debug)]
pub(super) struct Parameters(Vec<(String, String)>);

impl Parameters {
    /// Those of a request, all of which have to be known.
    pub(super) fn of(query: Option<&str>, known: &[&str]) -> Result<Self, Failure> {
        let mut parameters: Vec<(String, String)> = Vec::new();
        for part in query
            .unwrap_or_default()
            .split('&')
            .filter(|part| !part.is_empty())
        {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            let (Some(name), Some(value)) = (decoded(name), decoded(value)) else {
                return Err(wrong("what stands behind the ? is not percent-encoded UTF-8"));
            };
            if !known.contains(&name.as_str()) {
                let known = known.join(", ");
                return Err(wrong(&format!(
                    "there is no parameter `{name}`; there are {known}"
                )));
            }
            if parameters.iter().any(|(other, _)| *other == name) {
                return Err(wrong(&format!("the parameter `{name}` stands there twice")));
            }
            parameters.push((name, value));
        }
        Ok(Self(parameters))
    }

    /// The value of one of them.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        let mut found = self.0.iter().filter(|(other, _)| other == name);
        found.next().map(|(_, value)| value.as_str())
    }

    /// One that says yes or no.
    pub(super) fn truth(&self, name: &str) -> Result<Option<bool>, Failure> {
        match self.get(name) {
            None | Some("") => Ok(None),
            Some("true") => Ok(Some(true)),
            Some("false") => Ok(Some(false)),
            Some(_) => Err(wrong(&format!("`{name}` is true or false"))),
        }
    }

    /// How many are wanted.
    pub(super) fn limit(&self) -> Result<usize, Failure> {
        let Some(text) = self.get("limit") else {
            return Ok(LIMIT);
        };
        match text.parse() {
            Ok(limit @ 1..=LIMIT_MAX) => Ok(limit),
            _ => Err(wrong(&format!("`limit` is a number from 1 to {LIMIT_MAX}"))),
        }
    }

    /// From where on, as the page before has said.
    pub(super) fn after<P>(&self, start: P, read: impl FnOnce(&str) -> Option<P>) -> Result<P, Failure> {
        match self.get("after") {
            None | Some("") => Ok(start),
            Some(text) => {
                read(text).ok_or_else(|| wrong("`after` is what the page before has called `next`"))
            }
        }
    }
}

/// As many as are shown without a limit.
const LIMIT: usize = 100;

/// As many as one page has at most.
const LIMIT_MAX: usize = 1_000;

pub(super) fn wrong(why: &str) -> Failure {
    failure(StatusCode::BAD_REQUEST, why)
}

fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => hex(rest.next()?)? << 4 | hex(rest.next()?)?,
            plain => plain,
        });
    }
    String::from_utf8(bytes).ok()
}

/// Bytes as digits.
pub(super) fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The bytes of digits.
pub(super) fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> = text.bytes().map(hex).collect();
    let digits = digits?;
    let (pairs, rest) = digits.as_chunks();
    rest.is_empty()
        .then(|| pairs.iter().map(|[high, low]| high << 4 | low).collect())
}

fn hex(digit: u8) -> Option<u8> {
    let digit = char::from(digit).to_digit(16)?;
    u8::try_from(digit).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(query: &str) -> Option<Parameters> {
        Parameters::of(Some(query), &["search", "limit", "after", "connected"]).ok()
    }

    #[test]
    fn values_are_decoded() {
        let parameters = read("search=a%2Fb+%C3%BC&limit=7&&after").expect("right");
        assert_eq!(parameters.get("search"), Some("a/b ü"));
        assert_eq!(parameters.limit().ok(), Some(7));
        assert_eq!(parameters.get("after"), Some(""));
        assert_eq!(parameters.get("connected"), None);
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        for query in [
            "serch=a",
            "search=%",
            "search=%zz",
            "search=%ff",
            "limit=1&limit=2",
        ] {
            assert!(read(query).is_none(), "{query}");
        }
        for query in ["limit=0", "limit=1001", "limit=-1", "limit=x", "limit="] {
            assert!(read(query).is_some_and(|read| read.limit().is_err()), "{query}");
        }
        assert!(read("connected=yes").is_some_and(|read| read.truth("connected").is_err()));
    }

    #[test]
    fn any_bytes_are_digits_and_back() {
        let bytes: Vec<u8> = (0..=255).collect();
        assert_eq!(from_hex(&to_hex(&bytes)), Some(bytes));
        assert_eq!(from_hex("abc"), None);
        assert_eq!(from_hex("+1"), None);
    }
}
