//! Scans: the keys that match a pattern, page by page.
//!
//! A page ends when it has walked or listed enough; its token says after which key the next one starts. The
//! store remembers nothing of a scan, so any replica can serve the next page, and a key that is there during
//! the whole scan is listed exactly once.

use std::ops::Bound;

use bytes::{BufMut, Bytes, BytesMut};
use protocol::state_store::Glob;

use crate::store::Store;

/// How large a page may become.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScanLimits {
    /// How many keys are looked at. At least one is. A key counts once more for each [64 bytes](BYTES_PER_KEY) of it.
    pub keys_walked_max: usize,
    /// How many bytes the listed keys and the token may have together, with the RESP around them. A page with
    /// one key may have more.
    pub bytes_max: usize,
}

impl Default for ScanLimits {
    /// 10,000 keys, a few milliseconds, so that a store of a million keys is scanned in 100 pages; 512 KiB.
    fn default() -> Self {
        Self {
            keys_walked_max: 10_000,
            bytes_max: 512 << 10,
        }
    }
}

/// One page of a scan.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ScanPage {
    /// The keys that match, in the order of their bytes. May be empty although there are more pages.
    pub keys: Vec<Bytes>,
    /// What to ask the next page with; `None` on the last one.
    pub token: Option<Bytes>,
    /// What it counts for of [`ScanLimits::keys_walked_max`].
    pub walked: usize,
}

/// Why a scan is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ScanError {
    /// The token was not made by this program, or by a version that is not known here.
    #[error("the continuation token of the scan is not valid")]
    Token,
}

impl ScanPage {
    /// Keeps the first keys, so many and at least one; the next page goes on behind them.
    pub fn cut_to(&mut self, keys: usize) {
        self.keys.truncate(keys.max(1));
        self.token = self.keys.last().map(|key| token_after(key));
    }
}

impl Store {
    /// One page of the keys that match and that the client may read, as they are at `now` (milliseconds since
    /// the Unix epoch).
    pub fn scan(
        &self,
        pattern: &Glob,
        token: Option<&[u8]>,
        now: u64,
        limits: ScanLimits,
        may_read: &mut dyn FnMut(&[u8]) -> bool,
    ) -> Result<ScanPage, ScanError> {
        let after = token.map(key_of_token).transpose()?;
        let mut page = ScanPage::default();
        let Some(prefix) = pattern.prefix() else {
            return Ok(page);
        };
        let start = match after {
            Some(after) if after >= prefix => Bound::Excluded(after),
            _ => Bound::Included(prefix),
        };
        let now = now.max(self.stamp.time);
        let mut bytes = 0;
        let mut walked: Option<&[u8]> = None;
        for (key, stored) in self.keys.range::<_, [u8]>((start, Bound::Unbounded)) {
            let key = key.as_slice();
            if !key.starts_with(prefix) {
                return Ok(page);
            }
            let cost = key.len() + RESP_OVERHEAD;
            let is_full = page.walked >= limits.keys_walked_max.max(1)
                || (!page.keys.is_empty() && bytes + 2 * cost > limits.bytes_max);
            if let Some(walked) = walked.filter(|_| is_full) {
                page.token = Some(token_after(walked));
                return Ok(page);
            }
            page.walked += 1 + key.len() / BYTES_PER_KEY;
            if pattern.matches(key) && !stored.is_due(now) && may_read(key) {
                page.keys.push(Bytes::copy_from_slice(key));
                bytes += cost;
            }
            walked = Some(key);
        }
        Ok(page)
    }
}

/// A token: its version, then the last key that was looked at.
fn token_after(key: &[u8]) -> Bytes {
    let mut token = BytesMut::with_capacity(1 + key.len());
    token.put_u8(TOKEN_VERSION);
    token.put_slice(key);
    token.freeze()
}

fn key_of_token(token: &[u8]) -> Result<&[u8], ScanError> {
    match token.split_first() {
        Some((&TOKEN_VERSION, key)) if !key.is_empty() => Ok(key),
        _ => Err(ScanError::Token),
    }
}

/// Comparing so many bytes of a key with a pattern takes as long as finding the key.
pub const BYTES_PER_KEY: usize = 64;

const TOKEN_VERSION: u8 = 1;

/// What RESP adds to a key, at most: `$`, the digits of a length of 32 bits, twice CR LF.
const RESP_OVERHEAD: usize = 15;

#[cfg(test)]
mod tests;
