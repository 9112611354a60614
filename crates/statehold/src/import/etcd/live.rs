//! A cluster that runs: its keys page by page, all of one revision, and how long its leases last.

use std::collections::HashMap;

use anyhow::{Context, bail};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde_json::{Value, json};
use server::header::{AUTHORIZATION, HeaderName, HeaderValue};
use server::{HttpError, HttpsClient, RequestLimits, Url, UrlError, clock};

use super::{Etcd, LEASE_GONE, Leased, SKIPPED, expected};
use crate::exit::{Exit, UsageError};
use crate::import::carrier::{Carrier, SourceKey};
use crate::import::report::shown;
use crate::import::tls;

/// Carries over the keys of a cluster.
pub(super) async fn carry(args: &Etcd) -> anyhow::Result<Exit> {
    let mut gateway = Gateway::open(args).await?;
    let ranges = ranges(&args.import.only);
    let mut total = 0;
    let mut revision = None;
    for range in &ranges {
        let counted = gateway.count(range, revision).await?;
        total += counted.count;
        // All that follows is asked for as it was then.
        revision = Some(counted.revision);
    }
    let mut carrier = Carrier::begin(&args.import, expected(Some(total))).await?;
    for range in ranges {
        gateway
            .carry_range(range, revision.as_deref(), args.leased, &mut carrier)
            .await?;
    }
    carrier.finish().await
}

/// From the first key to before the last one.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Range {
    first: Vec<u8>,
    end: Vec<u8>,
}

/// How etcd writes that there is no last one.
const NO_END: &[u8] = &[0];

/// What begins with the prefixes; those that begin with another one are in its range already.
fn ranges(only: &[String]) -> Vec<Range> {
    if only.is_empty() || only.iter().any(String::is_empty) {
        return vec![Range {
            first: vec![0],
            end: NO_END.to_vec(),
        }];
    }
    let mut only = only.to_vec();
    only.sort();
    only.dedup_by(|later, earlier| later.starts_with(earlier.as_str()));
    only.into_iter()
        .map(|prefix| Range::of_prefix(prefix.into_bytes()))
        .collect()
}

impl Range {
    fn of_prefix(first: Vec<u8>) -> Self {
        let mut end = first.clone();
        while end.last() == Some(&0xFF) {
            end.pop();
        }
        match end.last_mut() {
            Some(last) => *last += 1,
            None => end = NO_END.to_vec(),
        }
        Self { first, end }
    }
}

/// The JSON gateway of a cluster.
#[derive(Debug)]
struct Gateway {
    http: HttpsClient,
    headers: Vec<(HeaderName, HeaderValue)>,
    /// When each lease ends, in milliseconds since the Unix epoch; `None`: it has.
    leases: HashMap<String, Option<u64>>,
    page_keys: u64,
}

/// Of an answer. etcd takes no larger values than 1.5 MiB unless it is told otherwise.
const ANSWER_BYTES_MAX: usize = 64 << 20;

/// Smaller pages may grow, larger ones shrink.
const PAGE_BYTES: std::ops::Range<usize> = (1 << 20)..(8 << 20);

const PAGE_KEYS_FIRST: u64 = 128;
const PAGE_KEYS_MAX: u64 = 4_096;

#[derive(Debug)]
struct Counted {
    count: u64,
    revision: String,
}

impl Gateway {
    async fn open(args: &Etcd) -> anyhow::Result<Self> {
        let from = args.from.as_deref().context("neither --from nor --snapshot")?;
        let url = Url::parse(from, args.from_http).map_err(|error| match error {
            UrlError::Plain => UsageError(format!(
                "--from {from}: without TLS everybody on the way can read along: use https, or say --from-http"
            )),
            other => UsageError(format!("--from {from}: {other}")),
        })?;
        if !url.is_tls() {
            args.tls.refuse_files("https://")?;
        }
        let limits = RequestLimits {
            timeout: args.import.server.timeout,
            requests_max: 1,
            body_bytes_max: ANSWER_BYTES_MAX,
        };
        let mut gateway = Self {
            http: HttpsClient::new(url, args.tls.files(), limits)?,
            headers: Vec::new(),
            leases: HashMap::new(),
            page_keys: PAGE_KEYS_FIRST,
        };
        if let Some(username) = &args.from_username {
            gateway.authenticate(username, &password(args)?).await?;
        }
        Ok(gateway)
    }

    async fn authenticate(&mut self, username: &str, password: &str) -> anyhow::Result<()> {
        let asked = json!({ "name": username, "password": password });
        let answer = self.ask("/v3/auth/authenticate", &asked).await?;
        let token = answer["token"]
            .as_str()
            .context("etcd gives no token for the password")?;
        let token = HeaderValue::from_str(token).context("etcd gives a token that cannot be sent")?;
        self.headers.push((AUTHORIZATION, token));
        Ok(())
    }

    /// How many keys there are, at this revision or the newest one.
    async fn count(&self, range: &Range, revision: Option<String>) -> anyhow::Result<Counted> {
        let mut asked = asked(range, revision.as_deref());
        asked["count_only"] = true.into();
        let answer = self.ask("/v3/kv/range", &asked).await?;
        let newest = answer["header"]["revision"].as_str().map(str::to_owned);
        let revision = revision.or(newest);
        Ok(Counted {
            count: integer(&answer["count"])
                .and_then(|count| u64::try_from(count).ok())
                .unwrap_or(0),
            revision: revision.context("what answers there is not etcd: it names no revision")?,
        })
    }

    async fn carry_range(
        &mut self,
        mut range: Range,
        revision: Option<&str>,
        leased: Leased,
        carrier: &mut Carrier,
    ) -> anyhow::Result<()> {
        loop {
            let answer = self.page(&range, revision).await?;
            let entries = answer["kvs"].as_array().map_or(&[][..], Vec::as_slice);
            for entry in entries {
                let name = Bytes::from(decoded(&entry["key"])?);
                range.first = name.to_vec();
                if !carrier.wants(&name) {
                    continue;
                }
                let lease = entry["lease"].as_str().filter(|lease| *lease != "0");
                let expires_at = match (lease, leased) {
                    (None, _) | (_, Leased::Keep) => None,
                    (_, Leased::Skip) => {
                        carrier.passed_over(SKIPPED);
                        continue;
                    }
                    (Some(lease), Leased::Expire) => match self.lease_end(lease).await? {
                        Some(at) => Some(at),
                        None => {
                            carrier.passed_over(LEASE_GONE);
                            continue;
                        }
                    },
                };
                let value = decoded(&entry["value"])?.into();
                let key = SourceKey {
                    name,
                    value,
                    expires_at,
                };
                carrier.key(key).await?;
            }
            if answer["more"] != true || entries.is_empty() {
                return Ok(());
            }
            // The next key that there can be.
            range.first.push(0);
        }
    }

    /// The next keys: as many as make an answer of a good size.
    async fn page(&mut self, range: &Range, revision: Option<&str>) -> anyhow::Result<Value> {
        loop {
            let mut asked = asked(range, revision);
            asked["limit"] = self.page_keys.into();
            let headers = &self.headers;
            let body = Bytes::from(asked.to_string());
            let response = self.http.post_json("/v3/kv/range", headers, body).await;
            match response {
                Err(HttpError::Body(_)) if self.page_keys > 1 => self.page_keys = (self.page_keys / 8).max(1),
                Err(error) => return Err(failed(error)),
                Ok(response) => {
                    let bytes = response.body.len();
                    if bytes < PAGE_BYTES.start {
                        self.page_keys = (self.page_keys * 2).min(PAGE_KEYS_MAX);
                    } else if bytes > PAGE_BYTES.end {
                        self.page_keys = (self.page_keys / 2).max(1);
                    }
                    return answer(response.status, &response.body);
                }
            }
        }
    }

    /// When a lease ends, in milliseconds since the Unix epoch; asked once for each.
    async fn lease_end(&mut self, id: &str) -> anyhow::Result<Option<u64>> {
        if let Some(end) = self.leases.get(id) {
            return Ok(*end);
        }
        let asked_at = clock::wall();
        let answer = self.ask("/v3/lease/timetolive", &json!({ "ID": id })).await?;
        let left = integer(&answer["TTL"]).and_then(|left| u64::try_from(left).ok());
        // A member writes no 0, and -1 if the lease has ended.
        let end = left.map(|left| asked_at.saturating_add(left.saturating_mul(1_000)));
        self.leases.insert(id.to_owned(), end);
        Ok(end)
    }

    async fn ask(&self, path: &str, asked: &Value) -> anyhow::Result<Value> {
        let body = Bytes::from(asked.to_string());
        match self.http.post_json(path, &self.headers, body).await {
            Ok(response) => answer(response.status, &response.body),
            Err(error) => Err(failed(error)),
        }
    }
}

fn failed(error: HttpError) -> anyhow::Error {
    let advice = match &error {
        HttpError::Connect(cause) => tls::advice(cause),
        _ => "",
    };
    let told = format!("etcd cannot be asked: {error}{advice}");
    anyhow::Error::new(error).context(told)
}

fn asked(range: &Range, revision: Option<&str>) -> Value {
    let mut asked = json!({ "key": STANDARD.encode(&range.first), "range_end": STANDARD.encode(&range.end) });
    if let Some(revision) = revision {
        asked["revision"] = revision.into();
    }
    asked
}

fn answer(status: u16, body: &[u8]) -> anyhow::Result<Value> {
    let said = serde_json::from_slice::<Value>(body);
    if let (200, Ok(answer)) = (status, &said) {
        return Ok(answer.clone());
    }
    let why = said
        .ok()
        .and_then(|said| said["error"].as_str().map(str::to_owned));
    let Some(why) = why else {
        bail!("what answers there is not the JSON gateway of etcd 3.4 or later (status {status})");
    };
    let advice = if why.contains("compacted") {
        ": it forgets its history while the import is reading it; run it again, with --inflight larger, or take a snapshot"
    } else if why.contains("user name is empty") || why.contains("authentication") {
        ": give --from-username and a password"
    } else {
        ""
    };
    bail!("etcd says: {}{advice}", shown(why.as_bytes()))
}

/// A number of 64 bits is a string in JSON.
fn integer(value: &Value) -> Option<i64> {
    value.as_i64().or_else(|| value.as_str()?.parse().ok())
}

/// Bytes are in base 64; none at all are left out.
fn decoded(value: &Value) -> anyhow::Result<Vec<u8>> {
    let text = value.as_str().unwrap_or_default();
    STANDARD
        .decode(text)
        .context("what answers there is not etcd: its bytes are not in base 64")
}

fn password(args: &Etcd) -> anyhow::Result<String> {
    if let Some(file) = &args.from_password_file {
        let password = std::fs::read_to_string(file);
        let password = password.with_context(|| format!("cannot read {}", file.display()))?;
        return Ok(password.trim_end_matches(['\r', '\n']).to_owned());
    }
    let set = std::env::var("ETCDCTL_PASSWORD").ok();
    let missing = "a user name needs a password: --from-password-file or the variable ETCDCTL_PASSWORD";
    Ok(set.ok_or_else(|| UsageError(missing.to_owned()))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(only: &[&str]) -> Vec<(Vec<u8>, Vec<u8>)> {
        let only: Vec<_> = only.iter().map(|text| (*text).to_owned()).collect();
        ranges(&only)
            .into_iter()
            .map(|range| (range.first, range.end))
            .collect()
    }

    fn range(first: &[u8], end: &[u8]) -> (Vec<u8>, Vec<u8>) {
        (first.to_vec(), end.to_vec())
    }

    #[test]
    fn prefixes_are_ranges_and_none_is_in_another() {
        assert_eq!(of(&[]), [range(&[0], &[0])]);
        assert_eq!(of(&["a", ""]), [range(&[0], &[0])]);
        assert_eq!(
            of(&["b/", "a/x", "a/"]),
            [range(b"a/", b"a0"), range(b"b/", b"b0")]
        );
        let last = Range::of_prefix(vec![b'a', 0xFF]);
        assert_eq!((last.first, last.end), range(&[b'a', 0xFF], b"b"));
        assert_eq!(Range::of_prefix(vec![0xFF]).end, NO_END);
    }

    #[test]
    fn what_etcd_refuses_is_told_with_what_to_do() {
        let told = |status, body: &str| answer(status, body.as_bytes()).expect_err("refused").to_string();
        let compacted = r#"{"error":"etcdserver: mvcc: required revision has been compacted","code":11}"#;
        assert!(told(400, compacted).contains("run it again"));
        let empty = r#"{"error":"etcdserver: user name is empty"}"#;
        assert!(told(400, empty).contains("--from-username"));
        assert!(told(404, "404 page not found").contains("not the JSON gateway"));
        assert!(told(200, "<html>").contains("not the JSON gateway"));
    }

    #[test]
    fn numbers_are_strings_or_not() {
        assert_eq!(integer(&json!("-1")), Some(-1));
        assert_eq!(integer(&json!(7)), Some(7));
        assert_eq!(integer(&json!(null)), None);
    }
}
