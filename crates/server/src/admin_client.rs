//! A client of the admin pages, for the command line.

use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use hyper::header::{AUTHORIZATION, HeaderName, HeaderValue};
use serde_json::Value;
use thiserror::Error;

use crate::https_client::{
    ClientTlsError, HttpError, HttpsClient, RequestLimits, Response, Streamed, TlsFiles, Url, UrlError,
};

/// Where the admin pages are, and who asks.
#[derive(Debug)]
pub struct AdminClient {
    url: String,
    http: HttpsClient,
    headers: Vec<(HeaderName, HeaderValue)>,
}

/// Why there is no answer that could be used.
#[derive(Debug, Error)]
pub enum AdminClientError {
    /// It cannot be asked there.
    #[error("the address of the admin pages: {0}")]
    Url(#[from] UrlError),
    /// A file cannot be used.
    #[error(transparent)]
    Tls(#[from] ClientTlsError),
    /// It cannot be sent.
    #[error("the token has characters that no token has")]
    Token,
    /// Nothing came back.
    #[error("the admin pages at {url}: {error}")]
    NoAnswer {
        /// Where.
        url: String,
        /// Why.
        error: String,
    },
    /// The server did not do it.
    #[error("{why}")]
    Refused {
        /// Its status, as of HTTP.
        status: u16,
        /// In its words.
        why: String,
    },
    /// Something else is there.
    #[error("what is at the address of the admin pages gives no answer of theirs")]
    Foreign,
}

/// What a refusal may have.
const WORDS_BYTES_MAX: usize = 64 << 10;

/// A page of 1,000 clients with long names, with room to spare.
const ANSWER_BYTES_MAX: usize = 16 << 20;

impl AdminClient {
    /// Connects to nobody yet.
    pub fn new(
        url: &str,
        cafile: Option<&Path>,
        token: Option<&str>,
        timeout: Duration,
    ) -> Result<Self, AdminClientError> {
        let limits = RequestLimits {
            timeout,
            requests_max: 1,
            body_bytes_max: ANSWER_BYTES_MAX,
        };
        let mut headers = Vec::new();
        if let Some(token) = token {
            let value = HeaderValue::from_str(&format!("Bearer {token}"));
            headers.push((AUTHORIZATION, value.map_err(|_| AdminClientError::Token)?));
        }
        let files = TlsFiles {
            ca: cafile.map(Path::to_path_buf).unwrap_or_default(),
            ..TlsFiles::default()
        };
        Ok(Self {
            url: url.to_owned(),
            http: HttpsClient::new(Url::parse(url, false)?, files, limits)?,
            headers,
        })
    }

    /// What is at a path.
    pub async fn get(&self, path: &str) -> Result<Value, AdminClientError> {
        self.answer(self.http.get_at(path, &self.headers).await)
    }

    /// Asks for a change.
    pub async fn post(&self, path: &str, asked: &Value) -> Result<Value, AdminClientError> {
        let body = Bytes::from(asked.to_string());
        self.answer(self.http.post_json(path, &self.headers, body).await)
    }

    /// Asks for something to be deleted.
    pub async fn delete(&self, path: &str) -> Result<Value, AdminClientError> {
        self.answer(self.http.delete(path, &self.headers).await)
    }

    /// Sends bytes, and asks for what becomes of them.
    pub async fn post_bytes(&self, path: &str, bytes: Bytes) -> Result<Value, AdminClientError> {
        self.answer(self.http.post_bytes(path, &self.headers, bytes).await)
    }

    /// Reads what is at a path as it comes.
    pub async fn stream(&self, path: &str) -> Result<AdminStream, AdminClientError> {
        let streamed = self.http.stream_at(path, &self.headers).await;
        let mut streamed = streamed.map_err(|error| no_answer(&self.url, &error))?;
        let url = self.url.clone();
        if streamed.status == 200 {
            return Ok(AdminStream { url, streamed });
        }
        let mut words = Vec::new();
        while let Ok(Some(piece)) = streamed.next().await
            && words.len() < WORDS_BYTES_MAX
        {
            words.extend_from_slice(&piece);
        }
        Err(refused(streamed.status, &words))
    }

    /// The text of a page that is no JSON.
    pub async fn text(&self, path: &str) -> Result<String, AdminClientError> {
        let Response { status, body, .. } = self.got(self.http.get_at(path, &self.headers).await)?;
        match std::str::from_utf8(&body) {
            Ok(text) if status == 200 => Ok(text.to_owned()),
            _ => Err(refused(status, &body)),
        }
    }

    fn got(&self, response: Result<Response, HttpError>) -> Result<Response, AdminClientError> {
        response.map_err(|error| no_answer(&self.url, &error))
    }

    fn answer(&self, response: Result<Response, HttpError>) -> Result<Value, AdminClientError> {
        let Response { status, body, .. } = self.got(response)?;
        if status == 200 {
            return serde_json::from_slice(&body).map_err(|_| AdminClientError::Foreign);
        }
        Err(refused(status, &body))
    }
}

/// What comes, piece by piece.
#[derive(Debug)]
pub struct AdminStream {
    url: String,
    streamed: Streamed,
}

impl AdminStream {
    /// The next piece; `None`: that was all.
    pub async fn next(&mut self) -> Result<Option<Bytes>, AdminClientError> {
        let next = self.streamed.next().await;
        next.map_err(|error| no_answer(&self.url, &error))
    }
}

fn no_answer(url: &str, error: &HttpError) -> AdminClientError {
    AdminClientError::NoAnswer {
        url: url.to_owned(),
        error: error.to_string(),
    }
}

fn refused(status: u16, body: &[u8]) -> AdminClientError {
    let why = match serde_json::from_slice(body) {
        Ok(Value::Object(said)) => {
            let why = said.get("refused").or_else(|| said.get("error"));
            why.and_then(Value::as_str).map(str::to_owned)
        }
        _ => std::str::from_utf8(body)
            .ok()
            .map(|text| text.trim().replace('\n', "; ")),
    };
    let why = why.filter(|why| !why.is_empty());
    let why = why.unwrap_or_else(|| format!("the admin pages answered with status {status}"));
    AdminClientError::Refused { status, why }
}

/// A text as a part of a path, or a value of a query: everything but letters, digits and `-._~` is encoded.
pub fn percent_encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded += &format!("%{byte:02X}");
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_name_can_be_in_a_path() {
        assert_eq!(percent_encoded("a/b c+ü~"), "a%2Fb%20c%2B%C3%BC~");
    }

    #[test]
    fn the_words_of_a_refusal_are_those_of_the_server() {
        let why = |body: &str| refused(503, body.as_bytes()).to_string();
        assert_eq!(why(r#"{"refused":"no"}"#), "no");
        assert_eq!(why(r#"{"error":"none"}"#), "none");
        assert_eq!(why("the disk is full\nstopping\n"), "the disk is full; stopping");
        assert_eq!(why(""), "the admin pages answered with status 503");
        assert_eq!(why("a\u{1b}[31m"), "a\u{1b}[31m", "what says it escapes it");
    }
}
