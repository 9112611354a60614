//! Random policies, against decisions that are made by definition: with the texts of the rules filled in, and by names instead of
//! wildcards.

use proptest::prelude::*;
use proptest::sample::select;

use super::super::ends::check as check_text;
use super::*;

/// The text with values for its placeholders, `None` if one has none that it may have there.
fn filled(text: &str, subject: &Subject, is_value: impl Fn(&str) -> bool) -> Option<String> {
    let mut filled = text.to_owned();
    let room = subject.attributes.get("room");
    for (name, value) in [
        ("{principal.clientId}", Some(&subject.client_id)),
        ("{principal.username}", subject.username.as_ref()),
        ("{principal.attributes.room}", room),
    ] {
        if filled.contains(name) {
            let value = value.filter(|value| !value.is_empty() && is_value(value))?;
            filled = filled.replace(name, value);
        }
    }
    Some(filled)
}

fn topic_matches(rule: &str, topic: &str, subject: &Subject) -> bool {
    let is_value = |value: &str| !value.contains(['/', '+', '#']);
    let Some(rule) = filled(rule, subject, is_value) else {
        return false;
    };
    // `matches` knows that wildcards match no `$`; a placeholder does not either.
    let filter = TopicFilter::parse(Text::new(rule.as_str()).unwrap()).unwrap();
    filter.matches(topic)
}

fn starts_with_dollar_by_placeholder(rule: &str, topic: &str) -> bool {
    rule.starts_with('{') && topic.starts_with('$')
}

/// Names that are enough to find a topic that one filter matches and another does not: all that occur, and one that does not.
fn witnesses(filter: &str) -> Vec<String> {
    let fill = |plus: &str, rest: &[&str]| {
        let mut levels: Vec<&str> = filter
            .split('/')
            .map(|level| if level == "+" { plus } else { level })
            .collect();
        if levels.last() == Some(&"#") {
            levels.pop();
            levels.extend(rest);
        }
        levels.join("/")
    };
    let mut topics = Vec::new();
    for plus in ["a", "b", "other", ""] {
        for rest in [
            &[][..],
            &["a"],
            &["other"],
            &["a", "b"],
            &["other", "other", "other"],
        ] {
            let topic = fill(plus, rest);
            let is_empty = filter == "#" && rest.is_empty();
            if !is_empty && !topic.is_empty() {
                topics.push(topic);
            }
        }
    }
    topics
}

/// As the document says it, rule by rule.
fn reference(rules: &[Rule], subject: &Subject, request: Request<'_>) -> Option<usize> {
    rules.iter().position(|rule| {
        let who = &rule.principals;
        let has =
            |(name, value): (&String, &String)| subject.attributes.get(name).map(Text::as_str) == Some(value);
        let is_about = who
            .client_ids
            .iter()
            .any(|id| id == "*" || *id == *subject.client_id)
            || subject.username.as_ref().is_some_and(|name| {
                who.usernames
                    .iter()
                    .any(|known| known == "*" || **known == **name)
            })
            || who.attributes.iter().any(|line| line.iter().all(has));
        is_about && allows(rule, subject, request)
    })
}

fn allows(rule: &Rule, subject: &Subject, request: Request<'_>) -> bool {
    let client_id_is_right = |resource: &BrokerResource| {
        resource.client_ids.is_empty()
            || resource.client_ids.iter().any(|id| {
                filled(id, subject, |value| !value.contains('/')).is_some_and(|id| {
                    match id.strip_suffix('*') {
                        Some(prefix) => subject.client_id.starts_with(prefix),
                        None => *id == *subject.client_id,
                    }
                })
            })
    };
    let mut broker = rule.broker_resources.iter();
    let key = match request {
        Request::Connect => {
            return broker.any(|r| r.method == BrokerMethod::Connect && client_id_is_right(r));
        }
        Request::Publish(topic) => {
            let topic = topic.as_str();
            return broker.any(|r| {
                let matches = |rule: &String| {
                    topic_matches(rule, topic, subject) && !starts_with_dollar_by_placeholder(rule, topic)
                };
                r.method == BrokerMethod::Publish && client_id_is_right(r) && r.topics.iter().any(matches)
            });
        }
        Request::Subscribe(filter) => {
            return broker.any(|r| {
                let covers = |rule: &String| {
                    let matches = |topic: &String| {
                        topic_matches(rule, topic, subject) && !starts_with_dollar_by_placeholder(rule, topic)
                    };
                    witnesses(filter.as_str()).iter().all(matches)
                };
                r.method == BrokerMethod::Subscribe && client_id_is_right(r) && r.topics.iter().any(covers)
            });
        }
        Request::ReadKey(key) | Request::WriteKey(key) | Request::AuditKey(key) => key,
        Request::HighPriority(_) => panic!("it is not asked here"),
    };
    let is_read = matches!(request, Request::ReadKey(_));
    rule.state_store_resources.iter().any(|resource| {
        let is_right = if is_read {
            resource.method.reads()
        } else {
            resource.method.writes()
        };
        is_right
            && match &resource.keys {
                Keys::Binary(keys) => keys.iter().any(|known| known == key),
                Keys::Text(texts) => texts.iter().any(|text| text.as_bytes() == key),
                Keys::Pattern(texts) => texts.iter().any(|text| {
                    // All patterns here end values with `/` or with their own end.
                    let text = filled(text, subject, |value| !value.contains('/'));
                    text.is_some_and(|text| glob_by_definition(text.as_bytes(), key))
                }),
            }
    })
}

/// `*` and `?` alone, of ASCII.
fn glob_by_definition(pattern: &[u8], key: &[u8]) -> bool {
    match (pattern.split_first(), key.split_first()) {
        (None, None) => true,
        (Some((b'*', rest)), _) => (0..=key.len()).any(|taken| glob_by_definition(rest, &key[taken..])),
        (Some((b'?', rest)), Some((_, key))) => glob_by_definition(rest, key),
        (Some((literal, rest)), Some((first, key))) => literal == first && glob_by_definition(rest, key),
        _ => false,
    }
}

const ROOM: &str = "{principal.attributes.room}";

fn topics() -> impl Strategy<Value = String> {
    let level = select(vec![
        "a",
        "b",
        "+",
        "",
        "{principal.clientId}",
        "{principal.username}",
        ROOM,
        "a{principal.clientId}",
    ]);
    let levels = proptest::collection::vec(level, 1..4);
    (levels, any::<bool>(), 0..8_u8).prop_map(|(levels, with_rest, first)| {
        let mut topic = levels.join("/");
        if first == 0 {
            topic = format!("$SYS/{topic}");
        }
        match (with_rest, &*topic) {
            (true, "") => "#".to_owned(),
            (true, topic) => format!("{topic}/#"),
            (false, "") => "a".to_owned(),
            (false, topic) => topic.to_owned(),
        }
    })
}

fn filters() -> impl Strategy<Value = String> {
    let level = select(vec!["a", "b", "+", "", "aa", "other", "$SYS"]);
    let levels = proptest::collection::vec(level, 1..4);
    (levels, 0..3_u8).prop_map(|(levels, end)| match (end, &*levels.join("/")) {
        (0, "") => "#".to_owned(),
        (0, filter) => format!("{filter}/#"),
        (_, "") => "/".to_owned(),
        (_, filter) => filter.to_owned(),
    })
}

fn keys() -> impl Strategy<Value = String> {
    let part = select(vec![
        "a",
        "b",
        "*",
        "?",
        "/{principal.clientId}/",
        "/{principal.username}",
        "/",
        "aa",
    ]);
    let keys = proptest::collection::vec(part, 1..5).prop_map(|parts| parts.concat());
    keys.prop_filter("it says one thing", |key| check_text(key, Syntax::Keys).is_ok())
}

/// Patterns with a name in them that are taken.
fn patterns_of_names() -> impl Strategy<Value = String> {
    let part = select(vec!["a", "-", "/", ":", "*", "?", "[a-z]", "a*"]);
    let parts = proptest::collection::vec(part, 0..3);
    let pattern = (parts.clone(), parts)
        .prop_map(|(before, after)| format!("{}{{principal.username}}{}", before.concat(), after.concat()));
    pattern.prop_filter("it says one thing", |text| check_text(text, Syntax::Keys).is_ok())
}

fn resources() -> impl Strategy<Value = String> {
    let ids = select(vec![
        "",
        "@a",
        "@a*",
        "@{principal.username}",
        "@{principal.attributes.room}/*",
    ]);
    let topics = proptest::collection::vec(topics(), 1..3)
        .prop_map(|topics| topics.join(" "))
        .boxed();
    let keys = proptest::collection::vec(keys(), 1..3).prop_map(|keys| keys.join(" "));
    prop_oneof![
        ids.clone().prop_map(|ids| format!("connect{ids}")),
        (ids.clone(), topics.clone()).prop_map(|(ids, topics)| format!("publish{ids} {topics}")),
        (ids, topics).prop_map(|(ids, topics)| format!("subscribe{ids} {topics}")),
        (select(vec!["read", "write", "readwrite", "read-text"]), keys)
            .prop_map(|(method, keys)| format!("{method} {keys}")),
    ]
}

fn rules() -> impl Strategy<Value = Vec<Rule>> {
    let parties = select(vec![
        "client=a",
        "client=b",
        "client=*",
        "user=a",
        "user=*",
        "room=a",
        "room=a,floor=1",
        "floor=1",
        "",
    ]);
    let parties = proptest::collection::vec(parties, 1..3).prop_map(|parties| parties.join(" "));
    let resources = proptest::collection::vec(resources(), 1..4);
    let rule = (parties, resources).prop_map(|(parties, resources)| {
        let resources: Vec<&str> = resources.iter().map(String::as_str).collect();
        rule(&parties, &resources)
    });
    proptest::collection::vec(rule, 0..6)
}

fn subjects() -> impl Strategy<Value = Subject> {
    // An id of `*` is left to a test by itself: the reference would take it for a wildcard.
    let id = select(vec!["a", "b", "aa", "+", "#", "a/b", "$SYS", ""]);
    let name = select(vec![None, Some("a"), Some("b"), Some("a/b"), Some("")]);
    let room = select(vec![None, Some("a"), Some("+"), Some("")]);
    let floor = select(vec![None, Some("1")]);
    (id, name, room, floor).prop_map(|(id, name, room, floor)| {
        let attributes = [("room", room), ("floor", floor)];
        let attributes: Vec<_> = attributes
            .into_iter()
            .filter_map(|(name, value)| Some((name, value?)))
            .collect();
        subject(id, name, &attributes)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn a_policy_decides_as_its_rules_say_one_by_one(
        rules in rules(),
        subject in subjects(),
        filters in proptest::collection::vec(filters(), 4),
        keys in proptest::collection::vec("[ab/*]{1,6}", 4),
    ) {
        let policy = Arc::new(Policy::new(Rules { rules: rules.clone() }).unwrap());
        let check = |what: &str, request: Request<'_>| {
            let expected = reference(&rules, &subject, request).map_or(0, |rule| rule as u32 + 1);
            assert_eq!(allowed_by(&policy, &subject, what), expected, "{what}");
        };
        check("connect", Request::Connect);
        for filter in &filters {
            let parsed = TopicFilter::parse(Text::new(filter.as_str()).unwrap()).unwrap();
            check(&format!("subscribe {filter}"), Request::Subscribe(&parsed));
            if let Ok(topic) = TopicName::parse(Text::new(filter.as_str()).unwrap()) {
                check(&format!("publish {filter}"), Request::Publish(&topic));
            }
        }
        for key in &keys {
            check(&format!("read {key}"), Request::ReadKey(key.as_bytes()));
            check(&format!("write {key}"), Request::WriteKey(key.as_bytes()));
        }
    }

    #[test]
    fn a_key_or_client_id_is_never_of_two_names(
        pattern in patterns_of_names(),
        one in "[a:|-]{1,3}",
        other in "[a:|-]{1,3}",
        text in "[a:|/-]{1,8}",
    ) {
        prop_assume!(one != other);
        let may = |name: &str, resource: &str, client_id: &str, what: &str| {
            let policy = policy(&[("user=*", &[resource])]);
            allowed_by(&policy, &subject(client_id, Some(name), &[]), what) == 1
        };
        let key = |name: &str| may(name, &format!("read {pattern}"), "c", &format!("read {text}"));
        prop_assert!(!(key(&one) && key(&other)), "{pattern} {one} {other} {text}");
        if check_text(&pattern, Syntax::ClientIds).is_ok() {
            let id = |name: &str| may(name, &format!("connect@{pattern}"), &text, "connect");
            prop_assert!(!(id(&one) && id(&other)), "{pattern} {one} {other} {text}");
        }
    }

    #[test]
    fn who_may_subscribe_to_a_filter_may_have_each_of_its_topics(
        topic in topics(),
        filter in filters(),
        name in filters(),
        subject in subjects(),
    ) {
        let policy = policy(&[("client=* user=*", &[&format!("subscribe {topic}")])]);
        let name = name.replace(['+', '#'], "x");
        let parsed = TopicFilter::parse(Text::new(filter.as_str()).unwrap()).unwrap();
        if allowed_by(&policy, &subject, &format!("subscribe {filter}")) == 1 && parsed.matches(&name) {
            prop_assert_eq!(allowed_by(&policy, &subject, &format!("subscribe {}", name)), 1);
        }
    }
}
