use mqtt::authorization::{Request, Subject};
use protocol::{Text, TopicName};

use super::*;

/// The resource of the published documentation, with keys.
const RESOURCE: &str = r#"
apiVersion: mqttbroker.iotoperations.azure.com/v1
kind: BrokerAuthorization
metadata:
  name: "my-authz-policies"
  namespace: azure-iot-operations
spec:
  listenerRef:
    - default
  authorizationPolicies:
    cache: Enabled
    rules:
      - principals:
          usernames:
            - "temperature-sensor"
            - humidity-sensor
          attributes:
            - building: 17
              organization: "contoso"
        brokerResources:
          - method: Connect
            clientIds:
              - "{principal.attributes.building}/*" # begins with 17/
          - method: Publish
            topics:
              - "sensors/{principal.attributes.building}/{principal.clientId}/telemetry/#"
          - method: Subscribe
            topics: ["commands/{principal.attributes.organization}"]
        stateStoreResources:
          - method: Read
            keyType: Pattern
            keys:
              - "myreadkey"
              - "mynumerickeysuffix[0-9]"
          - method: readwrite
            keyType: binary
            keys: ["AP/+"]
"#;

fn rules(format: Format, text: &str) -> Vec<Rule> {
    parse(format, text).unwrap().rules().rules.clone()
}

fn mistake(format: Format, text: &str) -> (Option<usize>, String) {
    let MistakeAt { line, mistake } = parse(format, text).unwrap_err();
    (line, mistake.to_string())
}

/// One rule of YAML with these lines instead of its third.
fn with(lines: &str) -> String {
    format!("rules:\n- principals: {{clientIds: [a]}}\n{lines}")
}

fn strings(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

#[test]
fn a_whole_resource_is_read() {
    let [rule] = &*rules(Format::Yaml, RESOURCE) else {
        panic!("one rule")
    };
    assert_eq!(rule.line, Some(13));
    assert_eq!(
        rule.principals.usernames,
        ["temperature-sensor", "humidity-sensor"]
    );
    let attributes = [("building", "17"), ("organization", "contoso")];
    let attributes = attributes.map(|(name, value)| (name.to_owned(), value.to_owned()));
    assert_eq!(rule.principals.attributes, [BTreeMap::from(attributes)]);
    let resource = |method, client_ids: &[&str], topics: &[&str]| BrokerResource {
        method,
        client_ids: strings(client_ids),
        topics: strings(topics),
        high_priority: None,
    };
    assert_eq!(
        rule.broker_resources,
        [
            resource(BrokerMethod::Connect, &["{principal.attributes.building}/*"], &[]),
            resource(
                BrokerMethod::Publish,
                &[],
                &["sensors/{principal.attributes.building}/{principal.clientId}/telemetry/#"]
            ),
            resource(
                BrokerMethod::Subscribe,
                &[],
                &["commands/{principal.attributes.organization}"]
            ),
        ]
    );
    let keys = |method, keys| StateStoreResource { method, keys };
    assert_eq!(
        rule.state_store_resources,
        [
            keys(
                KeyMethod::Read,
                Keys::Pattern(strings(&["myreadkey", "mynumerickeysuffix[0-9]"]))
            ),
            keys(KeyMethod::ReadWrite, Keys::Binary(vec![vec![0, 255, 254]])),
        ]
    );
}

/// As it is published: building 1 would have the client ids of building 17.
#[test]
fn a_placeholder_that_nothing_ends_is_refused_with_its_line_and_what_to_write() {
    let published = RESOURCE.replace("building}/*", "building}*");
    let (line, mistake) = mistake(Format::Yaml, &published);
    assert_eq!(line, Some(23));
    assert_eq!(
        mistake,
        "rule 1, brokerResources 1, clientIds 1: `{principal.attributes.building}*`: nothing ends the placeholder, so that a \
         client called `a` would have what is for `a-b`: write `{principal.attributes.building}/*`"
    );
}

#[test]
fn a_policy_is_the_same_in_whatever_it_is_written() {
    let yaml = "
rules:
- principals: {attributes: [{group: pumps}], clientids: [a]}
  brokerResources:
  - {method: Connect, clientIds: [], topics: []}
  - {method: Publish, topics: [a/+]}
  stateStoreResources:
  - {method: Write, keys: ['a/*']}
";
    let rule_json = r#"{"principals": {"attributes": [{"group": "pumps"}], "clientIds": ["a"]},
        "brokerResources": [{"method": "Connect", "clientIds": [], "topics": []}, {"method": "Publish", "topics": ["a/+"]}],
        "stateStoreResources": [{"method": "Write", "keyType": "Pattern", "keys": ["a/*"]}]}"#;
    let toml = r#"
enableCache = true
[[rules]]
principals = { attributes = [{ group = "pumps" }], clientIds = ["a"] }
[[rules.brokerResources]]
method = "Connect"
[[rules.brokerResources]]
method = "Publish"
topics = ["a/+"]
[[rules.stateStoreResources]]
method = "Write"
keys = ["a/*"]
"#;
    let without_lines = |mut rules: Vec<Rule>| {
        rules.iter_mut().for_each(|rule| rule.line = None);
        rules
    };
    let expected = without_lines(rules(Format::Yaml, yaml));
    assert_eq!(rules(Format::Toml, toml).first().unwrap().line, Some(3));
    assert_eq!(without_lines(rules(Format::Toml, toml)), expected);
    let policies = format!(r#"{{"cache": "Disabled", "rules": [{rule_json}]}}"#);
    for json in [
        format!("[{rule_json}]"),
        policies.clone(),
        format!(r#"{{"authorizationPolicies": {policies}}}"#),
        format!(
            r#"{{"name": "x", "extendedLocation": {{}}, "properties":
                {{"provisioningState": "Succeeded", "authorizationPolicies": {policies}}}}}"#
        ),
    ] {
        assert_eq!(rules(Format::Json, &json), expected, "{json}");
        // JSON is YAML as well.
        assert_eq!(without_lines(rules(Format::Yaml, &json)), expected, "{json}");
    }
}

#[test]
fn what_is_left_empty_is_nobody_and_nothing() {
    let yaml = "
rules:
- principals:
  brokerResources:
  stateStoreResources: []
- principals:
    clientIds:
    usernames: ~
";
    let rules = rules(Format::Yaml, yaml);
    assert_eq!(
        rules.iter().map(|rule| rule.line).collect::<Vec<_>>(),
        [Some(3), Some(6)]
    );
    for rule in rules {
        assert_eq!(rule.principals, Principals::default());
        assert!(rule.broker_resources.is_empty());
    }
    assert_eq!(self::rules(Format::Yaml, "rules: []"), []);
}

#[test]
fn a_plain_text_of_yaml_is_what_stands_there() {
    let yaml = with("  brokerResources: [{method: Publish, topics: [017, yes, 1e3, 'null', \"\\u00e9\"]}]");
    let topics = &rules(Format::Yaml, &yaml)[0].broker_resources[0].topics;
    assert_eq!(*topics, ["017", "yes", "1e3", "null", "é"]);
}

#[test]
fn an_unknown_field_is_named_with_its_line() {
    let check = |text: &str, line, field: &str| {
        let (found, mistake) = mistake(Format::Yaml, text);
        assert_eq!(found, Some(line), "{text}: {mistake}");
        assert!(mistake.contains(&format!("no `{field}`")), "{mistake}");
    };
    check("rule: []", 1, "rule");
    check("rules: []\nallow: true", 2, "allow");
    check(&with("  deny: true"), 3, "deny");
    check(
        &with("  brokerResources:\n  - method: Publish\n    topic: a"),
        5,
        "topic",
    );
    check(
        &with("  stateStoreResources:\n  - method: Read\n    key: a"),
        5,
        "key",
    );
    check("rules:\n- principals:\n    user: a", 3, "user");
    check("kind: BrokerAuthorization\nspec: {}\ndata: x", 3, "data");
    assert_eq!(
        mistake(Format::Toml, "[[rules]]\n[rules.principals]\nroles = []"),
        (
            Some(3),
            "principals has no `roles`; it has usernames, clientIds, attributes, clientids".to_owned()
        )
    );
    let (line, text) = mistake(Format::Json, r#"{"rules": [{"principals": {}, "x": 1}]}"#);
    assert_eq!((line, text.contains("`x`")), (None, true));
}

/// What stands from the third line on, the line of the mistake, and a part of what is told.
const MISTAKES: &[(&str, usize, &str)] = &[
    ("  brokerResources: x", 3, "`brokerResources` is a list"),
    ("  brokerResources:\n  - topics: [a]", 4, "needs `method`"),
    (
        "  brokerResources:\n  - method: Listen",
        4,
        "Connect or Publish or Subscribe, not `Listen`",
    ),
    (
        "  brokerResources:\n  - method: Publish",
        4,
        "rule 1, brokerResources 1, topics: Publish needs a topic",
    ),
    (
        "  brokerResources:\n  - method: Publish\n    topics:\n    - a\n    - a#",
        7,
        "topics 2: `a#`: a wildcard is misplaced",
    ),
    (
        "  brokerResources:\n  - method: Publish\n    topics: ['{x}']",
        5,
        "`{x}` is no placeholder",
    ),
    (
        "  brokerResources:\n  - method: Publish\n    topics:\n    -",
        6,
        "nothing stands here",
    ),
    (
        "  brokerResources:\n  - method: Publish\n    topics:\n    - [a]",
        6,
        "`topics` is a text",
    ),
    ("  stateStoreResources:\n  - method: Read", 4, "needs `keys`"),
    (
        "  stateStoreResources:\n  - method: Read\n    keys: []",
        5,
        "there is no key",
    ),
    (
        "  stateStoreResources:\n  - method: Read\n    keys: ['[a']",
        5,
        "class is not closed",
    ),
    (
        "  stateStoreResources:\n  - method: Read\n    keyType: Binary\n    keys: ['%']",
        6,
        "Base64",
    ),
    (
        "  stateStoreResources:\n  - method: Read\n    keyType: Regex\n    keys: [a]",
        5,
        "Pattern or String or Binary",
    ),
    ("  principals: {}", 3, "`principals` stands twice"),
    ("  brokerResources: &a []", 3, "anchors and aliases"),
    ("  brokerResources: *a", 3, "unknown anchor"),
    ("  brokerResources: !!seq []", 3, "tags"),
    ("  ? [a]\n  : b", 3, "a field has no name"),
    ("---\nrules: []", 3, "more than one document"),
    ("\t- x", 3, "tab"),
];

#[test]
fn a_mistake_is_told_with_its_line() {
    for (lines, line, part) in MISTAKES {
        let (found, text) = mistake(Format::Yaml, &with(lines));
        assert!(text.contains(part), "{lines}: {text}");
        assert_eq!(found, Some(*line), "{lines}: {text}");
    }
    assert_eq!(mistake(Format::Yaml, "").1, "there is no policy");
    assert!(
        mistake(Format::Yaml, "kind: Pod\nspec: {}")
            .1
            .contains("BrokerAuthorization")
    );
    assert!(
        mistake(
            Format::Json,
            r#"{"rules": [{"principals": {"clientIds": [17]}}]}"#
        )
        .1
        .contains("quotes")
    );
    assert!(mistake(Format::Json, r#"{"rules": []"#).1.contains("EOF"));
    assert_eq!(mistake(Format::Toml, "a = 1\nrules = ").0, Some(2));
    assert!(
        mistake(
            Format::Toml,
            "[[rules]]\nprincipals = { clientIds = [2026-01-01] }"
        )
        .1
        .contains("a date")
    );
}

#[test]
fn a_hostile_file_is_refused() {
    let bomb = "a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nrules: *b";
    assert!(mistake(Format::Yaml, bomb).1.contains("anchors and aliases"));
    for (format, depth) in [
        (Format::Yaml, 200),
        (Format::Yaml, 100_000),
        (Format::Json, 100_000),
        (Format::Toml, 60),
    ] {
        let nested = "[".repeat(depth) + &"]".repeat(depth);
        let text = match format {
            Format::Toml => format!("rules = {nested}"),
            _ => nested,
        };
        parse(format, &text).unwrap_err();
    }
    let deep: String = (0..2_000)
        .map(|depth| format!("{}a:\n", " ".repeat(depth)))
        .collect();
    assert_eq!(mistake(Format::Yaml, &deep).1, Mistake::Depth.to_string());
    let null = with("  brokerResources: [{method: Publish, topics: [\"a\\0\"]}]");
    assert!(mistake(Format::Yaml, &null).1.contains("cannot be the topic"));
    let long = with(&format!(
        "  brokerResources: [{{method: Publish, topics: [{}]}}]",
        "x".repeat(65_536)
    ));
    assert!(mistake(Format::Yaml, &long).1.contains("cannot be the topic"));
    let levels = with(&format!(
        "  brokerResources: [{{method: Publish, topics: [{}]}}]",
        "/".repeat(128)
    ));
    assert!(mistake(Format::Yaml, &levels).1.contains("more than 128 levels"));
    let many = "rules:\n".to_owned() + &"- principals: {}\n".repeat(Policy::RULES_MAX + 1);
    assert!(mistake(Format::Yaml, &many).1.contains("10001 rules"));
}

#[test]
fn the_name_of_a_file_tells_its_format() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let file = dir.path().join(name);
        std::fs::write(&file, text).unwrap();
        file
    };
    read(&file("a.yml", RESOURCE)).unwrap();
    read(&file("a.YAML", RESOURCE)).unwrap();
    read(&file("a.json", r#"{"rules": []}"#)).unwrap();
    read(&file("a.toml", "rules = []")).unwrap();
    let error = |file: &Path| read(file).unwrap_err().to_string();
    assert!(error(&file("a.txt", "")).contains("ends with"));
    assert!(error(&file("a", "")).contains("ends with"));
    assert!(error(&dir.path().join("b.yaml")).contains("cannot read"));
    assert!(error(&file("c.yaml", "rules: 1")).ends_with("c.yaml:1: `rules` is a list"));
    let large = " ".repeat(FILE_BYTES_MAX as usize + 1);
    assert!(error(&file("d.yaml", &large)).contains("larger than 8 MiB"));
    std::fs::write(dir.path().join("e.yaml"), b"\xff").unwrap();
    assert!(error(&dir.path().join("e.yaml")).contains("cannot read"));
}

#[test]
fn what_was_read_decides() {
    let policy = parse(Format::Yaml, RESOURCE).unwrap();
    let text = |text: &str| Text::new(text).unwrap();
    let attributes = [("building", "17"), ("organization", "contoso")];
    let subject = Subject {
        client_id: text("17-a"),
        username: None,
        attributes: attributes
            .map(|(name, value)| (text(name), text(value)))
            .into_iter()
            .collect(),
    };
    let topic = |name: &str| TopicName::parse(text(name)).unwrap();
    assert!(!policy.decide(&subject, Request::Connect).is_allowed());
    let connecting = Subject {
        client_id: text("17/a"),
        ..subject.clone()
    };
    assert!(policy.decide(&connecting, Request::Connect).is_allowed());
    let own = topic("sensors/17/17-a/telemetry/x");
    assert!(policy.decide(&subject, Request::Publish(&own)).is_allowed());
    let others = topic("sensors/17/17-b/telemetry/x");
    assert!(!policy.decide(&subject, Request::Publish(&others)).is_allowed());
    assert!(
        policy
            .decide(&subject, Request::WriteKey(&[0, 255, 254]))
            .is_allowed()
    );
    assert!(
        !policy
            .decide(&subject, Request::WriteKey(b"myreadkey"))
            .is_allowed()
    );
    assert!(
        policy
            .decide(&subject, Request::ReadKey(b"mynumerickeysuffix7"))
            .is_allowed()
    );
}

/// The blocks of a language in docs/authorization.md.
fn examples(language: &str) -> Vec<String> {
    let page = include_str!("../../../../../docs/authorization.md");
    let mut examples = Vec::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        if line.trim() == format!("```{language}") {
            let block = lines.by_ref().take_while(|line| line.trim() != "```");
            examples.push(block.collect::<Vec<_>>().join("\n"));
        }
    }
    examples
}

#[test]
fn the_examples_of_the_page_are_policies() {
    let yaml = examples("yaml");
    assert_eq!(yaml.len(), 2);
    let of_auditor = parse(Format::Yaml, &yaml[1]).unwrap();
    let auditor = Subject {
        username: Some(Text::from_static("auditor")),
        ..Subject::default()
    };
    let audits = |key: &'static [u8]| of_auditor.decide(&auditor, Request::AuditKey(key)).is_allowed();
    assert!(audits(b"doors/1") && !audits(b"keys/1"));
    let policy = parse(Format::Yaml, &yaml[0]).unwrap();
    assert_eq!(policy.warnings(), []);
    let subject = |name: &str, attributes: &[(&str, &str)]| {
        let text = |text: &str| Text::new(text).unwrap();
        let attributes = attributes.iter().map(|(name, value)| (text(name), text(value)));
        Subject {
            client_id: text(name),
            username: Some(text(name)),
            attributes: attributes.collect(),
        }
    };
    let pump = subject("pump-7", &[("group", "pumps")]);
    let publishes = |subject: &Subject, topic: &'static str| {
        let topic = TopicName::parse(Text::from_static(topic)).unwrap();
        policy.decide(subject, Request::Publish(&topic)).is_allowed()
    };
    assert!(policy.decide(&pump, Request::Connect).is_allowed());
    assert!(publishes(&pump, "telemetry/pump-7/flow"));
    assert!(!publishes(&pump, "telemetry/pump-8/flow"));
    assert!(publishes(&subject("ann", &[]), "commands/pump-7/stop"));
    let dashboard = subject("dashboard", &[]);
    assert!(
        policy
            .decide(&dashboard, Request::ReadKey(b"pumps/pump-7/limits"))
            .is_allowed()
    );
    assert!(
        !policy
            .decide(&dashboard, Request::WriteKey(b"pumps/pump-7/limits"))
            .is_allowed()
    );
    assert!(!publishes(&dashboard, "commands/pump-7/stop"));

    let toml = examples("toml");
    let toml: Vec<_> = toml.iter().filter(|text| text.contains("[[rules]]")).collect();
    assert_eq!(toml.len(), 1);
    parse(Format::Toml, toml[0]).unwrap();
}

mod properties {
    use proptest::prelude::*;

    use super::*;

    /// Texts that look like a policy, with some of it wrong.
    fn fragments() -> impl Strategy<Value = String> {
        let fragment = prop_oneof![
            Just("rules:\n"),
            Just("- "),
            Just("  "),
            Just("\n"),
            Just("principals:"),
            Just("{"),
            Just("}"),
            Just("["),
            Just("]"),
            Just(": "),
            Just("\""),
            Just("'"),
            Just("#"),
            Just("|\n"),
            Just(">-\n"),
            Just("&a "),
            Just("*a"),
            Just("!!x "),
            Just("? "),
            Just("---\n"),
            Just("...\n"),
            Just("%YAML 1.2\n"),
            Just("\t"),
            Just("a"),
            Just("é"),
            Just("\u{feff}"),
            Just("\0"),
            Just("\r"),
            Just("\\"),
            Just(","),
            Just("= "),
            Just("method"),
            Just("topics"),
            Just("\\u12"),
            Just("\u{2028}"),
            Just("<<"),
            Just("0x"),
        ];
        proptest::collection::vec(fragment, 0..40).prop_map(|all| all.concat())
    }

    proptest! {
        #[test]
        fn no_text_makes_it_fail_otherwise_than_with_a_mistake(text in fragments()) {
            for format in [Format::Yaml, Format::Json, Format::Toml] {
                let _ = parse(format, &text);
            }
        }

        #[test]
        fn no_cut_makes_it_fail_otherwise_than_with_a_mistake(cut in 0..RESOURCE.len(), extra in fragments()) {
            let text: String = RESOURCE.chars().take(cut).collect();
            let _ = parse(Format::Yaml, &(text.clone() + &extra));
            let _ = parse(Format::Yaml, &(extra + &text));
        }
    }
}
