//! A page of a SCAN, and what it says of each key that it has or would have: each was there, or was not, at some moment between the
//! request and the answer.
//!
//! Which keys a page would have is known from where it begins and where the next one goes on. To clients tokens are only bytes; here they
//! are read. (state_service/src/service/scan_token.rs, store/src/scan.rs)

use std::collections::BTreeSet;

use bytes::Bytes;
use cluster::random::Random;
use protocol::state_store::{Glob, Reply, RequestKind};
use state_service::{ScanBinding, group_of_key};

use crate::machine::scan_seal;
use crate::promises::l1::Histories;

/// A page that a client asks for.
#[derive(Debug, Clone)]
pub(super) struct Page {
    pattern: &'static str,
    /// Where it goes on; from the beginning without it.
    token: Option<Bytes>,
    /// Over so many groups.
    groups: u32,
}

/// Where a page begins or ends: behind this key of this group.
type Place = (u32, Vec<u8>);

/// What keepers look for.
const PATTERNS: [&str; 6] = ["*", "key*", "lease?", "fenced[01]", "own-*", "*1"];

impl Page {
    /// The first page of some pattern.
    pub(super) fn first(random: &mut Random, groups: u32) -> Self {
        Self {
            pattern: PATTERNS[random.between(0, PATTERNS.len())],
            token: None,
            groups,
        }
    }

    /// What to ask with.
    pub(super) fn arguments(&self) -> Vec<&str> {
        let token = self.token.as_deref().map(std::str::from_utf8);
        let token = token.map(|token| token.expect("tokens are text"));
        ["SCAN", self.pattern].into_iter().chain(token).collect()
    }

    /// Notes what it says of all keys. The page that follows, if there is one.
    pub(super) fn answered(
        self,
        (asked, answered): (u64, u64),
        payload: &Bytes,
        histories: &mut Histories,
    ) -> Result<Option<Self>, String> {
        let Ok(Reply::Keys { keys, token }) = Reply::parse(payload, RequestKind::Scan) else {
            return Err(format!(
                "a SCAN was answered {}",
                String::from_utf8_lossy(payload)
            ));
        };
        let listed = self.listed(&keys, token.as_deref())?;
        let known = histories.keys().map(|(key, _)| key);
        let known = known.filter(|key| self.would_have(key, token.as_deref()));
        let all: BTreeSet<String> = known.map(str::to_owned).chain(listed.iter().cloned()).collect();
        for key in all {
            histories.listed((asked, answered), &key, listed.contains(&key));
        }
        Ok(token.map(|token| Self {
            token: Some(token),
            ..self
        }))
    }

    /// The keys that it has: in order, each once, and none that does not belong there.
    fn listed(&self, keys: &[Bytes], end: Option<&[u8]>) -> Result<BTreeSet<String>, String> {
        let is_in_order = keys.is_sorted_by(|key, next| key < next);
        let keys = keys.iter().map(|key| String::from_utf8_lossy(key).into_owned());
        let listed: BTreeSet<String> = keys.collect();
        if is_in_order && listed.iter().all(|key| self.would_have(key, end)) {
            Ok(listed)
        } else {
            Err(format!("L1: {self:?} up to {end:?} lists {listed:?}"))
        }
    }

    /// Whether it has a key that is there, when the next page goes on with this token.
    fn would_have(&self, key: &str, end: Option<&[u8]>) -> bool {
        let group = group_of_key(key.as_bytes(), self.groups);
        let at = (group.0, key.as_bytes().to_vec());
        let glob = Glob::compile(self.pattern.as_bytes()).expect("a pattern");
        let place = |token: &[u8]| place_of(self.pattern, token);
        let is_within = self.token.as_deref().is_none_or(|token| at > place(token))
            && end.is_none_or(|token| at <= place(token));
        is_within && glob.matches(key.as_bytes())
    }
}

/// The place behind which a token of nobody's scan goes on.
fn place_of(pattern: &str, token: &[u8]) -> Place {
    let bound = ScanBinding::new(None, pattern.as_bytes());
    let opened = scan_seal().open(&bound, token);
    place(&opened.expect("it was sealed by a simulated node"))
}

fn place(token: &[u8]) -> Place {
    match token {
        [WITH_GROUP, a, b, c, d, key @ ..] => (u32::from_be_bytes([*a, *b, *c, *d]), key.to_vec()),
        [_, key @ ..] => (0, key.to_vec()),
        [] => (0, Vec::new()),
    }
}

/// Version of tokens that say for which group they are.
const WITH_GROUP: u8 = 2;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::{Call, Condition, Outcome, Tolerance};

    /// What one client asks and is told: keys are set, then there is a page.
    fn holds(set: &[&str], token: Option<&'static [u8]>, payload: &str) -> bool {
        let mut histories = Histories::default();
        for key in set {
            let call = Call::Set {
                value: String::new(),
                condition: Condition::Missing,
                lives: None,
                token: None,
            };
            let place = histories.asked(1, key, call);
            histories.answered(2, key, place, Outcome::Stored((1, 0)));
        }
        let page = Page {
            pattern: "key*",
            token: token.map(sealed),
            groups: 1,
        };
        let moments = (histories.moment(3), histories.moment(4));
        let answered = page.answered(
            moments,
            &Bytes::copy_from_slice(payload.as_bytes()),
            &mut histories,
        );
        answered.is_ok() && histories.check(Tolerance::default()).is_ok()
    }

    fn sealed(place: &[u8]) -> Bytes {
        scan_seal().seal(&ScanBinding::new(None, b"key*"), place)
    }

    #[test]
    fn a_page_has_what_is_there() {
        let both = "*1\r\n*2\r\n$4\r\nkey1\r\n$4\r\nkey2\r\n";
        assert!(holds(&["key1", "key2", "other"], None, both));
        assert!(!holds(&["key1", "key2", "key3"], None, both), "key3 is missing");
        assert!(!holds(&["key1"], None, both), "nobody has set key2");
        let out_of_order = "*1\r\n*2\r\n$4\r\nkey2\r\n$4\r\nkey1\r\n";
        assert!(!holds(&["key1", "key2"], None, out_of_order));
        let twice = "*1\r\n*2\r\n$4\r\nkey1\r\n$4\r\nkey1\r\n";
        assert!(!holds(&["key1"], None, twice));
        let another = "*1\r\n*1\r\n$5\r\nother\r\n";
        assert!(!holds(&["other"], None, another), "it does not match");
    }

    #[test]
    fn a_page_ends_where_the_next_one_begins() {
        let token = sealed(b"\x01key1");
        let (length, token) = (token.len(), String::from_utf8_lossy(&token));
        let first = &format!("*2\r\n*1\r\n$4\r\nkey1\r\n${length}\r\n{token}\r\n");
        assert!(holds(&["key1", "key2"], None, first));
        assert!(!holds(&["key0", "key1"], None, first), "key0 is missing");
        let second = "*1\r\n*1\r\n$4\r\nkey2\r\n";
        assert!(holds(&["key1", "key2"], Some(b"\x01key1"), second));
        assert!(
            !holds(&["key1", "key2", "key3"], Some(b"\x01key1"), second),
            "key3 is missing"
        );
        assert!(
            !holds(&["key2"], Some(b"\x01key2"), second),
            "it was on the page before"
        );
    }

    #[test]
    fn pages_go_from_one_group_to_the_next() {
        assert!(place(b"\x01key") < place(b"\x02\0\0\0\x01"));
        assert!(place(b"\x02\0\0\0\x01key") > place(b"\x02\0\0\0\x01"));
        assert!(place(b"\x02\0\0\0\x01key") < place(b"\x02\0\0\0\x02"));
    }
}
