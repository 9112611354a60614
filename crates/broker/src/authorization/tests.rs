use std::sync::Arc;

use protocol::Text;

use super::*;

/// A rule in a few words: who, then what with which topics or keys.
///
/// `"client=a user=b city=seattle,organization=contoso"` is about three parties; `"publish a/+ b/#"`, `"connect"`,
/// `"connect@id* other"`, `"subscribe@id a/+"`, `"read pattern"`, `"write-text key"` is one resource.
fn rule(principals: &str, resources: &[&str]) -> Rule {
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
        let method = match method {
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
        });
    }
    rule
}

fn policy(rules: &[(&str, &[&str])]) -> Arc<Policy> {
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
