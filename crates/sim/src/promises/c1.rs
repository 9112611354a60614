//! C1: when everything is at rest, all nodes have the same retained messages, of the same editions.

use std::collections::BTreeMap;

/// What a node has of each topic: an edition, and a payload unless it is a tombstone.
pub(crate) type Editions<E> = BTreeMap<String, (E, Option<Vec<u8>>)>;

/// All nodes have the same.
pub(crate) fn check<E: PartialEq + std::fmt::Debug>(nodes: &[(u64, Editions<E>)]) -> Result<(), String> {
    let Some((first, expected)) = nodes.first() else {
        return Ok(());
    };
    for (node, found) in nodes {
        let topics = expected.keys().chain(found.keys());
        for topic in topics {
            let (here, there) = (expected.get(topic), found.get(topic));
            if here != there {
                return Err(format!(
                    "C1: nodes differ about {topic}: {first} has {here:?}, and {node} has {there:?}"
                ));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_edition_or_another_message_or_none_breaks_the_promise() {
        let of = |topics: &[(&str, u64, &[u8])]| -> Editions<u64> {
            let of_topic = |(topic, edition, payload): &(&str, u64, &[u8])| {
                (String::from(*topic), (*edition, Some(payload.to_vec())))
            };
            topics.iter().map(of_topic).collect()
        };
        let one = of(&[("a", 1, b"x"), ("b", 2, b"y")]);
        let differing = [
            of(&[("a", 1, b"x")]),
            of(&[("a", 1, b"x"), ("b", 3, b"y")]),
            of(&[("a", 1, b"x"), ("b", 2, b"z")]),
            of(&[("a", 1, b"x"), ("b", 2, b"y"), ("c", 1, b"x")]),
        ];
        assert!(check(&[(1, one.clone()), (2, one.clone())]).is_ok());
        for other in differing {
            assert!(check(&[(1, one.clone()), (2, other)]).is_err());
        }
    }
}
