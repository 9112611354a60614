//! What things are called here: which of them are wanted, and with which prefix.

use std::collections::HashMap;

use aws_lc_rs::digest::{SHA256, digest};
use bytes::Bytes;

/// A prefix, and what stands there instead of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Prefix {
    from: Vec<u8>,
    to: Vec<u8>,
}

impl Prefix {
    /// Parses `FROM=TO`; each of them may be empty.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let parts = text.split_once('=');
        let (from, to) = parts.ok_or_else(|| {
            format!("{text:?} is not FROM=TO: write for example plant/=site-1/plant/ or =imported/")
        })?;
        Ok(Self {
            from: from.into(),
            to: to.into(),
        })
    }
}

/// Names of a source, and what they become.
#[derive(Debug)]
pub(super) struct Names {
    /// The longest first.
    prefixes: Vec<Prefix>,
    only: Vec<Vec<u8>>,
    /// Digests of what was named already, and of what it was called before; `None`: nothing can come twice.
    seen: Option<HashMap<Digest, Digest>>,
}

/// What becomes of a name.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Named {
    /// It is called so.
    To(Bytes),
    /// It does not begin with any of the prefixes that are wanted.
    Unwanted,
    /// The source has named it before.
    Again,
    /// The prefixes give it the name of another one.
    Taken(Bytes),
}

/// The first half of a SHA-256: enough to tell names apart that nobody has made alike on purpose.
type Digest = [u8; 16];

impl Names {
    /// `may_repeat`: the source may name something twice.
    pub(super) fn new(prefixes: &[Prefix], only: &[String], may_repeat: bool) -> Self {
        let mut prefixes = prefixes.to_vec();
        prefixes.sort_by_key(|prefix| std::cmp::Reverse(prefix.from.len()));
        let seen = (may_repeat || !prefixes.is_empty()).then(HashMap::new);
        Self {
            prefixes,
            only: only.iter().map(|only| only.clone().into_bytes()).collect(),
            seen,
        }
    }

    /// Whether it is asked for.
    pub(super) fn is_wanted(&self, from: &[u8]) -> bool {
        self.only.is_empty() || self.only.iter().any(|only| from.starts_with(only))
    }

    /// What it is called here. Each name is to be asked for once.
    pub(super) fn name(&mut self, from: &Bytes) -> Named {
        if !self.is_wanted(from) {
            return Named::Unwanted;
        }
        let prefix = self.prefixes.iter().find(|prefix| from.starts_with(&prefix.from));
        let to = match prefix {
            Some(prefix) => [&prefix.to, &from[prefix.from.len()..]].concat().into(),
            None => from.clone(),
        };
        let Some(seen) = &mut self.seen else {
            return Named::To(to);
        };
        let origin = short_digest(from);
        match seen.insert(short_digest(&to), origin) {
            None => Named::To(to),
            Some(before) if before == origin => Named::Again,
            Some(before) => {
                seen.insert(short_digest(&to), before);
                Named::Taken(to)
            }
        }
    }
}

fn short_digest(name: &[u8]) -> Digest {
    let whole = digest(&SHA256, name);
    let half = whole.as_ref().first_chunk();
    *half.expect("a SHA-256 has 32 bytes")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(prefixes: &[&str], only: &[&str]) -> Names {
        let prefixes: Vec<_> = prefixes
            .iter()
            .map(|text| Prefix::parse(text).expect("one"))
            .collect();
        let only: Vec<_> = only.iter().map(|text| (*text).to_owned()).collect();
        Names::new(&prefixes, &only, false)
    }

    fn to(name: &'static str) -> Named {
        Named::To(Bytes::from_static(name.as_bytes()))
    }

    #[test]
    fn the_longest_prefix_counts_and_other_names_stay() {
        let mut names = names(&["a/=x/", "a/b/=y/", "drop=", "=all/"], &[]);
        assert_eq!(names.name(&"a/1".into()), to("x/1"));
        assert_eq!(names.name(&"a/b/1".into()), to("y/1"));
        assert_eq!(names.name(&"dropped".into()), to("ped"));
        assert_eq!(names.name(&"c".into()), to("all/c"));
        assert_eq!(self::names(&["a=b"], &[]).name(&"c".into()), to("c"));
    }

    #[test]
    fn what_is_not_asked_for_stays_away() {
        let mut names = names(&["a/="], &["a/", "b"]);
        assert_eq!(names.name(&"a/1".into()), to("1"));
        assert_eq!(names.name(&"bcd".into()), to("bcd"));
        assert_eq!(names.name(&"c".into()), Named::Unwanted);
    }

    #[test]
    fn two_names_do_not_become_one() {
        let mut names = names(&["a/=", "b/="], &[]);
        assert_eq!(names.name(&"a/1".into()), to("1"));
        assert_eq!(names.name(&"b/1".into()), Named::Taken("1".into()));
        assert_eq!(names.name(&"b/1".into()), Named::Taken("1".into()));
        assert_eq!(names.name(&"a/1".into()), Named::Again);
    }

    #[test]
    fn a_source_that_may_repeat_itself_is_heard_once() {
        let mut names = Names::new(&[], &[], true);
        assert_eq!(names.name(&"a".into()), to("a"));
        assert_eq!(names.name(&"a".into()), Named::Again);
    }

    #[test]
    fn a_prefix_has_two_sides() {
        assert!(Prefix::parse("a").is_err());
        assert!(Prefix::parse("=").is_ok());
    }
}
