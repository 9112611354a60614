//! A client of the admin pages, for the command line.

use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use hyper::header::{AUTHORIZATION, HeaderName, HeaderValue};
use serde_json::Value;
use thiserror::Error;

use crate::https_client::{
    ClientTlsError, HttpError, HttpsClient, RequestLimits, Response, TlsFiles, Url, UrlError,
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

const ANSWER_BYTES_MAX: usize = 1 << 20;

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

    fn answer(&self, response: Result<Response, HttpError>) -> Result<Value, AdminClientError> {
        let Response { status, body } = response.map_err(|error| AdminClientError::NoAnswer {
            url: self.url.clone(),
            error: error.to_string(),
        })?;
        let said = serde_json::from_slice::<Value>(&body);
        if status == 200 {
            return said.map_err(|_| AdminClientError::Foreign);
        }
        let why = match said {
            Ok(Value::Object(said)) => said.get("refused").and_then(Value::as_str).map(str::to_owned),
            _ => std::str::from_utf8(&body).ok().map(|text| text.trim().to_owned()),
        };
        let why = why.filter(|why| !why.is_empty() && !why.contains(char::is_control));
        let why = why.unwrap_or_else(|| format!("the admin pages answered with status {status}"));
        Err(AdminClientError::Refused { status, why })
    }
}
