use std::sync::Arc;

use protocol::Text;

use super::*;

/// A rule in a few words: who, then what with which topics or keys.
///
/// `"client=a user=b city=seattle,organization=contoso"` is about three parties; `"publish a/+ b/#"`, `"connect"`,
/// `"connect@id* other"`, `"subscribe@id a/+"`, `"read pattern"`, `"write-text key"` is one resource.
pub(super) fn rule(principals: &str, resources: &[&str]) -> Rule {
    let mut rule = Rule::default();
    for party in principals.split_whitespace() {
        match party.split_once('=') {
            Some(("client", id)) => rule.principals.client_ids.push(id.to_owned()),
            Some(("user", name)) => rule.principals.usernames.push(name.to_owned()),
            _ => {
                let pairs = party.split(',').filter_map(|pair| pair.split_once('='));
                let pairs = pairs.map(|(name, value)| (name.to_owned(), value.to_owned()));
                rule.principals.attributes.push(pairs.collect());
            }
        }
    }
    for resource in resources {
        let mut words = resource.split(' ').map(str::to_owned);
        let what = words.next().unwrap();
        let texts: Vec<_> = words.collect();
        let (method, client_ids) = what.split_once('@').unwrap_or((&what, ""));
        let client_ids = client_ids.split('|').filter(|id| !id.is_empty());
        let client_ids = client_ids.map(str::to_owned).collect();
        let high_priority = match method {
            "publish-urgent" => Some(true),
            "publish-calm" => Some(false),
            _ => None,
        };
        let method = match method {
            "publish-urgent" | "publish-calm" => BrokerMethod::Publish,
            "connect" => BrokerMethod::Connect,
            "publish" => BrokerMethod::Publish,
            "subscribe" => BrokerMethod::Subscribe,
            about_keys => {
                let (method, kind) = about_keys.split_once('-').unwrap_or((about_keys, "pattern"));
                rule.state_store_resources.push(StateStoreResource {
                    method: match method {
                        "read" => KeyMethod::Read,
                        "write" => KeyMethod::Write,
                        "readwrite" => KeyMethod::ReadWrite,
                        "audit" => KeyMethod::Audit,
                        unknown => panic!("{unknown}"),
                    },
                    keys: match kind {
                        "pattern" => Keys::Pattern(texts),
                        "text" => Keys::Text(texts),
                        "binary" => Keys::Binary(texts.into_iter().map(String::into_bytes).collect()),
                        unknown => panic!("{unknown}"),
                    },
                });
                continue;
            }
        };
        rule.broker_resources.push(BrokerResource {
            method,
            client_ids,
            topics: texts,
            high_priority,
        });
    }
    rule
}

pub(super) fn policy(rules: &[(&str, &[&str])]) -> Arc<Policy> {
    let rules = rules
        .iter()
        .map(|(principals, resources)| rule(principals, resources));
    Arc::new(
        Policy::new(Rules {
            rules: rules.collect(),
        })
        .unwrap(),
    )
}

fn subject(client_id: &str, username: Option<&str>, attributes: &[(&str, &str)]) -> Subject {
    let text = |text: &str| Text::new(text).unwrap();
    Subject {
        client_id: text(client_id),
        username: username.map(text),
        attributes: attributes
            .iter()
            .map(|(name, value)| (text(name), text(value)))
            .collect(),
    }
}

/// The number of the rule, counted from 1, that allows `what`, in the words of [`rule`]; 0 if it is denied. By all ways to decide.
fn allowed_by(policy: &Arc<Policy>, subject: &Subject, what: &str) -> u32 {
    let (method, asked) = what.split_once(' ').unwrap_or((what, ""));
    let text = || Text::new(asked).unwrap();
    let mut access = Access::new(Arc::clone(policy), subject.clone());
    let (topic, filter);
    let (request, decision) = match method {
        "connect" => (Request::Connect, access.may_connect()),
        "publish" => {
            topic = TopicName::parse(text()).unwrap();
            (Request::Publish(&topic), access.may_publish(&topic))
        }
        "subscribe" => {
            filter = TopicFilter::parse(text()).unwrap();
            (Request::Subscribe(&filter), access.may_subscribe(&filter))
        }
        "read" => (
            Request::ReadKey(asked.as_bytes()),
            access.may_read_key(asked.as_bytes()),
        ),
        "write" => (
            Request::WriteKey(asked.as_bytes()),
            access.may_write_key(asked.as_bytes()),
        ),
        "audit" => (
            Request::AuditKey(asked.as_bytes()),
            access.may_audit_key(asked.as_bytes()),
        ),
        "hurry" => {
            topic = TopicName::parse(text()).unwrap();
            (Request::HighPriority(&topic), access.may_hurry(&topic))
        }
        unknown => panic!("{unknown}"),
    };
    assert_eq!(policy.decide(subject, request), decision, "{what}");
    assert_eq!(policy.explain(subject, request).decision, decision, "{what}");
    match decision {
        Decision::Allowed(rule) => rule.0 + 1,
        Decision::Denied => 0,
    }
}

fn check(policy: &Arc<Policy>, subject: &Subject, allowed: &[&str], denied: &[&str]) {
    for what in allowed {
        assert_ne!(allowed_by(policy, subject, what), 0, "{what} should be allowed");
    }
    for what in denied {
        assert_eq!(allowed_by(policy, subject, what), 0, "{what} should be denied");
    }
}

#[test]
fn the_first_example_of_the_published_form() {
    let policy = policy(&[(
        "client=temperature-sensor client=humidity-sensor city=seattle,organization=contoso",
        &[
            "connect",
            "publish /telemetry/{principal.clientId} /telemetry/{principal.attributes.organization}",
            "subscribe /commands/{principal.attributes.organization}",
        ],
    )]);
    let seattle = [("city", "seattle"), ("organization", "contoso"), ("floor", "2")];
    let temperature = subject("temperature-sensor", None, &seattle);
    check(
        &policy,
        &temperature,
        &[
            "connect",
            "publish /telemetry/temperature-sensor",
            "publish /telemetry/contoso",
            "subscribe /commands/contoso",
        ],
        &[
            "publish /telemetry/humidity-sensor",
            "publish telemetry/contoso",
            "publish /telemetry",
            "publish /commands/contoso",
            "subscribe /commands/+",
            "subscribe /commands/contoso/#",
            "subscribe #",
            "read x",
            "write x",
        ],
    );
    let other = subject("some-other-client", None, &seattle);
    check(
        &policy,
        &other,
        &[
            "connect",
            "publish /telemetry/contoso",
            "publish /telemetry/some-other-client",
        ],
        &["publish /telemetry/temperature-sensor"],
    );
    // Attributes of one line are needed all, client ids are enough by themselves.
    let half = subject("some-other-client", None, &[("city", "seattle")]);
    check(&policy, &half, &[], &["connect", "publish /telemetry/contoso"]);
    let without = subject("humidity-sensor", None, &[]);
    check(
        &policy,
        &without,
        &["connect", "publish /telemetry/humidity-sensor"],
        &[
            "publish /telemetry/contoso",
            "publish /telemetry/",
            "subscribe /commands/",
        ],
    );
}

#[test]
fn client_ids_of_a_resource_narrow_it() {
    let policy = policy(&[(
        "building=building22 building=building23",
        &[
            "connect@{principal.attributes.building}/*",
            "publish sensors/{principal.attributes.building}/{principal.clientId}/telemetry",
            "subscribe@x|*-display all/#",
        ],
    )]);
    let in_22 = |client_id: &str| subject(client_id, None, &[("building", "building22")]);
    check(
        &policy,
        &in_22("building22/a"),
        &["connect"],
        &[
            "publish sensors/building22/building22/a/telemetry",
            "subscribe all/x",
        ],
    );
    check(
        &policy,
        &in_22("pump"),
        &["publish sensors/building22/pump/telemetry"],
        &["publish sensors/building23/pump/telemetry", "connect"],
    );
    for other in [
        "building23/a",
        "building22",
        "building22-a",
        "building221/a",
        "building2/a",
    ] {
        check(&policy, &in_22(other), &[], &["connect"]);
    }
    check(
        &policy,
        &in_22("x"),
        &["subscribe all/x", "subscribe all/#"],
        &["connect", "subscribe x"],
    );
    check(&policy, &in_22("a-display"), &["subscribe all/+"], &["connect"]);
    // What an attribute is empty for is nobody's, not everybody's.
    check(
        &policy,
        &subject("x", None, &[("building", "")]),
        &[],
        &["connect", "subscribe all/x"],
    );
}

#[test]
fn whom_a_rule_is_about() {
    let policy = policy(&[
        ("", &["publish nobody"]),
        ("client=*", &["publish everybody"]),
        ("user=*", &["publish named"]),
        ("client=a", &["publish a"]),
        ("user=a", &["publish user-a"]),
        ("client=a* user=a*", &["publish literally"]),
        ("x=1,y=2 z=3", &["publish attributes"]),
    ]);
    let anonymous = subject("a", None, &[]);
    check(
        &policy,
        &anonymous,
        &["publish everybody", "publish a"],
        &[
            "publish nobody",
            "publish named",
            "publish user-a",
            "publish literally",
            "publish attributes",
        ],
    );
    let named = subject("A", Some("a"), &[("x", "1"), ("y", "3")]);
    check(
        &policy,
        &named,
        &["publish everybody", "publish named", "publish user-a"],
        &["publish a", "publish literally", "publish attributes"],
    );
    let attributes = subject("b", Some("b"), &[("x", "1"), ("y", "2"), ("w", "0")]);
    check(
        &policy,
        &attributes,
        &["publish attributes", "publish named"],
        &["publish user-a"],
    );
    check(
        &policy,
        &subject("a*", None, &[("z", "3")]),
        &["publish literally", "publish attributes"],
        &[],
    );
}

#[test]
fn the_first_rule_that_allows_is_named() {
    let policy = policy(&[
        ("client=a", &["publish x/+"]),
        ("client=b", &["publish x/1"]),
        ("client=*", &["publish x/#", "read k*"]),
        (
            "client=a client=b",
            &["publish x/1", "publish x/2", "publish x/1", "read k1"],
        ),
    ]);
    let asks = |client_id: &str, what: &str| allowed_by(&policy, &subject(client_id, None, &[]), what);
    assert_eq!(asks("a", "publish x/1"), 1);
    assert_eq!(asks("b", "publish x/1"), 2);
    assert_eq!(asks("b", "publish x/2"), 3);
    assert_eq!(asks("c", "publish x"), 3);
    assert_eq!(asks("c", "publish y"), 0);
    assert_eq!(asks("b", "read k1"), 3);
}

#[test]
fn a_filter_is_allowed_if_all_that_it_matches_is() {
    let subscriber = subject("a", None, &[]);
    let check = |topic: &str, allowed: &[&str], denied: &[&str]| {
        let resource = format!("subscribe {topic}");
        let policy = policy(&[("client=a", &[&resource])]);
        let asks = |filter: &&str| allowed_by(&policy, &subscriber, &format!("subscribe {filter}"));
        for filter in allowed {
            assert_eq!(asks(filter), 1, "{topic} should cover {filter}");
        }
        for filter in denied {
            assert_eq!(asks(filter), 0, "{topic} should not cover {filter}");
        }
    };
    check(
        "a/b",
        &["a/b"],
        &["a", "a/b/c", "a/+", "+/b", "#", "a/#", "a/b/#", "A/b", "/a/b"],
    );
    check("a/+", &["a/b", "a/+", "a/"], &["a", "a/b/c", "+/+", "a/#", "#"]);
    check(
        "a/#",
        &["a", "a/#", "a/+", "a/b/+/#", "a//"],
        &["+", "#", "+/#", "ab", "ab/c"],
    );
    check("a/+/#", &["a/+", "a/b/#", "a/+/#", "a/+/+"], &["a", "a/#"]);
    check(
        "#",
        &["#", "+", "+/#", "a", "/", "/#"],
        &["$SYS", "$SYS/#", "$SYS/+/a", "$share/g/a"],
    );
    check("+/#", &["#", "+", "a/b", "+/#"], &["$SYS/a", "$SYS/#"]);
    check("+/+", &["+/+", "a/+"], &["#", "+", "+/#", "$SYS/+"]);
    check("+", &["+", "a"], &["#", "/", "+/+", "$a"]);
    check("+/x", &["a/x", "+/x"], &["$SYS/x", "+/+"]);
    check("$SYS/#", &["$SYS", "$SYS/#", "$SYS/+/a"], &["#", "+/a", "$other"]);
    check("$SYS/+", &["$SYS/a"], &["$SYS", "$SYS/#"]);
    check(
        "{principal.clientId}/+/x-{principal.clientId}",
        &["a/+/x-a", "a/b/x-a"],
        &["b/b/x-a", "a/+/+", "+/b/x-a", "a/b/x-", "a/b/x-ab", "a/#"],
    );
}

#[test]
fn what_stands_for_a_placeholder_cannot_widen_a_rule() {
    let policy = policy(&[(
        "client=* user=*",
        &[
            "publish own/{principal.clientId} {principal.clientId}/own named/{principal.username}/x",
            "publish room-{principal.attributes.room}/x",
            "subscribe own/{principal.clientId}/# {principal.clientId}/#",
            "connect@only-{principal.clientId}",
            "read clients/{principal.clientId}/* c:{principal.clientId}:* x{principal.clientId}",
            "read-text text/{principal.clientId}/*",
        ],
    )]);
    for id in ["+", "#", "a/b", "a/+", "/", "+/#"] {
        let topics = [
            format!("own/{id}"),
            "own/a".into(),
            "own/a/b".into(),
            format!("named/{id}/x"),
        ];
        for topic in topics.iter().filter(|topic| !topic.contains(['+', '#'])) {
            check(
                &policy,
                &subject(id, Some(id), &[]),
                &[],
                &[&format!("publish {topic}")],
            );
        }
        let filters = [
            "#",
            "own/#",
            "own/+/#",
            "own/a/#",
            "own/a/b",
            "own/a/b/#",
            "a/#",
            "+/#",
            "$SYS/#",
        ];
        for filter in filters.iter().chain(&["a/b/#", "own/+/+", "/#", "//#"]) {
            check(
                &policy,
                &subject(id, None, &[]),
                &[],
                &[&format!("subscribe {filter}")],
            );
        }
    }
    for id in ["$SYS", "$share", "$"] {
        let own = subject(id, None, &[]);
        check(
            &policy,
            &own,
            &[&format!("publish own/{id}")],
            &[&format!("publish {id}/own"), &format!("subscribe {id}/#")],
        );
    }
    // In keys, `/` and what ends it belong to no value, and wildcards are what they are called.
    check(
        &policy,
        &subject("a/b", None, &[]),
        &[],
        &["read clients/a/b/c", "read c:a/b:c", "read xa/b"],
    );
    check(
        &policy,
        &subject("a:b", None, &[]),
        &[],
        &[
            "read clients/a:b/c",
            "read c:a:b:c",
            "read xa:b",
            "publish own/a:b",
            "connect",
        ],
    );
    check(
        &policy,
        &subject("*", None, &[]),
        &["read clients/*/c", "read x*", "read text/{principal.clientId}/*"],
        &["read clients/a/c", "read xa", "read text/*/*"],
    );
    check(&policy, &subject("[a]", None, &[]), &["read x[a]"], &["read xa"]);
    check(
        &policy,
        &subject("{principal.username}", Some("u"), &[]),
        &[],
        &["read clients/u/c", "publish own/u"],
    );
    check(
        &policy,
        &subject("", None, &[]),
        &[],
        &["publish own/", "read clients//c", "read x", "connect"],
    );
    check(
        &policy,
        &subject("a", None, &[("room", "1/x")]),
        &[],
        &["publish room-1/x", "publish room-1/x/x"],
    );
    check(
        &policy,
        &subject("a", None, &[]),
        &[],
        &["publish room-/x", "publish named//x"],
    );
}

#[test]
fn who_hears_the_notifications_of_others_is_named() {
    let policy = policy(&[
        ("client=a", &["readwrite *", "subscribe #"]),
        ("client=auditor", &["audit pumps/* x/{principal.username}"]),
    ]);
    check(
        &policy,
        &subject("auditor", Some("u"), &[]),
        &["audit pumps/1", "audit x/u"],
        &["audit x/a", "read pumps/1", "write pumps/1"],
    );
    check(
        &policy,
        &subject("a", None, &[]),
        &["read pumps/1"],
        &["audit pumps/1"],
    );
    assert!(policy.audits());
}

#[test]
fn high_priority_is_for_all_who_publish_until_a_rule_says_for_whom() {
    let silent = policy(&[("client=a", &["publish t/#"])]);
    check(&silent, &subject("a", None, &[]), &["hurry t/1"], &["hurry u"]);
    let said = policy(&[
        ("client=a client=b", &["publish t/#"]),
        ("client=a", &["publish-urgent t/+"]),
    ]);
    check(
        &said,
        &subject("a", None, &[]),
        &["hurry t/1", "publish t/1/x"],
        &["hurry t/1/x"],
    );
    check(&said, &subject("b", None, &[]), &["publish t/1"], &["hurry t/1"]);
    let nobody = policy(&[("client=a", &["publish-calm t/#"])]);
    check(
        &nobody,
        &subject("a", None, &[]),
        &["publish t/1"],
        &["hurry t/1"],
    );
    assert!(!nobody.audits());
}

#[test]
fn keys_are_found_by_pattern_text_and_bytes() {
    let policy = policy(&[(
        "client=a",
        &[
            "read myreadkey myotherkey? mynumerickeysuffix[0-9] colors/* **z* [!a-c]x[]] q?[?]",
            "write-text number[0-9] c*",
            "readwrite-binary \u{1}\u{7f}",
        ],
    )]);
    check(
        &policy,
        &subject("a", None, &[]),
        &[
            "read myreadkey",
            "read myotherkeyé",
            "read mynumerickeysuffix5",
            "read colors/",
            "read colors/a/b",
            "read a-zebra",
            "read z",
            "read dx]",
            "read q??",
            "write number[0-9]",
            "write c*",
            "read \u{1}\u{7f}",
            "write \u{1}\u{7f}",
        ],
        &[
            "write myreadkey",
            "read myreadkey1",
            "read myotherkey",
            "read myotherkey12",
            "read mynumerickeysuffixa",
            "read color",
            "read ax]",
            "read qx?y",
            "write number5",
            "write cx",
            "read c*",
            "connect",
        ],
    );
    // A byte that is no part of a character is one for `?`, none of a class, and part of a sequence.
    let read = |key: &[u8]| {
        policy
            .decide(&subject("a", None, &[]), Request::ReadKey(key))
            .is_allowed()
    };
    assert!(read(b"colors/\xff\xfe"));
    assert!(read(b"myotherkey\xff"));
    assert!(!read(b"myotherkey\xff\xff"));
    assert!(!read(b"\xffx]"));
}

#[test]
fn a_pattern_that_makes_others_back_track_is_not_slow() {
    let hostile = format!("read {}b", "*a".repeat(120));
    let policy = policy(&[("client=a", &[&hostile])]);
    let key = "a".repeat(4_096);
    check(&policy, &subject("a", None, &[]), &[], &[&format!("read {key}")]);
}

#[test]
fn a_rule_with_a_mistake_is_named() {
    let error = |principals: &str, resources: &[&str]| {
        let rules = vec![rule("client=a", &["connect"]), rule(principals, resources)];
        Policy::new(Rules { rules }).unwrap_err().to_string()
    };
    let mut empty = rule("client=a", &[]);
    empty
        .principals
        .attributes
        .push(std::collections::BTreeMap::new());
    assert_eq!(
        Policy::new(Rules { rules: vec![empty] }).unwrap_err().to_string(),
        "rule 1, principals, attributes 1: no attribute is named; all clients are `clientIds: [\"*\"]`"
    );
    for (resources, expected) in [
        (
            &["publish a/#/b"][..],
            "rule 2, brokerResources 1, topics 1: `a/#/b`: a wildcard is misplaced",
        ),
        (
            &["connect", "publish"],
            "rule 2, brokerResources 2, topics: Publish needs a topic",
        ),
        (
            &["subscribe a ${principal.clientId}/a"],
            "rule 2, brokerResources 1, topics 2: `${principal.clientId}/a`: its first level begins with $ and has a placeholder",
        ),
        (
            &["connect@a{", "connect"],
            "rule 2, brokerResources 1, clientIds 1: `a{`: a brace has no partner: braces are for placeholders only",
        ),
        (
            &["read a", "write"],
            "rule 2, stateStoreResources 2, keys: there is no key",
        ),
        (
            &["read-text a "],
            "rule 2, stateStoreResources 1, keys 2: a key is empty",
        ),
        (
            &["read "],
            "rule 2, stateStoreResources 1, keys 1: ``: it is empty",
        ),
        (
            &["connect@x|{principal.username}-*"],
            "rule 2, brokerResources 1, clientIds 2: `{principal.username}-*`: nothing ends the placeholder, so that a client \
             called `a` would have what is for `a-b`: write `{principal.username}/*`",
        ),
        (
            &["read c/{principal.attributes.site}*"],
            "rule 2, stateStoreResources 1, keys 1: `c/{principal.attributes.site}*`: nothing ends the placeholder, so that a \
             client called `a` would have what is for `a-b`: write `c/{principal.attributes.site}/*`",
        ),
        (
            &["publish t/{principal.username}{principal.clientId}"],
            "rule 2, brokerResources 1, topics 1: `t/{principal.username}{principal.clientId}`: nothing ends the placeholder, \
             so that a client called `a` would have what is for `a-b`: write `t/{principal.username}/{principal.clientId}`",
        ),
    ] {
        assert_eq!(error("client=a", resources), expected);
    }
    let wildcards = "*a".repeat(Policy::PATTERN_ELEMENTS_MAX);
    assert!(error("client=a", &[&format!("read {wildcards}")]).contains("more than 256"));
    let many = vec!["a"; Policy::TEXTS_MAX].join(" ");
    assert!(error("client=a", &[&format!("publish {many}")]).contains("at most 200000"));
}

#[test]
fn decisions_are_remembered_and_forgotten() {
    let policy = policy(&[("client=a", &["publish x/+", "read x/*", "write x/1"])]);
    let mut access = Access::new(policy, subject("a", None, &[]));
    let topic = |name: String| TopicName::parse(Text::new(name).unwrap()).unwrap();
    for round in 0..3 {
        for number in 0..10 {
            let long = "x".repeat(number * 50);
            assert!(
                access.may_publish(&topic(format!("x/{long}"))).is_allowed(),
                "{round} {number}"
            );
            assert!(!access.may_publish(&topic(format!("y/{long}"))).is_allowed());
            let key = format!("x/{number}");
            assert!(access.may_read_key(key.as_bytes()).is_allowed());
            assert_eq!(access.may_write_key(key.as_bytes()).is_allowed(), number == 1);
            assert!(!access.may_publish(&topic("x".into())).is_allowed());
        }
    }
}

#[test]
fn what_a_connection_costs() {
    // Of the 200 bytes that each may cost; the topic that it publishes to comes on top.
    assert!(size_of::<Access>() <= 160, "{}", size_of::<Access>());
}

mod properties;

#[test]
fn what_others_are_answered_is_for_rules_that_name_whom() {
    let names = [
        ("#", false),
        ("clients/#", false),
        ("clients/+/#", false),
        ("+/pump/#", false),
        ("clients/pump/#", true),
        ("clients/pump/+", true),
        ("clients/pump/response", true),
        ("clients/pump", false),
        ("clients/pumps/#", false),
        ("clients/{principal.attributes.group}/response", true),
        ("clients/{principal.clientId}/#", false),
    ];
    let topic = TopicName::parse(Text::from_static("clients/pump/response")).unwrap();
    for (name, is_allowed) in names {
        let policy = policy(&[("client=*", &[&format!("subscribe {name}")])]);
        let access = Access::new(policy, subject("audit", None, &[("group", "pump")]));
        assert_eq!(access.may_overhear(&topic).is_allowed(), is_allowed, "{name}");
    }
}

#[test]
fn a_topic_of_one_level_is_named_by_that() {
    let topic = |text| TopicName::parse(Text::from_static(text)).unwrap();
    for (name, is_allowed) in [("r", true), ("r/#", true), ("+", false), ("#", false)] {
        let policy = policy(&[("client=*", &[&format!("subscribe {name}")])]);
        let access = Access::new(policy, subject("audit", None, &[]));
        assert_eq!(
            access.may_overhear(&topic("r")).is_allowed(),
            is_allowed,
            "{name}"
        );
        assert!(!access.may_overhear(&topic("$r")).is_allowed());
    }
}
