//! An `acl_file` becomes a policy.
//!
//! Both know who may publish where, and who may read what. A policy has no rules that deny, and knows no clients without a name apart
//! from all clients; what would need that is left out, so that nobody may do more here than there.

use super::Finding;
use super::settings::list;

/// Rules for somebody.
#[derive(Debug, Default)]
struct Rule {
    /// `None`: everybody.
    username: Option<String>,
    publish: Vec<String>,
    subscribe: Vec<String>,
}

/// Whom the lines are about that are read.
#[derive(Debug, Clone, PartialEq, Eq)]
enum About {
    /// Those before the first `user`: clients without a name.
    Nameless,
    User(String),
}

/// What an access file becomes. `are_all_nameless`: nobody has a name at the listener, so what is for clients without one is for all.
pub(super) fn policy(file: &str, text: &str, are_all_nameless: bool) -> (String, Vec<Finding>) {
    let mut everybody = Rule::default();
    let mut users: Vec<Rule> = Vec::new();
    let mut findings = Vec::new();
    let mut about = About::Nameless;
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let mut tell = |what: &str| {
            findings.push(Finding {
                place: format!("{file}:{}", index + 1),
                what: format!("`{line}`: {what}"),
            });
        };
        let (keyword, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let rest = rest.trim();
        let rule = match (keyword, &about) {
            ("user", _) => {
                about = About::User(rest.to_owned());
                continue;
            }
            ("topic", About::Nameless) if !are_all_nameless => {
                tell(
                    "it is for clients without a name; a rule for them alone cannot be written, so they may not do it here",
                );
                continue;
            }
            ("pattern", _) | ("topic", About::Nameless) => &mut everybody,
            ("topic", About::User(name)) => of_user(&mut users, name),
            _ => {
                tell("it is not understood, and was left out");
                continue;
            }
        };
        let (access, topic) = access_and_topic(rest);
        if access == "deny" {
            tell(
                "a policy has no rules that deny: what no rule allows is denied. Look at the rules that would allow it",
            );
            continue;
        }
        let topic = if keyword == "pattern" {
            with_placeholders(topic)
        } else {
            topic.to_owned()
        };
        if access != "read" {
            rule.publish.push(topic.clone());
        }
        if access != "write" {
            rule.subscribe.push(topic);
        }
    }
    (written(&everybody, &users), findings)
}

fn of_user<'a>(users: &'a mut Vec<Rule>, name: &str) -> &'a mut Rule {
    let place = users
        .iter()
        .position(|rule| rule.username.as_deref() == Some(name));
    let place = place.unwrap_or_else(|| {
        users.push(Rule {
            username: Some(name.to_owned()),
            ..Rule::default()
        });
        users.len() - 1
    });
    &mut users[place]
}

/// The access may be left out, unless the topic has spaces.
fn access_and_topic(rest: &str) -> (&str, &str) {
    match rest.split_once(char::is_whitespace) {
        Some((access @ ("read" | "write" | "readwrite" | "deny"), topic)) => (access, topic.trim()),
        _ => ("readwrite", rest),
    }
}

fn with_placeholders(topic: &str) -> String {
    topic
        .replace("%c", "{principal.clientId}")
        .replace("%u", "{principal.username}")
}

fn written(everybody: &Rule, users: &[Rule]) -> String {
    let mut text = "# Made from an acl_file of Mosquitto. It gives no rights to keys of the state store: docs/authorization.md says how.\n\
                    rules:\n"
        .to_owned();
    for rule in std::iter::once(everybody).chain(users) {
        let who = match &rule.username {
            // Whoever has got in may stay, as there.
            None => {
                "  - principals:\n      clientIds: [\"*\"]\n    brokerResources:\n      - method: Connect\n"
                    .to_owned()
            }
            Some(name) => format!(
                "  - principals:\n      usernames: {}\n    brokerResources:\n",
                list(&[name])
            ),
        };
        text += &who;
        for (method, topics) in [("Publish", &rule.publish), ("Subscribe", &rule.subscribe)] {
            if !topics.is_empty() {
                text += &format!("      - method: {method}\n        topics: {}\n", list(topics));
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const ACL: &str = "\
# comment
topic read $SYS/#
user ann
topic readwrite plant/#
topic deny plant/secret
user bob
topic logs/+
topic write a topic/with spaces
pattern write sensor/%u/%c
user ann
topic read other/#
nonsense
";

    #[test]
    fn rules_say_what_was_allowed_and_findings_what_cannot_be_said() {
        let (text, findings) = policy("acl", ACL, false);
        let expected = "\
# Made from an acl_file of Mosquitto. It gives no rights to keys of the state store: docs/authorization.md says how.
rules:
  - principals:
      clientIds: [\"*\"]
    brokerResources:
      - method: Connect
      - method: Publish
        topics: [\"sensor/{principal.username}/{principal.clientId}\"]
  - principals:
      usernames: [\"ann\"]
    brokerResources:
      - method: Publish
        topics: [\"plant/#\"]
      - method: Subscribe
        topics: [\"plant/#\", \"other/#\"]
  - principals:
      usernames: [\"bob\"]
    brokerResources:
      - method: Publish
        topics: [\"logs/+\", \"a topic/with spaces\"]
      - method: Subscribe
        topics: [\"logs/+\"]
";
        assert_eq!(text, expected);
        let places: Vec<_> = findings.iter().map(|finding| finding.place.as_str()).collect();
        assert_eq!(places, ["acl:2", "acl:5", "acl:12"]);
    }

    #[test]
    fn where_nobody_has_a_name_rules_for_the_nameless_are_for_all() {
        let (text, findings) = policy("acl", "topic read $SYS/#\n", true);
        assert!(text.contains("$SYS/#") && findings.is_empty(), "{text}");
    }
}
