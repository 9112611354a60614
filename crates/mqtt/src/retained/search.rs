//! Finding the retained messages for a filter.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};

use protocol::TopicFilter;

use super::key::{Key, SEPARATOR};

/// Visits the messages whose topics match `filter`, in order, from the key `from` on; looks at no more than so many topics. True
/// if there can be no more; otherwise `from` is where to go on, which is the message at which the visitor broke off. And how many topics
/// were looked at.
///
/// Looks at the first topic at or after a lower bound, learns from it whether it matches and below which bound nothing
/// else can, and goes on from there. Nothing is recursive, and the cost is that of a look-up for each match and for each
/// value of a `+` level.
pub(super) fn matching<V>(
    messages: &BTreeMap<Key, V>,
    filter: &TopicFilter,
    from: &mut Vec<u8>,
    lookups_max: usize,
    visit: &mut impl FnMut(&V) -> ControlFlow<()>,
) -> (bool, u64) {
    let levels: Vec<Level<'_>> = filter.as_str().split('/').map(Level::of).collect();
    if from.is_empty() {
        *from = lowest(&levels);
    }
    let mut looked_at = 0;
    while looked_at < lookups_max as u64 {
        let range = (Bound::Included(from.as_slice()), Bound::Unbounded);
        let Some((key, message)) = messages.range::<[u8], _>(range).next() else {
            return (true, looked_at);
        };
        looked_at += 1 + key.as_bytes().len() as u64 / BYTES_PER_LOOKUP;
        let next = match compare(&levels, key) {
            Compared::Matches(next) => {
                if visit(message).is_break() {
                    *from = key.as_bytes().to_vec();
                    return (false, looked_at);
                }
                next
            }
            Compared::Differs(next) => next,
        };
        match next {
            Some(next) => *from = next,
            None => return (true, looked_at),
        }
    }
    (false, looked_at)
}

/// Comparing and copying so many bytes of a topic takes as long as finding it.
const BYTES_PER_LOOKUP: u64 = 1_024;

/// One level of a filter.
enum Level<'a> {
    /// `#`
    Multi,
    /// `+`
    Single,
    Name(&'a [u8]),
}

/// What a topic says about a filter; with the bound below which no further topic can match, if there may be one.
enum Compared {
    Matches(Option<Vec<u8>>),
    Differs(Option<Vec<u8>>),
}

impl<'a> Level<'a> {
    fn of(level: &'a str) -> Self {
        match level {
            "#" => Self::Multi,
            "+" => Self::Single,
            name => Self::Name(name.as_bytes()),
        }
    }
}

/// The names before the first wildcard: no lower topic can match.
fn lowest(levels: &[Level<'_>]) -> Vec<u8> {
    let mut bound = Vec::new();
    for (position, level) in levels.iter().enumerate() {
        let Level::Name(name) = level else { break };
        if position > 0 {
            bound.push(SEPARATOR);
        }
        bound.extend_from_slice(name);
    }
    bound
}

fn compare(levels: &[Level<'_>], key: &Key) -> Compared {
    let bytes = key.as_bytes();
    // The end of the last level that was matched by `+`: where the search goes on if nothing more can follow.
    let mut last_single: Option<usize> = None;
    let past = |end: Option<usize>| end.map(|end| with(&bytes[..end], &[SEPARATOR + 1]));
    let mut begin = 0;
    let mut names = key.levels();
    for (position, level) in levels.iter().enumerate() {
        let name = names.next();
        // Wildcards at the start do not match topics that start with `$`. [MQTT-4.7.2-1]
        let is_hidden = position == 0 && bytes.first() == Some(&b'$');
        match (level, name) {
            (Level::Multi | Level::Single, _) if is_hidden => return Compared::Differs(Some(vec![b'$' + 1])),
            (Level::Multi, _) => return Compared::Matches(Some(with(bytes, &[SEPARATOR]))),
            // The topic ends before the filter does: longer ones come right after it.
            (Level::Name(wanted), None) => {
                return Compared::Differs(Some([bytes, &[SEPARATOR], wanted].concat()));
            }
            (Level::Single, None) => return Compared::Differs(Some(with(bytes, &[SEPARATOR]))),
            (Level::Single, Some(name)) => {
                last_single = Some(begin + name.len());
                begin += name.len() + 1;
            }
            (Level::Name(wanted), Some(name)) => match name.cmp(wanted) {
                Ordering::Equal => begin += name.len() + 1,
                Ordering::Less => return Compared::Differs(Some(with(&bytes[..begin], wanted))),
                Ordering::Greater => return Compared::Differs(past(last_single)),
            },
        }
    }
    if names.next().is_none() {
        Compared::Matches(past(last_single))
    } else {
        Compared::Differs(past(last_single))
    }
}

fn with(start: &[u8], end: &[u8]) -> Vec<u8> {
    [start, end].concat()
}
